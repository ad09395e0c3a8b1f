"""What is printed about the user's own data before training."""

import numpy as np
import pytest
import tiny_texts
from tiny import prepared

from keras_quasiattn.lab.comparison import of_task
from keras_quasiattn.lab.data import LabelledTexts, LabelledTextSet, TextPairs
from keras_quasiattn.lab.data.examples import text_array
from keras_quasiattn.lab.tasks.data_summary import summarize
from keras_quasiattn.lab.tuning import search

ROWS = [("a good film", "pos"), ("a bad film", "neg"), ("an old film", "neg"), ("good", "pos")] * 5


def told(**splits):
    classes = tuple(sorted({label for rows in splits.values() for _, label in rows}))
    made = {
        name: LabelledTexts(
            text_array(text.encode() for text, _ in rows),
            np.array([classes.index(label) for _, label in rows]),
        )
        for name, rows in splits.items()
    }

    def count(texts):
        return np.array([len(text.split()) for text in texts])

    limits = {"text": ("data.max_length", 512)}
    return summarize(LabelledTextSet(classes, made, "v"), "", count, limits)


@pytest.mark.parametrize("name", ["classify", "pairs", "rank", "read", "translate", "programs"])
def test_training_on_own_files_said_nothing_of_them(name, tiny_task):
    task = prepared(tiny_task(name))
    lines = task.remarks()
    train = task._loaded[0].splits["train"]
    assert lines[0].startswith(f"data: {len(train):,} to train on, ") and "to test" in lines[0]
    assert "tests" not in train.columns  # of a program; they are no text that the model reads
    for column in train.columns:
        assert any(f"  {column}: " in line and "tokens in the median" in line for line in lines)
    if task.has_classes:
        assert " classes: " in lines[1]


class _EnoughError(Exception):
    """Raised when the first training would begin."""


@pytest.mark.parametrize("command", ["compare", "tune"])
def test_comparisons_and_searches_said_nothing_of_own_files(
    command, texts_data, tmp_path, monkeypatch, capfd
):
    def stop(*_):
        raise _EnoughError

    monkeypatch.setattr(of_task, "_Work", stop)
    monkeypatch.setattr(search, "_Tuner", stop)
    task = tiny_texts.make(texts_data, model="transformer")
    with pytest.raises(_EnoughError):
        if command == "compare":
            of_task.compare_task(task, tmp_path / "to", ["sigmoid"])
        else:
            search.search(task, {"training.learning_rate": [0.1, 0.2]}, tmp_path / "to")
    shown = capfd.readouterr().out
    assert "data: " in shown
    assert [line for line in task.remarks() if line not in shown] == []


@pytest.mark.parametrize("tokenizer", ["words", "subwords"])
def test_texts_without_spaces_were_whole_sentences_that_no_model_knows(tokenizer, tmp_path):
    likes, dislikes = "我喜欢", "我不喜欢"
    rows = [(f"{likes if n % 2 else dislikes}第{n}部电影。", "ab"[n % 2]) for n in range(50)]
    tiny_texts.write(tmp_path / "train.tsv", rows)
    task = prepared(
        tiny_texts.make(tmp_path, "words_soft", data__test="", data__tokenizer=tokenizer)
    )
    found = [line for line in task.remarks() if "unknown" in line]
    if tokenizer == "words":
        (line,) = found
        assert line.startswith("warning: 100.0% of the training words are unknown to the model")
        assert "data.min_count (2)" in line and "data.tokenizer=subwords" in line
    else:
        assert not found


def test_what_is_cut_of_pairs_counted_no_null_token(pairs_data):
    import tiny_pairs

    task = prepared(tiny_pairs.make(pairs_data, "pairs", "decomposable", data__max_length=6))
    longest = max(len(text.split()) for text in task._data.splits["train"].first)
    assert longest == 6
    (line,) = [line for line in task.remarks() if line.startswith("  first")]
    assert "6 at most; cut after 5 (data.max_length): " in line  # it was not cut


def test_published_data_are_not_summarized(tmp_path):
    options = {"preset": "letters", "model": "words_soft", "seed": 0, "data_dir": tmp_path}
    task = type(tiny_texts.make(tmp_path))(**options)
    task.prepare()
    assert task.remarks() == []


def test_good_data_have_one_short_block_without_a_warning():
    lines = told(train=ROWS, validation=[("new", "pos")], test=[("newer", "neg")])
    assert lines == [
        "data: 20 to train on, 1 for validation, 1 to test",
        "  2 classes: neg (10), pos (10)",
        "  text: 3 tokens in the median, 3 at most",
    ]


LONG = ("word " * 50_000, "pos")


@pytest.mark.parametrize(
    ("splits", "warning"),
    [
        ({"train": [(f"text {n}", f"class {n}") for n in range(300)]}, "300 classes in 300 rows"),
        ({"train": [*ROWS, ("rare", "rare")]}, "1 of 3 classes have a single row"),
        ({"train": [*ROWS, LONG]}, "the longest text has 50,000 tokens, and the median is 3"),
        ({"train": ROWS, "validation": ROWS}, "20 of 20 validation rows are train rows, too"),
        ({"train": ROWS, "test": [*ROWS[:1], ("new", "pos")]}, "1 of 2 test rows are train rows"),
        (
            {"train": ROWS, "validation": [("new", "pos")], "test": [("new ", "pos")]},
            "1 of 1 test rows are validation rows, too",
        ),
        ({"train": [*ROWS, ("", "pos"), ("  ", "neg")]}, "2 of 22 train rows have an empty text"),
        ({"train": ROWS, "test": [("", "pos")]}, "1 of 1 test rows have an empty text"),
        (
            {"train": [*ROWS, ("good  ", "neg")]},
            "6 training rows have a text with two labels, such as 'good': pos and neg",
        ),
        ({"train": [*[(f"t {n}", "pos") for n in range(98)], *ROWS[1:3]]}, "98.0% of the rows"),
    ],
)
def test_mistakes_in_the_data_passed_without_a_word(splits, warning):
    lines = [line for line in told(**splits) if line.startswith("warning: ")]
    assert any(line.startswith(f"warning: {warning}") for line in lines), lines


def test_a_ranking_was_advised_to_select_by_macro_f1_which_it_does_not_have():
    texts = text_array(f"text {n}".encode() for n in range(100))
    labels = np.array([1] * 5 + [0] * 95)
    warnings = {}
    for groups in (None, np.arange(100) // 20):
        data = LabelledTextSet(("0", "1"), {"train": TextPairs(texts, texts, labels, groups)}, "v")
        lines = summarize(data, "", lambda some: np.full(len(some), 2), {})
        warnings[groups is None] = [line for line in lines if line.startswith("warning: ")]
    assert "training.select=macro_f1" in warnings[True][0] and not warnings[False]


def test_what_is_cut_is_counted():
    (line,) = [line for line in told(train=[*ROWS, LONG]) if line.startswith("  text")]
    assert line.endswith("50,000 at most; cut after 512 (data.max_length): 1 (4.8%)")


def test_the_longest_text_in_bytes_may_have_few_tokens():
    (line,) = [line for line in told(train=[*ROWS, ("x" * 99, "pos")]) if line[:6] == "  text"]
    assert line == "  text: 3 tokens in the median, 3 at most"  # it said 1


def test_a_million_rows_are_looked_at_in_part():
    lines = told(train=[(f"text {n}", "ab"[n % 2]) for n in range(50_000)] + [LONG])
    (line,) = [line for line in lines if line.startswith("  text")]
    assert "50,000 at most; cut" in line and line.endswith("looked at")
