"""Control-C: one line and exit code 130, whatever is running."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

_PATIENCE = 3.0  # seconds until the process is ended from outside of its main thread
_CODE = 130


@contextlib.contextmanager
def interruptible(last_words: str) -> Iterator[threading.Event]:
    """Make Control-C raise KeyboardInterrupt in the `with` block, and silence everything else.

    TensorFlow may turn a KeyboardInterrupt into another exception, lose it in a callback, or delay
    it until an operation ends, and the interrupted code may write to standard error. Nothing else
    can therefore write there after Control-C. A process that has not ended after three seconds, or
    receives another Control-C, is killed; files are written atomically, so nothing is lost.

    Args:
        last_words: the line to write to standard error then.

    Yields:
        The event that Control-C was pressed. An exception in the `with` block is raised again.
    """
    pressed, over = threading.Event(), threading.Event()
    hearing, telling = os.pipe()
    os.set_blocking(telling, False)
    standard_error = os.dup(2)

    def say() -> None:
        os.write(standard_error, f"{last_words}\n".encode())

    def silence() -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)

    def end() -> NoReturn:
        say()
        os._exit(_CODE)

    def stop(number: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            end()
        pressed.set()
        silence()
        raise KeyboardInterrupt

    def end_if_stuck() -> None:
        while (told := os.read(hearing, 1)) and told[0] != signal.SIGINT:
            pass
        if told and not over.wait(_PATIENCE):
            end()

    watcher = threading.Thread(target=end_if_stuck, daemon=True)
    watcher.start()
    # Python's own handler runs in the main thread, after the operation that it is in. The number of
    # a signal is written to this pipe at once.
    former_pipe = signal.set_wakeup_fd(telling, warn_on_full_buffer=False)
    former = signal.signal(signal.SIGINT, stop)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if pressed.is_set() else former)
        signal.set_wakeup_fd(former_pipe)
        over.set()
        os.close(telling)
        watcher.join()
        os.close(hearing)
        if pressed.is_set():
            silence()  # the body may have restored it
            say()
        os.close(standard_error)
