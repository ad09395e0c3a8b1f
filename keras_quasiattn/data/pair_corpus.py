"""Published pairs of texts, and questions with candidates, as TFDS data sets."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from keras_quasiattn.data.hashing import hash_to_unit_interval
from keras_quasiattn.data.manual_files import manual_file
from keras_quasiattn.data.table_files import read_objects, read_table
from keras_quasiattn.data.text_pairs import NO_LABEL, RELEVANCE
from keras_quasiattn.errors import UserError
from keras_quasiattn.text import open_text

_Reader = Callable[[Path], Iterator[tuple[int, dict[str, str]]]]

END_OF_TURN = " __eot__ "  # separates the turns of a context in the Ubuntu Dialogue Corpus
_QUORA_KEY = 29
_QUORA_SHARE = 0.025  # about 10,000 of 404,290 pairs


def _table(*sources: str, only: tuple[str, str] | None = None, quoted: bool = False) -> _Reader:
    """Makes a reader of the columns of first text, second text, label and perhaps question id.

    With `only`, the reader skips rows in which that column has another value.
    """

    def read(file: Path) -> Iterator[tuple[int, dict[str, str]]]:
        wanted = (*sources, *([only[0]] if only else []))
        for line, row in read_table(file, wanted, quoted=quoted):
            if only is None or row[only[0]] == only[1]:
                names = ("first", "second", "label", "question_id")
                yield (
                    line,
                    {name: row[source] for name, source in zip(names, sources, strict=False)},
                )

    return read


def _hashed_part(reader: _Reader, least: float, below: float) -> _Reader:
    """Keeps rows whose first text hashes into this range, so equal first texts stay together."""

    def read(file: Path) -> Iterator[tuple[int, dict[str, str]]]:
        for line, row in reader(file):
            if least <= hash_to_unit_interval(_QUORA_KEY, [row["first"].encode()])[0] < below:
                yield line, row

    return read


def _candidates(
    question_id: str, first: str, candidates: list[str], right: int
) -> Iterator[dict[str, str]]:
    for number, second in enumerate(candidates):
        label = RELEVANCE[number == right]
        yield {"question_id": question_id, "first": first, "second": second, "label": label}


def _response_groups(file: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Reads JSONL: id, context (a list of turns), candidates, and the true one's index as label."""
    with open_text(file) as stream:
        for line, group in read_objects(file, stream, ("id", "context", "candidates", "label")):
            for name in ("context", "candidates"):
                texts = group.get(name)
                if not (
                    isinstance(texts, list)
                    and texts
                    and all(isinstance(text, str) for text in texts)
                ):
                    raise UserError(
                        f"{file}, line {line}: {name!r} must be a list of at least one text"
                    )
            context, candidates, right = group["context"], group["candidates"], group.get("label")
            if type(right) is not int or not 0 <= right < len(candidates):
                raise UserError(
                    f"{file}, line {line}: the label is {right!r}: expected the index, from 0, "
                    f"of one of its {len(candidates)} candidates"
                )
            for row in _candidates(
                str(group.get("id", line)), END_OF_TURN.join(context), candidates, right
            ):
                yield line, row


