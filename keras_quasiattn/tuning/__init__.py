"""Search with KerasTuner, of the attention in any Keras model or of a task's options.

`choose_attention` needs KerasTuner alone. `search` and `search_space` work on tasks: they are
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
