"""Where the questions of `read` come from, by preset."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from keras_quasiattn.data import (
    LabelledTextSet,
    QuestionCorpus,
    ReadingTexts,
    prepare,
    questions_from_files,
    questions_from_tfds,
)
from keras_quasiattn.errors import UserError
from keras_quasiattn.tasks.held_out import hold_out

ReadingSet = LabelledTextSet[ReadingTexts]
_SPLITS = ("train", "validation", "test")
EXAMPLE = "When was the tower built?\tThe tower in Paris was built from 1887 to 1889. It is 330 m high."


@dataclasses.dataclass(frozen=True)
class _Source:
    """A TFDS data set: a name that TFDS knows, or a config of `QuestionCorpus`."""

    name: str = ""
    config: str = ""
    splits: Mapping[str, str] = dataclasses.field(default_factory=lambda: {split: split for split in _SPLITS})
    note: str = ""

    def make(self, data_dir: Path) -> tfds.core.DatasetBuilder:
        if self.name:
            return tfds.builder(self.name, data_dir=data_dir)
        return QuestionCorpus(config=self.config, data_dir=data_dir)


_SQUAD = {"train": "train", "test": "test"}
_LINES = _Source(
    config="squad_lines",
    splits=_SQUAD,
    note="offsets of repeated answers reconstructed in the training questions",
)
SOURCES: Mapping[str, _Source] = {
    # The published test questions are kept secret, so the development questions are measured on.
    "squad": _Source("squad/v1.1", splits={"train": "train", "test": "validation"}),
    "squad_json": _Source(config="squad", splits=_SQUAD),
    "squad_lines": _LINES,
    "squad_part": _LINES,
    "quasar_t": _Source(config="quasar_t_short"),
    "quasar_t_long": _Source(config="quasar_t_long"),
    "search_qa": _Source(config="search_qa"),
}


def load_questions(preset: str, options: Mapping[str, Any], data_dir: Path) -> tuple[ReadingSet, str]:
    """The questions of a preset of `read`, with a validation split, and a note on what they are.

    Args:
        preset: a name in `SOURCES`, or "own".
        options: the task's data options.
        data_dir: folder of the TFDS data.

    Raises:
        UserError: files are missing or have another form, or a share is out of range.
    """
    share = options["train_share"]
    if not 0 < share <= 1:
        raise UserError(f"data.train_share is {share}: it must be above 0 and at most 1")
    notes = []
    if preset in SOURCES:
        source = SOURCES[preset]
        builder = prepare(lambda: source.make(data_dir), data_dir)
        whole = questions_from_tfds(builder, source.splits)
        notes += [source.note] if source.note else []
    else:
        files = {split: options[split] for split in _SPLITS if options[split]}
        if "train" not in files:
            raise UserError("data.train is '': name a file, with --data FILE or --set data.train=FILE")
        whole = questions_from_files(files)
    dropped = sum(whole.dropped.values())
    if dropped:
        notes.append(f"{dropped:,} training questions without their answer in the passage left out")
    whole, of_validation = hold_out(whole, options)
    notes += of_validation
    if share < 1:
        train = whole.splits["train"]
        part = train.part(share)
        if not len(part):
            raise UserError(
                f"data.train_share is {share}: it leaves none of {len(train):,} training questions"
            )
        notes.append(f"a part: {len(part):,} of {len(train):,} training questions, by a hash of the passage")
        whole = dataclasses.replace(whole, splits={**whole.splits, "train": part})
    return whole, "; ".join(notes)
