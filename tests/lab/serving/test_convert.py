"""Convert a run for another runtime; a file whose answers differ from the model's is not kept."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tiny_mlu
import tiny_pairs
import tiny_reading
import tiny_texts
from tools import long_except

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.training import RunFolder
from keras_quasiattn.serving import convert, export, quantize
from keras_quasiattn.serving.runtimes import RUNTIMES, Runtime


def finished(path, task):
    """Return a run that looks trained: all its weights, biases included, are random."""
    task.prepare()
    folder = RunFolder.create(path, task, options={})
    folder.write_assets(task)
    model = task.build_model()
    generator = np.random.default_rng(1)
    for variable in model.trainable_variables:
        variable.assign(variable + 0.1 * generator.standard_normal(variable.shape))
    folder.save_model(model, task)
    return folder, folder.task(task.data_dir)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    data = tiny_pairs.files(tmp_path_factory.mktemp("data"), "pairs")
    return finished(
        tmp_path_factory.mktemp("pairs") / "run",
        tiny_pairs.make(data, "pairs", "decomposable", data__unknown_ids=1),
    )


def runtime(key):
    for package in RUNTIMES[key].packages:
        pytest.importorskip(package, reason=f"extra {key} is not installed")
    return RUNTIMES[key]


def loaded(key, folder):
    """Return the answers of the exported file, which the runtime loads again."""
    answer = runtime(key).load(folder / runtime(key).file)
    return lambda ids: answer(ids)["logits"]


def batch(model, rows, length):
    """Return ids of texts of various lengths; the last of several texts is empty."""
    generator = np.random.default_rng(length)
    ids = {
        tensor.name: generator.integers(1, 15, (rows, length)).astype("int32")
        for tensor in model.inputs
    }
    for row in range(1, rows):
        for value in ids.values():
            value[row, generator.integers(1, length + 1) if row < rows - 1 else 0 :] = 0
    return ids


def own(model, ids):
    (alone, *others) = ids.values()
    return np.asarray(model(ids if others else alone))


def assert_answers_alike(answer, model, tolerance=1e-5):
    for rows, length in ((1, 2), (1, 11), (3, 9), (3, 17)):
        ids = batch(model, rows, length)
        np.testing.assert_allclose(answer(ids), own(model, ids), atol=tolerance, rtol=tolerance)
        # Padding changes nothing.
        longer = {name: np.pad(value, ((0, 0), (0, 4))) for name, value in ids.items()}
        np.testing.assert_allclose(answer(longer), answer(ids), atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("key", RUNTIMES)
def test_runtime_answers_as_the_model_does(key, pairs, tmp_path):
    runtime(key)
    folder, task = pairs
    conversion = convert(folder, task, tmp_path, key)
    assert conversion.path == tmp_path / f"run-{key}" / "1"
    assert 0 <= conversion.difference < 1e-5
    model = folder.load_model()
    assert np.ptp(own(model, batch(model, 3, 9))) > 0.1
    assert_answers_alike(loaded(key, conversion.path), model)
    # The example is given as ids only, which a user can make from the vocabulary.
    about = json.loads((conversion.path / "about.json").read_text())
    words = (conversion.path / "vocabulary.txt").read_text().splitlines()
    texts = [[words[token] for token in ids] for ids in about["example_ids"].values()]
    assert list(about["example_ids"]) == ["first", "second"] and all(texts)
    (expected,) = task.predict(model, [about["example"]])
    ids = {name: np.array([value], "int32") for name, value in about["example_ids"].items()}
    logits = loaded(key, conversion.path)(ids)
    probabilities = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    np.testing.assert_allclose(probabilities[0], expected["probabilities"], atol=1e-5)


@pytest.fixture
def stub(monkeypatch):
    """Replace the converter and the runtime of "onnx" with doubles.

    `change` modifies the runtime's answers; `asked` collects the ids that it received.
    """
    given: dict[str, Any] = {"change": lambda logits: logits, "written": lambda: None, "asked": []}

    def write(model, path):
        given["model"] = model
        path.write_bytes(b"file")
        given["written"]()

    def load(path):
        assert path.read_bytes() == b"file"

        def answer(ids):
            given["asked"].append(ids)
            return {"logits": given["change"](np.asarray(given["model"](dict(ids))["logits"]))}

        return answer

    monkeypatch.setitem(RUNTIMES, "onnx", Runtime("Stub", ("json",), "model.onnx", write, load))
    return given


def test_answers_are_compared_for_all_ids_of_the_example_and_no_others(pairs, tmp_path, stub):
    about = json.loads((convert(*pairs, tmp_path, "onnx").path / "about.json").read_text())
    drawn = {int(token) for ids in stub["asked"] for array in ids.values() for token in array.flat}
    assert drawn == {0, *about["example_ids"]["first"], *about["example_ids"]["second"]}


def fail(error):
    raise error


@pytest.mark.parametrize(
    ("moment", "action", "message"),
    [
        (
            "change",
            lambda logits: logits + 0.1,
            r"not exported: .* Stub returns logits that differ by .* from the model's",
        ),
        (
            "change",
            lambda logits: logits * np.nan,
            "Stub returns logits that differ by nan from the model's",
        ),
        (
            "change",
            lambda logits: logits[:, :1],
            r"Stub returns logits of shape \(1, 1\), but the model returns",
        ),
        (
            "change",
            lambda logits: fail(RuntimeError("no such op. See here")),
            "^Stub cannot run this model: no such op$",
        ),
        (
            "written",
            lambda: fail(ValueError("no\nway. See here")),
            "^Stub cannot convert this model: no way$",
        ),
        (
            "written",
            lambda: fail(OSError(28, "No space left on device")),
            "^cannot write .*: No space left",
        ),
    ],
)
def test_what_does_not_answer_alike_is_never_seen(moment, action, message, pairs, tmp_path, stub):
    stub[moment] = action
    with pytest.raises(UserError, match=message):
        convert(*pairs, tmp_path / "new", "onnx")
    assert not list(tmp_path.iterdir())


def test_a_decoder_reads_ids_beside_its_target(tmp_path, stub):
    conversion = convert(*finished(tmp_path / "run", tiny_mlu.make(tmp_path)), tmp_path, "onnx")
    assert (conversion.path / "model.onnx").is_file()
    assert all(set(ids) == {"source", "target"} for ids in stub["asked"])


def test_a_reader_was_asked_with_ids_of_unequal_words_and_forms(tmp_path, stub):
    run = finished(
        tmp_path / "run", tiny_reading.make(tiny_reading.files(tmp_path), "attention_flow")
    )
    with pytest.raises(UserError, match="task 'read' cannot be converted for Stub, because"):
        convert(*run, tmp_path / "saved", "onnx")
    assert not (tmp_path / "saved").exists()


@pytest.mark.parametrize("key", RUNTIMES)
def test_missing_package_is_named(key, pairs, tmp_path, monkeypatch):
    package = RUNTIMES[key].packages[0]
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        UserError, match=rf"{package}, which cannot .*: pip install 'keras-quasiattn\[{key}\]'"
    ):
        convert(*pairs, tmp_path, key)


def test_int8_was_measured_on_other_data(pairs):
    folder, task = pairs
    changed = RunFolder(folder.path, {**folder.config, "data": {"version": "other"}})
    with pytest.raises(UserError, match="was started with the data other, and they are now"):
        quantize(changed, task)


@pytest.mark.long
def test_int8_says_what_it_costs(pairs):
    folder, task = pairs
    quantized = quantize(folder, task, limit=40)
    assert quantized.before == task.evaluate(folder.load_model(), "validation", 40)
    assert quantized.after == task.evaluate(quantized.model, "validation", 40)
    kernels = [variable for variable in quantized.model.variables if str(variable.dtype) == "int8"]
    assert len(kernels) == 6  # embedding, projection, F, G, H and the logits
    ids = batch(quantized.model, 3, 9)
    rounded = np.abs(own(quantized.model, ids) - own(folder.load_model(), ids))
    assert 1e-6 < rounded.max() < 0.1


@pytest.mark.long
def test_command_line(pairs, tmp_path, stub, run_cli):
    folder, _ = pairs
    arguments = ["export", str(folder.path), "--to", str(tmp_path), "--data-dir", str(tmp_path)]
    code, out, _ = run_cli(*arguments, "--target", "onnx", "--quantize", "int8", "--limit", "30")
    path, compared, *cost = out.splitlines()
    assert code == 0 and path == str(tmp_path / "run-onnx" / "1")
    assert compared == "Stub answers 4 batches as the model does, largest difference 0"
    record = json.loads((Path(path) / "about.json").read_text())["quantization"]
    before, after = (record[moment]["accuracy"] for moment in ("before", "after"))
    said = f"accuracy on the validation split: {before:.4f}, and with int8 weights {after:.4f}"
    assert cost[0] == said
    assert record["before"]["cross_entropy"] != record["after"]["cross_entropy"]
    for wrong, message in (
        (
            ["--target", "onxx"],
            "unknown target 'onxx' (did you mean 'onnx'?): choose from litert, onnx, openvino, ",
        ),
        (
            ["--quantize", "int9"],
            "unknown quantization 'int9' (did you mean 'int8'?): choose from int8",
        ),
    ):
        code, out, error = run_cli(*arguments, *wrong)
        assert (code, out) == (1, "") and message in error
    assert not (tmp_path / "run").exists()


def classify(folder, model):
    return finished(folder / "run", tiny_texts.make(tiny_texts.files(folder), model))


@pytest.mark.long
@pytest.mark.parametrize("key", ["onnx", "openvino"])
def test_recurrent_models(key, tmp_path):
    runtime(key)
    data = tiny_pairs.files(tmp_path, "pairs")
    folder, task = finished(tmp_path / "run", tiny_pairs.make(data, "pairs", "siamese_both"))
    conversion = convert(folder, task, tmp_path, key)
    assert_answers_alike(loaded(key, conversion.path), folder.load_model())


@pytest.mark.long
def test_litert_has_no_recurrent_models(tmp_path):
    runtime("litert")
    with pytest.raises(
        UserError, match=r"^LiteRT cannot run this model: Select TensorFlow op\(s\), "
    ):
        convert(*classify(tmp_path, "bilstm_soft"), tmp_path / "saved", "litert")
    assert not (tmp_path / "saved").exists()


@pytest.mark.long
@pytest.mark.parametrize("key", long_except(RUNTIMES, "openvino", others=pytest.mark.complete))
def test_transformers_with_weights_of_8_bits(key, tmp_path):
    runtime(key)
    folder, task = classify(tmp_path, "transformer_coda")
    quantized = quantize(folder, task)
    conversion = convert(folder, task, tmp_path, key, quantized=quantized)
    assert_answers_alike(loaded(key, conversion.path), quantized.model)


@pytest.mark.long
def test_saved_model_with_weights_of_8_bits(pairs, tmp_path):
    pytest.importorskip("tensorflow_serving", reason="extra serving is not installed")
    folder, task = pairs
    quantized = quantize(folder, task, limit=40)
    path = export(folder, task, tmp_path, quantized=quantized)
    written = tf.train.list_variables(str(path / "variables" / "variables"))
    sizes = {
        name: int(np.prod(shape)) for name, shape in written if name.endswith("VARIABLE_VALUE")
    }
    assert sum(sizes.values()) == sum(
        int(np.prod(variable.shape)) for variable in quantized.model.variables
    )
    answer = tf.saved_model.load(str(path)).signatures["serving_default"]
    text = "the big cat\ta cat ran"
    (expected,) = task.predict(quantized.model, [text])
    first, second = text.split("\t")
    got = answer(first=tf.constant([first]), second=tf.constant([second]))["probabilities"].numpy()
    np.testing.assert_allclose(got[0], expected["probabilities"], atol=1e-6)
    (plain,) = task.predict(folder.load_model(), [text])
    assert np.max(np.abs(got[0] - plain["probabilities"])) > 1e-6
    about = json.loads((path / "assets.extra" / "about.json").read_text())
    assert about["quantization"] == quantized.record()


@pytest.mark.parametrize(
    ("name", "model", "inputs"),
    [
        ("classify", "words_soft", {"ids"}),
        ("rank", "decomposable", {"first", "second"}),
        ("translate", "", {"source", "target"}),
    ],
)
def test_ids_of_the_example_had_names_that_the_file_does_not_have(
    name, model, inputs, tiny_task, tmp_path, stub
):
    folder, task = finished(tmp_path / "run", tiny_task(name, model))
    path = convert(folder, task, tmp_path, "onnx").path
    ids = json.loads((path / "about.json").read_text())["example_ids"]
    assert ids.keys() == inputs
    batch = {name: np.array([value], "int32") for name, value in ids.items()}
    assert np.isfinite(np.asarray(folder.load_model()(batch))).all()
