"""The map of `tests/mutants.py map`: which tests run which line, and so may kill a mutant."""

import ast
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from cosmic_ray.work_item import MutationSpec
from mutation.plugin import NOTES, function_of
from mutation.sampling import ROOMS, room_of
from mutation.workplace import ROOT, workplaces

# What Numba compiles leaves no trace of its lines: the file that calls it stands for it.
COMPILED = "keras_quasiattn/ops/coda/compiled/"
CALLER = f"{COMPILED}tensorflow.py"


def is_compiled(path: str) -> bool:
    """Whether Numba compiles the file."""
    return path.startswith(COMPILED) and path != CALLER


def make_map(target: Path, suite: Path | None, processes: int, arguments: list[str]) -> None:
    """Runs the suite once in a copy, and writes each test's time and which lines it ran."""
    from coverage import CoverageData

    with workplaces(1, suite) as (place,):
        notes, data = place.scratch / "notes", place.scratch / "coverage"
        folders = sorted({sources.removesuffix("/decoding.py") for sources, _, _ in ROOMS.values()})
        options = [
            "--cov-context=test",
            "--cov-report=",
            *(f"--cov={folder}" for folder in folders),
        ]
        spread = ["-n", str(processes), "--dist", "worksteal"]
        variables = {NOTES: str(notes), "COVERAGE_FILE": str(data)}
        place.pytest([*options, *spread, *arguments], variables, output=sys.stdout)
        found, measured = json.loads(notes.read_text()), CoverageData(str(data))
        measured.read()
        numbers = {test: number for number, test in enumerate(found["tests"])}
        users = defaultdict(set)
        for test in numbers:
            for fixture in found["shared"][test]:
                users[fixture].add(test)
        lines = {}
        for file in map(Path, measured.measured_files()):
            lines[str(file.relative_to(place.tree))] = rows = {}
            for row, contexts in measured.contexts_by_lineno(str(file)).items():
                tests = set()
                for test, _, when in (context.rpartition("|") for context in contexts if context):
                    # A shared fixture runs in the test that asks first. The other tests that use it
                    # answer for its lines too.
                    tests |= {test}.union(
                        *(users[name] for name in found["shared"][test] if when == "setup")
                    )
                rows[row] = sorted(numbers[test] for test in tests & numbers.keys())
    target.write_text(
        json.dumps({"suite": suite and str(suite), "tests": found["tests"], "lines": lines})
    )
    print(f"{len(numbers)} tests. Skipped or failed, and left out:", *found["failed"], sep="\n")


def covering(mutation: MutationSpec, seen: dict[str, Any]) -> dict[str, float]:
    """The tests that may notice the mutation, with their seconds.

    They are the tests of its line, or else of its statement, function, class or file. Only lines
    inside functions count: others run once, at import, in whichever test comes first.
    """
    path, row = str(mutation.module_path), mutation.start_pos[0]
    by_numba = is_compiled(path)
    path = CALLER if by_numba else path
    nodes = list(ast.walk(ast.parse((ROOT / path).read_text())))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    inside = {row for node in functions for row in range(node.body[0].lineno, node.end_lineno + 1)}
    whole = (1, len((ROOT / path).read_text().splitlines()))
    around = [(first, last) for first, last in map(rows_of, nodes) if first <= row <= last]
    spans = [whole] if by_numba else [(row, mutation.end_pos[0]), *around, whole]
    rows, names, found = seen["lines"].get(path, {}), list(seen["tests"]), set()
    for span in sorted(spans, key=lambda span: span[1] - span[0]):
        found = {
            names[n] for row in inside if span[0] <= row <= span[1] for n in rows.get(str(row), ())
        }
        if found:
            break
    if not found or (span == whole and not by_numba):
        found |= {test for test in names if test.startswith(ROOMS[room_of(path)][1] + "/")}
    return {test: seen["tests"][test] for test in found}


def rows_of(node: ast.AST) -> tuple[int, int]:
    """First and last row of a statement, decorators included; of anything else, none."""
    if not isinstance(node, ast.stmt):
        return 0, -1
    return min(
        [node.lineno, *(of.lineno for of in getattr(node, "decorator_list", ()))]
    ), node.end_lineno


def by_function(tests: dict[str, float]) -> dict[str, float]:
    """Test functions instead of tests, each with the seconds of its quickest."""
    functions: dict[str, float] = {}
    for test, took in tests.items():
        functions[function_of(test)] = min(took, functions.get(function_of(test), took))
    return functions
