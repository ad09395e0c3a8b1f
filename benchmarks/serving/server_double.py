"""A stand-in for tensorflow_model_server in tests.

    python benchmarks/serving/server_double.py saved_models --port 8500

It serves the newest version of every model in a folder through the public API, made from the
messages of the package tensorflow-serving-api: gRPC `Predict`, `GetModelMetadata` and
`GetModelStatus`, REST `:predict` in rows and columns, and a model's status. Errors have the codes
and mostly the words of the real server. With `--enable-batching`, it joins requests to batches.
Unlike the real server, it does not watch the folder, and it is slower. It prints its ports when it
is ready.
"""

import argparse
import base64
import json
import re
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import tensorflow as tf
import tensorflow_text  # noqa: F401  (its kernels)
from batches import Arrays, Batches
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

_ROUTE = re.compile(
    r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>[0-9]+))?(?P<verb>:[a-z]+)?"
)
_HTTP = {grpc.StatusCode.NOT_FOUND: 404, grpc.StatusCode.INVALID_ARGUMENT: 400}
_HTTP[grpc.StatusCode.FAILED_PRECONDITION] = 412


class Refused(Exception):
    """A request is refused, with a status code and a message."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class Model:
    """The newest version in the folder of a model."""

    def __init__(self, folder: Path, batching: bool = False) -> None:
        self.name = folder.name
        self.version = max(int(entry.name) for entry in folder.iterdir() if entry.name.isdecimal())
        path = folder / str(self.version)
        saved = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
        self.signature_def = dict(saved.meta_graphs[0].signature_def)
        self._loaded = tf.saved_model.load(str(path))
        self._answers: dict[str, Callable[[Arrays], Arrays]] = {}
        for name, signature in self._loaded.signatures.items():
            answer = partial(_answered, signature)
            self._answers[name] = Batches(answer) if batching else answer

    def predict(self, signature: str, inputs: Arrays) -> Arrays:
        """Return the model's answer; raise `Refused` if the inputs do not fit."""
        asked = self.specs(signature)
        if inputs.keys() != asked.keys():
            extra, missing = (
                ",".join(sorted(a)) for a in (inputs.keys() - asked, asked.keys() - inputs)
            )
            raise Refused(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"input size does not match signature: {len(inputs)}!={len(asked)}. "
                f"Sent extra: {{{extra}}}. Missing but required: {{{missing}}}.",
            )
        try:
            for name, value in inputs.items():
                if not asked[name].is_compatible_with(tf.constant(value)):
                    raise ValueError(
                        f"{name} must be {asked[name]}, not {value.dtype} of shape {value.shape}"
                    )
            return self._answers[signature](inputs)
        except (TypeError, ValueError, tf.errors.InvalidArgumentError) as error:
            message = getattr(error, "message", str(error))
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, message.split("\n\t [[")[0]) from error

    def specs(self, signature: str) -> dict[str, tf.TensorSpec]:
        """Return the inputs of a signature by name; raise `Refused` if there is no such one."""
        if signature not in self._loaded.signatures:
            message = f'Serving signature key "{signature}" not found.'
            raise Refused(grpc.StatusCode.FAILED_PRECONDITION, message)
        return self._loaded.signatures[signature].structured_input_signature[1]


def _answered(signature: Callable[..., dict[str, tf.Tensor]], inputs: Arrays) -> Arrays:
    answer = signature(**{name: tf.constant(value) for name, value in inputs.items()})
    return {name: value.numpy() for name, value in answer.items()}


