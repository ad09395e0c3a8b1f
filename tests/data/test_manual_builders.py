import lzma
from pathlib import Path
from typing import Any

import pytest
import tensorflow_datasets as tfds

from keras_quasiattn.data import AgNewsPart, StanfordSentiment, prepare, texts_from_tfds
from keras_quasiattn.errors import UserError


def put(folder: Path, name: str, rows: list[str]) -> None:
    file = folder / "downloads" / "manual" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(rows) + "\n"
    file.write_bytes(lzma.compress(text.encode()) if name.endswith(".xz") else text.encode())


def put_sentiment(folder: Path, labels: str, count: int) -> None:
    for name in ("train", "phrases.train", "dev", "test"):
        rows = [f"{number % count}\t{name} {number} film" for number in range(2 * count)]
        suffix = "" if name == "dev" else ".xz"
        put(folder, f"sst/stsa.{labels}.{name}.tsv{suffix}", ["label\ttext", *rows])


@pytest.mark.parametrize(("labels", "count"), [("fine", 5), ("binary", 2)])
def test_sentiment_of_sentences_and_phrases(labels: str, count: int, tmp_path: Path) -> None:
    put_sentiment(tmp_path, labels, count)
    for config, train in ((labels, "train"), (f"{labels}_phrases", "phrases.train")):
        builder = prepare(
            lambda config=config: StanfordSentiment(config=config, data_dir=tmp_path), tmp_path
        )
        read = texts_from_tfds(builder, ["text"], "label", ["train", "validation", "test"])
        assert len(read.classes) == count and read.version == f"stanford_sentiment/{config}/1.0.0"
        assert sorted(read.splits["train"].texts)[0] == f"{train} 0 film".encode()
        assert {len(split) for split in read.splits.values()} == {2 * count}
        for text, label in zip(read.splits["test"].texts, read.splits["test"].labels, strict=True):
            assert int(text.split()[1]) % count == label


def test_part_of_the_news(tmp_path: Path) -> None:
    put(tmp_path, "ag_news/train_subset.tsv", ["label\tsource\ttext", "1\t6\ta b", "4\t1\tc"])
    put(tmp_path, "ag_news/test.tsv.xz", ["label\ttitle\tdescription", "2\tGame\tover now"])
    builder = prepare(lambda: AgNewsPart(data_dir=tmp_path), tmp_path)
    read = texts_from_tfds(builder, ["text"], "label", ["train", "test"])
    assert read.classes == ("World", "Sports", "Business", "Sci/Tech")
    assert dict(zip(read.splits["train"].texts, read.splits["train"].labels, strict=True)) == {
        b"a b": 0,
        b"c": 3,
    }
    assert read.splits["test"].texts.tolist() == [b"Game over now"] and read.splits[
        "test"
    ].labels.tolist() == [1]


@pytest.mark.parametrize("builder", [StanfordSentiment, AgNewsPart])
def test_missing_files_are_named_with_what_to_do(builder: Any, tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match="tsv is not in downloads/manual in the data folder: put .* into a folder"
    ):
        prepare(lambda: builder(data_dir=tmp_path), tmp_path)
    put(tmp_path, "other.tsv", ["label"])
    with pytest.raises(
        UserError, match=f"tsv is not in {tmp_path}/downloads/manual: put .* into a folder"
    ):
        prepare(lambda: builder(data_dir=tmp_path), tmp_path)


def test_another_manual_folder(tmp_path: Path) -> None:
    put_sentiment(tmp_path, "binary", 2)
    config = tfds.download.DownloadConfig(manual_dir=tmp_path / "downloads" / "manual")
    builder = StanfordSentiment(config="binary", data_dir=tmp_path / "elsewhere")
    builder.download_and_prepare(download_config=config)
    assert builder.info.splits["train"].num_examples == 4
