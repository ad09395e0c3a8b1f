"""Check without a server that a SavedModel would load in one and give the recorded answers."""

from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from keras_quasiattn.errors import UserError
from keras_quasiattn.files import MANIFEST, check_hashes, read_json
from keras_quasiattn.serving.server_files import ABOUT, GRAPH
from keras_quasiattn.serving.session import Call, run_session
from keras_quasiattn.serving.warm_up import RecordedRequest, need_serving_api, read_warm_up
from keras_quasiattn.serving.xla_buckets import BATCHES

_PERCENTILES = (50, 90, 99)
# Largest accepted difference, relative to an output's largest number if that exceeds 1: the kernels
# of another machine may add in a different order.
_ROUNDING = 1e-4


def serve_check(path: str | Path, *, repetitions: int = 100) -> Iterator[str]:
    """Check an exported version as far as possible without a server; yield one line per finding.

    The files must match their manifest. A stock server must link every op of the graph, and only a
    model exported for compilation may require XLA, which servers disable on CPUs. A separate
    process then loads the SavedModel into a session of TensorFlow, with the kernels of
    tensorflow-text but without the Python code of tensorflow-text, Keras or this package. It
    repeats the recorded requests, which must give the recorded answers, and runs the example of
    each signature in batches of 1, 8 and 64. Latencies are the session's, without network or queue.

    Args:
        path: folder of one version, with `saved_model.pb`.
        repetitions: how often each batch is timed at most, within seven minutes for all. Defaults
            to 100.

    Raises:
        UserError: a check failed, or the version has no recorded requests to compare with.

    ```python
    for line in serve_check("saved_models/trec/1"):
        print(line)
    ```
    """
    path = Path(path)
    need_serving_api()
    graph = _read_graph(path)
    check_hashes((path / ABOUT).with_name(MANIFEST), path)
    yield from _check_ops(path, graph)
    records = read_warm_up(path)
    requests = [_request(path, graph, record) for record in records]
    examples: dict[str, Call] = {}
    for record, request in zip(records, requests, strict=True):
        examples.setdefault(record.signature, request)
    timed = {
        (signature, batch): ((_repeated(inputs, batch), names), repetitions)
        for signature, (inputs, names) in examples.items()
        for batch in BATCHES
    }
    answered, times = run_session(path, requests, list(timed.values()))
    pairs = zip(records, answered, strict=True)
    # Exports of models that compute in 16 bits say how much may differ.
    rounding = max(_ROUNDING, read_json(path / ABOUT).get("rounding", 0.0))
    difference = max(_compare(path, record, answers, rounding) for record, answers in pairs)
    yield (
        f"answers: {len(records)} recorded requests gave the recorded answers, "
        f"largest difference {difference:.2g}"
    )
    for (signature, batch), seconds in zip(timed, times, strict=True):
        figures = zip(_PERCENTILES, np.percentile(seconds, _PERCENTILES), strict=True)
        spread = ", ".join(f"p{percentile} {1e3 * value:.2f} ms" for percentile, value in figures)
        yield f"{signature}, batch {batch}: {spread} ({len(seconds)} times)"


def _read_graph(path: Path) -> Any:
    """Read the `MetaGraphDef` that a server loads, tagged 'serve'."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    file = path / GRAPH
    if not file.is_file():
        raise UserError(
            f"{path} is not a SavedModel: it has no {GRAPH}; name the folder of a version"
        )
    try:
        saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    except DecodeError as error:
        raise UserError(f"{file} is damaged: {error}") from error
    for graph in saved.meta_graphs:
        if "serve" in graph.meta_info_def.tags:
            return graph
    raise UserError(f"{path} has no graph with the tag 'serve'")


def _check_ops(path: Path, graph: Any) -> Iterator[str]:
    functions = graph.graph_def.library.function
    nodes = [*graph.graph_def.node, *(node for function in functions for node in function.node_def)]
    used = {node.op for node in nodes} - {function.signature.name for function in functions}
    linked = stock_ops()
    missing = sorted(used - linked.keys())
    if missing:
        raise UserError(f"{path} has ops that a stock server does not link: {', '.join(missing)}")
    marked = [part for part in [*nodes, *functions] if "_XlaMustCompile" in part.attr]
    if any(part.attr["_XlaMustCompile"].b for part in marked):
        if not read_json(path / ABOUT).get("compiled"):
            raise UserError(
                f"{path} has a function that needs XLA, which a stock server on CPUs disables"
            )
        yield "compiled: a server on CPUs needs --xla_cpu_compilation_enabled=true"
    yield f"ops: {len(used)}, all of which a stock server links"
    for origin in sorted(set(linked.values())):
        names = sorted(name for name in used if linked[name] == origin)
        yield f"  {origin}: {', '.join(names) or 'none'}"


def stock_ops() -> dict[str, str]:
    """Return the origin of each op that a stock server links, "tensorflow" or "tensorflow-text"."""
    text = resources.files(__package__).joinpath("stock_ops.txt").read_text(encoding="utf-8")
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {name: origin for origin, name in rows}


def _request(path: Path, graph: Any, record: RecordedRequest) -> Call:
    """Return the inputs of a record by tensor name, and the names of the output tensors."""
    if record.signature not in graph.signature_def:
        raise UserError(
            f"{path} has a recorded request for the signature {record.signature!r}, "
            f"which the model does not have"
        )
    signature = graph.signature_def[record.signature]
    unlike = record.inputs.keys() != signature.inputs.keys()
    if unlike or not record.answer.keys() <= signature.outputs.keys():
        raise UserError(
            f"{path} has a recorded request whose inputs or outputs do not match its signature "
            f"{record.signature!r}"
        )
    inputs = {signature.inputs[name].name: value for name, value in record.inputs.items()}
    return inputs, [signature.outputs[name].name for name in record.answer]


def _repeated(inputs: Mapping[str, np.ndarray], batch: int) -> dict[str, np.ndarray]:
    # (rows, ...) to (batch, ...): copies of the first row.
    return {name: np.repeat(value[:1], batch, axis=0) for name, value in inputs.items()}


def _compare(
    path: Path, record: RecordedRequest, answers: Sequence[np.ndarray], rounding: float
) -> float:
    """Return the largest difference, relative to an output's largest number if above 1."""
    largest = 0.0
    for name, expected, got in zip(record.answer, record.answer.values(), answers, strict=True):
        if np.issubdtype(expected.dtype, np.floating) and got.shape == expected.shape:
            scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
            difference = float(np.max(np.abs(got - expected), initial=0.0)) / scale
            largest, alike = max(largest, difference), difference <= rounding
        else:
            alike = got.dtype == expected.dtype and np.array_equal(got, expected)
        if not alike:
            raise UserError(
                f"{path} answers a recorded request for {record.signature!r} with {name} "
                f"{got.tolist()!r}: expected the recorded {expected.tolist()!r}"
            )
    return largest
