import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny
import tiny_pairs
from tiny import built, prepared

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data import TextPairs
from keras_quasiattn.lab.tasks import pair_presets
from keras_quasiattn.lab.tasks.encoder_place import ENCODER
from keras_quasiattn.lab.training import RunFolder, train
from keras_quasiattn.lab.training.trainer import compile_for

PRESETS = {"pairs": pair_presets.PRESETS, "rank": pair_presets.RANK_PRESETS}
MODELS = {"pairs": pair_presets.MODELS, "rank": pair_presets.RANK_MODELS}
EVERY_MODEL = [
    pytest.param(
        task, model, marks=pytest.mark.long if task == "rank" and model in MODELS["pairs"] else []
    )
    for task, models in MODELS.items()
    for model in models
    if model != ENCODER  # test_encoder.py
]
# One model of each family. The models' own tests cover the others, and the runs below train in a
# graph.
FAMILIES = [
    ("pairs", "siamese_both"),
    pytest.param("pairs", "mixture", marks=pytest.mark.long),
    pytest.param("rank", "decomposable_coda", marks=pytest.mark.long),
    pytest.param("rank", "siamese_both", marks=pytest.mark.long),
]
SHORT = {"training__steps": 200, "training__checkpoint_every": 100, "training__learning_rate": 0.02}


@pytest.fixture(scope="module")
def folders(pairs_data, rank_data):
    return {"pairs": pairs_data, "rank": rank_data}


def _run(folders, shared, task, model):
    made = tiny_pairs.make(folders[task], task, model, **SHORT)
    place = shared(f"{task}-{model}", lambda place: train(made, place / "run", progress=False))
    return RunFolder.open(place / "run", finished=True)


def _trained(folders, shared, task, model):
    run = _run(folders, shared, task, model)
    again = prepared(run.task(folders[task]))
    return again, run.load_model()


@pytest.fixture(scope="module")
def pairs(folders, shared):
    return _trained(folders, shared, "pairs", "decomposable_coda")


@pytest.fixture(scope="module")
def rank(folders, shared):
    return _trained(folders, shared, "rank", "decomposable")


def test_pairs_are_learned_and_measured(pairs):
    task, model = pairs
    figures = task.evaluate(model)
    assert figures["accuracy"] > 0.9 and figures["pairs"] == 50
    rows = tiny_pairs.pairs(50, seed=2)
    answers = task.predict(model, [f"{first}\t{second}" for first, second, _ in rows])
    own = [
        answer["probabilities"][answer["classes"].index(label)]
        for answer, (_, _, label) in zip(answers, rows, strict=True)
    ]
    assert figures["cross_entropy"] == pytest.approx(-np.mean(np.log(own)), rel=1e-3, abs=1e-6)
    right = [answer["label"] == label for answer, (_, _, label) in zip(answers, rows, strict=True)]
    assert figures["accuracy"] == pytest.approx(np.mean(right))


def test_an_answer_has_both_texts_tokens_and_their_weights(pairs):
    task, model = pairs
    (answer,) = task.predict(model, ["The cat RAN\ta dog"])
    assert answer["first_tokens"] == ["[NULL]", "the", "cat", "ran"]
    assert answer["second_tokens"] == ["[NULL]", "a", "dog"]
    assert np.shape(answer["weights"]) == (4, 3)
    assert sum(answer["probabilities"]) == pytest.approx(1)


def test_any_pair_has_finite_probabilities(pairs):
    task, model = pairs
    texts = ["\t", "cat\t", "\tcat", "zzz\tqqq", "cat " * 10_000 + "\tdog", "\udcff\tcat"]
    for given in (*([text] for text in texts[:3]), texts):
        for text, answer in zip(given, task.predict(model, given), strict=True):
            task.check_input(text)
            assert np.isfinite(answer["probabilities"]).all()
            assert np.isfinite(answer["weights"]).all()


