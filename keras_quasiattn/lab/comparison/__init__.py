"""Compare attentions in the same model with the same options, learning rates and seeds."""

from typing import TYPE_CHECKING

from keras_quasiattn.extras import lazy_attributes

if TYPE_CHECKING:
    from keras_quasiattn.lab.comparison.compared import Comparison, Entry
    from keras_quasiattn.lab.comparison.differences import Difference, difference
    from keras_quasiattn.lab.comparison.models import compare

__all__ = ["Comparison", "Difference", "Entry", "compare", "difference"]
# Reading experiment files needs neither NumPy nor Keras.
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
