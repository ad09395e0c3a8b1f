import unicodedata
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny
import tiny_sequences
from tiny import built, prepared
from tools import long_except

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks import sequence_presets
from keras_quasiattn.lab.training import RunFolder, train
from keras_quasiattn.metrics import bleu

LONG = "dog " * 10_000
SOURCES = [source for source, _ in tiny_sequences.sentences(20, seed=2)]
TARGETS = [target for _, target in tiny_sequences.sentences(20, seed=2)]


@pytest.fixture(scope="module")
def folder(sequences_data):
    return sequences_data


@pytest.fixture(scope="module")
def run(folder, shared):
    """Return a finished run; read-only."""
    return (
        shared(
            "translate",
            lambda place: train(tiny_sequences.make(folder), place / "run", progress=False),
        )
        / "run"
    )


@pytest.fixture(scope="module")
def trained(run, folder):
    """Return task and model as in another process, which has the run but not the data."""
    opened = RunFolder.open(run, finished=True)
    return opened.task("elsewhere"), opened.load_model()


def test_translation_is_learned_and_measured(trained, folder):
    task, model = trained
    figures = task.evaluate(model)
    answers = [row["answer"] for row in task.predict(model, SOURCES)]
    right = np.mean([a == b for a, b in zip(answers, TARGETS, strict=True)])
    assert figures["sequence_accuracy"] == right > 0.5
    assert {name: figures[name] for name in bleu(answers, TARGETS)} == bleu(answers, TARGETS)
    assert "tok:13a" in str(figures["signature"]) and figures["examples"] == 20
    # Per token, and per word with an end for each sentence.
    source, target = task.tokenizer.tokenize(SOURCES), task.tokenizer.tokenize(TARGETS)
    shifted = tf.concat([tf.ones((20, 1), tf.int32), target[:, :-1]], axis=1)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        target, model({"source": source, "target": shifted})
    )
    total = losses.numpy()[target.numpy() != 0].sum()
    assert figures["perplexity"] == pytest.approx(
        np.exp(total / np.count_nonzero(target)), rel=1e-4
    )
    words = sum(len(target.split()) + 1 for target in TARGETS)
    assert figures["word_perplexity"] == pytest.approx(np.exp(total / words), rel=1e-4)


@pytest.mark.long
def test_new_lengths_trace_nothing_again(folder, monkeypatch):
    """So memory does not grow with the number of different lengths in training."""
    task, model = built(tiny_sequences.make(folder, training__jit_compile=False))
    model.compile("adam", task.loss(), metrics=task.metrics(), jit_compile=False)
    step, traced = model.train_step, []
    monkeypatch.setattr(model, "train_step", lambda data: traced.append(data) or step(data))
    data = task.training_data(0).take(30)
    model.fit(data.take(1), verbose=0)
    before = len(traced)  # TensorFlow traces twice where variables are created
    model.fit(data, verbose=0)
    assert len({batch[0]["source"].shape[1] for batch in data}) > 1
    assert len(traced) == before


def test_a_run_keeps_its_figures_by_loss(run):
    rows = RunFolder.open(run).history()
    assert rows[-1]["val_perplexity"] < rows[0]["val_perplexity"] < 320
    assert RunFolder.open(run).metrics()["validation"]["loss"] == pytest.approx(
        min(r["val_loss"] for r in rows)
    )


def test_predict_is_the_served_function_and_a_batch_its_items(trained):
    task, model = trained
    texts = [*SOURCES[:3], "dog", "a a a a a a a a a"]
    rows = task.predict(model, texts)
    signature = task.serving_signature(model)
    function, (spec,), resources = (
        signature.function,
        signature.input_signature,
        signature.resources,
    )
    assert (spec.name, spec.shape.as_list(), resources) == ("text", [None], [])
    served = {name: value.numpy() for name, value in function(tf.constant(texts)).items()}
    assert [row["answer"].encode() for row in rows] == served["answer"].tolist()
    for row, text in zip(rows, texts, strict=True):
        (alone,) = task.predict(model, [text])
        assert alone["answer"] == row["answer"]
        assert (row["log_probability"], row["score"]) == pytest.approx(
            (alone["log_probability"], alone["score"]), abs=1e-5
        )
    tokens = int(tf.math.count_nonzero(task.tokenizer.tokenize([rows[0]["answer"]])))
    assert rows[0]["score"] == pytest.approx(rows[0]["log_probability"] / ((5 + tokens) / 6) ** 0.6)
    assert task.predict(model, []) == []


