"""Where `tests/mutants.py` runs tests: private copies of the working tree in a temporary folder."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import warm
from mutation import plugin
from mutation.plugin import GRACE, NOTES, PLAN

ROOT = Path(__file__).resolve().parents[2]
# A process group of its own, and no bytecode that would outlive a mutant.
ALONE = "import os, sys; os.setsid(); sys.dont_write_bytecode = True"


class Workplace:
    """A private copy of the working tree, with this or another suite, for one pytest at a time."""

    def __init__(self, folder: Path, suite: Path | None):
        self.tree, self.scratch = folder / "tree", folder / "scratch"
        self.process: warm.Process | None = None
        self.is_closed = False
        copy_files(ROOT, self.tree)
        if suite:
            shutil.rmtree(self.tree / "tests")
            copy_files(suite, self.tree, "tests", "setup.cfg")
        self.scratch.mkdir()
        (folder / "plugin" / "mutation").mkdir(
            parents=True
        )  # another suite may not have the plugin
        shutil.copy(plugin.__file__, folder / "plugin" / "mutation")
        if (
            ROOT.parent / "shared"
        ).exists():  # data that some tests look for next to the repository
            (folder / "shared").symlink_to(ROOT.parent / "shared")
        path = [
            self.tree,
            self.tree / "tests",
            folder / "plugin",
            *os.environ.get("PYTHONPATH", "").split(os.pathsep),
        ]
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(part) for part in path if part),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(self.scratch),
            "NUMBA_CACHE_DIR": str(folder / "numba"),
        }
        code = "from importlib.util import find_spec; print(find_spec('keras_quasiattn').origin)"
        asked = warm.run(
            [sys.executable, "-c", code], text=True, env=self.environment, cwd=self.tree
        )
        imported = asked.stdout.strip()
        if Path(imported) != self.tree / "keras_quasiattn/__init__.py":
            sys.exit(f"Tests would import {imported or 'nothing'}, not the copy in {self.tree}")

    def start(
        self, command: list[str], variables: dict[str, str], output: IO[str] | None
    ) -> warm.Process:
        """Starts a process that sees the copy and nothing of the original."""
        if self.is_closed:
            raise RuntimeError("This copy is about to go")
        environment = {**self.environment, **variables}
        self.process = warm.Process(command, environment, self.tree, ALONE, stdout=output)
        return self.process

    def stop(self) -> None:
        """Ends what runs here, with all processes it started."""
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Ends what runs here, for good."""
        self.is_closed = True
        self.stop()

    def pytest(
        self,
        options: list[str],
        variables: dict[str, str],
        seconds: float | None = None,
        output: IO[str] | None = None,
    ) -> int | None:
        """Runs pytest with the plugin; its exit status, or None if it had to be ended."""
        fixed = [
            "-m",
            "pytest",
            "-p",
            "mutation.plugin",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
        ]
        command = [sys.executable, *fixed, f"--basetemp={self.scratch / 'pytest'}", *options]
        try:
            return self.start(command, variables, output).wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.stop()

    def judge(
        self, tests: dict[str, float], first: str, limit: float, is_compiled: bool = False
    ) -> dict[str, Any]:
        """Runs the tests, beginning with `first`, until one fails.

        Returns the notes of the plugin, with the "killer" and with "how" it ended. The killer is a
        test, a file of tests that cannot be imported, "pytest" if pytest did not start, or None.
        """
        plan, notes, arguments, log = (
            self.scratch / name for name in ("plan", "notes", "arguments", "log")
        )
        shutil.rmtree(self.scratch)
        self.scratch.mkdir()
        plan.write_text(json.dumps({"tests": tests, "first": first, "limit": limit}))
        files = sorted({test.partition("::")[0] for test in tests})
        arguments.write_text("\n".join(file for file in files if (self.tree / file).exists()))
        found: dict[str, Any] = {
            "ran": 0,
            "planned": 0,
            "failed": None,
            "running": None,
            "stopped": False,
        }
        if not arguments.read_text():
            return {**found, "killer": None, "how": "no test"}
        variables = {PLAN: str(plan), NOTES: str(notes)}
        if is_compiled:
            # Numba checks whether the file of a function changed, but not what the function calls.
            variables["NUMBA_CACHE_DIR"] = str(self.scratch / "numba")
        with log.open("w") as output:
            code = self.pytest(
                ["-x", "-q", "--tb=short", f"@{arguments}"], variables, limit + GRACE, output
            )
        if notes.exists():
            found |= json.loads(notes.read_text())
        if code in (0, 5) or (code == 2 and found["stopped"] and not found["failed"]):
            ran = f"{found['ran']} of {found['planned']} tests"
            return {
                **found,
                "killer": None,
                "how": f"{ran}, then time was up" if found["stopped"] else ran,
            }
        if found["failed"]:
            return {**found, "killer": found["failed"], "how": "failed"}
        ended = "took too long" if code in (None, 1) else f"ended pytest with {code}"
        return {**found, "killer": found["running"] or "pytest", "how": ended}


def copy_files(source: Path, target: Path, *parts: str) -> None:
    """Copies what git tracks or would track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *parts]
    listed = subprocess.run(command, cwd=source, check=True, capture_output=True, text=True).stdout
    for name in listed.split("\0"):
        if name and (source / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target / name)


@contextlib.contextmanager
def workplaces(count: int, suite: Path | None) -> Iterator[list[Workplace]]:
    """So many workplaces, gone at the end with all that runs in them."""
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        places: list[Workplace] = []
        try:
            for number in range(count):
                places.append(Workplace(Path(folder) / str(number), suite))
            yield places
        finally:
            for place in places:
                place.close()