def test_candidates_are_ranked_and_measured(rank, folders):
    task, model = rank
    figures = task.evaluate(model)
    assert figures["map"] > 0.9 and figures["questions"] == 50 and figures["pairs"] == 200
    # With one right candidate per question, both are the mean of 1/rank.
    assert figures["map"] == pytest.approx(figures["mrr"])
    asked: dict[str, list[tuple[str, str]]] = {}
    for question, candidate, label in tiny_pairs.questions(50, seed=2):
        asked.setdefault(question, []).append((candidate, label))
    answers = task.predict(
        model,
        [
            "\t".join([question, *(candidate for candidate, _ in rows)])
            for question, rows in asked.items()
        ],
    )
    places = [
        answer["places"].index([label for _, label in rows].index("1")) + 1
        for answer, rows in zip(answers, asked.values(), strict=True)
    ]
    assert figures["mrr"] == pytest.approx(np.mean(1 / np.array(places)), abs=1e-6)
    assert figures["recall_at_1"] == pytest.approx(np.mean(np.array(places) == 1))
    assert figures["recall_at_2"] == pytest.approx(np.mean(np.array(places) <= 2))


def test_a_limit_cut_the_candidates_of_a_question(tmp_path):
    """A MAP of none, which is 0, ended a comparison with a traceback."""
    labels = {"a": "00", "b": "0001", "c": "11", "d": "010"}
    rows = [(q, f"{q} {c}", one) for q, right in labels.items() for c, one in enumerate(right)]
    for split in ("train", "validation", "test"):
        tiny_pairs.write(tmp_path / f"{split}.tsv", "question\tcandidate\tlabel", rows)
    for questions, limit, counts, pairs in [("positive", 1, 1, 4), ("both", 2, 2, 7)]:
        task = prepared(
            tiny_pairs.make(tmp_path, "rank", "decomposable", data__questions=questions)
        )
        measured = task.measure(task.build_model(), "test", limit)
        assert (measured.figures["questions"], measured.figures["pairs"]) == (counts, pairs)
        assert measured.figures["map"] > 0 and len(measured.judged) == counts
    assert task.texts("test", 1) == ["b\tb 0"]
    with pytest.raises(UserError, match="limit is 0"):
        task.measure(task.build_model(), "test", 0)


def test_a_ranking_has_no_figures_of_training_batches(rank, folders, shared):
    """Batches hold only some of a question's candidates; the history said that their MAP was 0."""
    task, _ = rank
    row = _run(folders, shared, "rank", "decomposable").history()[0]
    names = {metric.name for metric in task.metrics()}
    assert {name for name in row if name in names or name.startswith("val_")} == {
        "val_loss",
        *(f"val_{name}" for name in names),
    }


def test_an_answer_has_the_candidates_best_first(rank):
    task, model = rank
    (answer,) = task.predict(model, ["the cat\ta dog\tthe old cat\t\ta hen"])
    assert answer["ranked"][0] == "the old cat" and answer["places"][0] == 1
    assert answer["scores"] == sorted(answer["scores"], reverse=True)
    assert answer["ranked"][-1] == "" and answer["scores"][-1] == 0
    (one,) = task.predict(model, ["the cat\ta dog"])
    assert one["places"] == [0] and task.predict(model, []) == []


def test_candidates_of_a_sure_model_kept_their_order(rank):
    """In float32, the probability of every logit above 17 is 1."""
    task, _ = rank
    scores = {"dog": 20.0, "hen": 40.0, "cat": 30.0}
    ids = {word: task.tokenizer.vocabulary.index(word) for word in scores}

    def model(inputs, training):
        word = inputs["second"][:, -1]
        margin = sum(tf.where(word == ids[one], score, 0.0) for one, score in scores.items())
        return tf.stack([tf.zeros_like(margin), margin], axis=1)

    (answer,) = task.predict(model, ["who ?\tdog\then\tcat"])
    assert answer["ranked"] == ["hen", "cat", "dog"] and answer["scores"] == [1.0, 1.0, 1.0]
    chosen = TextPairs(
        *(np.array([one] * 3, object) for one in (b"who ?", b"")), np.array([0, 1, 0]), np.zeros(3)
    )
    logits = np.array([[0.0, 20], [0.0, 40], [0.0, 30]], "float32")
    assert [one.right for one in task._judged(chosen, logits)] == [True]


