"""Load-test a model server.

    python benchmarks/serving/load.py trec --requests 10000 --clients 8 --pid 1234

Each client sends its next request as soon as the last is answered. Requests are drawn from a pool:
half of it are strings of 0 to 2000 characters, half token ids, as many. One request in a hundred is
hostile instead. Half of these are malformed and must be refused with a clear error; the other half
are extreme and may be refused. All other answers are compared with the answer that the same request
got alone, before the test. Prints one JSON object: counts, latencies, requests per second, and how
the memory of process `--pid` grew after the first tenth of the requests. The exit code is 1 if an
answer was wrong or a request failed.
"""

import argparse
import collections
import json
import random
import string
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import get_model_metadata_pb2

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "serving"))
from ask_grpc import GrpcClient

_REFUSALS = ("INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION")
_LARGEST_ID = 100_000
_TOLERANCE = 1e-3


class Request(NamedTuple):
    """A request and its answer when sent alone: None if it must be refused, {} if it may be."""

    model: str
    signature: str
    inputs: dict[str, Any]
    expected: dict[str, np.ndarray] | None


def signatures_of(client: GrpcClient, model: str) -> dict[str, dict[str, int]]:
    """Return the number of axes of each input, by signature and name; wait for the server."""
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = model
    response = client.stub.GetModelMetadata(request, timeout=client.timeout, wait_for_ready=True)
    packed = response.metadata["signature_def"]
    signatures = get_model_metadata_pb2.SignatureDefMap()
    packed.Unpack(signatures)
    return {
        name: {key: len(value.tensor_shape.dim) for key, value in signature.inputs.items()}
        for name, signature in signatures.signature_def.items()
        if name in ("serving_default", "token_ids")
    }


def well_formed(
    signature: str, axes: dict[str, int], draw: random.Random, longest: int
) -> dict[str, Any]:
    """Random inputs of one row; inputs with more axes get three texts."""
    inputs: dict[str, Any] = {}
    if signature == "serving_default":
        for name, count in axes.items():
            texts = [_text(draw, longest) for _ in range(1 if count == 1 else 3)]
            inputs[name] = texts if count == 1 else [texts]
        return inputs
    for name, count in axes.items():
        if not name.endswith("_ids"):
            continue
        shape = (1,) if count == 2 else (1, 3)
        # At least one position: a server that joins requests to a batch cannot pad an empty tensor.
        places = max(1, draw.randint(0, longest))
        numbers = [draw.randint(-5, _LARGEST_ID) for _ in range(places * int(np.prod(shape)))]
        inputs[name] = np.array(numbers, np.int32).reshape(*shape, places)
        lengths = [draw.randint(0, places) for _ in range(int(np.prod(shape)))]
        inputs[name.removesuffix("_ids") + "_lengths"] = np.array(lengths, np.int32).reshape(shape)
    return inputs


def malformed(model: str, axes: dict[str, int], draw: random.Random) -> Request:
    """Return a request that no model can answer."""
    name = next(iter(axes))
    texts: Any = ["any"] if axes[name] == 1 else [["any"]]
    whole = {key: ["any"] if count == 1 else [["any"]] for key, count in axes.items()}
    kinds: list[Callable[[], Request]] = [
        lambda: Request(f"no_{model}", "serving_default", whole, None),
        lambda: Request(model, "no_signature", whole, None),
        lambda: Request(model, "serving_default", {}, None),
        lambda: Request(model, "serving_default", {**whole, "other": texts}, None),
        lambda: Request(
            model, "serving_default", {**whole, name: np.array([1.5], np.float32)}, None
        ),
        lambda: Request(model, "serving_default", {**whole, name: [[[texts]]]}, None),
        lambda: Request(
            model,
            "token_ids",
            {
                key: np.ones((2,) * count, np.int32)
                for key, count in {
                    f"{name}_ids": axes[name] + 1,
                    f"{name}_lengths": axes[name] + 2,
                }.items()
            },
            None,
        ),
    ]
    return draw.choice(kinds)()


