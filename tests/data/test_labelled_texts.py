import collections
import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_sequences
import tiny_texts

from keras_quasiattn.errors import DataWarning, UserError
from keras_quasiattn.lab.data import (
    LabelledTexts,
    LabelledTextSet,
    counted_letters,
    pairs_from_files,
    parallel_from_files,
    programs_from_files,
    questions_from_files,
    ranked_pairs_from_files,
    texts_from_files,
)
from keras_quasiattn.lab.tasks.sources import Source


def texts(*made):
    array = np.empty(len(made), object)
    array[:] = [text.encode() for text in made]
    return LabelledTexts(array, np.arange(len(made)))


def held_out(made, share=0.2):
    return set(
        LabelledTextSet(("a",), {"train": made}, "v")
        .with_validation(share)
        .splits["validation"]
        .texts
    )


def test_classes_and_texts_of_files(tmp_path):
    train = tiny_texts.write(tmp_path / "train.tsv", [("a", "no"), ("b", " yes "), ("c", "no")])
    test = tiny_texts.write(tmp_path / "test.tsv", [("d", "yes")])
    read = texts_from_files({"train": train, "test": test})
    assert read.classes == ("no", "yes")
    assert read.splits["train"].texts.tolist() == [b"a", b"b", b"c"]
    assert read.splits["train"].labels.tolist() == [0, 1, 0]
    assert read.splits["test"].labels.tolist() == [1]
    tiny_texts.write(tmp_path / "test.tsv", [("e", "yes")])
    assert texts_from_files({"train": train, "test": test}).version != read.version


def test_numbers_are_classes_in_their_own_order(tmp_path):
    train = tiny_texts.write(
        tmp_path / "train.tsv", [(label, label) for label in ("10", "9", "-1")]
    )
    assert texts_from_files({"train": train}).classes == ("-1", "9", "10")


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ([("a", "x"), ("b", " ")], [], "train.tsv, line 3: the label is empty"),
        (
            [("a", "x"), ("b", "y")],
            [("c", "x"), ("d", "z")],
            "test.tsv, line 3: no text of .* has the label 'z': expected one of x, y",
        ),
        ([("a", "x"), ("b", "x")], [("c", "x")], "train.tsv has only the label 'x'"),
    ],
)
def test_labels_that_cannot_be(train, test, message, tmp_path):
    files = {"train": tiny_texts.write(tmp_path / "train.tsv", train)}
    if test:
        files["test"] = tiny_texts.write(tmp_path / "test.tsv", test)
    with pytest.raises(UserError, match=message):
        texts_from_files(files)


def test_an_error_of_an_unknown_label_listed_twenty_classes_as_if_there_were_no_more(tmp_path):
    train = tiny_texts.write(tmp_path / "train.tsv", [(f"t{n}", str(n)) for n in range(25)])
    test = tiny_texts.write(tmp_path / "test.tsv", [("a", "x")])
    with pytest.raises(UserError, match="expected one of 0, 1, .*, 19 and 5 more$"):
        texts_from_files({"train": train, "test": test})


def test_an_error_had_a_line_for_each_line_of_a_class(tmp_path):
    (tmp_path / "train.jsonl").write_text(
        "".join(json.dumps({"text": label, "label": label}) + "\n" for label in ("a\nb", "c"))
    )
    test = tiny_texts.write(tmp_path / "test.tsv", [("a", "x")])
    with pytest.raises(UserError) as wrong:
        texts_from_files({"train": tmp_path / "train.jsonl", "test": test})
    assert str(wrong.value).endswith("has the label 'x': expected one of a b, c")


def test_held_out_texts_stay_the_same_when_others_come():
    few, more = [f"text {n}" for n in range(200)], [f"text {n}" for n in range(400)]
    chosen = held_out(texts(*few))
    assert len(chosen) == pytest.approx(40, abs=20)
    assert chosen == held_out(texts(*reversed(more))) & {text.encode() for text in few}
    assert chosen < held_out(texts(*few), share=0.6)


