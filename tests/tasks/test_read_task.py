"""The task `read`, from files to answers with their positions."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tiny
import tiny_reading
import without_keras

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.training import RunFolder, train
from keras_quasiattn.serving import export

QUESTION = "Which bête?"
# Characters and words have several bytes; the passage is longer than two windows.
LONG = "🐈 «naïve» Ω\u0301… " * 9 + "the bête Éva, the cat Max. " + "日本 語! " * 9


@pytest.fixture(scope="module")
def folder(reading_data):
    return reading_data


@pytest.fixture(scope="module")
def prepared(folder):
    task = tiny.prepared(tiny_reading.make(folder, "attention_flow"))
    return task


def pointing_at(task, word):
    """Return a stand-in for a model, which points at a word wherever it occurs."""
    number = task.tokenizer.vocabulary.index(word)

    def logits(inputs, training):
        assert not training and inputs["passage"].shape[1:] == inputs["passage_forms"].shape[1:]
        found = tf.where(inputs["passage"] == number, 9.0, 0.0)
        return tf.stack([tf.where(inputs["passage"] == 0, -1e9, found)] * 2, axis=-1)

    return logits


def answers_of(task, word, *passages):
    (answer,) = task.predict(pointing_at(task, word), ["\t".join([QUESTION, *passages])])
    return answer


@pytest.mark.usefixtures("eagerly")
def test_places_point_into_the_string_itself(prepared):
    words = len(prepared.tokenizer.split(tf.constant([LONG]))[0])
    assert words > 3 * 20, "more than windows without a stride would hold"
    for passages, number in (
        (["Éva"], 0),
        ([LONG], 0),
        (["", LONG, "猫 Ян"], 1),
        (["日本", "x " * 90 + "ÉVA"], 1),
    ):
        answer = answers_of(prepared, "éva", *passages)
        passage = passages[number]
        start = passage.lower().index("éva")
        assert (answer["passage"], answer["start"], answer["end"]) == (number, start, start + 3)
        assert passage[start : start + 3] == answer["answer"] and 0 < answer["score"] <= 1
    assert answers_of(prepared, "éva", "Éva")["score"] == pytest.approx(1)
    # One word of four has the logit 9, the others 0.
    share = np.exp(9) / (np.exp(9) + 3)
    assert answers_of(prepared, "éva", "a b", "c Éva")["score"] == pytest.approx(share**2, rel=1e-4)


@pytest.mark.usefixtures("eagerly")
def test_an_answer_is_as_long_as_it_may_be(prepared):
    answer = answers_of(prepared, "éva", "Éva, Éva and Éva")
    assert answer["answer"] == "Éva"  # the shortest of equal ones
    answer = answers_of(prepared, "éva", "nobody")
    assert answer["answer"] == "nobody"


def test_thousands_of_passages(prepared):
    passages = [f"the cat {number}" for number in range(2000)]
    passages[1234] += " Éva"
    answer = answers_of(prepared, "éva", *passages)
    assert (answer["passage"], answer["start"], answer["answer"]) == (1234, 13, "Éva")


def test_passages_without_a_word_have_no_answer(prepared):
    answer = answers_of(prepared, "éva", "", " ")
    nothing = {"answer": "", "score": 0.0, "passage": 0, "start": 0, "end": 0}
    assert {name: answer[name] for name in nothing} == nothing


def test_figures_are_of_the_answers(prepared):
    rows = tiny_reading.records(40, seed=2)
    figures = prepared.evaluate(pointing_at(prepared, "éva"))
    right = np.mean([row["answers"] == ["Éva"] for row in rows])
    assert figures["questions"] == 40 and 0 < right < 1
    assert figures["exact_match"] == pytest.approx(right)
    assert prepared.evaluate(pointing_at(prepared, "éva"), limit=3)["questions"] == 3


@pytest.mark.usefixtures("eagerly")
def test_questions_without_an_answer_are_counted_and_measured(prepared, folder, tmp_path):
    for split in ("train", "validation", "test"):
        lines = (folder / f"{split}.jsonl").read_text(encoding="utf-8")
        impossible = {"question": "Why?", "answers": {"text": [], "answer_start": []}}
        made = [{**impossible, "context": context} for context in ("cow hen", " ")]
        lines += "".join(f"{json.dumps(row)}\n" for row in made)
        (tmp_path / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    task = tiny.prepared(tiny_reading.make(tmp_path, "attention_flow"))
    note = "2 training questions without their answer in the passage left out"
    assert task.describe_data()["note"] == note
    assert sum(int(tf.shape(batch[1])[0]) for batch in task.validation_data()) == 48  # 40, filled
    figures = task.evaluate(pointing_at(task, "éva"))
    before = prepared.evaluate(pointing_at(prepared, "éva"))
    assert (figures["questions"], figures["unanswerable"]) == (42, 2)
    assert "unanswerable" not in before
    # Of the two, the passage without a word has no answer.
    assert figures["exact_match"] * 42 == pytest.approx(before["exact_match"] * 40 + 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "Which cat?",
            "number of texts in the input 'Which cat.': 1, expected 2 or more "
            "separated by tabs: question, passage",
        ),
        (" \tthe cat", "the question of the input .* is empty"),
        ("Which big old white cat is it?\tthe cat", "has 8 words; the maximum is 6"),
    ],
)
def test_inputs_that_cannot_be_answered(text, message, prepared):
    with pytest.raises(UserError, match=message):
        prepared.check_input(text)


@pytest.mark.parametrize(
    "model", ["decaprop", pytest.param("decaprop_coda", marks=pytest.mark.long)]
)
def test_every_model_is_made_and_its_batches_fit(model, folder):
    changed = {
        "data__max_length": 9,
        "data__stride": 4,
        "data__train_length": 9,
        "data__length_multiple": 4,
    }
    changed |= {"model__num_layers": 1, "model__character_units": 2}
    task = tiny.prepared(tiny_reading.make(folder, model, **changed))
    inputs, target = next(iter(task.training_data(0)))
    assert inputs["passage"].shape[1] % 4 == 0 and inputs["passage_characters"].shape[2] == 8
    network = task.build_model()
    assert np.isfinite(task.loss()(target, network(inputs)))
    assert (network.get_config()["attention"] == "coda") == model.endswith("coda")


def test_targets_are_the_words_of_the_answer_in_the_window(folder):
    task = tiny.prepared(tiny_reading.make(folder, "attention_flow", data__train_length=5))
    inputs, target = next(iter(task.training_data(0)))
    vocabulary = task.tokenizer.vocabulary
    names = {name.lower() for name in tiny_reading.NAMES}
    for ids, (first, last, counts) in zip(inputs["passage"].numpy(), target.numpy(), strict=True):
        assert len(ids) == 5 and first == last and counts == 1
        assert vocabulary[ids[first]] in names
    counted = [int(y[:, 2].numpy().sum()) for _, y, _ in task.validation_data()]
    assert sum(counted) == 40 and len(counted) == 3


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"data__stride": 18}, "data.stride is 18: it must be at most 17"),
        ({"data__answer_length": 0}, "data.answer_length is 0: it must be at least 1"),
        ({"data__tokenizer": "words"}, "unknown data.tokenizer 'words'"),
        ({"training__label_smoothing": 0.1}, "training.label_smoothing is 0.1: task read"),
    ],
)
def test_options_that_do_not_go_together(changed, message, folder):
    with pytest.raises(UserError, match=message):
        tiny_reading.make(folder, "decaprop", **changed)


def test_a_share_of_the_passages_is_always_the_same(folder):
    whole, part = (
        tiny_reading.make(folder, "decaprop", data__train_share=share, training__batch_size=1)
        for share in (1.0, 0.3)
    )
    for task in (whole, part):
        task.prepare()
    assert "a part: " in part.describe_data()["note"]
    chosen = set(part._data.splits["train"].passages)
    assert 20 < len(chosen) < 100 and chosen < set(whole._data.splits["train"].passages)
    with pytest.raises(UserError, match=r"data.train_share is 0.0: it must be above 0"):
        tiny_reading.make(folder, "decaprop", data__train_share=0.0).prepare()


@pytest.mark.complete
def test_a_trained_run_and_its_export_answer_alike(folder, tmp_path):
    run = RunFolder.open(
        train(tiny_reading.make(folder, "attention_flow"), tmp_path / "run", progress=False).path,
        finished=True,
    )
    task, model = run.task(folder), run.load_model()
    task.prepare()
    figures = task.evaluate(model)
    assert figures["exact_match"] > 0.6 and figures["f1"] >= figures["exact_match"]
    path = export(run, task, tmp_path / "saved")
    passages = ["猫 Ян", LONG]
    codes = tf.strings.unicode_decode([QUESTION, *passages], "UTF-8")
    padded, lengths = codes.to_tensor().numpy(), codes.row_lengths().numpy().astype("int32")
    inputs = {
        "serving_default": {"question": [QUESTION, ""], "passages": [passages, ["", "x"]]},
        "token_ids": {
            "question_ids": padded[:1],
            "question_lengths": lengths[:1],
            "passages_ids": padded[None, 1:],
            "passages_lengths": lengths[None, 1:],
        },
    }
    (expected,) = task.predict(model, ["\t".join([QUESTION, *passages])])
    for name, given in inputs.items():
        answer = {key: values[0] for key, values in without_keras.ask(path, given, name).items()}
        answer["answer"] = answer["answer"].decode()
        assert passages[answer["passage"]][answer["start"] : answer["end"]] == answer["answer"]
        assert answer["answer"] == expected["answer"]
        assert answer["score"] == pytest.approx(expected["score"], rel=1e-3)


def test_what_is_shown_are_the_words_that_the_model_reads(prepared):
    texts = prepared.tokenize([f"{QUESTION}\t{LONG}", "Which cat?\tthe cat"])
    assert texts.tokens["question"] == [["which", "bête", "?"], ["which", "cat", "?"]]
    assert len(texts.tokens["passage"][0]) == 20 and texts.tokens["passage"][1] == ["the", "cat"]
    assert texts.inputs["passage"].shape == (2, 20) and texts.inputs["question"].shape == (2, 3)
    assert np.isfinite(prepared.build_model()(texts.inputs)).all()
    blank, lengths = texts.blank()
    for side in ("passage", "question"):
        for kind in ("", "_forms"):
            assert blank.inputs[side + kind].shape == (1, lengths[side])
    assert len(set(lengths.values())) == 2
