import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_quasiattn.errors import UserError
from keras_quasiattn.serving.warm_up import (
    WARM_UP,
    RecordedRequest,
    need_serving_api,
    read_warm_up,
    write_warm_up,
)

TEXT = np.array([b"\xff\x00", b""], object)
IDS = np.array([[1, 2, 3]], np.int32)
RECORDS = [
    RecordedRequest(
        "serving_default", {"text": TEXT}, {"label": TEXT, "scores": np.eye(2, dtype=np.float32)}
    ),
    RecordedRequest(
        "token_ids", {"ids": IDS, "lengths": np.array([3], np.int32)}, {"open": IDS > 1}
    ),
]


def test_what_is_written_is_read(tmp_path):
    write_warm_up(tmp_path, "mine", RECORDS)
    for got, expected in zip(read_warm_up(tmp_path), RECORDS, strict=True):
        assert got.signature == expected.signature
        for values, wanted in ((got.inputs, expected.inputs), (got.answer, expected.answer)):
            assert values.keys() == wanted.keys()
            for name, array in wanted.items():
                np.testing.assert_array_equal(values[name], array)
                assert values[name].dtype == array.dtype


def test_the_requests_are_as_a_server_takes_them(tmp_path):
    from tensorflow_serving.apis import prediction_log_pb2

    write_warm_up(tmp_path, "mine", RECORDS)
    serialized = list(tf.data.TFRecordDataset(str(tmp_path / WARM_UP)).as_numpy_iterator())
    requests = [
        prediction_log_pb2.PredictionLog.FromString(one).predict_log.request for one in serialized
    ]
    assert [request.model_spec.name for request in requests] == ["mine", "mine"]
    # A version in the request could differ from the one that is being loaded.
    assert not any(request.model_spec.HasField("version") for request in requests)
    assert list(requests[0].inputs["text"].string_val) == TEXT.tolist()
    assert str(WARM_UP) == "assets.extra/tf_serving_warmup_requests"


@pytest.mark.parametrize("content", [b"not a record", None])
def test_damaged_file(content, tmp_path):
    write_warm_up(tmp_path, "mine", RECORDS)
    file = tmp_path / WARM_UP
    file.write_bytes(file.read_bytes()[:-5] if content is None else content)
    with pytest.raises(UserError, match="tf_serving_warmup_requests is damaged: "):
        read_warm_up(tmp_path)


def test_damage_whose_error_has_no_message_was_an_index_error(tmp_path, monkeypatch):
    def fail(_):
        raise TypeError

    write_warm_up(tmp_path, "mine", RECORDS)
    monkeypatch.setattr(tf, "make_ndarray", fail)
    with pytest.raises(UserError, match="tf_serving_warmup_requests is damaged: TypeError"):
        read_warm_up(tmp_path)


def test_requests_without_an_answer(tmp_path):
    write_warm_up(tmp_path, "mine", [RECORDS[0]._replace(answer={})])
    with pytest.raises(UserError, match="has no recorded request, or one without an answer"):
        read_warm_up(tmp_path)


def test_missing_package_is_named(monkeypatch):
    need_serving_api()
    monkeypatch.setitem(sys.modules, "tensorflow_serving.config.model_server_config_pb2", None)
    with pytest.raises(UserError, match=r"pip install 'keras-quasiattn\[serving\]'"):
        need_serving_api()
