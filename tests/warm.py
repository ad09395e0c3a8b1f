"""Processes that start with TensorFlow and Keras imported, for tests that need no fresh start.

A template (warm_template.py) imports them once, runs no operation, and forks a child for every
command.
"""

import array
import atexit
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# Code to run first in a process that can import neither Keras nor this package.
WITHOUT_KERAS = "import sys; sys.modules.update(dict.fromkeys(('keras', 'keras_quasiattn')))"


class Process:
    """A child of the template, with the part of `subprocess.Popen` that tests use.

    Args:
        command: as for `Popen`; its first word is `sys.executable`.
        env: its whole environment. Defaults to that of this process.
        cwd: its working folder.
        before: code that it runs first, like `preexec_fn`.
        stdout: an open file; if None, `outputs` returns what it writes.
        input: its standard input.
    """

    def __init__(
        self,
        command: Sequence[Any],
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        before: str = "",
        stdout: Any = None,
        input: bytes = b"",
    ) -> None:
        self.args, self.returncode = command, None
        first, *words = [os.fsdecode(word) for word in command]
        assert first == sys.executable, "only commands of this Python can be warm"
        asked = {"words": words, "env": dict(os.environ if env is None else env), "before": before}
        asked["cwd"] = os.fsdecode(cwd or os.getcwd())
        self._files: list[Any] = [tempfile.TemporaryFile() for _ in range(4)]  # noqa: SIM115
        for file, content in zip(self._files, (json.dumps(asked).encode(), input), strict=False):
            file.write(content)
            file.flush()
            file.seek(0)
        self._files[2] = stdout or self._files[2]
        self._answers, other = socket.socketpair()
        rights = array.array("i", [file.fileno() for file in (*self._files, other)])
        _template().sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        other.close()
        self.pid = self._number(240)  # the first waits for TensorFlow, on any machine

    def _number(self, timeout: float | None) -> int:
        self._answers.settimeout(timeout)
        line = b""
        while not line.endswith(b"\n"):
            part = self._answers.recv(1)
            assert part, "the template of warm processes has ended"
            line += part
        return int(line)

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            try:
                self.returncode = self._number(timeout)
            except TimeoutError:
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
        return self.returncode

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._answers], [], [], 0)[0]:
            self.wait(5)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def outputs(self) -> tuple[bytes, bytes]:
        """Return what it has written so far to standard output and standard error."""
        sizes = [os.fstat(file.fileno()).st_size for file in self._files[2:]]
        out, err = (
            os.pread(file.fileno(), size, 0) if size else b""
            for file, size in zip(self._files[2:], sizes, strict=True)
        )
        return out, err


def run(
    command: Sequence[Any],
    *,
    input: Any = b"",
    text: bool = False,
    timeout: float = 240,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """Act like `subprocess.run(command, capture_output=True)`; options are as for `Process`."""
    process = Process(command, input=input.encode() if isinstance(input, str) else input, **options)
    try:
        process.wait(timeout)
    finally:
        process.kill()
    out, err = (one.decode() if text else one for one in process.outputs())
    return subprocess.CompletedProcess(command, process.returncode or 0, out, err)


fresh = functools.partial(subprocess.run, capture_output=True)


def printed(
    words: Sequence[Any],
    run: Any = run,
    paths: Sequence[Any] = (),
    variables: Mapping[str, str] | None = None,
    timeout: float = 600,
    **options: Any,
) -> str:
    """Return what Python prints; raise an `AssertionError` with its output if it fails.

    Args:
        words: its arguments.
        run: `run`, or `fresh` for a process that has imported nothing.
        paths: folders to import from, before this source tree.
        variables: what to add to this process's environment.
        timeout: seconds until it is ended.
        **options: more arguments of `run`.
    """
    places = [*map(str, paths), str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, places)),
        **(variables or {}),
    }
    command = [sys.executable, *map(str, words)]
    ended = run(command, text=True, timeout=timeout, env=environment, **options)
    assert ended.returncode == 0, f"{ended.stdout[-4000:]}\n{ended.stderr[-4000:]}"
    return ended.stdout


@functools.cache
def _template() -> socket.socket:
    mine, its = socket.socketpair()
    command = [sys.executable, str(Path(__file__).with_name("warm_template.py")), str(its.fileno())]
    # As the command sets it: C++ reads it once.
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    quiet = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
    }
    template = subprocess.Popen(command, pass_fds=[its.fileno()], env=environment, **quiet)
    its.close()
    atexit.register(lambda: (mine.close(), template.wait(10)))
    return mine