@pytest.mark.parametrize(
    ("task", "text"), [("pairs", "a"), ("pairs", "a\tb\tc"), ("rank", "a"), ("pairs", "")]
)
def test_inputs_that_are_no_pair(task, text, pairs, rank):
    made = {"pairs": pairs, "rank": rank}[task][0]
    with pytest.raises(
        UserError,
        match=r"number of texts in the input .*: [13], expected 2( or more)? "
        r"separated by tabs: \w+, \w+$",
    ):
        made.check_input(text)


@pytest.mark.parametrize(("task", "model"), EVERY_MODEL)
def test_every_model_is_made_and_its_batches_fit(task, model, folders):
    made = prepared(tiny_pairs.make(folders[task], task, model))
    inputs, target = next(iter(made.training_data(0)))
    assert np.isfinite(made.loss()(target, made.build_model()(inputs)))


@pytest.mark.parametrize(("task", "model"), FAMILIES)
@pytest.mark.usefixtures("eagerly")
def test_every_family_trains_a_step_and_answers(task, model, folders):
    made, network = built(tiny_pairs.make(folders[task], task, model, training__batch_size=30))
    compile_for(made, network, optimizer="adam")
    history = network.fit(
        made.training_data(0),
        validation_data=made.validation_data(),
        steps_per_epoch=2,
        epochs=1,
        verbose=0,
    ).history
    figures = made.evaluate(network, "validation")
    for name in ("map", "mrr") if task == "rank" else ("accuracy",):
        shown = history[f"val_{name}"][-1]
        # The pairs that fill up the last batch counted twice.
        assert shown == pytest.approx(figures[name], abs=1e-6)
    if task == "pairs":
        assert history["val_loss"][-1] == pytest.approx(figures["cross_entropy"], rel=1e-4)
    (answer,) = made.predict(network, ["the cat\ta dog"])
    values = answer["scores"] if task == "rank" else answer["probabilities"]
    assert np.isfinite(values).all()


def test_mixture_is_of_both_kinds_and_trains_as_told(folders):
    changed = {
        "model__objective": "elbo",
        "model__estimator": "reinforce",
        "model__intra_components": 1,
    }
    task = prepared(tiny_pairs.make(folders["pairs"], "pairs", "mixture", **changed))
    config = task.build_model().get_config()
    assert (config["objective"], config["estimator"]) == ("elbo", "reinforce")
    assert config["components"] == [{}, {}, {"intra_attention": True}]


def test_vectors_get_length_one_and_bring_words_that_training_never_saw(folders, tmp_path):
    (tmp_path / "glove.txt").write_text("cat 1 2 3 4 5 6 7 8\nzebra 8 0 0 0 0 0 0 0\n")
    vectors = {
        "data__vectors": str(tmp_path / "glove.txt"),
        "data__unit_norm": True,
        "model__train_embedding": False,
    }
    task = prepared(tiny_pairs.make(folders["pairs"], "pairs", "decomposable", **vectors))
    vocabulary = task.tokenizer.vocabulary
    table = keras.ops.convert_to_numpy(task.build_model().embedding.embeddings)
    assert table[vocabulary.index("zebra")].tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
    np.testing.assert_allclose(np.linalg.norm(table[1:], axis=1), 1, rtol=1e-5)
    assert not table[0].any() and "[NULL]" in vocabulary


