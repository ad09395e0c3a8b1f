"""What `tests/mutants.py` adds to pytest with `-p mutation.plugin`.

One plugin notes how long tests take, the other judges a mutant with them.
"""

import faulthandler
import json
import os
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

GRACE = 120  # seconds a single test may take beyond ten times what it took when the map was made
PLAN, NOTES = (
    "MUTANTS_PLAN",
    "MUTANTS_NOTES",
)  # the variables of the environment that name the plugins' files
STARTED = time.monotonic()


def pytest_configure(config: pytest.Config) -> None:
    """Pytest calls this; the environment says which of the two plugins is wanted."""
    if PLAN in os.environ:
        config.pluginmanager.register(Judge(json.loads(Path(os.environ[PLAN]).read_text())))
    elif NOTES in os.environ:
        config.pluginmanager.register(Timekeeper(config))


def function_of(test: str) -> str:
    """Node id of the test function, without parameters."""
    return test.partition("[")[0]


def shared_fixtures(item: pytest.Item) -> list[str]:
    """Fixtures of this suite that tests share, such as one that trains a model for a whole module.

    Fixtures that every test has without asking make nothing and are left out: through them, every
    line that some setup runs would belong to all tests.
    """
    found = getattr(item, "_fixtureinfo").name2fixturedefs.items()  # noqa: B009, private to pytest
    return sorted(
        f"{of[-1].baseid}::{name}"
        for name, of in found
        if of[-1].baseid and of[-1].scope != "function" and not getattr(of[-1], "_autouse", False)
    )


class Timekeeper:
    """While the map is made, notes each passing test's time and which fixtures it shares."""

    def __init__(self, config: pytest.Config):
        self.is_worker = hasattr(config, "workerinput")
        self.seconds: Counter[str] = Counter()
        self.failed: set[str] = set()
        self.shared: dict[str, list[str]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        item.user_properties.append(("shared", shared_fixtures(item)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        self.shared[report.nodeid] = dict(report.user_properties).get("shared", [])
        if report.outcome != "passed":
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        if not self.is_worker:
            passed = {
                test: round(took, 3)
                for test, took in self.seconds.items()
                if test not in self.failed
            }
            notes = {"tests": passed, "shared": self.shared, "failed": sorted(self.failed)}
            Path(os.environ[NOTES]).write_text(json.dumps(notes))


class Judge:
    """Runs the planned tests in order until one fails or time is up, and notes its progress."""

    def __init__(self, plan: dict[str, Any]):
        self.plan = plan
        self.notes: dict[str, Any] = {
            "failed": None,
            "running": None,
            "ran": 0,
            "planned": 0,
            "stopped": False,
        }

    def note(self, **what: Any) -> None:
        self.notes.update(what)
        Path(os.environ[NOTES]).write_text(json.dumps(self.notes))

    def price(self, item: pytest.Item) -> float | None:
        tests = self.plan["tests"]
        return tests.get(item.nodeid, tests.get(function_of(item.nodeid)))

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        """Puts the test that is expected to fail first, then each function once, then the rest.

        Functions of cheap files come early. The rest is shuffled.
        """
        yield
        planned = sorted((item for item in items if self.price(item) is not None), key=self.price)
        once = {function_of(item.nodeid): item for item in reversed(planned)}
        of_file: dict[Path, list[float]] = defaultdict(list)
        for item in once.values():
            of_file[item.path].append(self.price(item))
        leading = sorted(
            once.values(), key=lambda item: (sum(of_file[item.path]), item.path, self.price(item))
        )
        rest = [item for item in planned if item is not once[function_of(item.nodeid)]]
        random.Random(0).shuffle(rest)
        rest.sort(
            key=shared_fixtures
        )  # one of a module is made again whenever its module is left and entered
        first = self.plan["first"]
        tried = (
            lambda item: item.nodeid != first,
            lambda item: function_of(item.nodeid) != function_of(first),
        )
        items[:] = sorted(
            [*leading, *rest], key=lambda item: [is_later(item) for is_later in tried]
        )
        self.note(planned=len(items))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.note(running=item.nodeid)
        faulthandler.dump_traceback_later(
            GRACE + 10 * self.price(item), exit=True, file=sys.__stderr__
        )
        ended = yield
        faulthandler.cancel_dump_traceback_later()
        self.note(running=None, ran=self.notes["ran"] + 1)
        if time.monotonic() - STARTED > self.plan["limit"]:
            self.note(stopped=True)
            item.session.shouldstop = "time is up"
        return ended

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.notes["failed"]:
            self.note(failed=report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.notes["failed"]:
            self.note(failed=report.nodeid)
