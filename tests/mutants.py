"""How many mutants of a seeded sample the tests kill. A developer runs this by hand, never pytest.

    pip install ".[mutants]"
    python tests/mutants.py sample mutants.sqlite        # draws mutants: cosmic-ray's database
    python tests/mutants.py map map.json                 # runs the suite: tests by line
    python tests/mutants.py run mutants.sqlite map.json  # judges each mutant; can be resumed
    python tests/mutants.py report mutants.sqlite        # a table by room, then the survivors

To try the same mutants on another suite, `sample` them into a second database, `run` it with
`--suite OTHER_CHECKOUT --after mutants.sqlite`, then `report mutants.sqlite second.sqlite`. With
this suite's map, only test functions that both suites have in the same file are run. `map --suite
OTHER_CHECKOUT` makes a map that knows all tests of the other suite.

A changed source needs a new sample, and changed tests need a new map. `map` takes arguments for
pytest after `--`. Everything runs in copies of the working tree in a temporary folder. The tree
itself is only read.
"""

import argparse
import difflib
import json
import queue
import signal
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from cosmic_ray.mutating import use_mutation
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome, WorkItem, WorkResult
from mutation.line_map import by_function, covering, is_compiled, make_map
from mutation.plugin import function_of
from mutation.sampling import ROOMS, room_of, sample
from mutation.workplace import Workplace, workplaces


class Jury:
    """Judges each mutant in one of the copies, and ignores tests that fail without a mutant too."""

    def __init__(self, places: list[Workplace], limit: float, passing: Iterable[str]):
        self.limit = limit
        self.free: queue.SimpleQueue[Workplace] = queue.SimpleQueue()
        for place in places:
            self.free.put(place)
        self.sound = {*passing, *(test.partition("::")[0] for test in passing)}
        self.broken: set[str] = set()

    def judge(self, mutation: MutationSpec, tests: dict[str, float], first: str) -> WorkResult:
        """Mutates the file in a free copy and runs the tests there.

        The result says how that ended, and has the diff of the changed line.
        """
        operator = get_operator(mutation.operator_name)()
        compiled = is_compiled(str(mutation.module_path))
        place = self.free.get()
        try:
            while True:
                tests = {test: took for test, took in tests.items() if not self.is_broken(test)}
                with use_mutation(
                    place.tree / mutation.module_path, operator, mutation.occurrence
                ) as codes:
                    found = place.judge(tests, first, self.limit, compiled)
                if not found["killer"] or self.is_sound(found["killer"], place, tests):
                    break
        finally:
            self.free.put(place)
        changes = list(
            difflib.unified_diff(*(code.splitlines() for code in codes), lineterm="", n=0)
        )[2:]
        return WorkResult(
            worker_outcome=WorkerOutcome.NORMAL,
            test_outcome=TestOutcome.KILLED if found["killer"] else TestOutcome.SURVIVED,
            output=f"{found['how']}: {found['killer']}" if found["killer"] else found["how"],
            diff="\n".join(line for line in changes if not line.startswith("@@")),
        )

    def is_sound(self, killer: str, place: Workplace, tests: dict[str, float]) -> bool:
        """Whether the test passes without a mutant: known from the map, or tried now."""
        if killer in self.sound:
            return True
        if killer == "pytest":
            alone = place.judge(tests, "", 0)["killer"]
        else:
            alone = place.judge({killer: 0.0}, "", self.limit)["killer"]
        if alone == "pytest":
            raise RuntimeError("pytest does not start without a mutant either")
        (self.broken if alone else self.sound).add(function_of(killer) if alone else killer)
        return not alone

    def is_broken(self, test: str) -> bool:
        """Whether the test, or its file, fails without a mutant."""
        return function_of(test) in self.broken or test.partition("::")[0] in self.broken


def killers(session: Path | None) -> dict[str, str]:
    """The test that killed each mutant in another session."""
    if not session:
        return {}
    with use_db(session, WorkDB.Mode.open) as database:
        killed = [(name, result.output) for name, result in database.results if result.is_killed]
    return {name: output.partition(": ")[2] for name, output in killed}


