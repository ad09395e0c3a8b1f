from pathlib import Path

import numpy as np
import pytest
import tiny_texts

from keras_quasiattn.data import LabelledTexts, LabelledTextSet, texts_from_files
from keras_quasiattn.errors import UserError


def texts(*made: str) -> LabelledTexts:
    array = np.empty(len(made), object)
    array[:] = [text.encode() for text in made]
    return LabelledTexts(array, np.arange(len(made)))


def held_out(made: LabelledTexts, share: float = 0.2) -> set[bytes]:
    return set(
        LabelledTextSet(("a",), {"train": made}, "v")
        .with_validation(share)
        .splits["validation"]
        .texts
    )


def test_classes_and_texts_of_files(tmp_path: Path) -> None:
    train = tiny_texts.write(tmp_path / "train.tsv", [("a", "no"), ("b", " yes "), ("c", "no")])
    test = tiny_texts.write(tmp_path / "test.tsv", [("d", "yes")])
    read = texts_from_files({"train": train, "test": test})
    assert read.classes == ("no", "yes")
    assert read.splits["train"].texts.tolist() == [b"a", b"b", b"c"]
    assert read.splits["train"].labels.tolist() == [0, 1, 0]
    assert read.splits["test"].labels.tolist() == [1]
    tiny_texts.write(tmp_path / "test.tsv", [("e", "yes")])
    assert texts_from_files({"train": train, "test": test}).version != read.version


def test_numbers_are_classes_in_their_own_order(tmp_path: Path) -> None:
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
def test_labels_that_cannot_be(
    train: list[tuple[str, str]], test: list[tuple[str, str]], message: str, tmp_path: Path
) -> None:
    files = {"train": tiny_texts.write(tmp_path / "train.tsv", train)}
    if test:
        files["test"] = tiny_texts.write(tmp_path / "test.tsv", test)
    with pytest.raises(UserError, match=message):
        texts_from_files(files)


def test_held_out_texts_stay_the_same_when_others_come() -> None:
    few, more = [f"text {n}" for n in range(200)], [f"text {n}" for n in range(400)]
    chosen = held_out(texts(*few))
    assert len(chosen) == pytest.approx(40, abs=20)
    assert chosen == held_out(texts(*reversed(more))) & {text.encode() for text in few}
    assert chosen < held_out(texts(*few), share=0.6)


def test_equal_texts_stay_together() -> None:
    made = LabelledTextSet(
        ("a",), {"train": texts(*(f"{n % 50}" for n in range(300)))}, "v"
    ).with_validation(0.3)
    assert not set(made.splits["train"].texts) & set(made.splits["validation"].texts)
    assert len(made.splits["train"]) + len(made.splits["validation"]) == 300


def test_own_validation_split_is_kept() -> None:
    made = LabelledTextSet(("a",), {"train": texts("a"), "validation": texts("b")}, "v")
    assert made.with_validation(0.5) is made


@pytest.mark.parametrize("share", [0.0, 1.0, 1e-9])
def test_share_that_leaves_one_side_empty(share: float) -> None:
    made = LabelledTextSet(("a",), {"train": texts("a", "b")}, "v")
    with pytest.raises(
        UserError, match="data.validation_share is .*: this leaves . of 2 texts for validation"
    ):
        made.with_validation(share)


def test_labels_of_five_thousand_digits_ended_in_a_traceback(tmp_path: Path) -> None:
    long = "9" * 5000
    tiny_texts.write(tmp_path / "a.tsv", [("one", long), ("two", "10"), ("three", "9")])
    assert texts_from_files({"train": tmp_path / "a.tsv"}).classes == ("10", "9", long)
