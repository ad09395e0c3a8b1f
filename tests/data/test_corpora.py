"""Corpora that are built from files in the manual folder."""

import gzip
import json
import lzma
import re

import numpy as np
import pytest
import tensorflow_datasets as tfds
from shared_data import PATH, needs_shared_data

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data import (
    AgNewsPart,
    PairCorpus,
    ParallelCorpus,
    QuestionCorpus,
    StanfordSentiment,
    pairs_from_tfds,
    parallel_from_tfds,
    prepare,
    texts_from_tfds,
)

COMPRESS = {".xz": lzma.compress, ".gz": gzip.compress}
SPLITS = {split: split for split in ("train", "validation", "test")}
WIKIQA = "QuestionID\tQuestion\tDocumentID\tDocumentTitle\tSentenceID\tSentence\tLabel"
GROUP = {"id": "g1", "context": ["hi", "how ?"], "candidates": ["so", "no", "yes"], "label": 2}
RANKED = ["wikiqa", "wikiqa_original", "trecqa", "trecqa_all", "ubuntu_irc", "ubuntu_v2"]


def write(file, lines):
    file.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(f"{line}\n" for line in lines).encode()
    file.write_bytes(COMPRESS.get(file.suffix, bytes)(content))
    return file


def put(folder, name, lines):
    write(folder / "downloads" / "manual" / name, lines)


def prepared(builder, folder, config=None):
    return prepare(lambda: builder(config=config, data_dir=folder), folder)


BUILDERS = [AgNewsPart, StanfordSentiment, PairCorpus, ParallelCorpus, QuestionCorpus]
EVERY = [(builder, config.name) for builder in BUILDERS[1:] for config in builder.BUILDER_CONFIGS]


@pytest.mark.parametrize("label", ["good", "5", "-"])
def test_a_label_of_a_text_that_cannot_be_was_a_traceback(label, tmp_path):
    for part in ("train", "dev", "test"):
        put(tmp_path, f"sst/stsa.fine.{part}.tsv", ["label\ttext", "4\tfine", f"{label}\tgood"])
    said = rf"stsa.fine.\w+.tsv, line 3: the label is '{label}': expected one of 0, 1, 2, 3, 4"
    with pytest.raises(UserError, match=said):
        prepared(StanfordSentiment, tmp_path, "fine")


@pytest.mark.parametrize(("builder", "config"), [(AgNewsPart, None), *EVERY])
def test_missing_files_are_named_with_what_to_do(builder, config, tmp_path):
    told = "is not in {}: put the corpus's files, plain or .xz or .gz, into a folder"
    with pytest.raises(UserError, match=told.format("downloads/manual in the data folder")):
        prepared(builder, tmp_path, config)
    put(tmp_path, "other.tsv", ["label"])
    with pytest.raises(UserError, match=told.format(re.escape(f"{tmp_path}/downloads/manual"))):
        prepared(builder, tmp_path, config)


def put_sentiment(folder, labels, count):
    for name in ("train", "phrases.train", "dev", "test"):
        rows = [f"{number % count}\t{name} {number} film" for number in range(2 * count)]
        suffix = "" if name == "dev" else ".xz"
        put(folder, f"sst/stsa.{labels}.{name}.tsv{suffix}", ["label\ttext", *rows])


@pytest.mark.parametrize(("labels", "count"), [("fine", 5), ("binary", 2)])
def test_sentiment_of_sentences_and_phrases(labels, count, tmp_path):
    put_sentiment(tmp_path, labels, count)
    for config, train in ((labels, "train"), (f"{labels}_phrases", "phrases.train")):
        builder = prepared(StanfordSentiment, tmp_path, config)
        read = texts_from_tfds(builder, ["text"], "label", ["train", "validation", "test"])
        assert len(read.classes) == count and read.version == f"stanford_sentiment/{config}/1.0.0"
        assert sorted(read.splits["train"].texts)[0] == f"{train} 0 film".encode()
        assert {len(split) for split in read.splits.values()} == {2 * count}
        for text, label in zip(read.splits["test"].texts, read.splits["test"].labels, strict=True):
            assert int(text.split()[1]) % count == label


def test_part_of_the_news(tmp_path):
    put(tmp_path, "ag_news/train_subset.tsv", ["label\tsource\ttext", "1\t6\ta b", "4\t1\tc"])
    put(tmp_path, "ag_news/test.tsv.xz", ["label\ttitle\tdescription", "2\tGame\tover now"])
    builder = prepared(AgNewsPart, tmp_path)
    read = texts_from_tfds(builder, ["text"], "label", ["train", "test"])
    assert read.classes == ("World", "Sports", "Business", "Sci/Tech")
    train = read.splits["train"]
    assert dict(zip(train.texts, train.labels, strict=True)) == {b"a b": 0, b"c": 3}
    assert read.splits["test"].texts.tolist() == [b"Game over now"]
    assert read.splits["test"].labels.tolist() == [1]


