"""Exports that XLA compiles: padding to buckets, requests that compile them, rejections."""

import numpy as np
import pytest
import tensorflow as tf
import tiny_texts
from test_convert import finished
from test_signatures import SIGNATURE

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.serving.signatures import bucket_inputs
from keras_quasiattn.lab.training import RunFolder
from keras_quasiattn.serving import export, load, serve_check
from keras_quasiattn.serving.warm_up import read_warm_up
from keras_quasiattn.serving.xla_buckets import Buckets, CompiledModel


class Pairs:
    """A stand-in for a model, which returns the lengths of its texts."""

    def explain(self, first, second):
        both = first[:, :, None] * second[:, None, :]
        return {
            "sums": tf.reduce_sum(first, 1),
            "products": both,
            "own": second + 1,
            "seen": tf.shape(first)[None],
        }

    def __call__(self, inputs, training):
        assert not training
        return inputs["second"] - tf.reduce_sum(inputs["first"], 1, keepdims=True)


def sent(function, *shapes):
    """Return random ids of these shapes, and the answer of a graph with unknown sizes."""
    ids = [np.random.default_rng(0).integers(1, 9, shape).astype("int32") for shape in shapes]
    graph = tf.function(function, input_signature=[tf.TensorSpec((None, None), tf.int32)] * 2)
    return ids, graph(*map(tf.constant, ids))


@pytest.mark.parametrize(
    ("longest", "lengths"),
    [(1, (1,)), (15, (15,)), (16, (16,)), (17, (16, 17)), (100, (16, 32, 64, 100))],
)
def test_lengths_double_up_to_the_longest(longest, lengths):
    assert Buckets.up_to(longest) == (lengths, (1, 8, 64))


@pytest.mark.parametrize(
    ("rows", "lengths", "seen"),
    [(3, (2, 4), (4, 4)), (4, (3, 5), (4, 6)), (0, (1, 1), (2, 4)), (9, (1, 13), (12, 18))],
)
def test_a_model_sees_few_sizes_and_answers_as_it_does(rows, lengths, seen):
    model, buckets = Pairs(), Buckets((4, 6), (2, 4))
    compiled = CompiledModel(model, buckets)
    ids, answer = sent(compiled.explain, *((rows, length) for length in lengths))
    expected = model.explain(*map(tf.constant, ids))
    for name in ("sums", "products", "own"):
        np.testing.assert_array_equal(answer[name], expected[name])
    assert answer["seen"].numpy().tolist() == [list(seen)]


def test_a_model_that_takes_a_dictionary():
    compiled = CompiledModel(Pairs(), Buckets((4,)))
    (first, second), answer = sent(
        lambda first, second: compiled({"first": first, "second": second}), (3, 2), (3, 1)
    )
    np.testing.assert_array_equal(answer, second - first.sum(1, keepdims=True))


def test_requests_reach_every_bucket():
    requests = list(bucket_inputs(SIGNATURE, "abc\td\te", Buckets((2, 5), (1, 4))))
    shapes = [
        (request["question_ids"].shape, request["candidates_ids"].shape) for request in requests
    ]
    assert shapes == [((1, length), (1, batch, length)) for length in (2, 5) for batch in (1, 4)]
    assert requests[-1]["question_ids"].tolist() == [[97, 98, 99, 97, 98]]
    assert requests[-1]["candidates_lengths"].tolist() == [[5, 5, 5, 5]]


def test_a_model_that_decodes_is_refused(mlu_run, tmp_path):
    folder = RunFolder.open(mlu_run, finished=True)
    with pytest.raises(UserError, match="'mlu' cannot be exported compiled, because it answers in"):
        export(folder, folder.task("data"), tmp_path / "models", compiled=True)
    assert not list(tmp_path.iterdir())


def test_only_a_saved_model_is_compiled(run_cli, mlu_run, tmp_path):
    arguments = ("--to", str(tmp_path), "--target", "onnx", "--compile")
    code, _, error = run_cli("export", str(mlu_run), *arguments)
    assert code and error == "quasiattn: --compile is for --target savedmodel: got --target onnx\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_a_compiled_export_answers_alike_and_runs_in_a_bare_session(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    task = tiny_texts.make(tiny_texts.files(data), "transformer_coda")
    folder, task = finished(tmp_path / "run", task)
    plain = load(export(folder, task, tmp_path / "models", name="plain"))
    path = export(folder, task, tmp_path / "models", name="compiled", compiled=True)
    compiled = load(path)
    texts = ["who was the man", "where ?", "", "a " * 30]
    for text, other in zip(plain(texts), compiled(texts), strict=True):
        assert text["probabilities"] == pytest.approx(other["probabilities"], abs=1e-6)
        assert text["tokens"] == other["tokens"]

    assert compiled.about["compiled"] == {"lengths": [12], "batches": [1, 8, 64]}
    assert "--xla_cpu_compilation_enabled=true" in (path / "README.md").read_text()
    shapes = [record.inputs["text_ids"].shape for record in read_warm_up(path)[4:]]
    assert shapes == [(1, 12), (8, 12), (64, 12)]
    lines = list(serve_check(path, repetitions=1))
    assert lines[0] == "compiled: a server on CPUs needs --xla_cpu_compilation_enabled=true"
    assert any("7 recorded requests gave the recorded answers" in line for line in lines)
