"""What `serve_check` finds in an exported SavedModel and in damaged ones."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_quasiattn.errors import UserError
from keras_quasiattn.serving import serve_check, session
from keras_quasiattn.serving.check import _request, stock_ops
from keras_quasiattn.serving.session import _sent, run_session
from keras_quasiattn.serving.session_program import _work, packed, unpacked
from keras_quasiattn.serving.warm_up import RecordedRequest, read_warm_up, write_warm_up


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


def changeable(version: Path, folder: Path) -> Path:
    """Return a copy without the manifest, so that tests can change its files."""
    path = Path(shutil.copytree(version, folder / "1"))
    (path / "assets.extra" / "manifest.json").unlink()
    return path


def write(saved: Any, folder: Path) -> Path:
    (folder / "saved_model.pb").write_bytes(saved.SerializeToString())
    return folder


def test_an_export_passes(mlu_saved_model):
    lines = list(serve_check(mlu_saved_model, repetitions=2))
    assert lines[0].startswith("ops: ") and lines[0].endswith("all of which a stock server links")
    assert lines[1].startswith("  tensorflow: ") and ", MatMul," in lines[1]
    assert lines[2] == "  tensorflow-text: TFText>ByteSplitWithOffsets"
    assert lines[3].startswith(
        "answers: 4 recorded requests gave the recorded answers, largest difference "
    )
    timed = [
        f"{name}, batch {batch}"
        for name in ("serving_default", "token_ids")
        for batch in (1, 8, 64)
    ]
    assert [line.partition(":")[0] for line in lines[4:]] == timed
    assert all(
        " p50 " in line and " p99 " in line and line.endswith("(2 times)") for line in lines[4:]
    )


def test_times_are_said_in_milliseconds(mlu_saved_model, monkeypatch):
    def answered(path: Path, requests: Any, timed: list[Any]) -> tuple[Any, Any]:
        answers = [list(record.answer.values()) for record in read_warm_up(path)]
        return answers, [[0.002, 0.004]] * len(timed)

    monkeypatch.setattr("keras_quasiattn.serving.check.run_session", answered)
    *_, last = serve_check(mlu_saved_model, repetitions=2)
    assert last == "token_ids, batch 64: p50 3.00 ms, p90 3.80 ms, p99 3.98 ms (2 times)"


@pytest.mark.parametrize(
    "name", ["saved_model.pb", "assets.extra/vocabulary.txt", "/dev/zero", "../1"]
)
def test_a_file_of_another_model_is_named(name, mlu_saved_model, tmp_path):
    version = shutil.copytree(mlu_saved_model, tmp_path / "1")
    manifest = json.loads((version / "assets.extra/manifest.json").read_text())
    assert {
        "saved_model.pb",
        "variables/variables.index",
        "assets.extra/about.json",
    } < manifest.keys()
    (version / "assets.extra/manifest.json").write_text(json.dumps({**manifest, name: "0" * 64}))
    with pytest.raises(
        UserError,
        match=f"{version}/{name} is not the file that|lists '{name}', which is not a file of",
    ):
        list(serve_check(version))


@pytest.mark.parametrize("op", ["PyFunc", "EagerPyFunc", "XlaLaunchMine"])
def test_op_that_no_server_links(op, tmp_path):
    path = write(graph_of("MatMul", op), tmp_path)
    with pytest.raises(UserError, match=f"has ops that a stock server does not link: {op}$"):
        list(serve_check(path))


def test_function_for_xla(tmp_path):
    saved = graph_of("MatMul")
    saved.meta_graphs[0].graph_def.library.function[0].attr["_XlaMustCompile"].b = True
    with pytest.raises(UserError, match="has a function that needs XLA"):
        list(serve_check(write(saved, tmp_path)))


def test_version_without_recorded_requests_is_checked_as_far_as_possible(tmp_path):
    found = []
    with pytest.raises(
        UserError, match="has no assets.extra/tf_serving_warmup_requests to compare with"
    ):
        found.extend(serve_check(write(graph_of("MatMul"), tmp_path)))
        pytest.fail("nothing was compared")
    lines = serve_check(tmp_path)
    assert next(lines) == "ops: 1, all of which a stock server links"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is not a SavedModel: it has no saved_model.pb; name the folder of a version"),
        (b"\xff\xff\xff", "saved_model.pb is damaged"),
        (b"", "has no graph with the tag 'serve'"),
    ],
)
def test_what_is_no_saved_model(content, message, tmp_path):
    if content is not None:
        (tmp_path / "saved_model.pb").write_bytes(content)
    with pytest.raises(UserError, match=message):
        list(serve_check(tmp_path))


# Registered by TensorFlow's Python package alone, mostly for its own tests.
ONLY_PYTHON = {
    *("AudioMicrofrontend", "ConstructionFails", "DevicePlacementOp", "DtypeWithDefaultOp"),
    *("EagerPyFunc", "GetDeadline", "GraphDefVersion", "IsResourceHandleRefCounting"),
    *("IsTensorFloat32Enabled", "KernelLabel", "KernelLabelRequired", "MakeWeakResourceHandle"),
    *("Old", "PyFunc", "PyFuncStateless", "ResourceCreateOp", "ResourceInitializedOp"),
    *("ResourceUsingOp", "RougeL", "SleepIdentityOp", "SleepOp", "StubResourceHandleOp"),
    "TestAttr",
}


def test_the_list_is_what_the_libraries_register():
    import tensorflow_text  # noqa: F401
    from tensorflow.python.framework import kernels

    known = kernels.get_all_registered_kernels().kernel
    runnable = {kernel.op for kernel in known if kernel.device_type in ("CPU", "DEFAULT")}
    assert runnable - ONLY_PYTHON == set(stock_ops())


@pytest.mark.long
def test_answer_that_differs_from_the_recorded_one(mlu_saved_model, tmp_path):
    path = changeable(mlu_saved_model, tmp_path)
    records = read_warm_up(path)
    key = "log_probability"
    spoilt = {**records[2].answer, key: records[2].answer[key] + 0.01}
    write_warm_up(path, "mlu", [*records[:2], records[2]._replace(answer=spoilt)])
    with pytest.raises(
        UserError, match=f"a recorded request for 'token_ids' with {key} .*: expected"
    ):
        list(serve_check(path, repetitions=1))


@pytest.mark.long
def test_recorded_request_of_another_model(mlu_saved_model, tmp_path):
    path = changeable(mlu_saved_model, tmp_path)
    (record, *_) = read_warm_up(path)
    write_warm_up(path, "mlu", [record._replace(signature="other")])
    with pytest.raises(
        UserError, match="a recorded request for the signature 'other', which the model"
    ):
        list(serve_check(path))
    write_warm_up(path, "mlu", [record._replace(answer={"other": record.answer["answer"]})])
    with pytest.raises(UserError, match="whose inputs or outputs do not match its signature"):
        list(serve_check(path))
    write_warm_up(path, "mlu", [record._replace(inputs={"first": record.inputs["text"]})])
    with pytest.raises(UserError, match="do not match its signature 'serving_default'"):
        list(serve_check(path))


@pytest.mark.long
def test_what_tensorflow_refuses(mlu_saved_model, tmp_path):
    path = changeable(mlu_saved_model, tmp_path)
    (file,) = path.glob("variables/variables.index")
    file.unlink()
    with pytest.raises(UserError, match="TensorFlow cannot run .*variable"):
        list(serve_check(path))
    with pytest.raises(UserError, match="took more than 0.01 seconds"):
        run_session(mlu_saved_model, [], [], seconds=0.01)


def printing(text: str, folder: Path) -> Path:
    """Write a SavedModel of stock ops that echoes its input and prints `text` in every call."""

    class Parrot(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((None,), tf.string, name="text")])
        def answer(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
            for stream in (sys.stdout, sys.stderr):
                tf.print(said, end="", output_stream=stream)
            return {"answer": tf.strings.join([text, "!"])}

    said, parrot = text, Parrot()
    tf.saved_model.save(parrot, str(folder), signatures=parrot.answer.get_concrete_function())
    asked = np.array([b"who \xff"], object)
    record = RecordedRequest("serving_default", {"text": asked}, {"answer": asked + b"!"})
    write_warm_up(folder, "parrot", [record])
    return folder


def test_a_pickle_that_a_model_prints_was_run_by_the_check(tmp_path):
    """The reply was pickled to standard output, where the stock op PrintV2 also writes."""
    command = f"cposix\nsystem\n(S'touch {tmp_path}/was-here'\ntR."
    lines = list(serve_check(printing(command, tmp_path / "1"), repetitions=1))
    assert any(
        line.startswith("answers: 1 recorded requests gave the recorded answers") for line in lines
    )
    assert not (tmp_path / "was-here").exists()


@pytest.mark.parametrize(
    "reply",
    ["", "[1", "3", '{"answers": [["*"]]}', '{"answers": [["abcd"]]}', "[" * 100_000],
    ids=["nothing", "half", "a number", "no base64", "no tensor", "deep"],
)
def test_a_reply_that_cannot_be_read_is_one_line(reply, tmp_path, monkeypatch):
    program = tmp_path / "program.py"
    program.write_text(f"import os, sys; os.write(int(sys.argv[1]), {reply.encode()!r})")
    monkeypatch.setattr(
        "keras_quasiattn.serving.session._COMMAND", (sys.executable, "-I", str(program))
    )
    with pytest.raises(UserError, match="gave an unreadable answer"):
        run_session(tmp_path, [], [])


def test_memory_is_8_gib_and_four_times_the_model(tmp_path, monkeypatch):
    (tmp_path / "saved_model.pb").write_bytes(bytes(1000))
    program = "import json, os, sys; memory = json.load(sys.stdin)['memory']; "
    program += "os.write(int(sys.argv[1]), json.dumps({'error': str(memory)}).encode())"
    monkeypatch.setattr(
        "keras_quasiattn.serving.session._COMMAND", (sys.executable, "-I", "-c", program)
    )
    with pytest.raises(UserError, match=f"cannot run {tmp_path}: {8 * 2**30 + 4 * 1000}$"):
        run_session(tmp_path, [], [])


def test_a_model_that_takes_all_memory_or_fills_the_disk_is_stopped(
    tmp_path, mlu_saved_model, monkeypatch
):
    monkeypatch.setattr("keras_quasiattn.serving.session._MEMORY", 2**27)
    with pytest.raises(UserError, match="TensorFlow('s process ended with| cannot run)"):
        run_session(mlu_saved_model, [], [])


def test_arrays_of_numbers_and_strings_travel_as_text():
    arrays = [
        np.array([[b"a\n\xff", b""]], object),
        *(
            np.arange(6).reshape(2, 3).astype(name)
            for name in ("float32", "float16", "int64", "bool")
        ),
        np.zeros((0, 2), "int32"),
        np.zeros((2, 0), object),
        np.array(3.5),
    ]
    for expected in arrays:
        got = unpacked(packed(expected))
        assert got.dtype == expected.dtype and got.shape == expected.shape
        np.testing.assert_array_equal(got, expected)


def test_slow_calls_are_repeated_less_often(mlu_saved_model):
    graph = saved_model_pb2.SavedModel.FromString(
        (mlu_saved_model / "saved_model.pb").read_bytes()
    ).meta_graphs[0]
    call = _request(mlu_saved_model, graph, read_warm_up(mlu_saved_model)[0])
    job: dict[str, Any] = {"path": str(mlu_saved_model), "kernels": [], "requests": []}
    job["timed"] = [(*_sent(call), repetitions) for repetitions in (1, 100)]
    for seconds, counts in ((0.0, [1, 1]), (1e6, [1, 100])):
        assert [len(one) for one in _work({**job, "seconds": seconds})["seconds"]] == counts


def test_packages_may_be_where_an_isolated_python_does_not_look(mlu_saved_model, monkeypatch):
    program = [*session._COMMAND[:2], "-S", *session._COMMAND[2:]]  # -S: no site-packages
    monkeypatch.setattr(session, "_COMMAND", program)
    assert list(serve_check(mlu_saved_model, repetitions=1))


def test_the_rounding_that_an_export_states_is_accepted(tmp_path, mlu_saved_model):
    path = changeable(mlu_saved_model, tmp_path)
    records = read_warm_up(path)
    for record in records:
        record.answer["log_probability"] = record.answer["log_probability"] * 1.01
    write_warm_up(path, "mlu", records)
    with pytest.raises(UserError, match="answers a recorded request"):
        list(serve_check(path, repetitions=1))
    about = json.loads((path / "assets.extra" / "about.json").read_text())
    (path / "assets.extra" / "about.json").write_text(json.dumps({**about, "rounding": 0.03}))
    assert any("gave the recorded answers" in line for line in serve_check(path, repetitions=1))
