"""Published questions with passages as TFDS data sets."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from keras_quasiattn.data.manual_files import manual_file, manual_folder
from keras_quasiattn.data.question_files import (
    Question,
    QuestionReader,
    read_quasar,
    read_question_lines,
    read_search_qa,
    read_squad,
)


@dataclasses.dataclass
class QuestionCorpusConfig(tfds.core.BuilderConfig):
    """The settings of one corpus.

    Args:
        name: the config's name.
        reader: reads the files or the folder of a split.
        splits: by split, the paths in the manual folder.
        folders: whether the paths are folders.
    """

    name: str = ""
    reader: QuestionReader = read_squad
    splits: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    folders: bool = False


def _quasar(kind: str) -> QuestionCorpusConfig:
    splits = {
        split: (
            f"quasar-t/questions/{name}_questions.json",
            f"quasar-t/contexts/{kind}/{name}_contexts.json",
        )
        for split, name in (("train", "train"), ("validation", "dev"), ("test", "test"))
    }
    return QuestionCorpusConfig(name=f"quasar_t_{kind}", reader=read_quasar, splits=splits)


class QuestionCorpus(tfds.core.GeneratorBasedBuilder):
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
    In Quasar-T and SearchQA, the passages that a search engine found are joined by newlines. The
    answer is searched for in them (distant supervision): `answer_start` is its first occurrence as
    whole words, ignoring case, or -1.

    An example is {id, question, context, answers: {text, answer_start}}, as in TFDS's own `squad`;
    `answer_start` is in characters.

    Sources: Rajpurkar et al. 2016 (SQuAD), Dhingra et al. 2017 (Quasar-T), Dunn et al. 2017
    (SearchQA).

    ```python
    builder = QuestionCorpus(config="squad", data_dir="data")
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(manual_dir="files"))
    questions_from_tfds(builder, {"train": "train", "test": "test"}).splits["train"].passages[0]
    ```
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}
    BUILDER_CONFIGS = [
        QuestionCorpusConfig(
            name="squad",
            splits={"train": ("squad/train-v1.1.json",), "test": ("squad/dev-v1.1.json",)},
        ),
        QuestionCorpusConfig(
            name="squad_lines",
            reader=read_question_lines,
            splits={"train": ("squad11/train.jsonl",), "test": ("squad11/dev.jsonl",)},
        ),
        _quasar("short"),
        _quasar("long"),
        QuestionCorpusConfig(
            name="search_qa",
            reader=read_search_qa,
            splits={
                "train": ("searchqa/train",),
                "validation": ("searchqa/val",),
                "test": ("searchqa/test",),
            },
            folders=True,
        ),
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "put the corpus's files, plain or .xz or .gz, into a folder of the manual folder; the "
        "documentation of QuestionCorpus lists their names"
    )

    def _info(self) -> tfds.core.DatasetInfo:
        text, number = tfds.features.Text(), tfds.features.Scalar(np.int32)
        features = {
            "id": text,
            "question": text,
            "context": text,
            "answers": tfds.features.Sequence({"text": text, "answer_start": number}),
        }
        return tfds.core.DatasetInfo(
            builder=self,
            description="Questions and passages.",
            features=tfds.features.FeaturesDict(features),
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        config = self.builder_config
        find = manual_folder if config.folders else manual_file
        files = {
            split: [find(dl_manager, name, self) for name in names]
            for split, names in config.splits.items()
        }
        return {split: self._generate_examples(paths) for split, paths in files.items()}

    def _generate_examples(self, paths: list[Path]) -> Iterator[tuple[int, dict[str, Any]]]:
        for key, question in enumerate(self.builder_config.reader(*paths)):
            yield key, example_of(question)


def example_of(question: Question) -> dict[str, Any]:
    """Converts a question to an example of the data set."""
    return {
        "id": question.id,
        "question": question.question,
        "context": question.context,
        "answers": {"text": question.answers, "answer_start": question.starts},
    }
