import functools
import json
import shutil
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny
import tiny_encoder
import tiny_texts
import without_keras
from tiny import built, prepared
from tools import eagerly, reloaded

from keras_quasiattn.attention.coda.calibration import calibrate_attention
from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.serving.export import _ask, _write
from keras_quasiattn.lab.tasks import encoder_reading, get
from keras_quasiattn.lab.tasks.encoder import load_encoder
from keras_quasiattn.lab.tasks.encoder_model import start_logits
from keras_quasiattn.lab.tasks.encoder_reading import pack
from keras_quasiattn.lab.text.encoder_tokenizers import EncoderTokenizer
from keras_quasiattn.lab.training import RunFolder, train
from keras_quasiattn.lab.training.optimizers import made_optimizer
from keras_quasiattn.serving import convert, export, serve_check

START, END = (tiny_encoder.VOCABULARY.index(token) for token in ("[CLS]", "[SEP]"))


@pytest.fixture
def make(encoder_folder, few_texts):
    return functools.partial(tiny_encoder.make, few_texts, "classify", encoder_folder)


@pytest.fixture
def start(encoder_folder, few_texts):
    return functools.partial(tiny_encoder.started, few_texts, "classify", encoder_folder)


@pytest.fixture(scope="module")
def trained(encoder_run, texts_data):
    folder = RunFolder.open(encoder_run, finished=True)
    task = prepared(folder.task(texts_data))
    return task, folder.load_model(task)


def test_it_learns_from_the_place_and_answers_without_it(trained):
    task, model = trained
    assert not Path(task.options.model["encoder"]).exists()
    assert task.evaluate(model)["accuracy"] > 0.9
    (answer,) = task.predict(model, ["Where was the CITY?"])
    assert answer["tokens"] == ["where", "was", "the", "city", "?"] and answer["label"] == "LOC"
    assert sum(answer["probabilities"]) == pytest.approx(1)


def test_a_run_says_which_encoder_it_started_from(encoder_run, encoder_folder):
    import hashlib

    digest = hashlib.sha256((encoder_folder / "model.weights.h5").read_bytes()).hexdigest()
    kept = json.loads((encoder_run / "encoder.json").read_text())
    assert (kept["sha256"], kept["licence"], kept["family"]) == (
        *(digest, "apache-2.0"),
        "BertBackbone",
    )
    noted = json.loads((encoder_run / "config.json").read_text())["data"]["encoder"]
    assert kept["place"] in noted and digest in noted and "apache-2.0" in noted


def test_a_new_run_starts_from_the_weights_of_the_place(encoder_folder, start):
    import keras_hub

    task, model = start()
    ids = np.array([[START, 6, 7, END, 0], [START, 8, END, 0, 0]], "int32")
    backbone = keras_hub.models.Backbone.from_preset(str(encoder_folder))
    inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": (ids != 0).astype("int32")}
    states = np.array(backbone(inputs)["sequence_output"])
    means = [states[0, :4].mean(axis=0), states[1, :3].mean(axis=0)]
    kernel, bias = (np.array(one) for one in model.get_layer("logits").weights)
    np.testing.assert_allclose(model(ids), means @ kernel + bias, atol=1e-5)
    # The layer after it starts as a regression: random weights would be worse than a guess.
    assert task.evaluate(model, "train")["cross_entropy"] < np.log(len(bias))


