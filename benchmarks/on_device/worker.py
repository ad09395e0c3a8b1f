"""A process for one backend: takes the units in order until its time is over, a JSON line each.

`benchmarks/accelerator.py` starts it, reads its lines, and starts another where one dies.
"""

import argparse
import collections
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras

from benchmarks.on_device import agreement, timing

CHECKS_SHARE = 0.35  # of the time, after which the checks that are left come last
AT_ONCE = 12  # checks that are traced before the first must be compiled
REPEATS = 15
GROUP_SECONDS = 20.0
LEAST_SECONDS = {"agreement": 3.0, "core": 8.0, "layer": 8.0}
DEAD = 70  # exit code: the device answers no more in this process


def say(**line: Any) -> None:
    """One line for the command that started this."""
    print(agreement.as_json(line), flush=True)


class Worker:
    """Run checks and groups on a device, up to a deadline."""

    def __init__(self, device: Any, given: argparse.Namespace) -> None:
        self.device, self.given = device, given
        self.sizes = agreement.TINY if given.dry_run else agreement.FULL
        self.done = set(json.loads(given.done.read_text())) if given.done else set()
        self.careful = bool(self.done)  # after a death: one at a time, to know which it is

    def left(self) -> float:
        """Return the seconds until the deadline."""
        return self.given.until - time.time()

    def has_time_for(self, kind: str, unit: str) -> bool:
        """Return whether a unit may begin; if not, print that it is left out."""
        if self.left() > LEAST_SECONDS[kind]:
            return True
        say(row={"kind": kind, "unit": unit, "status": "skipped", "message": "no time was left"})
        return False

    def check_alive(self) -> None:
        """End the process if its device no longer answers; the next one continues."""
        if not self.device.is_alive():
            sys.exit(DEAD)

    def checks(self, cases: Iterable[agreement.Case], until: float) -> list[agreement.Case]:
        """Run checks up to a time; return those that are left."""
        waiting = collections.deque(cases)
        running: collections.deque[tuple[agreement.Case, Any, str]] = collections.deque()
        while running or (waiting and time.time() < until):
            at_once = 1 if self.careful else AT_ONCE
            while waiting and len(running) < at_once and time.time() < until:
                case = waiting.popleft()
                if not self.has_time_for("agreement", case.unit):
                    continue
                say(begin=case.unit)
                try:
                    running.append((case, agreement.started(case, self.sizes, self.device), ""))
                except Exception as error:
                    running.append((case, None, timing.message_of(error)))
            if running:
                self.check(*running.popleft())
        return list(waiting)

    def check(self, case: agreement.Case, finish: Any, message: str) -> None:
        """End a check and report its result."""
        row = agreement.described(case)
        try:
            if finish:
                self.device.set_fast_products(case.dtype == "tf32")
                found = finish()
                exact = agreement.read_reference(case, self.given.references, self.given.until)
                row |= agreement.compared(case, found, exact)
        except LookupError as error:
            row |= {"status": "skipped", "message": str(error)}
        except Exception as error:
            message = timing.message_of(error)
        if message:
            row |= {"status": timing.state_of(message), "message": message}
        say(row=row)
        if row["status"] == "failed":
            self.check_alive()

    def times(self, groups: Iterable[timing.Group]) -> None:
        """Time groups while time remains."""
        for group in groups:
            if not self.has_time_for(group.kind, group.unit):
                continue
            say(begin=group.unit)
            repeats, seconds = (1, 60.0) if self.given.dry_run else (REPEATS, GROUP_SECONDS)
            try:
                rows = timing.measured(group, self.device, repeats, min(seconds, self.left()))
            except Exception as error:
                message = timing.message_of(error)
                rows = [
                    {
                        **timing.described(group),
                        "status": timing.state_of(message),
                        "message": message,
                    }
                ]
            for row in rows:
                say(row=row)
            if any(row["status"] == "failed" for row in rows):
                self.check_alive()
            self.device.clear()

    def run(self) -> None:
        """Do the checks that fit in their share, then the times, then the other checks."""
        cases = agreement.cases(self.sizes)
        cases = agreement.some(cases) if self.given.dry_run else cases
        cases = [case for case in cases if case.unit not in self.done]
        modes = self.device.MODES
        groups = timing.tiny_groups(modes) if self.given.dry_run else timing.groups(modes)
        share = 1.0 if self.given.dry_run else CHECKS_SHARE
        later = self.checks(cases, time.time() + share * self.left())
        self.times(group for group in groups if group.unit not in self.done)
        self.checks(later, self.given.until)


def write_references(given: argparse.Namespace, device: Any) -> None:
    """Compute the exact cases until the time is over."""
    sizes = agreement.TINY if given.dry_run else agreement.FULL
    cases = agreement.cases(sizes)
    try:
        for case in agreement.references(agreement.some(cases) if given.dry_run else cases):
            if time.time() > given.until:
                break
            agreement.write_reference(case, sizes, device, given.references)
    finally:
        (given.references / "done").touch()


def main() -> None:
    """Run what the command asks of this process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=("references", "all"))
    parser.add_argument("--references", type=Path, required=True, help="the folder of exact cases")
    parser.add_argument("--until", type=float, required=True, help="the deadline, a time.time()")
    parser.add_argument("--done", type=Path, help="JSON: the units that are over")
    parser.add_argument("--dry-run", action="store_true")
    given = parser.parse_args()
    if keras.backend.backend() == "jax":
        from benchmarks.on_device import jax as device
    else:
        from benchmarks.on_device import torch as device
    if given.task == "references":
        write_references(given, device)
        return
    say(about={**device.about(), "tensorflow imported": "tensorflow" in sys.modules})
    Worker(device, given).run()
    say(end=True)


if __name__ == "__main__":
    main()
