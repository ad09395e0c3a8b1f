"""Makes a validation split for data that has none."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from keras_quasiattn.data import LabelledTextSet

_Texts = TypeVar("_Texts", bound=Any)

SPLITS = ("train", "validation", "test")
# A hash chooses a tenth of the training texts; the fold says which of the ten tenths.
# Cross-validation uses one fold after another.
HELD_OUT: Mapping[str, Any] = {"validation_share": 0.1, "validation_fold": 0}
# For a user's own files; the validation file is optional.
OWN_DATA: Mapping[str, Any] = {"train": "", "validation": "", "test": "", **HELD_OUT}
# For files with named columns: their names there, where they are others.
OWN_TABLE: Mapping[str, Any] = {**OWN_DATA, "columns": {}}


def hold_out(
    whole: "LabelledTextSet[_Texts]", options: Mapping[str, Any]
) -> tuple["LabelledTextSet[_Texts]", list[str]]:
    """The set with a validation split, and notes on how the split was made.

    Args:
        whole: data with or without a validation split.
        options: the task's data options; they include `HELD_OUT` if the data has no such split.

    Raises:
        UserError: the training or validation split would be empty.
    """
    if "validation" in whole.splits:
        return whole, []
    rows = len(whole.splits["train"])
    split = whole.with_validation(options["validation_share"], options["validation_fold"])
    return split, [
        f"validation is {len(split.splits['validation']):,} of {rows:,} training rows, by hash"
    ]
