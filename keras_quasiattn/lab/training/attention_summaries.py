"""Record the attention during training, for TensorBoard and for reports."""

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.histogram import metadata
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util.tensor_util import make_tensor_proto

from keras_quasiattn.errors import FileError
from keras_quasiattn.files import read_json_lines, write_json_lines
from keras_quasiattn.report.attention_figures import AttentionFigures, scalars_of

FILE = "attention.jsonl"


class AttentionSummaries(keras.callbacks.Callback):
    """Record, before training and after every epoch, how a model attends to one fixed batch.

    TensorBoard gets, under `folder/tensorboard/attention`, a histogram of every matrix (tanh(E),
    the gate, M, softmax weights) and the shares of its entries near −1, 0 and 1; the density and
    the temperature of gates; and the learned α and β of each head. The same values go to
    `folder/attention.jsonl`, one row per epoch, which `quasiattn report` plots. For a model without
    attention, neither is written.

    Args:
        folder: folder for both; a run folder or any other.
        inputs: a batch of the model's inputs; 32 examples are enough and cost little.
        steps_per_epoch: updates per epoch before the current one, from which a row's `step` is
            computed. By default `step` is the optimizer's update count.
        start: the update from which training resumes; rows beyond it are dropped. Defaults to 0:
            training is new, and all rows are.

    Raises:
        FileError: the folder cannot be written.

    ```python
    model.fit(x, y, callbacks=[AttentionSummaries("logs", x[:32])])
    ```
    """

    def __init__(
        self, folder: str | Path, inputs: Any, *, steps_per_epoch: int | None = None, start: int = 0
    ) -> None:
        super().__init__()
        self.folder = Path(folder)
        self.inputs = inputs
        self.steps_per_epoch = steps_per_epoch
        known = read_attention(self.folder)
        self.rows = [row for row in known if row["step"] <= start] if start else []
        self._writer: EventFileWriter | None = None

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Write the rows so far to TensorBoard, or measure a first one."""
        self._figures = AttentionFigures(self.model, self.inputs)
        shutil.rmtree(self._curves, ignore_errors=True)
        for row in self.rows:
            self._draw(row)
        if not self.rows:
            self._keep(self._updates)

    # Not the end of a batch: Keras would wait for the values of every step.
    def on_train_batch_begin(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Count the updates of an epoch, which may end early."""
        self._in_epoch = batch + 1

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Measure and write a row."""
        of_epoch = self.steps_per_epoch
        self._keep(self._updates if of_epoch is None else epoch * of_epoch + self._in_epoch)

    @property
    def _updates(self) -> int:
        return int(keras.ops.convert_to_numpy(self.model.optimizer.iterations))

    def _keep(self, step: int) -> None:
        figures = self._figures.measure()
        if not figures["matrices"]:
            return
        row = {"step": step, **figures}
        self.rows.append(row)
        write_json_lines(self.folder / FILE, self.rows)
        self._draw(row)

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Close the event file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    @property
    def _curves(self) -> Path:
        return self.folder / "tensorboard" / "attention"

    def _draw(self, row: Mapping[str, Any]) -> None:
        # TensorBoard's own writer, because `tf.summary` runs several operations per value.
        values = [scalar_pb(name, value).value[0] for name, value in scalars_of(row).items()]
        values += [_histogram(name, counts) for name, counts in row["matrices"].items()]
        try:
            if self._writer is None:
                self._writer = EventFileWriter(str(self._curves))
            self._writer.add_event(
                Event(step=row["step"], wall_time=time.time(), summary=Summary(value=values))
            )
            self._writer.flush()
        except OSError as error:
            raise FileError(f"cannot write {self._curves}: {error.strerror}") from error


def _histogram(name: str, counts: Sequence[float]) -> Summary.Value:
    edges = np.linspace(-1, 1, len(counts) + 1)
    described = metadata.create_summary_metadata(display_name=None, description=None)
    # (bins, 3): left edge, right edge, count
    buckets = make_tensor_proto(np.stack([edges[:-1], edges[1:], counts], axis=1))
    return Summary.Value(tag=name, tensor=buckets, metadata=described)


def read_attention(folder: Path) -> list[dict[str, Any]]:
    """Read the rows that `AttentionSummaries` wrote to a folder; empty if there are none."""
    return read_json_lines(folder / FILE)