def extreme(model: str, signatures: dict[str, dict[str, int]], draw: random.Random) -> Request:
    """Return a request with a valid form and contents that no honest client would send."""
    if draw.random() < 0.5:
        texts = [
            b"\xff\xfe\x00" * 9,
            b"\x00",
            b"\x1b[2J" * 99,
            "\u0301".encode() * 9999,
            b"\xf0\x9f" * 999,
            b"\n" * 999,
        ]
        text = draw.choice(texts)
        inputs = {
            key: [text] if count == 1 else [[text]]
            for key, count in signatures["serving_default"].items()
        }
        return Request(model, "serving_default", inputs, {})
    inputs = well_formed("token_ids", signatures["token_ids"], draw, 99)
    for name, value in inputs.items():
        ends = np.iinfo(np.int32)
        inputs[name] = np.full_like(value, draw.choice([ends.min, ends.max, -1, 0, 10_000]))
    return Request(model, "token_ids", inputs, {})


def _text(draw: random.Random, longest: int) -> str:
    letters = string.ascii_letters + string.digits + "      .,?!'=+-"
    return "".join(draw.choices(letters, k=draw.randint(0, longest)))


def alike(expected: dict[str, np.ndarray], got: dict[str, np.ndarray]) -> bool:
    """Return whether an answer equals the one obtained alone, except for padding at the end."""
    if expected.keys() != got.keys():
        return False
    for name, value in expected.items():
        part = got[name][tuple(slice(size) for size in value.shape)]
        if np.issubdtype(value.dtype, np.floating):
            same = part.shape == value.shape and np.allclose(
                part, value, atol=_TOLERANCE, rtol=_TOLERANCE
            )
        else:
            same = np.array_equal(part, value)
        if not same:
            return False
    return True


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def main() -> None:
    """Send the requests and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--server", default="localhost:8500")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--hostile", type=float, default=0.01, help="share of the requests")
    parser.add_argument("--longest", type=int, default=2000, help="characters, or ids")
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pid", type=int, help="the server's process, to watch its memory")
    arguments = parser.parse_args()
    tf.config.set_visible_devices([], "GPU")

    draw = random.Random(arguments.seed)
    first = GrpcClient(arguments.server, arguments.timeout)
    try:
        signatures = signatures_of(first, arguments.model)
    except grpc.RpcError as error:
        sys.exit(f"load.py: {error.code().name}: {error.details()}")
    pool = []
    for number in range(64):
        signature = ("serving_default", "token_ids")[number % 2]
        inputs = well_formed(signature, signatures[signature], draw, arguments.longest)
        pool.append(
            Request(
                arguments.model,
                signature,
                inputs,
                first.predict(arguments.model, inputs, signature),
            )
        )

    def hostile() -> Request:
        if draw.random() < 0.5:
            return extreme(arguments.model, signatures, draw)
        return malformed(arguments.model, signatures["serving_default"], draw)

    plan = [
        hostile() if draw.random() < arguments.hostile else draw.choice(pool)
        for _ in range(arguments.requests)
    ]

    counts: collections.Counter[str] = collections.Counter()
    seconds: list[float] = []
    said: dict[str, str] = {}
    memory: list[float] = []
    lock, todo = threading.Lock(), iter(enumerate(plan))

    def ask() -> None:
        client = GrpcClient(arguments.server, arguments.timeout)
        while True:
            with lock:
                number, request = next(todo, (-1, None))
                if arguments.pid and number == len(plan) // 10:
                    memory.append(resident_mib(arguments.pid))
            if request is None:
                return
            begun = time.perf_counter()
            try:
                answer = client.predict(request.model, request.inputs, request.signature)
                right = request.expected == {} or (
                    request.expected and alike(request.expected, answer)
                )
                outcome = "answered" if right else "wrong"
            except grpc.RpcError as error:
                code = error.code().name
                outcome = "refused" if not request.expected and code in _REFUSALS else "failed"
                with lock:
                    said.setdefault(f"{outcome}: {code}: {str(error.details())[:150]}", "")
            with lock:
                counts[outcome] += 1
                seconds.append(time.perf_counter() - begun)

    threads = [threading.Thread(target=ask) for _ in range(arguments.clients)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - begun
    figures: dict[str, Any] = {"requests": len(plan), "clients": arguments.clients, **counts}
    for percentile in (50, 90, 99):
        figures[f"p{percentile}_ms"] = round(1e3 * float(np.percentile(seconds, percentile)), 2)
    figures["requests_per_second"] = round(len(plan) / took, 1)
    if arguments.pid:
        memory.append(resident_mib(arguments.pid))
        figures["memory_mib"] = [round(value, 1) for value in memory]
    figures["words"] = sorted(said)
    print(json.dumps(figures))
    # A thread that died has not counted its request.
    sys.exit(int(counts["answered"] + counts["refused"] < len(plan)))


if __name__ == "__main__":
    main()
