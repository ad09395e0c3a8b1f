import errno
import json
import os
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf
import tiny_mlu
import warm
import without_keras
from tiny import prepared

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.serving import export as module
from keras_quasiattn.lab.tasks import read
from keras_quasiattn.lab.training import RunFolder
from keras_quasiattn.serving import export
from keras_quasiattn.serving.server_files import read_models
from keras_quasiattn.serving.warm_up import read_warm_up

ASK = tiny_mlu.ROOT / "examples" / "ask.py"

STRANGE = [b"", b"x" * 10_000, b"\xff\xfe\x00", b"\x00" * 4, "ω=1".encode()]


@pytest.fixture(scope="module")
def folder(mlu_run):
    return RunFolder.open(mlu_run, finished=True)


@pytest.fixture(scope="module")
def task(folder):
    return folder.task("data")


@pytest.fixture(scope="module")
def model(folder):
    return folder.load_model()


@pytest.fixture(scope="module")
def questions(task):
    return [task.example, "y=-7,x=3,x-x", "x=0,y=0,y+y"]


def test_answers_in_a_process_without_keras_and_this_package(
    mlu_saved_model, task, model, questions
):
    batches = [[question.encode()] for question in questions]
    batches += [[question.encode() for question in questions], [], *([text] for text in STRANGE)]
    batches.append([*STRANGE, questions[0].encode()])
    answered = [
        without_keras.ask(mlu_saved_model, {"text": np.array(batch, object)}) for batch in batches
    ]
    got = [(out["answer"].tolist(), out["log_probability"].tolist()) for out in answered]
    assert [len(answers) for answers, _ in got] == [len(batch) for batch in batches]

    expected = [task.predict(model, [question])[0] for question in questions]
    for row, (answers, values) in zip(expected, got[:3], strict=True):
        assert answers[0].decode("utf-8", "replace") == row["answer"]
        assert values[0] == pytest.approx(row["log_probability"], rel=1e-6)
    assert got[3][0] == [answers[0] for answers, _ in got[:3]]
    np.testing.assert_allclose(got[3][1], [row["log_probability"] for row in expected], rtol=1e-5)
    assert got[4] == ([], [])
    # A strange text gets the same answer alone and among others, and does not affect the others.
    alone = [*(values[0] for _, values in got[5:-1]), got[0][1][0]]
    assert np.isfinite(alone).all() and (np.array(alone) < 0).all()
    np.testing.assert_allclose(got[-1][1], alone, rtol=1e-5)


def test_signatures(mlu_saved_model):
    signatures = tf.saved_model.load(str(mlu_saved_model)).signatures
    inputs = {
        name: sorted(signature.structured_input_signature[1].values(), key=lambda spec: spec.name)
        for name, signature in signatures.items()
    }
    assert inputs == {
        "serving_default": [tf.TensorSpec((None,), tf.string, name="text")],
        "token_ids": [
            tf.TensorSpec((None, None), tf.int32, name="text_ids"),
            tf.TensorSpec((None,), tf.int32, name="text_lengths"),
        ],
    }
    for signature in signatures.values():
        assert {name: value.dtype for name, value in signature.structured_outputs.items()} == {
            "answer": tf.string,
            "log_probability": tf.float32,
        }


def test_requests_are_recorded_with_the_models_own_answers(mlu_saved_model, task, model):
    (expected,) = task.predict(model, [task.example])
    records = read_warm_up(mlu_saved_model)
    assert [(record.signature, len(record.answer["answer"])) for record in records] == [
        ("serving_default", 1),
        ("serving_default", 2),
        ("token_ids", 1),
        ("token_ids", 2),
    ]
    for record in records:
        assert record.answer["answer"][0].decode("utf-8", "replace") == expected["answer"]
        assert record.answer["log_probability"][0] == pytest.approx(
            expected["log_probability"], rel=1e-5
        )
    assert records[1].inputs["text"].tolist() == [task.example.encode(), b""]
    assert records[3].inputs["text_lengths"].tolist() == [len(task.example) + 1, 0]


