"""The validation split of data that come without one."""

from collections.abc import Mapping
from typing import Any, TypeVar

from keras_quasiattn.data import LabelledTextSet

_Texts = TypeVar("_Texts", bound=Any)

# A tenth of the training texts, of ten tenths the first; cross-validation takes one after the other.
HELD_OUT: Mapping[str, Any] = {"validation_share": 0.1, "validation_fold": 0}
# Of a user's own files, of which the one to validate on may be missing.
OWN_DATA: Mapping[str, Any] = {"train": "", "validation": "", "test": "", **HELD_OUT}


def hold_out(
    whole: LabelledTextSet[_Texts], options: Mapping[str, Any]
) -> tuple[LabelledTextSet[_Texts], list[str]]:
    """The set with a validation split, and what is to be said of it.

    Args:
        whole: data that may have one.
        options: the task's data options, with those of `HELD_OUT` where the data have none.

    Raises:
        UserError: nothing would be left on one of the sides.
    """
    if "validation" in whole.splits:
        return whole, []
    rows = len(whole.splits["train"])
    parted = whole.with_validation(options["validation_share"], options["validation_fold"])
    return parted, [
        f"validation is {len(parted.splits['validation']):,} of {rows:,} training rows, by hash"
    ]
