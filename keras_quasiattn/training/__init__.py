"""Training of a task in a run folder: strategies, precision, checkpoints and resuming."""

from typing import TYPE_CHECKING

from keras_quasiattn.extras import lazy_attributes

if TYPE_CHECKING:
    from keras_quasiattn.training.attention_summaries import AttentionSummaries
    from keras_quasiattn.training.result import append_result, result_row
    from keras_quasiattn.training.run_folder import RunFolder
    from keras_quasiattn.training.trainer import train

__all__ = ["AttentionSummaries", "RunFolder", "append_result", "result_row", "train"]
# `AttentionSummaries` needs TensorBoard; the others need tasks, and all that tasks need.
__getattr__ = lazy_attributes(
    __name__,
    {
        "AttentionSummaries": "attention_summaries",
        "RunFolder": "run_folder",
        "append_result": "result",
        "result_row": "result",
        "train": "trainer",
    },
    extra="tasks",
)