def read(folder, config):
    return pairs_of(prepared(PairCorpus, folder, config))


def pairs_of(builder):
    question = "question_id" if builder.builder_config.ranked else None
    return pairs_from_tfds(
        builder, {split: split for split in builder.info.splits}, question_key=question
    )


def rows(pairs):
    return sorted(
        zip(pairs.first.tolist(), pairs.second.tolist(), pairs.labels.tolist(), strict=True)
    )


@pytest.mark.parametrize(
    ("config", "folder", "columns", "labels", "classes"),
    [
        (
            *("snli_part", "snli", "premise\thypothesis\tlabel"),
            *(("neutral", "contradiction", "-"), ("entailment", "neutral", "contradiction")),
        ),
        (
            *("quora_part", "qqp", "question1\tquestion2\tlabel"),
            *(("1", "0", "1"), ("not_duplicate", "duplicate")),
        ),
    ],
)
def test_pairs_to_classify(config, folder, columns, labels, classes, tmp_path):
    names = {"train_subset": "train", "dev": "validation", "test": "test"}
    for split in names:
        lines = [columns, *(f"{split} {label}\tb\t{label}" for label in labels)]
        put(tmp_path, f"{folder}/{split}.tsv{'.xz' * (folder == 'snli')}", lines)
    made = read(tmp_path, config)
    assert made.classes == classes and made.version == f"pair_corpus/{config}/1.0.0"
    assert set(made.splits) == set(names.values())
    numbers = {"not_duplicate": "0", "duplicate": "1"}
    for split, name in names.items():
        pairs, kept = made.splits[name], [label for label in labels if label != "-"]
        assert made.dropped[name] == 3 - len(kept)
        assert set(pairs.second) == {b"b"} and pairs.groups is None and len(pairs) == len(kept)
        for first, label in zip(pairs.first, pairs.labels, strict=True):
            assert first.decode() == f"{split} {numbers.get(classes[label], classes[label])}"


def test_quora_is_split_by_the_first_question(tmp_path):
    lines = ["id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"]
    for number in range(600):
        lines.append(
            f'{number}\t1\t2\t"the ""question""\n{number % 300}"\tanother {number}?\t{number % 2}'
        )
    put(tmp_path, "quora/quora_duplicate_questions.tsv", lines)
    made = read(tmp_path, "quora")
    firsts = [set(made.splits[split].first) for split in ("train", "validation", "test")]
    assert sum(map(len, firsts)) == 300 and sum(map(len, made.splits.values())) == 600
    assert b'the "question"\n7' in set.union(*firsts)
    for part in firsts[1:]:
        assert len(part) / 300 == pytest.approx(1 / 40, abs=0.02)


@pytest.mark.parametrize("as_list", [True, False])
def test_dialogue(as_list, tmp_path):
    """The published files hold one list, others an object a line."""
    objects = [
        {"sentence1": "a", "sentence2": "b", "label": label, "triple1": ["i", "has", "x"]}
        for label in ("negative", "positive", "neutral")
    ]
    for split in ("train", "dev", "test"):
        lines = [json.dumps(objects)] if as_list else [json.dumps(one) for one in objects]
        put(tmp_path, f"dialogue_nli/dialogue_nli_{split}.jsonl", lines)
    made = read(tmp_path, "dialogue_nli")
    assert made.classes == ("positive", "neutral", "negative")
    for pairs in made.splits.values():
        assert rows(pairs) == [(b"a", b"b", 0), (b"a", b"b", 1), (b"a", b"b", 2)]


def test_wikiqa_as_published(tmp_path):
    for split in ("train", "dev", "test"):
        lines = ['Q1\tis "it ?\tD1\tTitle\tD1-0\tyes\t1\r', "Q2\twho\tD2\tTitle\tD2-0\the\t0\r"]
        put(tmp_path, f"WikiQACorpus/WikiQA-{split}.tsv", [WIKIQA + "\r", *lines])
    made = read(tmp_path, "wikiqa_original")
    for pairs in made.splits.values():
        assert rows(pairs) == [(b'is "it ?', b"yes", 1), (b"who", b"he", 0)]
        assert sorted(pairs.groups) == [0, 1]


