"""The data sources of `read`, by preset."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data import (
    LabelledTextSet,
    QuestionCorpus,
    ReadingTexts,
    questions_from_files,
    questions_from_tfds,
)
from keras_quasiattn.lab.tasks.held_out import hold_out
from keras_quasiattn.lab.tasks.sources import Source, own_files

ReadingSet = LabelledTextSet[ReadingTexts]
EXAMPLE = (
    "When was the tower built?\tThe tower in Paris was built from 1887 to 1889. It is 330 m high."
)


_SQUAD = {"train": "train", "test": "test"}
_LINES = Source(
    builder=QuestionCorpus,
    config="squad_lines",
    splits=_SQUAD,
    note="offsets of repeated answers reconstructed in the training questions",
)
SOURCES: Mapping[str, Source] = {
    # The published test questions are secret, so the test split here is the development set.
    "squad": Source(builder="squad/v1.1", splits={"train": "train", "test": "validation"}),
    "squad_json": Source(builder=QuestionCorpus, config="squad", splits=_SQUAD),
    "squad_lines": _LINES,
    "squad_part": _LINES,
    "quasar_t": Source(builder=QuestionCorpus, config="quasar_t_short"),
    "quasar_t_long": Source(builder=QuestionCorpus, config="quasar_t_long"),
    "search_qa": Source(builder=QuestionCorpus, config="search_qa"),
}


def load_questions(
    preset: str, options: Mapping[str, Any], data_dir: Path
) -> tuple[ReadingSet, str]:
    """Return the questions of a preset of `read`, with a validation split, and a note on them.

    Args:
        preset: a name in `SOURCES`, or "own".
        options: the task's data options.
        data_dir: folder of the TFDS data.

    Raises:
        UserError: files are missing or malformed, or a share is out of range.
    """
    share = options["train_share"]
    if not 0 < share <= 1:
        raise UserError(f"data.train_share is {share}: it must be above 0 and at most 1")
    notes = []
    if preset in SOURCES:
        source = SOURCES[preset]
        whole = questions_from_tfds(source.prepared(data_dir), source.splits)
        notes += source.notes(whole.splits["train"])
    else:
        whole = questions_from_files(own_files(options))
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
        notes.append(
            f"a part: {len(part):,} of {len(train):,} training questions, by a hash of the passage"
        )
        whole = dataclasses.replace(whole, splits={**whole.splits, "train": part})
    return whole, "; ".join(notes)
