"""Compares attentions: the same model, options, rates and seeds, and a verdict with an interval."""

from typing import TYPE_CHECKING

from keras_quasiattn.extras import lazy_attributes

if TYPE_CHECKING:
    from keras_quasiattn.lab.comparison.compared import Comparison, Entry
    from keras_quasiattn.lab.comparison.differences import Difference, difference
    from keras_quasiattn.lab.comparison.models import compare

__all__ = ["Comparison", "Difference", "Entry", "compare", "difference"]
# Files of experiments are read without NumPy and Keras.
__getattr__ = lazy_attributes(
    __name__,
    {
        "Comparison": "compared",
        "Difference": "differences",
        "Entry": "compared",
        "compare": "models",
        "difference": "differences",
    },
    extra="tensorflow",
)
