"""Warm-up requests of an exported model, with their recorded answers."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import tensorflow as tf

from keras_quasiattn.errors import UserError, first_line

# Where TensorFlow Serving looks for warm-up requests.
WARM_UP: Final = Path("assets.extra") / "tf_serving_warmup_requests"


class RecordedRequest(NamedTuple):
    """A request and its answer: arrays by name, strings as object arrays of bytes.

    The answer holds the outputs that the request asks for, some or all of the signature's.
    """

    signature: str
    inputs: Mapping[str, np.ndarray]
    answer: Mapping[str, np.ndarray]


def need_serving_api() -> None:
    """Check that the TensorFlow Serving API can be imported."""
    try:
        import tensorflow_serving.apis.prediction_log_pb2
        import tensorflow_serving.config.model_server_config_pb2  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"TensorFlow Serving's messages cannot be imported ({error}): "
            f"pip install 'keras-quasiattn[serving]'"
        ) from None


def write_warm_up(folder: Path, name: str, records: Iterable[RecordedRequest]) -> None:
    """Write requests in the format that TensorFlow Serving replays before it serves a version.

    The records also hold the answers, which the server ignores and `serve_check` compares with.
    """
    from tensorflow_serving.apis import prediction_log_pb2

    (folder / WARM_UP).parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(folder / WARM_UP)) as writer:
        for record in records:
            log = prediction_log_pb2.PredictionLog()
            exchange = log.predict_log
            for message in (exchange.request, exchange.response):
                message.model_spec.name = name
                message.model_spec.signature_name = record.signature
            exchange.request.output_filter.extend(sorted(record.answer))
            _fill(exchange.request.inputs, record.inputs)
            _fill(exchange.response.outputs, record.answer)
            writer.write(log.SerializeToString(deterministic=True))


def read_warm_up(folder: Path) -> list[RecordedRequest]:
    """Read the recorded requests of an exported version."""
    from google.protobuf.message import DecodeError
    from tensorflow_serving.apis import prediction_log_pb2

    file = folder / WARM_UP
    if not file.is_file():
        raise UserError(f"{folder} has no {WARM_UP} to compare with: export its run again")
    records = []
    try:
        for serialized in tf.data.TFRecordDataset(str(file)).as_numpy_iterator():
            exchange = prediction_log_pb2.PredictionLog.FromString(serialized).predict_log
            signature = exchange.request.model_spec.signature_name
            inputs, answer = (
                {key: tf.make_ndarray(value) for key, value in values.items()}
                for values in (exchange.request.inputs, exchange.response.outputs)
            )
            records.append(RecordedRequest(signature, inputs, answer))
    except (tf.errors.DataLossError, DecodeError, TypeError, ValueError) as error:
        raise UserError(f"{file} is damaged: {first_line(error)}") from error
    if not all(record.inputs and record.answer for record in records) or not records:
        raise UserError(
            f"{file} has no recorded request, or one without an answer: export the run again"
        )
    return records


def _fill(values: Any, arrays: Mapping[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        dtype = tf.string if array.dtype == object else array.dtype
        values[name].CopyFrom(tf.make_tensor_proto(array, dtype, array.shape))
