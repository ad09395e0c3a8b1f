"""Progress output of training: updates per second and the time left."""

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

import keras

from keras_quasiattn.lab.tasks.preset import TrainingSettings

_SILENCE = 15.0  # seconds without output until a line names the current work
_EVERY = {True: 0.5, False: 10.0}  # seconds between reports, on a terminal and elsewhere
_CLEAR = "\r\x1b[K"


class Progress:
    """Print progress, in place on a terminal, if `shown`.

    After `silence` seconds without output, a line names the current work.
    """

    def __init__(
        self, shown: bool, stream: TextIO | None = None, silence: float | None = None
    ) -> None:
        self.shown = shown
        self._silence = _SILENCE if silence is None else silence
        self._stream = stream or sys.stdout
        self.terminal = shown and self._stream.isatty()
        self._lock = threading.Lock()
        self._busy: list[tuple[str, float]] = []
        self._in_place = False
        self._last = time.monotonic()
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Progress":
        if self.shown:
            self._watcher.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self._watcher.is_alive():
            self._watcher.join()
        if self._in_place:
            self._write("\n", False)

    def say(self, *lines: str) -> None:
        """Write lines."""
        for line in lines:
            self._write(f"{_CLEAR if self._in_place else ''}{line}\n", False)

    def replace(self, line: str) -> None:
        """Write a line that the next one replaces on a terminal; elsewhere, act as `say`."""
        if self.terminal:
            # A line that is wider than the terminal could not be replaced.
            width = shutil.get_terminal_size().columns - 1
            self._write(f"{_CLEAR}{line[:width]}", True)
        else:
            self.say(line)

    @contextlib.contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Name the work in the `with` block, for the line that is printed if it is slow."""
        self._busy.append((what, time.monotonic()))
        try:
            yield
        finally:
            self._busy.pop()

    def _write(self, text: str, in_place: bool) -> None:
        if not self.shown:
            return
        with self._lock:
            self._stream.write(text)
            self._stream.flush()
            self._in_place = in_place
            self._last = time.monotonic()

    def _watch(self) -> None:
        while not self._over.wait(min(self._silence / 5, 1.0)):
            busy = self._busy[-1:]
            for what, since in busy if time.monotonic() - self._last >= self._silence else ():
                self.replace(f"{what}: {duration(time.monotonic() - since)} so far")


class TrainingProgress(keras.callbacks.Callback):
    """Report the updates of a run from `start` on, updates per second, and the time left."""

    def __init__(self, progress: Progress, settings: TrainingSettings, start: int) -> None:
        super().__init__()
        self._progress, self._settings, self._start = progress, settings, start
        self._most = "" if settings.patience is None else "at most "
        # Time and update of the first report, after the first update, which includes compilation.
        self._began: tuple[float, int] | None = None
        self._busy = contextlib.ExitStack()

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Say that the first update takes longer than the others."""
        self._is_busy("compiling the first update")

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Record the start of the epoch."""
        self._done = epoch * self._settings.checkpoint_every
        self._reported = time.monotonic()

    # Not the end of a batch: Keras would wait for the values of every step.
    def on_train_batch_begin(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Report progress if enough time has passed."""
        now, done = time.monotonic(), self._done
        self._done += 1  # once this batch is over
        if self._began is None:
            if done == self._start:
                return
            self._began = (now, done)
        self._is_busy(f"training, update {done:,}")
        if now - self._reported >= _EVERY[self._progress.terminal]:
            self._reported = now
            self._progress.replace(f"{self._place(done)}{self._speed(now, done)}")

    def on_test_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Say that the validation takes time."""
        self._is_busy("validating")

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Write the metrics."""
        done = self._done
        figures = ", ".join(f"{name} {value:.4g}" for name, value in (logs or {}).items())
        self._progress.say(f"{self._place(done)}: {figures}{self._speed(time.monotonic(), done)}")
        self._is_busy("training")

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """End the reports."""
        self._busy.close()

    def _is_busy(self, what: str) -> None:
        self._busy.close()
        self._busy.enter_context(self._progress.busy(what))

    def _place(self, done: int) -> str:
        return f"update {done:,} of {self._most}{self._settings.steps:,}"

    def _speed(self, now: float, done: int) -> str:
        """Return the updates per second, including validation, and the time left at this speed."""
        if self._began is None or done <= self._began[1] or now <= self._began[0]:
            return ""
        rate = (done - self._began[1]) / (now - self._began[0])
        left = duration((self._settings.steps - done) / rate)
        return f"; {rate:.3g} updates a second, {self._most}{left} left"


def duration(seconds: float) -> str:
    """Return a duration in words.

    >>> duration(7.4), duration(192), duration(7500)
    ('7 s', '3 min 12 s', '2 h 5 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
