"""Search with KerasTuner: of a task's options, or of the attention in a model of one's own."""

from typing import TYPE_CHECKING

from keras_quasiattn.extras import lazy_attributes, needs

with needs("tuning"):
    from keras_quasiattn.tuning.attention_space import choose_attention

if TYPE_CHECKING:
    from keras_quasiattn.tuning.spaces import search_space
    from keras_quasiattn.tuning.tuner import search

__all__ = ["choose_attention", "search", "search_space"]
# `choose_attention` needs KerasTuner alone; the others need tasks, and all that tasks need.
__getattr__ = lazy_attributes(
    __name__, {"search": "tuner", "search_space": "spaces"}, extra="tasks"
)
