"""Create a validation split for data without one."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from keras_quasiattn.lab.data import LabelledTextSet

_Texts = TypeVar("_Texts", bound=Any)

SPLITS = ("train", "validation", "test")
# A hash chooses a tenth of the training texts; the fold selects one of the ten tenths.
# Cross-validation uses one fold after another.
HELD_OUT: Mapping[str, Any] = {"validation_share": 0.1, "validation_fold": 0}
# For a user's own files; the validation file is optional.
OWN_DATA: Mapping[str, Any] = {
    **{"train": "", "validation": "", "test": ""},
    "test_share": 0.0,
    **HELD_OUT,
}
# For files with named columns: the names in the file of columns that differ.
OWN_TABLE: Mapping[str, Any] = {**OWN_DATA, "columns": {}}


def hold_out(
    whole: "LabelledTextSet[_Texts]", options: Mapping[str, Any]
) -> tuple["LabelledTextSet[_Texts]", list[str]]:
    """Return the set with a validation split, and notes on how the split was made.

    With `test_share`, a set without a test split first gets one in the same way.

    Args:
        whole: data with or without a validation split.
        options: the task's data options; they include `HELD_OUT` if the data has no such split.

    Raises:
        UserError: a split would be empty.
    """
    rows, notes = len(whole.splits["train"]), []
    if options.get("test_share") and "test" not in whole.splits:
        # The test split takes the end of the hash range; the validation split takes its start.
        share = options["test_share"]
        whole = whole.with_held_out("test", 1 - share, 1.0, f"data.test_share is {share}")
        notes.append(f"test is {len(whole.splits['test']):,} of {rows:,} rows, by hash")
    if "validation" not in whole.splits:
        share, fold = options["validation_share"], options["validation_fold"]
        whole = whole.with_validation(share, fold)
        held_out = len(whole.splits["validation"])
        notes.append(f"validation is {held_out:,} of {rows:,} training rows, by hash")
    return whole, notes
