"""Train a task into a run folder: strategies, precision, checkpoints and resuming."""

from keras_quasiattn.training.attention_summaries import AttentionSummaries
from keras_quasiattn.training.result import append_result, result_row
from keras_quasiattn.training.run_folder import RunFolder
from keras_quasiattn.training.trainer import train

__all__ = ["AttentionSummaries", "RunFolder", "append_result", "result_row", "train"]