@pytest.mark.parametrize("model", long_except(["transformer", "seq2seq_coda"], "transformer"))
def test_an_answer_is_explained_by_a_weight_a_pair_of_pieces(model, trained, folder, run):
    task, network = trained
    if model != "transformer":
        task = tiny_sequences.make(folder, model=model)
        task.read_assets(run)
        network = task.build_model()
    (row,) = task.explain(network, ["a dog runs"])
    assert {name: row[name] for name in ("answer", "score")} == {
        name: task.predict(network, ["a dog runs"])[0][name] for name in ("answer", "score")
    }
    assert row["source_pieces"][-1] == "</s>"
    assert "".join(row["source_pieces"][:-1]) == "▁a▁dog▁runs"
    weights = np.array(row["weights"])
    assert weights.shape == (len(row["answer_pieces"]), len(row["source_pieces"]))
    if model == "seq2seq_coda":
        assert (np.abs(weights) <= 1).all() and weights.min() < 0
    else:
        np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-5)


def test_without_attention_nothing_is_explained(folder):
    with pytest.raises(UserError, match="model seq2seq has no attention to show"):
        tiny_sequences.make(folder, model="seq2seq").explain(keras.Model(), ["a"])


@pytest.mark.parametrize("text", ["", " \t\n", "\N{NO-BREAK SPACE}"])
def test_an_empty_text_is_one_line(text, trained):
    task, model = trained
    with pytest.raises(UserError, match="is empty: expected one such as 'any text'") as caught:
        task.predict(model, ["dog", text])
    assert len(str(caught.value).splitlines()) == 1


def test_ten_thousand_words_are_one_line_and_lose_their_tail_when_served(trained):
    task, model = trained
    with pytest.raises(
        UserError, match=r"the text 'dog .*'... has 10001 tokens; data.max_length allows 12"
    ) as caught:
        task.predict(model, [LONG])
    assert len(str(caught.value)) < 200
    served = task.serving_signature(model).function(
        tf.constant([LONG, "dog " * 11, "", b"\xff\xfe"])
    )
    assert np.isfinite(served["score"].numpy()).all()
    assert served["answer"].numpy()[0] == served["answer"].numpy()[1]


def test_any_script_has_an_answer(trained):
    task, model = trained
    texts = ["犬が", "كلب", "\U0001f415", "\udcff", "dog \x00 dog"]
    for row in task.predict(model, texts):
        assert np.isfinite([row["log_probability"], row["score"]]).all()
        assert isinstance(row["answer"], str)


@pytest.mark.parametrize(
    "model", long_except(sequence_presets.MODELS, "transformer_coda", "seq2seq_attention")
)
def test_every_model_is_made_and_its_batches_fit(model, folder):
    task, network = built(tiny_sequences.make(folder, model=model))
    inputs, target, weights = next(iter(task.training_data(0)))
    assert np.isfinite(task.loss()(target, network(inputs), weights))
    names = {type(layer).__name__ for layer in network._flatten_layers()}
    assert ("MultiHeadCoDA" in names) == (model in ("transformer_coda", "universal_coda"))
    assert ("DotAttention" in names) == (model in ("seq2seq_attention", "seq2seq_coda"))
    assert ("Bidirectional" in names) == (model in ("seq2seq_attention", "seq2seq_coda"))


def test_the_compositions_of_the_papers_table_reach_the_model(folder, run):
    changed = {"model__attention_options": {"similarity": "sigmoid", "gate": "algebraic"}}
    task = tiny_sequences.make(folder, model="transformer_coda", **changed)
    task.read_assets(run)
    options = task.build_model().get_config()["attention_options"]
    assert (options["similarity"], options["gate"]) == ("sigmoid", "algebraic")
    adaptive = tiny_sequences.make(folder, model="universal", model__adaptive=True)
    adaptive.read_assets(run)
    assert adaptive.build_model().adaptive