def test_every_weight_is_written_once(mlu_saved_model, model):
    # Keras' ExportArchive writes each of them twice.
    written = tf.train.list_variables(str(mlu_saved_model / "variables" / "variables"))
    numbers = sum(int(np.prod(shape)) for name, shape in written if name.endswith("VARIABLE_VALUE"))
    assert numbers == sum(int(np.prod(variable.shape)) for variable in model.variables)


def test_what_is_known_lies_beside_it(mlu_saved_model, folder):
    about = json.loads((mlu_saved_model / "assets.extra" / "about.json").read_text())
    assert about["metrics"] == folder.metrics() and "loss" in about["metrics"]["validation"]
    assert (about["task"], about["example"]) == ("mlu", tiny_mlu.QUESTION)
    assert about["task_config"]["options"]["data.high"] == 20


def test_versions_count_on_and_nothing_is_overwritten(folder, task, tmp_path, quick_export):
    assert export(folder, task, tmp_path) == tmp_path / "run" / "1"
    (tmp_path / "run" / "notes").mkdir()
    assert export(folder, task, tmp_path, version=9) == tmp_path / "run" / "9"
    assert export(folder, task, str(tmp_path)) == tmp_path / "run" / "10"
    assert export(folder, task, tmp_path, name="other") == tmp_path / "other" / "1"
    named = [model.name for model in read_models(tmp_path).model_config_list.config]
    assert named == ["run", "other"] and (tmp_path / "batching_parameters.txt").is_file()
    before = tiny_mlu.contents(tmp_path)
    with pytest.raises(
        UserError, match=f"{tmp_path}/run/9 already exists: name another version, or none"
    ):
        export(folder, task, tmp_path, version=9)
    assert tiny_mlu.contents(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "../mlu"}, "the model's name is '../mlu': it must start with a letter or digit"),
        ({"name": ""}, "the model's name is '': it must start .*; --name sets it"),
        ({"name": "mlu\n"}, r"the model's name is 'mlu\\n'"),
        ({"version": 0}, "the version is 0: it must be from 1 to "),
        ({"version": 10**20}, "the version is 1.*0: it must be from 1 to 9223372036854775807"),
    ],
)
def test_bad_names_and_versions(arguments, message, folder, task, tmp_path):
    with pytest.raises(UserError, match=message):
        export(folder, task, tmp_path / "saved", **arguments)
    assert not list(tmp_path.iterdir())


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
FAILURES = {
    "full disk": (FULL, "No space left on device"),
    "full disk, by TensorFlow": (
        tf.errors.ResourceExhaustedError(
            None, None, "{{node}} saved_model.pb; No space left on device [Op:SaveV2]"
        ),
        "/2: No space left on device$",
    ),
    "control-C": (KeyboardInterrupt(), "^$"),
    "error of ours": (RuntimeError("a bug"), "a bug"),
}


MOMENTS = ["_write", "_check", "write_warm_up", "write_description"]


@pytest.mark.parametrize(("moment", "failure"), zip(MOMENTS, FAILURES, strict=True))
def test_half_written_model_is_never_seen(
    moment, failure, folder, task, tmp_path, quick_export, monkeypatch
):
    error, reason = FAILURES[failure]
    export(folder, task, tmp_path)
    before = tiny_mlu.contents(tmp_path / "run")
    seen, write = [], module._write

    def fail(*arguments, **options):
        if moment == "_write":
            write(*arguments, **options)
        seen.extend(entry.name for entry in tmp_path.glob("run/*"))
        raise error

    monkeypatch.setattr(module, moment, fail)
    ours = isinstance(error, OSError | tf.errors.OpError)
    with pytest.raises(UserError if ours else type(error), match=reason) as caught:
        export(folder, task, tmp_path)
    assert not ours or str(caught.value).startswith(f"cannot write {tmp_path}/run/2: ")
    assert len(seen) == 2 and [name for name in seen if name.isdecimal()] == ["1"]
    assert tiny_mlu.contents(tmp_path / "run").keys() == before.keys()
    # A folder that did not exist before does not exist afterwards.
    with pytest.raises(UserError if ours else type(error)):
        export(folder, task, tmp_path / "new" / "saved_models")
    assert not (tmp_path / "new").exists()


