"""Search of a task's options with KerasTuner; each trial is a training run."""

from keras_quasiattn.extras import needs

with needs("tuning"):
    from keras_quasiattn.tuning.spaces import search_space
    from keras_quasiattn.tuning.tuner import search

__all__ = ["search", "search_space"]