def test_weights_that_do_not_load_left_a_run_that_had_begun(encoder_folder, few_texts, tmp_path):
    """With the file repaired, or another place, the same folder refused to train."""
    place = shutil.copytree(encoder_folder, tmp_path / "place")
    weights = place / "model.weights.h5"
    weights.write_bytes(weights.read_bytes()[:3000])
    task = tiny_encoder.make(few_texts, "classify", place)
    with pytest.raises(UserError, match="place' does not load: .*truncated file"):
        train(task, tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_a_vocabulary_with_more_pieces_than_weights_ended_in_a_traceback(encoder_folder, tmp_path):
    place = shutil.copytree(encoder_folder, tmp_path / "place")
    with (place / "assets" / "tokenizer" / "vocabulary.txt").open("a") as file:
        file.write("zebra\n")
    size = len(tiny_encoder.VOCABULARY)
    with pytest.raises(UserError, match=f"has {size + 1:,} pieces .*, and weights for {size:,}: "):
        load_encoder(str(place))


@pytest.mark.long
def test_a_resumed_run_needs_no_place_and_ends_as_an_uninterrupted_one(
    encoder_folder, texts_data, tmp_path
):
    place = shutil.copytree(encoder_folder, tmp_path / "place")
    short = {"training__checkpoint_every": 4}
    for name, steps in (("whole", (12,)), ("stopped", (8, 12))):
        for number in steps:
            task = tiny_encoder.make(texts_data, "classify", place, training__steps=number, **short)
            if number == 12 and name == "stopped":
                shutil.rmtree(place)
            with eagerly():
                train(task, tmp_path / name, progress=False)
    whole, stopped = (
        RunFolder.open(tmp_path / name).load_model().get_weights() for name in ("whole", "stopped")
    )
    for one, other in zip(whole, stopped, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_run_without_a_checkpoint_refuses_other_weights_than_it_was_started_with(
    encoder_folder, few_texts, tmp_path
):
    place = shutil.copytree(encoder_folder, tmp_path / "place")
    task = prepared(tiny_encoder.make(few_texts, "classify", place))
    (place / "model.weights.h5").write_bytes(b"other")
    with pytest.raises(UserError, match="has changed since the run was started: .*sha256"):
        task.initialize(task.build_model())


@pytest.fixture(scope="module")
def saved_model(encoder_run, tmp_path_factory):
    folder = RunFolder.open(encoder_run, finished=True)
    return export(folder, folder.task(""), tmp_path_factory.mktemp("saved"))


def test_an_exported_model_answers_strings_without_keras_and_keras_hub(saved_model, trained):
    task, model = trained
    texts = ["Where was the CITY?", "", "who \u00e9t\u00e9 [SEP] \U0001f642", "many " * 40]
    answer = without_keras.ask(saved_model, {"text": texts})
    expected = task.predict(model, texts)
    np.testing.assert_allclose(
        answer["probabilities"], [one["probabilities"] for one in expected], atol=1e-5
    )


def test_a_stock_server_links_every_kernel_of_an_exported_encoder(saved_model):
    assert any("stock server links" in line for line in serve_check(saved_model, repetitions=1))


@pytest.mark.long
def test_onnx_takes_the_ids_that_the_model_reads(encoder_run, tmp_path, trained):
    pytest.importorskip("tf2onnx")
    folder = RunFolder.open(encoder_run, finished=True)
    task, _ = trained
    made = convert(folder, folder.task(""), tmp_path, "onnx")
    assert made.difference < 1e-4
    about = json.loads((made.path / "about.json").read_text())
    (ids,) = about["example_ids"].values()
    assert ids == task.tokenize([task.example]).inputs["ids"][0].tolist()
    assert ids[0] == START and ids[-1] == END


@pytest.mark.parametrize("name", ["pairs", "rank"])
def test_two_texts_are_one_sequence_with_segments(name, encoder_folder, request):
    data = request.getfixturevalue(f"{name}_data")
    task = prepared(tiny_encoder.make(data, name, encoder_folder))
    tokens = task.tokenize(["the cat\ta DOG ran"]).tokens["ids"][0]
    assert " ".join(tokens) == "[CLS] the cat [SEP] a dog ran [SEP]"
    model = task.build_model()
    special = ["[CLS]", "[SEP]", "[SEP]"]  # a server's warm-up needs their number
    assert task.serving_signature(model).joined == len(special)
    backbone = _recorded(model.encoder)
    ids = task.tokenize(["the cat\ta dog", "the\told owl saw"]).inputs["ids"]
    model(ids)
    seen = backbone["inputs"]
    assert np.array(seen["segment_ids"]).tolist()[0][:7] == [0, 0, 0, 0, 1, 1, 1]
    assert np.array(seen["padding_mask"]).tolist() == (ids != 0).astype(int).tolist()


def test_the_means_of_two_texts_are_compared(encoder_folder, pairs_data):
    task = prepared(tiny_encoder.make(pairs_data, "pairs", encoder_folder))
    assert json.loads(task.assets()["encoder.json"])["compares"]
    model = task.build_model()
    ids = task.tokenize(["the cat\ta dog ran", "\told", "\t"]).inputs["ids"]
    with_no_end = np.array([[START, 7, 8]], "int32")  # a second text without positions
    for given in (ids, with_no_end):
        ends = np.cumsum(given == END, axis=1) - (given == END)
        real, second = given != 0, ends > 0
        inputs = {"token_ids": given, "padding_mask": real, "segment_ids": np.minimum(ends, 1)}
        states = np.array(model.encoder({name: inputs[name] for name in model.encoder.input}))
        x = np.asarray(states, "float64")
        means = [
            (x * shown[..., None]).sum(axis=1) / np.maximum(1, shown.sum(axis=1))[:, None]
            for shown in (real, real & ~second, real & second)
        ]
        mean, a, b = (
            4.0 * one / np.maximum(1e-9, np.linalg.norm(one, axis=1))[:, None] for one in means
        )
        kernel, bias = (np.array(one) for one in model.get_layer("logits").weights)
        expected = np.concatenate([mean, abs(a - b), a * b], axis=1) @ kernel + bias
        np.testing.assert_allclose(model(given), expected, atol=1e-5)


def _recorded(encoder):
    """Record the arguments of an encoder's calls."""
    seen: dict[str, Any] = {}
    call = encoder.call

    def recording(inputs, **options):
        seen["inputs"] = inputs
        return call(inputs, **options)

    encoder.call = recording
    return seen


@pytest.mark.long
@pytest.mark.parametrize("name", ["pairs", "rank"])
def test_pairs_and_rankings_train_answer_and_export(name, encoder_folder, request, tmp_path):
    data = request.getfixturevalue(f"{name}_data")
    steps = {"training__steps": 2, "training__checkpoint_every": 1}
    task = tiny_encoder.make(data, name, encoder_folder, **steps)
    with eagerly():
        folder = train(task, tmp_path / "run", progress=False)
    model = folder.load_model()
    assert 0 <= task.evaluate(model, limit=20)[task.figure] <= 1
    text = "\t".join(["the cat", "a cat", "the dog"][: 3 if name == "rank" else 2])
    (answer,) = task.predict(model, [text])
    assert answer["input"] == text
    # An export compares the answers itself.
    compiled = export(folder, folder.task(""), tmp_path / "compiled", compiled=True)
    lines = serve_check(compiled, repetitions=1)  # at every length
    assert any("gave the recorded answers" in line for line in lines)
    if name == "pairs":
        path = export(folder, folder.task(""), tmp_path / "saved")
        asked = without_keras.ask(path, {"first": ["the cat", ""], "second": ["a cat", "dog"]})
        np.testing.assert_allclose(asked["probabilities"][0], answer["probabilities"], atol=1e-5)


@pytest.mark.parametrize("present", [[0, 1], [0, 2, 3], [2]])
def test_the_linear_layer_starts_as_the_regression_of_the_classes_that_have_examples(present):
    from sklearn.linear_model import LogisticRegression

    random = np.random.default_rng(0)
    x, labels = random.normal(size=(90, 5)), random.choice(present, 90)
    x[:, 0] += labels
    layer = keras.layers.Dense(4, name="logits")
    model = keras.Sequential([keras.Input((5,)), layer])
    before = np.array(layer.kernel)
    start_logits(model, 1e-3 * x, labels, balanced=True)
    if len(present) == 1:
        np.testing.assert_array_equal(layer.kernel, before)
        return
    scaled = x / np.sqrt(np.mean(x**2))
    fitted = LogisticRegression(C=1e-3, class_weight="balanced").fit(scaled, labels)
    probabilities = np.array(keras.ops.softmax(model(1e-3 * x)))[:, present]
    expected = fitted.predict_proba(scaled)
    np.testing.assert_allclose(
        probabilities / probabilities.sum(axis=1, keepdims=True), expected, atol=1e-4
    )
    absent = np.delete(np.array(model(1e-3 * x)), present, axis=1)
    np.testing.assert_array_equal(absent, np.full_like(absent, np.min(layer.bias)))


def test_a_run_on_pairs_that_compared_no_means_stays_as_it_is(encoder_folder, pairs_data, tmp_path):
    task = prepared(tiny_encoder.make(pairs_data, "pairs", encoder_folder))
    for name, content in task.assets().items():
        if name == "encoder.json":
            content = json.dumps({**json.loads(content), "compares": None})
            content = content.replace(', "compares": null', "").encode()
        (tmp_path / name).write_bytes(content)
    task.read_assets(tmp_path)
    assert task.build_model().get_layer("logits").kernel.shape == (16, 2)


def test_of_two_texts_the_longer_loses_its_end_first():
    tokenizer = EncoderTokenizer(tiny_encoder.VOCABULARY, lowercase=True)
    for first, second, length in ((3, 9, 10), (9, 3, 10), (9, 9, 11), (0, 0, 10), (1, 20, 8)):
        sides = [tf.fill((2, max(count, 1)), 7 if count else 0) for count in (first, second)]
        packed = pack(tokenizer, sides, length).numpy()
        room = length - 3
        ends = np.flatnonzero(packed[0] == END)
        kept = (ends[0] - 1, ends[1] - ends[0] - 1)
        assert sum(kept) == min(first + second, room)
        assert (kept[0] == first or kept[0] >= room // 2) and kept[1] <= second
        assert kept[1] == second or kept[1] >= room // 2
        assert packed[0, 0] == START and packed.shape[1] <= length


def test_padding_to_a_multiple_stays_within_the_positions_of_the_encoder():
    """40 positions and a multiple of 24 made 48 ids, and the encoder failed."""
    tokenizer = EncoderTokenizer(tiny_encoder.VOCABULARY, lowercase=True)
    for count, multiple, padded in ((10, 24, 24), (30, 24, 40), (60, 24, 40), (10, 100, 40)):
        packed = pack(tokenizer, [tf.fill((2, count), 7)], 40, multiple).numpy()
        assert packed.shape == (2, padded)
        assert np.count_nonzero(packed[0]) == min(count + 2, 40)


def test_the_length_is_that_of_nearly_all_training_texts(encoder_folder, texts_data):
    lengths = {}
    for share in (0.5, 0.99, 1.0):
        task = prepared(
            tiny_encoder.make(texts_data, "classify", encoder_folder, model__length_quantile=share)
        )
        lengths[share] = task.encoder.length  # type: ignore[attr-defined]
    assert lengths[0.5] < lengths[0.99] <= lengths[1.0] == 16  # 14 tokens, [CLS] and [SEP]
    long = prepared(tiny_encoder.make(texts_data, "classify", encoder_folder, data__max_length=12))
    (tokens,) = long.tokenize(["who " * 30]).tokens["ids"]
    assert len(tokens) == 12 and tokens[-1] == "[SEP]"


@pytest.mark.long
@pytest.mark.parametrize("family", [one for one in tiny_encoder.FAMILIES if one != "BertBackbone"])
def test_families_train_save_and_convert(family, texts_data, tmp_path):
    """DistilBERT has an exact GELU, for which ONNX files were invalid."""
    pytest.importorskip("keras_hub")
    pytest.importorskip("tf2onnx")
    place = tiny_encoder.write(tmp_path / "place", family)
    task = tiny_encoder.make(
        texts_data, "classify", place, training__steps=2, training__checkpoint_every=1
    )
    with eagerly():
        folder = train(task, tmp_path / "run", progress=False)
    (answer,) = task.predict(folder.load_model(), [tiny_texts.rows(1)[0][0]])
    assert np.isfinite(answer["probabilities"]).all()
    assert convert(folder, folder.task(""), tmp_path, "onnx").difference < 1e-4


@pytest.mark.long
def test_it_trains_and_exports_in_mixed_precision_and_with_accumulated_batches(
    encoder_folder, texts_data, tmp_path
):
    task = tiny_encoder.make(
        *(texts_data, "classify", encoder_folder),
        training__accumulate=2,
        training__steps=4,
        training__checkpoint_every=2,
    )
    folder = train(task, tmp_path / "run", policy="mixed_bfloat16", progress=False)
    model = folder.load_model()
    assert model.encoder.layers[-1].compute_dtype == "bfloat16"
    assert {one.dtype for one in model.weights} == {"float32"}
    path = export(folder, folder.task(""), tmp_path / "saved")
    answer = without_keras.ask(path, {"text": ["who is it"]})
    (expected,) = folder.task("").predict(model, ["who is it"])
    np.testing.assert_allclose(answer["probabilities"][0], expected["probabilities"], atol=1e-2)


def test_another_attention_starts_unchanged_or_from_the_projections(start):
    ids = np.random.default_rng(0).integers(6, 40, (3, 9))
    logits = {}
    for one in (("softmax", "unchanged"), ("coda", "unchanged"), ("coda", "projections")):
        _, model = start(model__attention=one[0], model__attention_start=one[1])
        kernel = model.layers[-1].kernel  # not pretrained
        kernel.assign(np.random.default_rng(1).normal(size=kernel.shape))
        logits[one] = np.asarray(model(ids))
    plain = logits["softmax", "unchanged"]
    np.testing.assert_allclose(logits["coda", "unchanged"], plain, atol=1e-6)
    assert np.abs(logits["coda", "projections"] - plain).max() > 1e-3


@pytest.mark.long
def test_an_encoder_with_gates_could_not_be_exported(make, tmp_path):
    """Its graph updated the metrics of the gates, which it has not."""
    task, model = built(make(model__attention="gated"))
    signature = task.serving_signature(model)
    loaded = _write(signature, model, tmp_path / "saved")
    (first, *_) = _ask(loaded, signature, task.example)
    expected = task.predict(model, [task.example])[0]["probabilities"]
    np.testing.assert_allclose(first.answer["probabilities"][0], expected, atol=1e-5)


def _weights(model):
    return {one.path: np.array(one) for one in model.weights}


def _changed(before, after):
    return {name for name in before if not np.array_equal(before[name], after[name])}


def _steps(task, model, count):
    optimizer = made_optimizer(task.options.training, None, 1, task.rate_factors(model))
    model.compile(optimizer, task.loss(), run_eagerly=True)
    model.fit(task.training_data(0), steps_per_epoch=count, epochs=1, verbose=0)


def test_the_dense_layer_was_fitted_to_an_attention_that_was_not_yet_calibrated(make, monkeypatch):
    task, model = built(
        make(
            model__attention="coda",
            model__attention_start="projections",
            model__attention_options={"scaling": "calibrated"},
        )
    )

    def scales():
        return [w.numpy() for w in model.weights if w.name in ("alpha_scale", "beta_scale")]

    before, fitted = scales(), []
    monkeypatch.setattr(
        encoder_reading, "start_logits", lambda *arguments, **options: fitted.append(scales())
    )
    task.initialize(model)
    calibrate_attention(model, next(iter(task.training_data(0)))[0])  # as the trainer does
    assert len(before) == 4
    for one, seen, last in zip(before, *fitted, scales(), strict=True):
        assert np.abs(one - last).max() > 1e-3
        np.testing.assert_allclose(seen, last, rtol=1e-4)


def test_frozen_layers_are_the_lowest(make):
    words = {"embedding": 1, "transformer_layer_0": 2, "transformer_layer_1": 3, "logits": 4}
    for frozen in range(4):
        _, model = built(make(model__frozen_layers=frozen))
        trains = {one.path for one in model.trainable_weights}
        for one in model.weights:
            (level,) = {level for word, level in words.items() if one.path.startswith(word)} or {1}
            assert (one.path in trains) == (level > frozen), (frozen, one.path)


def test_lora_changes_queries_and_values_alone_and_a_file_has_the_sum(start, tmp_path):
    task, model = start(model__lora_rank=2)
    ids = task.tokenize(["who was it", "where did he go"]).inputs["ids"]
    before = _weights(model)
    _steps(task, model, 2)
    changed = _changed(before, _weights(model))
    adapted = {name for name in before if "lora" in name}
    # Two factors of queries and values in two layers; Keras trains their biases, too.
    biases = {f"{name.rpartition('/')[0]}/bias" for name in adapted}
    assert len(adapted) == 8 and len(biases) == 4
    assert changed == adapted | biases | {name for name in before if name.startswith("logits")}
    loaded = reloaded(model, tmp_path, compile=False)
    np.testing.assert_allclose(loaded(ids), model(ids), atol=1e-5)
    assert not any("lora" in one.path for one in loaded.weights)


def test_another_attention_comes_in_under_lora_too(start):
    """Its factors start at 0, and would stay there if they were frozen with the encoder."""
    task, model = start(model__attention="gated", model__lora_rank=2)
    before = _weights(model)
    _steps(task, model, 3)  # its own weights have no gradient until the factors are not 0
    for ending in ("/factor", "/gate_kernel"):
        own = {name for name in before if name.endswith(ending)}
        assert len(own) == 2 and own <= _changed(before, _weights(model))


def test_after_a_call_that_failed_a_second_one_built_another_model(make):
    task = make(data__max_length=41)
    for _ in range(2):
        with pytest.raises(UserError, match="data.max_length is 41: it must be from 3 to 40"):
            task.prepare()


def test_a_run_from_before_an_entry_existed_could_not_be_resumed(make, encoder_run, tmp_path):
    """Its file is compared with the data, and lacks the entry."""
    task, folder = make(), RunFolder(tmp_path, {})
    folder.require_same_data = lambda _: None
    kept = json.loads((encoder_run / "encoder.json").read_text())
    del kept["compares"]
    for name in ("vocabulary.txt", "classes.json"):
        shutil.copy(encoder_run / name, tmp_path)
    (tmp_path / "encoder.json").write_text(json.dumps(kept))
    task.resume(tmp_path)
    assert task.assets()["encoder.json"] == (tmp_path / "encoder.json").read_bytes()


@pytest.mark.parametrize("attention", ["softmax", "coda"])  # those of CoDA had one rate for all
def test_rates_fall_from_layer_to_layer(attention, make):
    task, model = built(
        make(
            model__attention=attention,
            model__layer_decay=0.5,
            training__batch_size=4,
            training__epsilon=1e-12,
        )
    )
    factors = task.rate_factors(model)
    for number, factor in enumerate((0.25, 0.5)):
        layer = model.encoder.get_layer(f"transformer_layer_{number}")
        assert {factors[one.path] for one in layer.weights} == {factor}
    embedding = next(one for one in factors if "token_embedding" in one)
    assert factors[embedding] == 0.125
    before = _weights(model)
    _steps(task, model, 1)
    # Adam's first update is the learning rate for every number with a gradient. It is more for rows
    # of a table, because Keras squares the gradient of each occurrence; a key's bias has none.
    steps = {name: np.abs(one - before[name]).max() for name, one in _weights(model).items()}
    rate = task.options.training.learning_rate
    for name in (one for one in steps if not one.endswith(("embeddings", "key/bias"))):
        step = steps[name]
        assert step == pytest.approx(rate * factors.get(name, 1.0), rel=1e-3), name


def test_weights_of_lora_all_had_the_same_rate(make):
    task, model = built(make(model__layer_decay=0.5, model__lora_rank=2))
    factors = task.rate_factors(model)
    assert factors.keys() == {one.path for one in model.encoder.trainable_weights}
    expected = {"transformer_layer_0": 0.25, "transformer_layer_1": 0.5}
    for name, factor in factors.items():
        assert factor == expected[name.partition("/")[0]]


def test_factors_of_an_added_attention_had_the_small_rate_of_the_encoder(start):
    """They start at 0 and stayed below .003 on TREC, so every attention gave the same model."""
    task, model = start(
        model__attention="coda",
        model__factor_rate=0.01,
        model__layer_decay=0.5,
        training__learning_rate=1e-4,
        training__epsilon=1e-12,
    )
    _steps(task, model, 1)
    factors = {name: one for name, one in _weights(model).items() if name.endswith("/factor")}
    assert len(factors) == 2
    for factor in factors.values():  # Adam's first update is the learning rate
        np.testing.assert_allclose(np.abs(factor), 0.01, rtol=1e-2)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"model__factor_rate": 0.0}, "model.factor_rate is 0.0: it must be above 0 and finite"),
        ({"data__tokenizer": "pieces"}, "data.tokenizer is 'pieces': an encoder has its own"),
        ({"data__min_count": 5}, "data.min_count is 5: an encoder has its own vocabulary"),
        ({"data__vectors": "x.txt"}, "cannot start with word vectors"),
        ({"model__layer_decay": 0.0}, "model.layer_decay is 0.0: it must be above 0"),
        ({"model__attention_start": "blnd"}, "unknown model.attention_start .*mean .blend"),
        ({"model__length_quantile": 1.5}, "model.length_quantile is 1.5: it must be above 0"),
        # Keras' layer in the encoder was the first to refuse it, as its `rate`.
        ({"model__dropout": -0.1}, "model.dropout is -0.1: it must be at least 0 and below 1"),
        ({"model__dropout": 1.0}, "model.dropout is 1.0: it must be at least 0 and below 1"),
    ],
)
def test_options_that_an_encoder_has_not_are_refused(changed, said, texts_data):
    with pytest.raises(UserError, match=said):
        tiny_encoder.make(texts_data, "classify", "place", **changed)


