"""Ask a model server through REST.

    python examples/serving/ask_rest.py trec text='What is the capital of Chile ?'

Needs only `pip install requests`. Connecting and each answer may take `--timeout` seconds. A
request that found no server, or one that is starting or overloaded (429, 502, 503, 504), is sent
again up to four times, with growing pauses. Repeating is safe, because an answer depends only on
the request. `candidates` and `passages`, and every name given more than once, are lists.
"""

import argparse
import sys
from collections.abc import Mapping
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

LISTS = ("candidates", "passages")  # inputs that are a list of texts


class RestClient:
    """A connection to a server, for many requests of one thread.

    Args:
        address: such as "http://localhost:8501".
        timeout: seconds to connect, and to wait for an answer.
    """

    def __init__(self, address: str, timeout: float = 5.0) -> None:
        self._address, self._timeout = address, timeout
        retries = Retry(
            total=4,
            backoff_factor=0.1,
            status_forcelist=(429, 502, 503, 504),
            allowed_methods=None,  # POST as well
            raise_on_status=False,
        )
        self._session = requests.Session()
        self._session.mount("http://", HTTPAdapter(max_retries=retries))
        self._session.mount("https://", HTTPAdapter(max_retries=retries))

    def predict(
        self, model: str, inputs: Mapping[str, Any], signature: str = "serving_default"
    ) -> dict[str, Any]:
        """Return the outputs by name, lists with one entry per row of the batch.

        Raises:
            requests.RequestException: there is no server, or it took too long.
            ValueError: the server refused the request; the message is the server's.
        """
        response = self._session.post(
            f"{self._address}/v1/models/{model}:predict",
            json={"signature_name": signature, "inputs": dict(inputs)},
            timeout=self._timeout,
        )
        if not response.ok:  # the server says why as {"error": ...}, and a proxy in its own way
            raise ValueError(f"{response.status_code}: {' '.join(response.text.split())}")
        return response.json()["outputs"]


def split_inputs(assignments: list[str]) -> dict[str, Any]:
    """Parse `NAME=TEXT` into a batch of one, with a text or a list of texts for each name."""
    values: dict[str, list[str]] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            sys.exit(f"ask_rest.py: {assignment!r} must be NAME=TEXT, such as text='Who ?'")
        values.setdefault(name, []).append(text)
    return {
        name: [texts] if name in LISTS or len(texts) > 1 else texts
        for name, texts in values.items()
    }


def main() -> None:
    """Ask once and print the outputs, one per line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument(
        "inputs", nargs="+", metavar="NAME=TEXT", help="repeat candidates and passages"
    )
    parser.add_argument(
        "--server", default="http://localhost:8501", help="default http://localhost:8501"
    )
    parser.add_argument("--timeout", type=float, default=5.0, help="seconds; default 5")
    arguments = parser.parse_args()
    client = RestClient(arguments.server, arguments.timeout)
    try:
        answer = client.predict(arguments.model, split_inputs(arguments.inputs))
    except (requests.RequestException, ValueError) as error:
        sys.exit(f"ask_rest.py: {error}")
    for name, value in sorted(answer.items()):
        print(name, value[0])


if __name__ == "__main__":
    main()