def test_model_that_answers_otherwise_is_not_exported(
    folder, task, tmp_path, mlu_saved_model, monkeypatch
):
    monkeypatch.setattr(
        module,
        "_write",
        lambda *given: tf.saved_model.load(shutil.copytree(mlu_saved_model, given[2])),
    )
    monkeypatch.setattr(
        type(task), "answer", lambda self, model, texts: [{"answer": "7", "log_probability": -0.5}]
    )
    with pytest.raises(
        UserError, match=r"not exported: .* exported model returns .* model itself returns"
    ):
        export(folder, task, tmp_path)
    assert not list(tmp_path.iterdir())


def ask(*arguments):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, str(ASK), *arguments]
    return warm.run(command, env=environment, cwd="/", before=warm.WITHOUT_KERAS)


def test_example_asks(mlu_saved_model, task, model):
    ended = ask(str(mlu_saved_model), task.example)
    assert ended.returncode == 0, ended.stderr
    (row,) = task.predict(model, [task.example])
    expected = f"{row['answer']}\nlog-probability {row['log_probability']:.4f}\n"
    assert ended.stdout.decode() == expected


def test_asking_a_reader_was_a_traceback(tmp_path):
    @tf.function(input_signature=read._SIGNATURE)
    def answer(question, passages):
        return {
            "answer": tf.strings.join([question, passages[:, -1]], "|"),
            "score": tf.constant([0.25]),
            "passage": tf.shape(passages)[1:] - 1,
            "start": tf.constant([2]),
            "end": tf.constant([5]),
        }

    tf.saved_model.save(tf.Module(), str(tmp_path), signatures=answer)
    for passages in (["so"], ["so", "or"]):
        ended = ask(str(tmp_path), "who", *passages)
        assert ended.returncode == 0, ended.stderr
        place = f"passage {len(passages) - 1}, characters 2 to 5"
        assert ended.stdout.decode() == f"who|{passages[-1]}\nprobability 0.2500, {place}\n"
    assert ask(str(tmp_path), "who").stderr.decode() == (
        "ask.py: got 1 texts: the model takes question, passages\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "usage: python ask.py FOLDER TEXT..."),
        (["/nowhere", "x=1"], "ask.py: '/nowhere' is not a SavedModel: it has no saved_model.pb"),
    ],
)
def test_example_names_what_is_missing(arguments, message):
    ended = ask(*arguments)
    assert ended.returncode == 1 and ended.stdout == b""
    (line,) = ended.stderr.decode().splitlines()
    assert line.startswith(message)


def test_gates_drawn_in_inference_are_refused_by_their_option(tiny_task):
    task = prepared(tiny_task("classify", "bilstm_gated", model__gate_inference="sample"))
    with pytest.raises(
        UserError, match="draws random numbers .* with model.gate_inference=threshold$"
    ):
        module._answer(task, task.build_model())


@pytest.mark.parametrize(
    ("name", "limit"), [("translate", "data__max_length"), ("read", "data__question_length")]
)
def test_the_example_may_be_longer_than_a_run_allows(name, limit, tiny_task):
    task = prepared(tiny_task(name, **{limit: 2}))
    model = task.build_model()
    with pytest.raises(UserError, match="max"):
        task.predict(model, [task.example])
    assert module._answer(task, model).keys() == task.answer(model, [task.example])[0].keys()


def test_int8_is_measured_only_after_the_other_options_are_checked(
    run_cli, mlu_run, tmp_path, monkeypatch
):
    monkeypatch.setattr("keras_quasiattn.lab.serving.quantize.quantize", None)
    arguments = ("export", str(mlu_run), "--to", str(tmp_path), "--quantize", "int8")
    code, _, error = run_cli(*arguments, "--version", "0")
    assert code and "the version is 0: it must be from 1 to" in error
    code, _, error = run_cli("export", str(mlu_run), "--limit", "5")
    assert code and error.endswith("--limit needs --quantize\n")
