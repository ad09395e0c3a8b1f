"""Train a task in a run folder, with strategies, precision policies, checkpoints and resuming."""

from typing import TYPE_CHECKING

from keras_quasiattn.extras import lazy_attributes

if TYPE_CHECKING:
    from keras_quasiattn.lab.training.attention_summaries import AttentionSummaries
    from keras_quasiattn.lab.training.run_folder import RunFolder
    from keras_quasiattn.lab.training.trainer import append_result, finish, result_row, train

__all__ = ["AttentionSummaries", "RunFolder", "append_result", "finish", "result_row", "train"]
__getattr__ = lazy_attributes(
    __name__,
    {
        "AttentionSummaries": "attention_summaries",
        "RunFolder": "run_folder",
        **dict.fromkeys(("append_result", "finish", "result_row", "train"), "trainer"),
    },
    extra="tasks",
    AttentionSummaries="report,tensorflow",
)
