"""Search with KerasTuner over the attention of any Keras model or the options of a task.

`choose_attention` needs only KerasTuner. `search` and `search_space` work on tasks; they are
defined in `keras_quasiattn.lab.tuning`, which is imported on first use and needs the extra `tasks`.
"""

from typing import TYPE_CHECKING

from keras_quasiattn.extras import lazy_attributes, needs

with needs("tuning"):
    from keras_quasiattn.tuning.attention_space import choose_attention

if TYPE_CHECKING:
    from keras_quasiattn.lab.tuning.search import search
    from keras_quasiattn.lab.tuning.search_space import search_space

__all__ = ["choose_attention", "search", "search_space"]
__getattr__ = lazy_attributes(
    __name__,
    {name: f"keras_quasiattn.lab.tuning.{name}" for name in ("search", "search_space")},
    extra="tasks",
)