def test_the_summary_counted_cut_texts_as_if_the_two_were_not_cut_together(
    encoder_folder, pairs_data
):
    task = prepared(tiny_encoder.make(pairs_data, "pairs", encoder_folder, data__max_length=12))
    train = task._data.splits["train"]
    counts = [
        len(a.split()) + len(b.split()) + 3 for a, b in zip(train.first, train.second, strict=True)
    ]
    cut = sum(count > 12 for count in counts)
    assert cut and max(len(text.split()) for text in [*train.first, *train.second]) <= 12 - 3
    said = f"cut after 12 (data.max_length): {cut} ({cut / len(counts):.1%})"
    assert [said in line for line in task.remarks()].count(True) == 1
    assert f", {max(counts)} at most; {said}" in task.remarks()[-1]


def test_an_encoder_with_fewer_positions_than_the_default_was_refused(tmp_path, encoder_folder):
    file = tiny_texts.write(tmp_path / "a.tsv", [*tiny_texts.rows(8), ("old city " * 50, "LOC")])
    given = {"data.train": str(file), "data.validation": str(file)}
    given |= {"model.encoder": str(encoder_folder), "model.length_quantile": 1.0}
    task = tiny.make("classify", "encoder", tmp_path, given)
    for one in (task, task.from_config(task.config(), tmp_path)):  # the second for `tune`
        one.prepare()
        assert one.encoder.length == 40
        assert one.remarks()[2].endswith("cut after 38 (the encoder's positions): 1 (11.1%)")
        assert "data.max_length is 256, and the encoder has 40 positions: it" in one.remarks()[-1]