def test_trecqa_with_either_training_file(tmp_path):
    header = "question_id\tquestion\tsentence\tlabel\tin_clean"
    for split in ("train", "train-all", "dev", "test"):
        lines = [f"1\tq\t{split}\t1\t1", "2\tr\ta\t0\t0", "1\tq\tb\t0\t1"]
        put(tmp_path, f"trecqa/{split}.tsv", [header, *lines])
    for config, train in (("trecqa", "train"), ("trecqa_all", "train-all")):
        made = read(tmp_path, config)
        assert [len(made.splits[split]) for split in SPLITS] == [3, 3, 3]
        assert (b"q", train.encode(), 1) in rows(made.splits["train"])
        assert len(set(made.splits["test"].groups)) == 2


def test_ubuntu_groups(tmp_path):
    other = {**GROUP, "id": "g2", "candidates": ["one"], "label": 0}
    for split in ("train", "dev", "test"):
        put(tmp_path, f"ubuntu-irc/groups.{split}.jsonl", [json.dumps(GROUP), json.dumps(other)])
    made = read(tmp_path, "ubuntu_irc")
    for pairs in made.splits.values():
        context = b"hi __eot__ how ?"
        expected = [
            (context, b"no", 0),
            (context, b"one", 1),
            (context, b"so", 0),
            (context, b"yes", 1),
        ]
        assert rows(pairs) == expected
        assert sorted(np.bincount(pairs.groups)) == [1, 3]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"candidates": []}, "'candidates' must be a list of at least one text"),
        ({"context": "hi"}, "'context' must be a list of at least one text"),
        ({"candidates": ["a", 1, "c"]}, "'candidates' must be a list"),
        ({"label": 3}, "the label is 3: expected the index, from 0, of one of its 3 candidates"),
        ({"label": -1}, "the label is -1: expected the index"),
        ({"label": True}, "the label is True: expected the index"),
    ],
)
def test_ubuntu_groups_that_cannot_be(changed, message, tmp_path):
    for split in ("train", "dev", "test"):
        lines = [json.dumps(GROUP), json.dumps({**GROUP, **changed})]
        put(tmp_path, f"ubuntu-irc/groups.{split}.jsonl", lines)
    with pytest.raises(UserError, match=f"jsonl, line 2: {message}"):
        read(tmp_path, "ubuntu_irc")


def test_ubuntu_as_published(tmp_path):
    put(
        tmp_path,
        "ubuntu_v2/train.csv",
        ["Context,Utterance,Label", '"a, b __eot__ ",so,1.0', "a,no,0", "a,ha,0"],
    )
    others = ",".join(f"Distractor_{number}" for number in range(9))
    for split in ("valid", "test"):
        header = f"Context,Ground Truth Utterance,{others}"
        put(
            tmp_path,
            f"ubuntu_v2/{split}.csv",
            [header, ",".join("qtabcdefghi"), ",".join("qtjklmnopqr")],
        )
    made = read(tmp_path, "ubuntu_v2")
    assert rows(made.splits["train"]) == [
        (b"a", b"ha", 0),
        (b"a", b"no", 0),
        (b"a, b __eot__ ", b"so", 1),
    ]
    assert sorted(made.splits["train"].groups) == [0, 1, 2]
    for split in ("validation", "test"):
        pairs = made.splits[split]
        assert np.bincount(pairs.groups).tolist() == [10, 10] and pairs.labels.sum() == 2
        assert set(pairs.second[pairs.labels == 1]) == {b"t"}


@pytest.mark.parametrize("config", ["wikiqa", "quora_part"])
def test_labels_that_cannot_be(config, tmp_path):
    for split in ("train", "train_subset", "dev", "test"):
        put(
            tmp_path,
            f"wikiqa/{split}.tsv",
            ["question_id\tquestion\tsentence\tlabel", "1\tq\ta\t0", "1\tq\tb\t-"],
        )
        put(tmp_path, f"qqp/{split}.tsv", ["question1\tquestion2\tlabel", "q\ta\t0", "q\tb\t2"])
    with pytest.raises(UserError, match=r"tsv, line 3: the label is '(-|2)': expected one of 0, 1"):
        read(tmp_path, config)


def test_configs_to_rank():
    assert [config.name for config in PairCorpus.BUILDER_CONFIGS if config.ranked] == RANKED


LONG, COMPLETE = pytest.mark.long, pytest.mark.complete