class Models(dict[str, Model]):
    """All models of a folder, by name."""

    def find(self, name: str, version: int | None) -> Model:
        """Return the model with this name and version; raise `Refused` if there is none."""
        if name not in self or version not in (None, self[name].version):
            asked = f"Latest({name})" if version is None else f"Specific({name}, {version})"
            raise Refused(grpc.StatusCode.NOT_FOUND, f"Servable not found for request: {asked}")
        return self[name]


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """gRPC `Predict` and `GetModelMetadata`."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def Predict(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Answer a request."""
        return _or_abort(context, lambda: self._predict(request))

    def GetModelMetadata(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Return the signatures of a model."""
        model = _or_abort(context, lambda: _found(self._models, request.model_spec))
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        _fill_spec(response.model_spec, model, "")
        signatures = get_model_metadata_pb2.SignatureDefMap()
        for name, signature in model.signature_def.items():
            signatures.signature_def[name].CopyFrom(signature)
        response.metadata["signature_def"].Pack(signatures)
        return response

    def _predict(self, request: Any) -> Any:
        model = _found(self._models, request.model_spec)
        signature = request.model_spec.signature_name or "serving_default"
        try:
            inputs = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
        except (TypeError, ValueError) as error:
            message = f"Tensor proto parsing failed: {error}"
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, message) from error
        response = predict_pb2.PredictResponse()
        _fill_spec(response.model_spec, model, signature)
        for name, value in model.predict(signature, inputs).items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(value, shape=value.shape))
        return response


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """gRPC `GetModelStatus`."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def GetModelStatus(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Report that a model is available."""
        model = _or_abort(context, lambda: _found(self._models, request.model_spec))
        response = get_model_status_pb2.GetModelStatusResponse()
        response.model_version_status.add(
            version=model.version, state=get_model_status_pb2.ModelVersionStatus.AVAILABLE
        )
        return response


def rest_handler(models: Models) -> type[BaseHTTPRequestHandler]:
    """Return the REST API as a class of request handlers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(
                lambda model: {
                    "model_version_status": [{"version": str(model.version), "state": "AVAILABLE"}]
                }
            )

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self._answer(lambda model: _predicted(model, body), verb=":predict")

        def _answer(self, function: Callable[[Model], Any], verb: str | None = None) -> None:
            route = _ROUTE.fullmatch(self.path)
            try:
                if route is None or route["verb"] != verb:
                    message = f"Malformed request: {self.command} {self.path}"
                    raise Refused(grpc.StatusCode.INVALID_ARGUMENT, message)
                version = route["version"] and int(route["version"])
                status, answer = 200, function(models.find(route["name"], version))
            except Refused as refused:
                status, answer = _HTTP[refused.code], {"error": str(refused)}
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def _predicted(model: Model, body: bytes) -> dict[str, Any]:
    """Return the answer to a REST request: rows for "instances", columns for "inputs"."""
    try:
        asked = json.loads(body)
        if not isinstance(asked, dict):
            raise ValueError("Is not object")
        signature = asked.get("signature_name", "serving_default")
        inputs = _tensors(asked, model.specs(signature))
    except (KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise Refused(grpc.StatusCode.INVALID_ARGUMENT, f"JSON Parse error: {error}") from error
    answer = model.predict(signature, inputs)
    columns = {name: _encoded(value.tolist()) for name, value in answer.items()}
    # The name of a signature's only output is left out.
    if "inputs" in asked:
        return {"outputs": columns if len(columns) > 1 else next(iter(columns.values()))}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return {"predictions": rows if len(columns) > 1 else [next(iter(row.values())) for row in rows]}


def _tensors(asked: dict[str, Any], specs: dict[str, tf.TensorSpec]) -> Arrays:
    """Return the tensors of a request by name; without names, that of the only input.

    Raises:
        KeyError, OverflowError, TypeError or ValueError: the request has another form, or its lists
            make no dense tensor.
    """
    if ("instances" in asked) == ("inputs" in asked):
        raise ValueError("expecting only one of 'inputs' or 'instances' keys to exist")
    (only, *_) = specs

    def named(given: Any) -> dict[str, Any]:
        return given if isinstance(given, dict) and given.keys() != {"b64"} else {only: given}

    if "inputs" in asked:
        columns = named(asked["inputs"])
    else:
        rows = [named(row) for row in asked["instances"]]
        if not rows or any(row.keys() != specs.keys() for row in rows):
            raise ValueError(f"'instances' must be rows with the keys {','.join(sorted(specs))}")
        columns = {name: [row[name] for row in rows] for name in specs}
    # TensorFlow refuses lists of unequal length and values of another type.
    return {
        name: tf.constant(_decoded(columns[name]), spec.dtype).numpy()
        for name, spec in specs.items()
    }


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(one) for one in value]
    return base64.b64decode(value["b64"], validate=True) if isinstance(value, dict) else value


def _encoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_encoded(one) for one in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _or_abort(context: grpc.ServicerContext, function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Refused as refused:
        context.abort(refused.code, str(refused))


def _found(models: Models, spec: Any) -> Model:
    return models.find(spec.name, spec.version.value if spec.HasField("version") else None)


def _fill_spec(spec: Any, model: Model, signature: str) -> None:
    spec.name, spec.signature_name = model.name, signature
    spec.version.value = model.version


def main() -> None:
    """Serve until the process ends."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="folder of all exported models")
    parser.add_argument("--port", type=int, default=0, help="of gRPC; default any")
    parser.add_argument("--rest-port", type=int, default=0, help="of REST; default any")
    parser.add_argument(
        "--enable-batching", action="store_true", help="join requests, as the real server can"
    )
    arguments = parser.parse_args()
    found = [
        entry for entry in arguments.folder.iterdir() if any(entry.glob("[0-9]*/saved_model.pb"))
    ]
    models = Models(
        {folder.name: Model(folder, arguments.enable_batching) for folder in sorted(found)}
    )
    server = grpc.server(ThreadPoolExecutor(max_workers=16))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        PredictionService(models), server
    )
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(ModelService(models), server)
    port = server.add_insecure_port(f"127.0.0.1:{arguments.port}")
    server.start()
    rest = ThreadingHTTPServer(("127.0.0.1", arguments.rest_port), rest_handler(models))
    rest.daemon_threads = True
    signal.signal(signal.SIGTERM, lambda *_: exit(0))
    print(f"gRPC {port} REST {rest.server_address[1]} models {' '.join(models)}", flush=True)
    rest.serve_forever()


if __name__ == "__main__":
    main()
