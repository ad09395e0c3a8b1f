"""Train the toy task in a separate process, which kills itself where the second argument says.

"step:N" ends it after N updates; "half:NAME" in the middle of writing the first file of that name;
"whole:NAME" when that file is wholly written and about to take its place; "none" lets it finish.
"""

import io
import os
import signal
import sys
from pathlib import Path

import numpy as np
import toy_task

from keras_quasiattn import files
from keras_quasiattn.lab.training import train
from keras_quasiattn.lab.training.checkpoints import CheckpointCallback


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at_step(last: int) -> None:
    def on_train_batch_end(self, batch, logs=None):
        if self.model.optimizer.iterations.numpy() == last:
            die()

    CheckpointCallback.on_train_batch_end = on_train_batch_end


def kill_in_half(name: str) -> None:
    savez = np.savez

    def half(stream, **arrays):
        whole = io.BytesIO()
        savez(whole, **arrays)
        if name not in stream.name:
            stream.write(whole.getvalue())
            return
        stream.write(whole.getvalue()[: len(whole.getvalue()) // 2])
        stream.flush()
        die()

    np.savez = half


def kill_when_whole(name: str) -> None:
    replace = os.replace

    def killing(source, target):
        if target.name == name:
            die()
        replace(source, target)

    files.os.replace = killing


if __name__ == "__main__":
    folder, moment = sys.argv[1:]
    where, _, value = moment.partition(":")
    if where == "step":
        kill_at_step(int(value))
    elif where == "half":
        kill_in_half(value)
    elif where == "whole":
        kill_when_whole(value)
    train(
        toy_task.make(Path(folder) / "data"),
        Path(folder) / "run",
        command=["quasiattn", "train", "toy"],
    )
