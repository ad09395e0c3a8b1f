import numpy as np
import pytest
import tiny_texts

from keras_quasiattn.lab.data import LabelledTexts, TextPairs
from keras_quasiattn.lab.data.examples import text_array
from keras_quasiattn.lab.tasks.classify import faithfulness
from keras_quasiattn.lab.tasks.measured import bag_of_words, simple_figures

CLASSES = sorted(tiny_texts.WORDS)


def labelled(rows):
    texts = text_array(text.encode() for text, _ in rows)
    return LabelledTexts(texts, np.array([CLASSES.index(label) for _, label in rows]))


def pairs(rows):
    first, second = (text_array(row[side].encode() for row in rows) for side in (0, 1))
    return TextPairs(first, second, np.array([row[2] for row in rows]))


def test_words_that_decide_are_found():
    train, texts = labelled(tiny_texts.rows(120)), labelled(tiny_texts.rows(60, seed=1))
    probabilities = bag_of_words(train, texts, 3)
    assert np.mean(probabilities.argmax(axis=1) == texts.labels) > 0.9
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def test_of_many_training_texts_all_that_were_used_were_of_one_class(monkeypatch):
    """The classes take turns, as the candidates of questions do, and every third row was used."""
    train = labelled(tiny_texts.rows(90))
    monkeypatch.setattr("keras_quasiattn.lab.tasks.measured._MOST", 30)
    some = train.sample(30)
    assert len(some) == 30 and np.bincount(some.labels).tolist() != [30]
    np.testing.assert_array_equal(some.texts, train.sample(30).texts)
    np.testing.assert_array_equal(bag_of_words(train, train, 3), bag_of_words(some, train, 3))
    assert np.mean(bag_of_words(train, train, 3).argmax(axis=1) == train.labels) > 0.9


def test_examples_of_a_single_class_have_that_class():
    train = labelled([row for row in tiny_texts.rows(9) if row[1] == "HUM"])
    assert bag_of_words(train, train, 3)[:, CLASSES.index("HUM")].all()


def test_pairs_are_known_by_what_their_texts_have_in_common():
    generator = np.random.default_rng(0)
    rows = []
    for number in range(200):
        words = [f"w{word}" for word in generator.integers(0, 1000, 6)]
        others = [f"w{word}" for word in generator.integers(0, 1000, 6)]
        same = number % 2
        rows.append((" ".join(words), " ".join(words[::-1] if same else others), same))
    probabilities = bag_of_words(pairs(rows[:100]), pairs(rows[100:]), 2)
    assert np.mean(probabilities.argmax(axis=1) == [row[2] for row in rows[100:]]) > 0.9


@pytest.mark.parametrize("texts", [[("", "HUM"), ("", "HUM")], [("", "HUM"), ("!", "NUM")]])
def test_texts_without_words_and_classes_without_texts_have_probabilities(texts):
    probabilities = bag_of_words(labelled(texts), labelled(texts), 3)
    assert probabilities.shape == (2, 3) and not probabilities[:, 1].any()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def test_simple_methods_have_accuracy_and_macro_f1():
    train = labelled(tiny_texts.rows(7))  # three of the first class, two of the others
    examples = labelled([*tiny_texts.rows(3), tiny_texts.rows(1)[0]])
    found = simple_figures(train, examples, np.eye(3)[examples.labels])
    assert found["majority"].figures == pytest.approx({"accuracy": 0.5, "macro_f1": 2 / 9})
    assert found["bag_of_words"].figures == {"accuracy": 1.0, "macro_f1": 1.0}
    assert found["majority"].items is not None and found["majority"].items.tolist() == [1, 0, 0, 1]


def test_open_words_that_decide_are_faithful():
    def probabilities_of(texts):
        return np.array([[0.1, 0.9] if "good" in text else [0.5, 0.5] for text in texts])

    text = ["a", "good", "film"]
    answer = {"tokens": text, "probabilities": [0.1, 0.9], "gates": [False, True, False]}
    figures = faithfulness([answer] * 150, probabilities_of)
    assert figures["drop_without_open"] == pytest.approx(0.4)
    assert figures["drop_with_open_only"] == pytest.approx(0.0)
    figures = faithfulness([{**answer, "gates": [1, 0, 0]}], probabilities_of)
    assert figures["drop_without_open"] == pytest.approx(0.0)
    assert figures["drop_with_open_only"] == pytest.approx(0.4)
