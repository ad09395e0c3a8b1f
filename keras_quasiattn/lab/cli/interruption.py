"""Control-C: one line and exit code 130, whatever is running."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_PATIENCE = 3.0  # seconds for the main thread to clean up


@contextlib.contextmanager
def interruptible(last_words: str) -> Iterator[None]:
    """Make Control-C in the `with` block end the process with one line on standard error.

    TensorFlow may turn the KeyboardInterrupt into another exception, lose it in a callback, or
    delay it until an operation ends, and the interrupted code may write to standard error, which is
    therefore silenced. Another thread ends the process once the main thread has cleaned up, or
    after three seconds. Files are written atomically, so nothing is lost.
    """
    over = threading.Event()
    hearing, telling = os.pipe()
    os.set_blocking(telling, False)
    standard_error = os.dup(2)

    def stop(number: int, frame: FrameType | None) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        raise KeyboardInterrupt

    def end_at_control_c() -> None:
        while (byte := os.read(hearing, 1)) and byte[0] != signal.SIGINT:
            pass
        if byte:
            over.wait(_PATIENCE)
            os.write(standard_error, f"{last_words}\n".encode())
            os._exit(130)

    watcher = threading.Thread(target=end_at_control_c, daemon=True)
    watcher.start()
    # The number of a signal is written to this pipe at once. Python's own handler runs in the main
    # thread, after the operation that it is in.
    former_pipe = signal.set_wakeup_fd(telling, warn_on_full_buffer=False)
    former = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        over.set()
        signal.signal(signal.SIGINT, former)
        signal.set_wakeup_fd(former_pipe)
        os.close(telling)
        watcher.join()
        os.close(hearing)
        os.close(standard_error)