def test_the_rows_of_the_test_split_counted_as_training_rows():
    whole = LabelledTextSet(("a",), {"train": texts(*map(str, range(100)))}, "v")
    options = {"test_share": 0.2, "validation_share": 0.2, "validation_fold": 0}
    held, note = Source(read=lambda given: whole, example="").load(options, Path())
    sizes = {name: len(split) for name, split in held.splits.items()}
    rest = 100 - sizes["test"]
    assert note == (
        f"test is {sizes['test']} of 100 rows, by hash; "
        f"validation is {sizes['validation']} of {rest} training rows, by hash"
    )


def test_equal_texts_stay_together():
    made = LabelledTextSet(
        ("a",), {"train": texts(*(f"{n % 50}" for n in range(300)))}, "v"
    ).with_validation(0.3)
    assert not set(made.splits["train"].texts) & set(made.splits["validation"].texts)
    assert len(made.splits["train"]) + len(made.splits["validation"]) == 300


def test_own_validation_split_is_kept():
    made = LabelledTextSet(("a",), {"train": texts("a"), "validation": texts("b")}, "v")
    assert made.with_validation(0.5) is made


@pytest.mark.parametrize("share", [0.0, 1.0, 1e-9])
def test_share_that_leaves_one_side_empty(share):
    made = LabelledTextSet(("a",), {"train": texts("a", "b")}, "v")
    with pytest.raises(
        UserError, match="data.validation_share is .*: this leaves . of 2 texts for validation"
    ):
        made.with_validation(share)


def test_labels_of_five_thousand_digits_ended_in_a_traceback(tmp_path):
    long = "9" * 5000
    tiny_texts.write(tmp_path / "a.tsv", [("one", long), ("two", "10"), ("three", "9")])
    assert texts_from_files({"train": tmp_path / "a.tsv"}).classes == ("10", "9", long)


def read_texts(folder, labels):
    rows = [(f"text {number}", label) for number, label in enumerate(labels)]
    return texts_from_files({"train": tiny_texts.write(folder / "a.tsv", rows)})


def read_table_of_pairs(folder, labels):
    lines = [f"a{number}\tb\t{label}\n" for number, label in enumerate(labels)]
    (folder / "a.tsv").write_text("".join(["first\tsecond\tlabel\n", *lines]), encoding="utf-8")
    return pairs_from_files({"train": folder / "a.tsv"})


READERS = [read_texts, read_table_of_pairs]