def _single_responses(file: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Reads a CSV of training pairs; every row is a separate question."""
    for line, row in _table("Context", "Utterance", "Label")(file):
        label = row["label"].removesuffix(".0")
        yield line, {**row, "label": label, "question_id": str(line)}


def _true_response_first(file: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Reads a CSV with a context, the true response and nine others in each row."""
    others = [f"Distractor_{number}" for number in range(9)]
    for line, row in read_table(file, ("Context", "Ground Truth Utterance", *others)):
        candidates = [row[name] for name in ("Ground Truth Utterance", *others)]
        for candidate in _candidates(str(line), row["Context"], candidates, 0):
            yield line, candidate


@dataclasses.dataclass
class PairCorpusConfig(tfds.core.BuilderConfig):
    """The settings of one corpus.

    Args:
        name: the config's name.
        classes: the name of each class, by its label in the files.
        splits: by split, the file in the manual folder and the reader of its rows.
        ranked: whether the pairs are questions with candidates.
    """

    name: str = ""
    classes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    splits: Mapping[str, tuple[str, _Reader]] = dataclasses.field(default_factory=dict)
    ranked: bool = False


def _splits(pattern: str, reader: _Reader, **names: str) -> dict[str, tuple[str, _Reader]]:
    return {split: (pattern.format(name), reader) for split, name in names.items()}


def _quora_splits() -> dict[str, tuple[str, _Reader]]:
    whole = _table("question1", "question2", "is_duplicate", quoted=True)
    edges = {"test": (0, 1), "validation": (1, 2), "train": (2, 1 / _QUORA_SHARE)}
    return {
        split: (
            "quora/quora_duplicate_questions.tsv",
            _hashed_part(whole, least * _QUORA_SHARE, below * _QUORA_SHARE),
        )
        for split, (least, below) in edges.items()
    }


def _ranked(name: str, splits: Mapping[str, tuple[str, _Reader]]) -> PairCorpusConfig:
    return PairCorpusConfig(name=name, classes=_classes(*RELEVANCE), splits=splits, ranked=True)


def _trecqa(train: str, clean: bool) -> PairCorpusConfig:
    columns = ("question", "sentence", "label", "question_id")
    held_out = _table(*columns, only=("in_clean", "1") if clean else None)
    splits = {
        **_splits("trecqa/{}.tsv", _table(*columns), train=train),
        **_splits("trecqa/{}.tsv", held_out, **_HELD_OUT),
    }
    return _ranked(f"trecqa{'_all' * (train == 'train-all')}{'_clean' * clean}", splits)


def _classes(*names: str) -> dict[str, str]:
    return {name: name for name in names}


_HELD_OUT = {"validation": "dev", "test": "test"}
_OFFICIAL = {"train": "train", **_HELD_OUT}
_PART = {"train": "train_subset", **_HELD_OUT}
_DUPLICATES = {"0": "not_duplicate", "1": "duplicate"}
_NLI = _table("premise", "hypothesis", "label")


class PairCorpus(tfds.core.GeneratorBasedBuilder):
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
    `quora` may be quoted; its one file is split by a hash of the first question, with a fortieth
    each for validation and test. In `trecqa_clean` and `trecqa_all_clean`, the validation and test
    splits hold only the rows with in_clean = 1, which are those of questions with both classes;
    the training split is the same. The training split of a `_part` config holds those of the
    published rows that were available, or is absent.

    An example is {first, second, label}, or {question_id, first, second, label} if pairs are to be
    ranked. The label -1 means that there is no gold label. " __eot__ " joins the turns of a
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

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}
    BUILDER_CONFIGS = [
        PairCorpusConfig(
            name="snli_part",
            classes=_classes("entailment", "neutral", "contradiction"),
            splits=_splits("snli/{}.tsv", _NLI, **_PART),
        ),
        PairCorpusConfig(
            name="scitail_part",
            classes=_classes("entails", "neutral"),
            splits=_splits("scitail/{}.tsv", _NLI, **_HELD_OUT),
        ),
        PairCorpusConfig(
            name="quora_part",
            classes=_DUPLICATES,
            splits=_splits("qqp/{}.tsv", _table("question1", "question2", "label"), **_PART),
        ),
        PairCorpusConfig(name="quora", classes=_DUPLICATES, splits=_quora_splits()),
        PairCorpusConfig(
            name="dialogue_nli",
            classes=_classes("positive", "neutral", "negative"),
            splits=_splits(
                "dialogue_nli/dialogue_nli_{}.jsonl",
                _table("sentence1", "sentence2", "label"),
                **_OFFICIAL,
            ),
        ),
        _ranked(
            "wikiqa",
            _splits(
                "wikiqa/{}.tsv", _table("question", "sentence", "label", "question_id"), **_OFFICIAL
            ),
        ),
        _ranked(
            "wikiqa_original",
            _splits(
                "WikiQACorpus/WikiQA-{}.tsv",
                _table("Question", "Sentence", "Label", "QuestionID"),
                **_OFFICIAL,
            ),
        ),
        *(_trecqa(train, clean) for train in ("train", "train-all") for clean in (False, True)),
        _ranked("ubuntu_irc", _splits("ubuntu-irc/groups.{}.jsonl", _response_groups, **_OFFICIAL)),
        _ranked(
            "ubuntu_v2",
            {
                **_splits("ubuntu_v2/{}.csv", _single_responses, train="train"),
                **_splits(
                    "ubuntu_v2/{}.csv", _true_response_first, validation="valid", test="test"
                ),
            },
        ),
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "put the corpus's files, plain or .xz or .gz, into a folder of the manual folder; the "
        "documentation of PairCorpus lists their names and columns"
    )

    def _info(self) -> tfds.core.DatasetInfo:
        config = self.builder_config
        features = {
            "first": tfds.features.Text(),
            "second": tfds.features.Text(),
            "label": tfds.features.ClassLabel(names=list(config.classes.values())),
        }
        if config.ranked:
            features["question_id"] = tfds.features.Text()
        return tfds.core.DatasetInfo(
            builder=self,
            description="Pairs of texts.",
            features=tfds.features.FeaturesDict(features),
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        splits = self.builder_config.splits
        files = {split: manual_file(dl_manager, name, self) for split, (name, _) in splits.items()}
        return {
            split: self._generate_examples(file, splits[split][1]) for split, file in files.items()
        }

    def _generate_examples(
        self, file: Path, reader: _Reader
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        config = self.builder_config
        numbers: dict[str, int] = {label: number for number, label in enumerate(config.classes)}
        if not config.ranked:
            numbers[NO_LABEL] = -1
        for key, (line, row) in enumerate(reader(file)):
            if row["label"] not in numbers:
                raise UserError(
                    f"{file}, line {line}: the label is {row['label']!r}: "
                    f"expected one of {', '.join(config.classes)}"
                )
            yield key, {**row, "label": numbers[row["label"]]}
