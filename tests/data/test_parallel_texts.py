import gzip
import lzma
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import tensorflow_datasets as tfds
from shared_data import PATH, needs_shared_data

from keras_quasiattn.data import (
    ParallelCorpus,
    ParallelTexts,
    ParallelTextSet,
    parallel_from_files,
    parallel_from_tfds,
    prepare,
    without_long_pairs,
)
from keras_quasiattn.errors import UserError

SPLITS = {split: split for split in ("train", "validation", "test")}
COMPRESS = {".xz": lzma.compress, ".gz": gzip.compress}


def put(folder: Path, name: str, lines: Sequence[str]) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(f"{line}\n" for line in lines).encode()
    file.write_bytes(COMPRESS.get(file.suffix, bytes)(content))
    return file


def rows(pairs: ParallelTexts) -> list[tuple[str, str]]:
    return [(s.decode(), t.decode()) for s, t in zip(pairs.source, pairs.target, strict=True)]


def read(folder: Path, config: str, source: str, target: str) -> ParallelTextSet:
    builder = prepare(lambda: ParallelCorpus(config=config, data_dir=folder), folder)
    return parallel_from_tfds(builder, SPLITS, source, target)


@pytest.mark.parametrize(
    ("config", "names", "languages", "suffix"),
    [
        ("iwslt15_envi", ("train", "tst2012", "tst2013"), ("en", "vi"), ""),
        ("multi30k", ("train", "val", "test_2016_flickr"), ("en", "de"), ".gz"),
    ],
)
def test_corpus_of_a_file_a_language(
    config: str, names: tuple[str, ...], languages: tuple[str, str], suffix: str, tmp_path: Path
) -> None:
    folder = (
        tmp_path / "downloads" / "manual" / ("multi30k" if config == "multi30k" else "iwslt15-envi")
    )
    for name in names:
        for language in languages:
            put(
                folder,
                f"{name}.{language}{suffix}",
                [f"{name} {language} {n} &apos;s" for n in (3, 1, 2)],
            )
    there, back = read(tmp_path, config, *languages), read(tmp_path, config, *languages[::-1])
    for split, name in zip(SPLITS, names, strict=True):
        expected = [
            tuple(f"{name} {language} {n} &apos;s" for language in languages) for n in (3, 1, 2)
        ]
        assert rows(there.splits[split]) == expected
        assert rows(back.splits[split]) == [pair[::-1] for pair in expected]
    assert there.version == f"parallel_corpus/{config}/1.0.0" and there.classes == ()
    with pytest.raises(
        UserError, match=f"unknown language of parallel_corpus/{config}.*'fr'.*choose from"
    ):
        read(tmp_path, config, "fr", languages[0])


def test_corpus_of_tables(tmp_path: Path) -> None:
    for name in ("train10k", "tst2012", "tst2013"):
        rows_of_table = [
            "en\tset\tvi",
            f"Hi .\tx\tChào {name} .",
            "\tx\tnot in English",
            "So ?\tx\t \u00a0",
        ]
        put(tmp_path / "downloads" / "manual" / "iwslt15-envi", f"{name}.tsv.xz", rows_of_table)
    texts = read(tmp_path, "iwslt15_envi_part", "vi", "en")
    assert rows(texts.splits["validation"]) == [("Chào tst2012 .", "Hi .")]
    assert texts.dropped == dict.fromkeys(SPLITS, 2)


def test_what_is_missing_or_uneven_in_a_corpus_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"multi30k/train\.en is not in .*: put the corpus's files"):
        read(tmp_path, "multi30k", "en", "de")
    for name in ("train", "val", "test_2016_flickr"):
        for language, count in (("en", 3), ("de", 2)):
            put(tmp_path / "downloads" / "manual" / "multi30k", f"{name}.{language}", ["a"] * count)
    with pytest.raises(
        UserError, match=r"different numbers of lines: .*train\.en has 3, .*train\.de has 2"
    ):
        read(tmp_path, "multi30k", "en", "de")