def test_batches_are_of_few_shapes_and_follow_from_seed_and_step(folder):
    task = prepared(tiny_sequences.make(folder))
    taken = [inputs["source"].numpy() for inputs, _, _ in task.training_data(0).take(12)]
    again = [inputs["source"].numpy() for inputs, _, _ in task.training_data(9).take(3)]
    assert all(np.array_equal(*pair) for pair in zip(taken[9:], again, strict=True))
    assert len({ids.shape for ids in taken}) <= 6
    assert all(ids.size <= 128 and ids.shape[0] % 2 == ids.shape[1] % 4 == 0 for ids in taken)
    assert sum(len(target) for _, target, _ in task.validation_data()) == 20


def test_training_pairs_that_are_too_long_are_left_out_and_said(folder):
    task = prepared(tiny_sequences.make(folder, data__max_length=4))
    kept = len(task._data.splits["train"])
    assert 0 < kept < 300
    note = f"{300 - kept} training pairs of more than 4 tokens left out"
    assert task.describe_data()["note"] == note
    assert max(inputs["source"].shape[1] for inputs, _, _ in task.validation_data()) == 4


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"data__max_length": 1}, "data.max_length is 1: it must be at least 2"),
        ({"model__beam_width": 0}, "model.beam_width is 0: it must be at least 1"),
        ({"model__length_penalty": -1.0}, "model.length_penalty is -1.0: it must be at least 0"),
        ({"model__units": 3}, "unknown option 'model.units'"),
    ],
)
def test_bad_options_are_one_line(changed, message, folder):
    with pytest.raises(UserError, match=message):
        tiny_sequences.make(folder, **changed)


def test_too_few_pairs_and_too_small_a_vocabulary_are_one_line(folder):
    with pytest.raises(
        UserError, match="data.row_multiple is 50: it must be at most 20, .* validation split"
    ):
        tiny_sequences.make(folder, data__row_multiple=50).prepare()
    with pytest.raises(UserError, match="no vocabulary of 9 pieces can be learned"):
        tiny_sequences.make(folder, data__vocabulary_size=9).prepare()


def test_damaged_pieces_are_one_line(run, tmp_path):
    task = RunFolder.open(run).task("elsewhere")
    (tmp_path / "pieces.model").write_bytes((run / "pieces.model").read_bytes()[:50])
    for place in (tmp_path, tmp_path / "missing"):
        task.__dict__.pop("tokenizer", None)
        with pytest.raises(UserError, match="is damaged: pieces.model cannot be read"):
            task.read_assets(place)


def test_a_corpus_is_read_in_both_directions(tmp_path):
    manual = tmp_path / "downloads" / "manual" / "multi30k"
    manual.mkdir(parents=True)
    for split in ("train", "val", "test_2016_flickr"):
        for language in ("en", "de"):
            (manual / f"{split}.{language}").write_text(f"{split} {language}\n\nlast {language}\n")

    def read(**languages):
        settings = {f"data.{side}": language for side, language in languages.items()}
        task = tiny.make("translate", "transformer", tmp_path, settings, preset="multi30k")
        return task._loaded

    whole, note = read()
    assert whole.splits["test"].source.tolist() == [b"test_2016_flickr en", b"last en"]
    assert note == "3 pairs with an empty side left out"
    back, _ = read(source="de", target="en")
    assert back.splits["train"].target.tolist() == whole.splits["train"].source.tolist()
    with pytest.raises(UserError, match=r"unknown language of parallel_corpus/multi30k/\S+ 'fr'"):
        read(target="fr")


def test_words_of_a_target_that_was_cut_do_not_count(folder):
    task = tiny_sequences.make(folder, data__max_length=6)
    task.prepare()
    short, long = b"ein Hund", b"ein Hund sieht ein Tier und ein Mann rennt und rennt und rennt"
    read = task._read(np.array([short, long], object))
    assert read[0] == short and long.startswith(read[1]) and 0 < len(read[1]) < len(long)


def test_references_that_are_not_composed_had_a_low_bleu(folder):
    task = tiny_sequences.make(folder)
    target = "Der schöne Hund läuft über die Straße"
    written = np.array([unicodedata.normalize("NFD", target).encode()], object)
    assert task._figures([target.encode()], SimpleNamespace(target=written))["bleu"] > 99