def test_unknown_words_do_not_tell_which_replies_are_right(tmp_path):
    """Only a reply that is also drawn as a wrong one, here with "zork", is in several pairs."""
    rows = [("how", "try zork", "1"), ("why", "try zork", "0"), ("why", "try blip", "1")]
    for split in ("train", "validation", "test"):
        tiny_pairs.write(tmp_path / f"{split}.tsv", "question candidate label", rows)
    task = prepared(tiny_pairs.make(tmp_path, "rank", "decomposable", training__batch_size=3))
    assert set(task.tokenizer.vocabulary) == {"[PAD]", "[UNK]", "[NULL]", "try"}


def test_unknown_words_have_ids_and_vectors_of_their_own(folders, tmp_path):
    """Two unknown names with one id have distance 0, so CoDA's gate would treat them as equal."""
    (tmp_path / "glove.txt").write_text("cat 1 2 3 4 5 6 7 8\n")
    changed = {"data__vectors": str(tmp_path / "glove.txt"), "model__train_embedding": False}
    one, many = (
        tiny_pairs.make(folders["rank"], "rank", "decomposable_coda", **changed, **more)
        for more in ({}, {"data__unknown_ids": 20})
    )
    for task in (one, many):
        task.prepare()
    text = ["Ada Byron\tBob Byron"]  # after the null token
    assert all(ids[0, 1:].tolist() == [1, 1] for ids in one.tokenize(text).inputs.values())
    first, second = many.tokenize(text).inputs.values()
    assert first[0, 1] != second[0, 1] and first[0, 2] == second[0, 2]
    usual, table = (
        keras.ops.convert_to_numpy(task.build_model().embedding.embeddings) for task in (one, many)
    )
    np.testing.assert_array_equal(table[: len(usual)], usual)
    assert len(table) == len(usual) + 19
    np.testing.assert_allclose(np.linalg.norm(table[1:], axis=1), 1, rtol=1e-5)
    with pytest.raises(UserError, match=r"has vocabulary_size \d+ and vocabulary.txt gives \d+"):
        many.check_model(one.build_model())


def test_a_run_from_before_unknown_words_had_several_ids(folders):
    task = tiny_pairs.make(folders["rank"], "rank", "decomposable")
    config = task.config()
    del config["options"]["data.unknown_ids"]
    assert type(task).from_config(config, folders["rank"]).config() == task.config()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"validation": "0"}, "validation.tsv has no question that counts: .* the label 1$"),
        ({"test": "0"}, "test.tsv has no question that counts"),
        ({"train": "0"}, "train.tsv has no question that counts"),
        ({"test": "1", "questions": "both"}, "the label 1 and one with the label 0$"),
    ],
)
def test_questions_of_which_none_counts_are_refused(labels, message, tmp_path):
    for split in ("train", "validation", "test"):
        # Their MAP would be 0.
        rows = [(f"q{q}", f"c{c}", labels.get(split, "01"[c % 2])) for q in "ab" for c in (0, 1)]
        tiny_pairs.write(tmp_path / f"{split}.tsv", "question\tcandidate\tlabel", rows)
    questions = labels.get("questions", "positive")
    task = tiny_pairs.make(tmp_path, "rank", "decomposable", data__questions=questions)
    with pytest.raises(UserError, match=message):
        task.prepare()


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        (
            *("pairs", {"model__train_embedding": False}),
            "model.train_embedding is False and data.vectors is ''",
        ),
        ("rank", {"data__questions": "all"}, "unknown data.questions 'all'.*both, positive"),
    ],
)
def test_options_that_cannot_be(name, changed, message, folders):
    with pytest.raises(UserError, match=message):
        tiny_pairs.make(folders[name], name, "decomposable", **changed).prepare()