def test_sets_of_tfds_are_read_by_their_languages(tmp_path: Path) -> None:
    with tfds.testing.mock_data(num_examples=4):
        builder = tfds.builder("ted_hrlr_translate/pt_to_en", data_dir=tmp_path)
        texts = parallel_from_tfds(builder, SPLITS, "pt", "en")
    assert texts.version.startswith("ted_hrlr_translate/pt_to_en/")
    assert all(len(texts.splits[split]) + texts.dropped[split] == 4 for split in SPLITS)


def own(folder: Path) -> dict[str, tuple[Path, Path]]:
    train = (
        put(folder, "a.en", ["one", "", "two", "three"]),
        put(folder, "a.de.gz", ["eins", "x", " ", "drei"]),
    )
    return {
        "train": train,
        "test": (put(folder, "t.en", ["世界"]), put(folder, "t.de", ["Welt\r"])),
    }


def test_two_files_of_ones_own(tmp_path: Path) -> None:
    texts = parallel_from_files(own(tmp_path))
    assert rows(texts.splits["train"]) == [("one", "eins"), ("three", "drei")]
    assert rows(texts.splits["test"]) == [("世界", "Welt")]
    assert texts.dropped == {"train": 2, "test": 0} and texts.version.startswith("a.en sha256:")
    files = own(tmp_path)
    put(tmp_path, "t.de", ["Erde"])
    assert parallel_from_files(files).version != texts.version


def test_files_that_do_not_fit_are_named(tmp_path: Path) -> None:
    source = put(tmp_path, "a.en", ["a", "b", ""])
    for lines, complaint in (
        (["c"], r"different numbers of lines: .*a\.en has 3, .*a\.de has 1"),
        (["", "\t", "c"], r"the train split of a\.en .* has no usable pair: in every"),
        ([], r"a\.de has no rows"),
    ):
        with pytest.raises(UserError, match=complaint):
            parallel_from_files({"train": (source, put(tmp_path, "a.de", lines))})
    with pytest.raises(UserError, match=r"cannot read .*none\.de"):
        parallel_from_files({"train": (source, tmp_path / "none.de")})


def test_pairs_are_held_out_by_their_source(tmp_path: Path) -> None:
    lines = [f"text {number % 300}" for number in range(600)]
    files = (put(tmp_path, "s", lines), put(tmp_path, "t", [str(number) for number in range(600)]))
    texts = parallel_from_files({"train": files}).with_validation(0.1)
    train, validation = (
        set(texts.splits[split].source.tolist()) for split in ("train", "validation")
    )
    assert not train & validation and len(train | validation) == 300


def test_long_sentences_leave_training_alone(tmp_path: Path) -> None:
    lines = ["a b", "word " * 10_000, "c", "d"]
    pair = (put(tmp_path, "s", lines), put(tmp_path, "t", ["x", "y", "z " * 5, "z " * 4]))
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


@needs_shared_data
@pytest.mark.parametrize(
    ("config", "languages", "sizes"),
    [
        pytest.param("multi30k", ("en", "de"), (29_000, 1014, 1000), marks=pytest.mark.long),
        ("iwslt15_envi_part", ("en", "vi"), (10_000, 1553, 1268)),
    ],
)
def test_published_pairs(
    config: str, languages: tuple[str, str], sizes: tuple[int, ...], tmp_path: Path
) -> None:
    builder = ParallelCorpus(config=config, data_dir=tmp_path)
    manual = tfds.download.DownloadConfig(manual_dir=PATH / "raw-qa")
    builder.download_and_prepare(download_config=manual)
    texts = parallel_from_tfds(builder, SPLITS, *languages)
    counts = [len(texts.splits[split]) + texts.dropped[split] for split in SPLITS]
    assert tuple(counts) == sizes and sum(texts.dropped.values()) < 10