@pytest.mark.parametrize("name", ["pairs", "rank"])
def test_own_pairs_gave_an_encoder_the_dropout_of_smaller_networks(name):
    """With dropout, the means of two texts differ by chance."""
    for preset in get(name).presets.values():
        assert preset.for_model("encoder")["model.dropout"] == 0.0


@pytest.mark.parametrize("name", ["pairs", "rank"])
def test_compare_gave_coda_in_an_encoder_the_options_of_other_models(name, tmp_path):
    """They leave E and N unscaled, as with projections of word vectors: all gates are closed."""
    task = tiny.make(name, "encoder", tmp_path, {"model.encoder": "place"})
    assert task.attention_defaults == {}
    assert tiny.make(name, "decomposable", tmp_path, {}).attention_defaults != {}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"data__max_length": 41}, "data.max_length is 41: it must be from 3 to 40, the positions"),
        ({"model__frozen_layers": 4}, "model.frozen_layers is 4: it must be from 0 to 3"),
        ({"model__attention": "codo"}, "codo"),
        ({"model__lora_rank": -1}, "model.lora_rank is -1: it must be from 0 to 16, the"),
        # A product of matrices has no higher rank than the width: more would only take memory.
        ({"model__lora_rank": 17}, "model.lora_rank is 17: it must be from 0 to 16, the"),
        (
            {"model__lora_rank": 2, "model__frozen_layers": 3},
            "model.lora_rank is 2, but model.frozen_layers is 3, which leaves no layer to train",
        ),
    ],
)
def test_options_that_this_encoder_has_not_are_refused(changed, said, texts_data, encoder_folder):
    task = tiny_encoder.make(texts_data, "classify", encoder_folder, **changed)
    with pytest.raises(UserError, match=said):
        task.prepare()
        task.build_model()