@pytest.mark.long
def test_published_files_are_read_from_the_manual_folder(tmp_path):
    columns = "question candidate label question_id"
    folder = tmp_path / "downloads" / "manual" / "wikiqa"
    folder.mkdir(parents=True)
    for seed, split in enumerate(["train", "dev", "test"]):
        made = [(*row, row[0].split()[-1]) for row in tiny_pairs.questions(20, seed)]
        tiny_pairs.write(folder / f"{split}.tsv", columns.replace("candidate", "sentence"), made)
    overrides = {"model.train_embedding": True, "training.batch_size": 8}
    task = tiny.make("rank", "decomposable", tmp_path, overrides, preset="wikiqa")
    task.prepare()
    assert task.describe_data() == {"version": "pair_corpus/wikiqa/1.0.0"}
    assert task.evaluate(task.build_model())["questions"] == 20
    _, target = next(iter(task.training_data(0)))
    assert target.shape == (8, 3) and set(target[:, 2].numpy()) == {-1}


def test_tokenized_texts_have_the_tokens_that_the_model_is_given(pairs):
    task, model = pairs
    text, *_ = task.texts("test", 3)
    assert text.count("\t") == 1
    texts = task.tokenize(["the cat saw\ta cat ran"])
    assert texts.tokens == {
        "first": [["[NULL]", "the", "cat", "saw"]],
        "second": [["[NULL]", "a", "cat", "ran"]],
    }
    assert [ids.shape for ids in texts.inputs.values()] == [(1, 4), (1, 4)]
    logits = keras.ops.convert_to_numpy(model(texts.argument))
    probabilities = task.predict(model, ["the cat saw\ta cat ran"])[0]["probabilities"]
    np.testing.assert_allclose(np.exp(logits) / np.exp(logits).sum(), [probabilities], atol=1e-5)


@pytest.mark.parametrize("name", ["pairs", "rank"])
def test_without_vectors_not_even_equal_words_aligned(name, folders):
    """Keras' initial vectors are so short that all dot products, and so all weights, are near 0."""
    task = prepared(tiny_pairs.make(folders[name], name, "decomposable"))
    table = task.build_model().embedding.embeddings.numpy()
    assert not table[0].any()
    np.testing.assert_allclose(np.linalg.norm(table[1:], axis=1), 1, rtol=1e-5)
    # Unknown words have separate ids, which align to themselves.
    assert task.options.data["unknown_ids"] == 100
    np.testing.assert_array_equal(table, task.build_model().embedding.embeddings.numpy())


@pytest.mark.parametrize("name", ["pairs", "rank"])
def test_presets_for_own_data_suit_both_tokenizers_and_vectors(name, tmp_path):
    def made(**overrides):
        changed = {f"data.{name}": value for name, value in overrides.items()}
        return tiny.make(name, "decomposable", tmp_path, changed)

    assert made(tokenizer="subwords").options.data["tokenizer"] == "subwords"
    assert made(tokenizer="subwords", unknown_ids=1).options.data["unknown_ids"] == 1
    with pytest.raises(UserError, match="data.unknown_ids is 7: ids of unknown words need a token"):
        made(tokenizer="subwords", unknown_ids=7)
    with_vectors = made(vectors="glove.txt").options
    assert not with_vectors.model["train_embedding"] and with_vectors.data["unknown_ids"] == 1


def test_an_embedding_of_subwords_that_never_learns_was_trained_silently(tmp_path):
    data = tiny_pairs.files(tmp_path, "pairs")
    frozen = {"data__tokenizer": "subwords", "model__train_embedding": False}
    task = tiny_pairs.make(data, "pairs", "decomposable", **frozen)
    with pytest.raises(UserError, match="data.vectors is '': set model.train_embedding"):
        task.prepare()


def test_answers_of_a_log_of_clicks_take_its_columns(tmp_path):
    log = tiny.make("pairs", "decomposable", tmp_path, {}, preset="click_log")
    assert log.input_columns == ("query", "question")
    assert tiny.make("pairs", "decomposable", tmp_path, {}).input_columns == ("first", "second")
