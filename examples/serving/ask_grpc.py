"""Ask a model server through gRPC.

    python examples/serving/ask_grpc.py trec text='What is the capital of Chile ?'

Needs `pip install tensorflow-serving-api` and nothing from keras_quasiattn. A request ends after
`--timeout` seconds, all attempts together. A request that did not reach a model ("unavailable") is
sent again up to four times, with growing pauses. Repeating is safe, because an answer depends only
on the request. `candidates` and `passages`, and every name given more than once, are lists.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

LISTS = ("candidates", "passages")  # inputs that are a list of texts
RETRIES = {
    "methodConfig": [
        {
            "name": [{"service": "tensorflow.serving.PredictionService"}],
            "retryPolicy": {
                "maxAttempts": 5,
                "initialBackoff": "0.1s",
                "maxBackoff": "2s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}


class GrpcClient:
    """A connection to a server, for many requests and many threads.

    Args:
        address: host and port, such as "localhost:8500".
        timeout: seconds for a request with all its attempts.
    """

    def __init__(self, address: str, timeout: float = 5.0) -> None:
        options = [("grpc.enable_retries", 1), ("grpc.service_config", json.dumps(RETRIES))]
        self._channel = grpc.insecure_channel(address, options)
        self.stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self.timeout = timeout

    def predict(
        self, model: str, inputs: Mapping[str, Any], signature: str = "serving_default"
    ) -> dict[str, np.ndarray]:
        """Return the outputs by name, each with the batch as its first axis.

        Raises:
            grpc.RpcError: `code()` and `details()` say what is wrong.
        """
        request = predict_pb2.PredictRequest()
        request.model_spec.name, request.model_spec.signature_name = model, signature
        for name, value in inputs.items():
            array = np.asarray(value)
            text = array.dtype.kind in "SUO"
            request.inputs[name].CopyFrom(
                tf.make_tensor_proto(value, tf.string, array.shape)
                if text
                else tf.make_tensor_proto(array)
            )
        response = self.stub.Predict(request, timeout=self.timeout)
        return {name: tf.make_ndarray(value) for name, value in response.outputs.items()}

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()


def split_inputs(assignments: list[str]) -> dict[str, Any]:
    """Parse `NAME=TEXT` into a batch of one, with a text or a list of texts for each name."""
    values: dict[str, list[str]] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            sys.exit(f"ask_grpc.py: {assignment!r} must be NAME=TEXT, such as text='Who ?'")
        values.setdefault(name, []).append(text)
    return {
        name: [texts] if name in LISTS or len(texts) > 1 else texts
        for name, texts in values.items()
    }


def _readable(value: Any) -> Any:
    if isinstance(value, list):
        return [_readable(one) for one in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def main() -> None:
    """Ask once and print the outputs, one per line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument(
        "inputs", nargs="+", metavar="NAME=TEXT", help="repeat candidates and passages"
    )
    parser.add_argument("--server", default="localhost:8500", help="default localhost:8500")
    parser.add_argument("--timeout", type=float, default=5.0, help="seconds; default 5")
    arguments = parser.parse_args()
    client = GrpcClient(arguments.server, arguments.timeout)
    try:
        answer = client.predict(arguments.model, split_inputs(arguments.inputs))
    except grpc.RpcError as error:
        sys.exit(f"ask_grpc.py: {error.code().name}: {error.details()}")
    for name, value in sorted(answer.items()):
        print(name, _readable(value.tolist()[0]))


if __name__ == "__main__":
    main()