@pytest.mark.parametrize("read", READERS)
def test_labels_that_differ_in_case_or_spaces_were_classes_without_a_word(read, tmp_path):
    labels = ["pos", "Pos ", "neg", "pos", " POS", "very  good", "very good", "Neu", "stra\u00dfe"]
    with pytest.warns(DataWarning) as caught:
        read(tmp_path, [*labels, "STRASSE"])
    (said,) = (str(one.message) for one in caught)
    assert "\n" not in said and said.endswith(
        "labels that differ only in case or spaces count as different ones: "
        "'POS' (1 rows) and 'Pos' (1 rows) and 'pos' (2 rows); "
        "'STRASSE' (1 rows) and 'stra\u00dfe' (1 rows); "
        "'very  good' (1 rows) and 'very good' (1 rows)"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(tmp_path, ["pos", "pos ", " neg", "neg", "1", "1.0"])


@pytest.mark.parametrize("read", READERS)
def test_a_hash_held_out_a_whole_class_without_a_word(read, tmp_path):
    made = read(tmp_path, ["rare", *["one", "two"] * 200])
    told = 0
    for fold in range(4):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            split = made.with_validation(0.25, fold)
        lost = set(split.splits["validation"].labels) - set(split.splits["train"].labels)
        assert len(caught) == len(lost)
        for one in caught:
            told += 1
            assert one.category is DataWarning and str(one.message).startswith(
                f"data.validation_share is 0.25 and data.validation_fold {fold}: this holds out "
                "all of 'rare' (1 rows) for validation and leaves none to train on; name a "
                "validation file"
            )
    assert told == 1


# By reader: the columns of a table with a file each, or one file with its ending.
FORMS: dict[str, tuple[Any, dict[str, str]]] = {
    "texts": (texts_from_files, {".tsv": "text\tlabel\n{0} a\tx\nb\ty"}),
    "pairs": (pairs_from_files, {".tsv": "first\tsecond\tlabel\n{0}\tb\tx\nc\td\ty"}),
    "candidates": (ranked_pairs_from_files, {".tsv": "question\tcandidate\tlabel\n{0}\tb\t1"}),
    "questions": (
        questions_from_files,
        {".jsonl": '{{"question": "{0}", "context": "a b", "answers": ["a"]}}'},
    ),
    "programs": (programs_from_files, {".jsonl": json.dumps(tiny_sequences.problems(1)[0])}),
    "sides": (parallel_from_files, {".en": "{0}\ntwo", ".de": "eins\nzwei"}),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_version_had_a_hash_that_no_file_has(name, tmp_path):
    """With a file for validation or test, it was the hash of all files together."""
    read, parts = FORMS[name]
    files: dict[str, Any] = {}
    hashes: dict[str, list[str]] = {}
    for split in ("train", "test"):
        made = {ending: tmp_path / f"{split}{ending}" for ending in parts}
        for ending, text in parts.items():
            filled = text if name == "programs" else text.format(split)
            made[ending].write_text(f"{filled}\n" + "\n" * (split == "test" and len(parts) == 1))
        hashes[split] = [
            f"{file.name} sha256:{hashlib.sha256(file.read_bytes()).hexdigest()[:16]}"
            for file in made.values()
        ]
        shapes = {1: next(iter(made.values())), 2: tuple(made.values())}
        files[split] = shapes.get(len(made), {key[1:]: one for key, one in made.items()})
    assert read(files).version == ", ".join(hashes["train"] + hashes["test"])
    assert read({**files, "test": files["train"]}).version == ", ".join(hashes["train"])


@pytest.mark.parametrize("rows", [1, 40])
def test_advice_on_identical_texts_could_not_help(rows):
    made = LabelledTextSet(("a", "b"), {"train": texts(*["same"] * rows)}, "v")
    for name in ("validation", "test"):
        with pytest.raises(UserError, match="one text in all rows .*; name a .* file$") as caught:
            made.with_held_out(name, 0.0, 0.5, f"data.{name}_share is 0.5")
        assert f"name a {name} file" in str(caught.value) and "change" not in str(caught.value)


def test_the_class_of_generated_texts_is_the_count_and_no_text_is_in_two_splits():
    made = counted_letters()
    seen: set[bytes] = set()
    for split in made.splits.values():
        for text, label in zip(split.texts, split.labels, strict=True):
            letters = text.split()
            assert 6 <= len(letters) <= 16
            assert max(collections.Counter(letters).values()) == int(made.classes[label])
        assert len(set(np.bincount(split.labels))) == 1  # every class is equally frequent
        assert not seen & set(split.texts)
        seen |= set(split.texts)


def test_the_seed_decides_on_generated_texts():
    one, same, other = (counted_letters(seed).splits["test"].texts for seed in (1, 1, 2))
    assert list(one) == list(same) and list(one) != list(other)


@pytest.mark.parametrize(
    ("split", "option"), [("validation", "validation_fold"), ("test", "test_share")]
)
def test_a_share_of_data_that_have_the_split_was_ignored(split, option):
    whole = LabelledTextSet(("0",), {name: texts("a") for name in ("train", split)}, "1")
    source = Source(example="a", read=lambda options: whole)
    with pytest.raises(UserError, match=f"data.{option} is 1, but the data have their own {split}"):
        source.load({option: 1}, Path())