@needs_shared_data
@pytest.mark.parametrize(
    ("config", "pairs", "positive"),
    [
        ("trecqa", (4_718, 1_148, 1_517), {}),
        pytest.param("snli_part", (18_000, 9_842, 9_824), {}, marks=LONG),
        pytest.param("quora_part", (18_991, 10_000, 10_000), {}, marks=LONG),
        pytest.param(
            "wikiqa", (20_360, 2_733, 6_165), {"validation": 126, "test": 243}, marks=LONG
        ),
        pytest.param("trecqa_all", (53_417, 1_148, 1_517), {}, marks=COMPLETE),
        pytest.param(
            *("ubuntu_irc", (64_828, 12_790, 23_260), {"train": 32_414, "test": 2_326}),
            marks=COMPLETE,
        ),
    ],
)
def test_published_counts(config, pairs, positive, tmp_path):
    manual = PATH / ("raw" if config.endswith("_part") else "raw-qa")
    builder = PairCorpus(config=config, data_dir=tmp_path)
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(manual_dir=manual))
    made = pairs_of(builder)
    assert tuple(len(made.splits[split]) for split in SPLITS) == pairs
    assert set(made.dropped.values()) == {0} and set(made.splits) == set(SPLITS)
    for split, count in positive.items():
        part = made.splits[split]
        assert len(set(part.groups[part.labels == 1])) == count


def translations(folder, config, source, target):
    builder = prepared(ParallelCorpus, folder, config)
    return parallel_from_tfds(builder, SPLITS, source, target)


def sides(pairs):
    return [(s.decode(), t.decode()) for s, t in zip(pairs.source, pairs.target, strict=True)]


@pytest.mark.parametrize(
    ("config", "names", "languages", "suffix"),
    [
        ("iwslt15_envi", ("train", "tst2012", "tst2013"), ("en", "vi"), ""),
        ("multi30k", ("train", "val", "test_2016_flickr"), ("en", "de"), ".gz"),
    ],
)
def test_corpus_of_a_file_a_language(config, names, languages, suffix, tmp_path):
    folder = "multi30k" if config == "multi30k" else "iwslt15-envi"
    for name in names:
        for language in languages:
            lines = [f"{name} {language} {n} &apos;s" for n in (3, 1, 2)]
            put(tmp_path, f"{folder}/{name}.{language}{suffix}", lines)
    there, back = (
        translations(tmp_path, config, *languages),
        translations(tmp_path, config, *languages[::-1]),
    )
    for split, name in zip(SPLITS, names, strict=True):
        expected = [
            tuple(f"{name} {language} {n} &apos;s" for language in languages) for n in (3, 1, 2)
        ]
        assert sides(there.splits[split]) == expected
        assert sides(back.splits[split]) == [pair[::-1] for pair in expected]
    assert there.version == f"parallel_corpus/{config}/1.0.0" and there.classes == ()
    with pytest.raises(
        UserError, match=f"unknown language of parallel_corpus/{config}.*'fr'.*choose from"
    ):
        translations(tmp_path, config, "fr", languages[0])


def test_corpus_of_tables(tmp_path):
    for name in ("train10k", "tst2012", "tst2013"):
        rows_of_table = [
            "en\tset\tvi",
            f"Hi .\tx\tChào {name} .",
            "\tx\tnot in English",
            "So ?\tx\t \u00a0",
        ]
        put(tmp_path, f"iwslt15-envi/{name}.tsv.xz", rows_of_table)
    texts = translations(tmp_path, "iwslt15_envi_part", "vi", "en")
    assert sides(texts.splits["validation"]) == [("Chào tst2012 .", "Hi .")]
    assert texts.dropped == dict.fromkeys(SPLITS, 2)


def test_uneven_files_of_a_corpus_are_named(tmp_path):
    for name in ("train", "val", "test_2016_flickr"):
        for language, count in (("en", 3), ("de", 2)):
            put(tmp_path, f"multi30k/{name}.{language}", ["a"] * count)
    with pytest.raises(
        UserError, match=r"different numbers of lines: .*train\.en has 3, .*train\.de has 2"
    ):
        translations(tmp_path, "multi30k", "en", "de")


@needs_shared_data
@pytest.mark.parametrize(
    ("config", "languages", "sizes"),
    [
        pytest.param("multi30k", ("en", "de"), (29_000, 1014, 1000), marks=pytest.mark.long),
        ("iwslt15_envi_part", ("en", "vi"), (10_000, 1553, 1268)),
    ],
)
def test_published_pairs(config, languages, sizes, tmp_path):
    builder = ParallelCorpus(config=config, data_dir=tmp_path)
    manual = tfds.download.DownloadConfig(manual_dir=PATH / "raw-qa")
    builder.download_and_prepare(download_config=manual)
    texts = parallel_from_tfds(builder, SPLITS, *languages)
    counts = [len(texts.splits[split]) + texts.dropped[split] for split in SPLITS]
    assert tuple(counts) == sizes and sum(texts.dropped.values()) < 10
