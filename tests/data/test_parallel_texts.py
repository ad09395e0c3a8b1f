from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow_datasets as tfds
from test_corpora import SPLITS, sides, write

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data import parallel_from_files, parallel_from_tfds, without_long_pairs


def test_sets_of_tfds_are_read_by_their_languages(tmp_path):
    with tfds.testing.mock_data(num_examples=4):
        builder = tfds.builder("ted_hrlr_translate/pt_to_en", data_dir=tmp_path)
        texts = parallel_from_tfds(builder, SPLITS, "pt", "en")
    assert texts.version.startswith("ted_hrlr_translate/pt_to_en/")
    assert all(len(texts.splits[split]) + texts.dropped[split] == 4 for split in SPLITS)


def own(folder):
    train = (
        write(folder / "a.en", ["one", "", "two", "three"]),
        write(folder / "a.de.gz", ["eins", "x", " ", "drei"]),
    )
    return {
        "train": train,
        "test": (write(folder / "t.en", ["世界"]), write(folder / "t.de", ["Welt\r"])),
    }


def test_two_files_of_ones_own(tmp_path):
    texts = parallel_from_files(own(tmp_path))
    assert sides(texts.splits["train"]) == [("one", "eins"), ("three", "drei")]
    assert sides(texts.splits["test"]) == [("世界", "Welt")]
    assert texts.dropped == {"train": 2, "test": 0} and texts.version.startswith("a.en sha256:")
    files = own(tmp_path)
    write(tmp_path / "t.de", ["Erde"])
    assert parallel_from_files(files).version != texts.version


def test_files_without_a_usable_pair_are_named(tmp_path):
    pair = (write(tmp_path / "a.en", ["a", "b", ""]), write(tmp_path / "a.de", ["", "\t", "c"]))
    with pytest.raises(
        UserError, match=r"the train split of a\.en .* has no usable pair: in every"
    ):
        parallel_from_files({"train": pair})


def test_long_sentences_leave_training_alone(tmp_path):
    lines = ["a b", "word " * 10_000, "c", "d"]
    pair = (write(tmp_path / "s", lines), write(tmp_path / "t", ["x", "y", "z " * 5, "z " * 4]))
    texts = parallel_from_files({"train": pair, "test": pair})
    train = texts.splits["train"]
    lengths = [
        np.array([len(text.split()) for text in side]) for side in (train.source, train.target)
    ]
    short = without_long_pairs(texts, *lengths, limit=4)
    assert short.splits["train"].source.tolist() == [b"a b", b"d"]
    assert short.dropped == {"train": 2, "test": 0} and len(short.splits["test"]) == 4
    with pytest.raises(
        UserError, match="in each of the 4 training pairs, a text has more than 0 tokens"
    ):
        without_long_pairs(texts, *lengths, limit=0)


def test_one_language_on_both_sides_made_a_copier():
    info = SimpleNamespace(full_name="corpus", features={"en": None, "de": None})
    with pytest.raises(UserError, match="data.source and data.target are both 'de': name .*en, de"):
        parallel_from_tfds(SimpleNamespace(info=info), {}, "de", "de")