def run(
    session: Path,
    map_file: Path,
    processes: int,
    limit: float,
    suite: Path | None,
    after: Path | None,
) -> None:
    """Judges every mutant of the session that has no result yet."""
    seen, known = json.loads(map_file.read_text()), killers(after)
    is_own = seen["suite"] == (suite and str(suite))
    with use_db(session, WorkDB.Mode.open) as database, workplaces(processes, suite) as places:
        jury = Jury(places, limit, seen["tests"] if is_own else ())
        pool = ThreadPoolExecutor(processes)
        waiting, begun = {}, time.monotonic()
        for item in sorted(database.pending_work_items, key=lambda item: item.job_id):
            tests = covering(item.mutations[0], seen)
            tests = tests if is_own else by_function(tests)
            waiting[
                pool.submit(jury.judge, item.mutations[0], tests, known.get(item.job_id, ""))
            ] = item
        try:
            for done, future in enumerate(as_completed(waiting), start=1):
                item, result = waiting[future], future.result()
                database.set_result(item.job_id, result)
                one, took = item.mutations[0], (time.monotonic() - begun) / done
                outcome = (
                    f"{one.module_path}:{one.start_pos[0]} "
                    f"{result.test_outcome.value}: {result.output}"
                )
                print(f"[{done}/{len(waiting)}, {took:.0f} s each] {outcome}", flush=True)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for place in places:
                place.close()
            pool.shutdown()


def report(sessions: list[Path]) -> None:
    """Prints a table by room, the survivors, and where two sessions disagree."""
    judged: list[dict[str, tuple[WorkItem, WorkResult]]] = []
    for session in sessions:
        with use_db(session, WorkDB.Mode.open) as database:
            judged.append(
                {item.job_id: (item, result) for item, result in database.completed_work_items}
            )
            print(f"{session}: {len(judged[-1])} of {database.num_work_items} mutants judged\n")
        print("| Room | Mutants | Killed | Share |\n| --- | ---: | ---: | ---: |")
        for room in [*ROOMS, "all"]:
            mine = [
                r
                for i, r in judged[-1].values()
                if room in ("all", room_of(i.mutations[0].module_path))
            ]
            killed = sum(result.is_killed for result in mine)
            print(f"| {room} | {len(mine)} | {killed} | {killed / max(1, len(mine)):.0%} |")
        print("\nSurvivors:\n")
        show(pair for pair in judged[-1].values() if not pair[1].is_killed)
    for one, other in ((0, 1), (1, 0)) if len(judged) == 2 else ():
        print(f"Killed in {sessions[one]}, not in {sessions[other]}:\n")
        survived = {name for name, (_, result) in judged[other].items() if not result.is_killed}
        show(pair for name, pair in judged[one].items() if pair[1].is_killed and name in survived)


def show(pairs: Iterable[tuple[WorkItem, WorkResult]]) -> None:
    """Prints each mutant: where it is, what was done, and what the tests made of it."""
    found = [(item.mutations[0], result) for item, result in pairs]
    for mutation, result in sorted(
        found, key=lambda pair: (pair[0].module_path, pair[0].start_pos)
    ):
        print(
            f"{mutation.module_path}:{mutation.start_pos[0]} "
            f"{mutation.operator_name} ({result.output})"
        )
        print("\n".join(f"    {line}" for line in result.diff.splitlines()), end="\n\n")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    drawing, mapping, running, reporting = (
        commands.add_parser(name) for name in ("sample", "map", "run", "report")
    )
    drawing.add_argument("session", type=Path)
    drawing.add_argument("--seed", type=int, default=0)
    mapping.add_argument("map", type=Path)
    running.add_argument("session", type=Path)
    running.add_argument("map", type=Path)
    running.add_argument("--limit", type=float, default=180, help="seconds of tests for a mutant")
    running.add_argument("--after", type=Path, help="session whose killing tests come first")
    for command in (mapping, running):
        command.add_argument("--processes", type=int, default=2)
        command.add_argument(
            "--suite", type=lambda path: Path(path).resolve(), help="checkout whose tests are run"
        )
    reporting.add_argument("sessions", type=Path, nargs="+")
    words = [*sys.argv[1:], "--"]
    given = parser.parse_args(words[: words.index("--")])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that the copies go
    if given.command == "sample":
        sample(given.session.resolve(), given.seed)
    elif given.command == "map":
        make_map(given.map, given.suite, given.processes, words[words.index("--") + 1 : -1])
    elif given.command == "run":
        run(given.session, given.map, given.processes, given.limit, given.suite, given.after)
    else:
        report(given.sessions)


if __name__ == "__main__":
    main()
