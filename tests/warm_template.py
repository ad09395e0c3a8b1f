"""The process from which warm.py forks its commands.

Its argument is the descriptor of the socket that brings requests.
"""

import array
import atexit
import contextlib
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import threading
import traceback
import types
import warnings
from typing import Any


def serve(control: socket.socket) -> dict[str, Any]:
    """In the template, fork until the socket closes; in a child, return its request."""
    while True:
        _, ancillary, _, _ = control.recvmsg(1, socket.CMSG_SPACE(5 * 4))
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not ancillary:
            os._exit(0)
        about, *streams, answers = given = array.array("i", ancillary[0][2])
        if os.fork() == 0:  # waits for the child, so that the template need not
            control.close()
            child = os.fork()
            if child == 0:
                asked = json.loads(os.pread(about, os.fstat(about).st_size, 0))
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                for descriptor in given:
                    os.close(descriptor)
                return asked
            os.write(answers, b"%d\n" % child)
            for descriptor in given[:-1]:
                os.close(descriptor)
            os.write(answers, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            os._exit(0)
        for descriptor in given:
            os.close(descriptor)


def become(words: list[str], env: dict[str, str], cwd: str, before: str) -> None:
    """Do what an interpreter does when started with these arguments."""
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the parent process ignores
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        mode, errors = "w" if number else "r", "backslashreplace" if number == 2 else None
        stream = open(  # noqa: SIM115
            number, mode, 1 if number == 2 else -1, errors=errors, closefd=False
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.modules["numpy"].random.seed()
    first = words[0]
    place = {"-c": "", "-m": cwd}.get(first) or os.path.dirname(os.path.abspath(first))
    sys.path[:1] = [place, *filter(None, env.get("PYTHONPATH", "").split(os.pathsep))]
    exec(before, {})
    if first == "-c":
        sys.argv = ["-c", *words[2:]]
        module = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(words[1], "<string>", "exec"), module.__dict__)
    elif first == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        runpy.run_path(first, run_name="__main__")


def end(error: BaseException | None) -> None:
    """End as an interpreter does, but keep the modules: unloading them takes a fork seconds."""
    code: Any = 0
    if isinstance(error, SystemExit):
        code = error.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    elif error is not None:
        traceback.print_exception(error)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError as failed:
        print(f"Exception ignored while flushing sys.stdout: {failed}", file=sys.stderr)
        code = 120
    if isinstance(error, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code & 0xFF)


if __name__ == "__main__":
    for name in ("tensorflow", "keras", "tensorflow_text"):
        importlib.import_module(name)
    warnings.filterwarnings("ignore", message=".*use of fork", category=DeprecationWarning)
    asked = serve(socket.socket(fileno=int(sys.argv[1])))
    try:
        become(**asked)
        error = None
    except BaseException as raised:
        error = raised
    end(error)
