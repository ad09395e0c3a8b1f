"""Search with KerasTuner over the attention of any Keras model or the options of a task.

`choose_attention` needs only KerasTuner. `search` and `search_space` work on tasks; they are
defined in `keras_quasiattn.lab.tuning`, which is imported on first use and needs the extra `tasks`.
"""

from typing import TYPE_CHECKING

from keras_quasiattn.extras import lazy_attributes, needs

with needs("tuning"):
    from keras_quasiattn.tuning.attention_space import choose_attention

if TYPE_CHECKING:
    from keras_quasiattn.lab.tuning.search import search, search_space

__all__ = ["choose_attention", "search", "search_space"]
__getattr__ = lazy_attributes(
    __name__,
    dict.fromkeys(("search", "search_space"), "keras_quasiattn.lab.tuning.search"),
    extra="tasks",
)
