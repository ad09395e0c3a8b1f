"""What `serve_check` finds, in a SavedModel as it was exported and in spoilt ones."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import tiny_mlu
from tensorflow.core.protobuf import saved_model_pb2

from keras_quasiattn.errors import UserError
from keras_quasiattn.serving import serve_check
from keras_quasiattn.serving.c_library import run_c_session
from keras_quasiattn.serving.stock_ops import stock_ops, stock_ops_text
from keras_quasiattn.serving.warm_up import read_warm_up, write_warm_up


def graph_of(*ops: str) -> Any:
    saved = saved_model_pb2.SavedModel(saved_model_schema_version=1)
    graph = saved.meta_graphs.add()
    graph.meta_info_def.tags.append("serve")
    function = graph.graph_def.library.function.add()
    function.signature.name = "__inference_answer_1"
    for number, op in enumerate(ops):
        function.node_def.add(op=op, name=f"node{number}")
    graph.graph_def.node.add(op="__inference_answer_1", name="call")
    return saved


def write(saved: Any, folder: Path) -> Path:
    (folder / "saved_model.pb").write_bytes(saved.SerializeToString())
    return folder


def test_an_export_passes(mlu_saved_model: Path) -> None:
    lines = list(serve_check(mlu_saved_model, repetitions=2))
    assert lines[0].startswith("ops: ") and lines[0].endswith("all of which a stock server links")
    assert lines[1].startswith("  tensorflow: ") and ", MatMul," in lines[1]
    assert lines[2] == "  tensorflow-text: TFText>ByteSplitWithOffsets"
    assert lines[3].startswith("answers: 4 recorded requests answered alike, largest difference ")
    timed = [f"{name}, batch {batch}" for name in ("serving_default", "token_ids") for batch in (1, 8, 64)]
    assert [line.partition(":")[0] for line in lines[4:]] == timed
    assert all(" p50 " in line and " p99 " in line and line.endswith("(2 times)") for line in lines[4:])


@pytest.mark.parametrize("op", ["PyFunc", "EagerPyFunc", "XlaLaunchMine"])
def test_op_that_no_server_links(op: str, tmp_path: Path) -> None:
    path = write(graph_of("MatMul", op), tmp_path)
    with pytest.raises(UserError, match=f"has ops that a stock server does not link: {op}$"):
        list(serve_check(path))


def test_function_for_xla(tmp_path: Path) -> None:
    saved = graph_of("MatMul")
    saved.meta_graphs[0].graph_def.library.function[0].attr["_XlaMustCompile"].b = True
    with pytest.raises(UserError, match="has a function for XLA"):
        list(serve_check(write(saved, tmp_path)))


def test_version_without_recorded_requests_is_checked_as_far_as_possible(tmp_path: Path) -> None:
    found = []
    with pytest.raises(UserError, match="has no assets.extra/tf_serving_warmup_requests to compare with"):
        found.extend(serve_check(write(graph_of("MatMul"), tmp_path)))
        pytest.fail("nothing was compared")
    lines = serve_check(tmp_path)
    assert next(lines) == "ops: 1, all of which a stock server links"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is not a SavedModel: it has no saved_model.pb; name the folder of a version"),
        (b"\xff\xff\xff", "saved_model.pb is damaged"),
        (b"", "has no graph that is tagged 'serve'"),
    ],
)
def test_what_is_no_saved_model(content: bytes | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "saved_model.pb").write_bytes(content)
    with pytest.raises(UserError, match=message):
        list(serve_check(tmp_path))


def test_the_ops_of_a_server() -> None:
    linked = stock_ops()
    assert set(linked.values()) == {"tensorflow", "tensorflow-text"}
    assert linked["MatMul"] == linked["NoOp"] == "tensorflow"
    assert linked["TFText>ByteSplitWithOffsets"] == linked["CaseFoldUTF8"] == "tensorflow-text"


@pytest.mark.long
def test_the_list_is_what_the_libraries_register() -> None:
    file = tiny_mlu.ROOT / "keras_quasiattn" / "serving" / "stock_ops.txt"
    assert file.read_text() == stock_ops_text()


@pytest.mark.long
def test_answer_that_differs_from_the_recorded_one(mlu_saved_model: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(mlu_saved_model, tmp_path / "1"))
    records = read_warm_up(path)
    key = "log_probability"
    spoilt = {**records[2].answer, key: records[2].answer[key] + 0.01}
    write_warm_up(path, "mlu", [*records[:2], records[2]._replace(answer=spoilt)])
    with pytest.raises(
        UserError, match=f"answers {key} .* to a recorded request for 'token_ids', and .* was"
    ):
        list(serve_check(path, repetitions=1))


@pytest.mark.long
def test_recorded_request_of_another_model(mlu_saved_model: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(mlu_saved_model, tmp_path / "1"))
    (record, *_) = read_warm_up(path)
    write_warm_up(path, "mlu", [record._replace(signature="other")])
    with pytest.raises(UserError, match="a recorded request for the signature 'other', which is not there"):
        list(serve_check(path))
    write_warm_up(path, "mlu", [record._replace(inputs={"first": record.inputs["text"]})])
    with pytest.raises(UserError, match="does not suit its signature 'serving_default'"):
        list(serve_check(path))


@pytest.mark.long
def test_what_the_c_library_refuses(mlu_saved_model: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(mlu_saved_model, tmp_path / "1"))
    (file,) = path.glob("variables/variables.index")
    file.unlink()
    with pytest.raises(UserError, match="TensorFlow's C library refuses .*variable"):
        list(serve_check(path))
    with pytest.raises(UserError, match="refuses .*Op type not registered 'TFText>ByteSplitWithOffsets'"):
        run_c_session(mlu_saved_model, with_text=False, requests=[], timed=[])
    with pytest.raises(UserError, match="took more than 0.01 seconds"):
        run_c_session(mlu_saved_model, seconds=0.01, requests=[], timed=[])
