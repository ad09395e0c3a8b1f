"""The mutants that `tests/mutants.py` judges: a seeded sample of all that cosmic-ray makes."""

import ast
import contextlib
import hashlib
import random
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path

from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import use_db
from cosmic_ray.work_item import MutationSpec, WorkItem
from mutation.workplace import ROOT

# Room: its sources, the tests that answer for lines that no test was seen to run, and how many
# mutants are drawn.
ROOMS = {
    "ops": ("keras_quasiattn/ops", "tests/ops", 75),
    "layers": ("keras_quasiattn/layers", "tests/layers", 55),
    "decoding": ("keras_quasiattn/models/decoding.py", "tests/models", 20),
    "training": ("keras_quasiattn/training", "tests/training", 30),
    "serving": ("keras_quasiattn/serving", "tests/serving", 25),
    "metrics": ("keras_quasiattn/metrics", "tests/metrics", 25),
}
OTHER_BACKENDS = ("/jax.py", "/torch.py")


def room_of(path: str | Path) -> str:
    """The room a source file belongs to."""
    return next(room for room, (sources, _, _) in ROOMS.items() if str(path).startswith(sources))


class Behaviour(ast.NodeTransformer):
    """Removes what does not run or does not matter: type annotations and the texts of errors."""

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(node.arg)

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        node.args = [
            *node.posonlyargs,
            *node.args,
            *node.kwonlyargs,
        ]  # cosmic-ray takes a bare * for a product
        node.defaults = [*node.defaults, *filter(None, node.kw_defaults)]
        node.posonlyargs, node.kwonlyargs, node.kw_defaults = [], [], []
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | None:
        names = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
        node.returns = None
        return None if "overload" in names else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return (
            None if ast.unparse(node.test).endswith("TYPE_CHECKING") else self.generic_visit(node)
        )

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if isinstance(node.exc, ast.Call):
            node.exc = node.exc.func
        return node


def mutated(mutation: MutationSpec) -> str | None:
    """The mutated file, or None if it is no longer Python or cannot behave differently."""
    source = (ROOT / mutation.module_path).read_text()
    try:
        code = mutate_code(source, get_operator(mutation.operator_name)(), mutation.occurrence)
        before, after = (ast.dump(Behaviour().visit(ast.parse(text))) for text in (source, code))
        with warnings.catch_warnings():
            warnings.simplefilter(
                "error"
            )  # `is "literal"`: whether that differs from `==` is Python's to choose
            compile(code, mutation.module_path, "exec")
    except (SyntaxError, AttributeError):  # cosmic-ray 8.7 fails at `except` with a dotted name
        return None
    return None if before == after else code


def drawn(mutations: Iterable[MutationSpec], count: int, seed: str) -> Iterable[MutationSpec]:
    """Draws at most `count` mutations.

    It first draws a place in the source and a kind of mutation, all with equal chance, then one
    mutation of that kind. Otherwise operators that a dozen others can replace would be most of the
    sample.
    """
    draw, places = random.Random(seed), defaultdict(list)
    order = attrgetter("module_path", "start_pos", "operator_name", "occurrence")
    for one in sorted(mutations, key=order):
        places[one.module_path, one.start_pos, one.operator_name.partition("_")[0]].append(one)
    for place in draw.sample(list(places), len(places)):
        if not count:
            return
        found = next(filter(mutated, draw.sample(places[place], len(places[place]))), None)
        if found:
            count -= 1
            yield found


def sample(session: Path, seed: int) -> None:
    """Makes cosmic-ray's session with all mutations of the rooms, and keeps the sample."""
    if session.exists():
        sys.exit(f"{session} exists already")
    of_room = defaultdict(list)
    with contextlib.chdir(ROOT), use_db(":memory:") as everything, use_db(session) as database:
        rooms = [Path(sources) for sources, _, _ in ROOMS.values()]
        files = [
            path
            for room in rooms
            for path in ([room] if room.is_file() else sorted(room.rglob("*.py")))
        ]
        init([path for path in files if not path.name.endswith(OTHER_BACKENDS)], everything, {})
        for item in everything.work_items:
            of_room[room_of(item.mutations[0].module_path)].append(item.mutations[0])
        for room, (_, _, count) in ROOMS.items():
            kept = list(drawn(of_room[room], count, f"{seed} {room}"))
            # A mutant is named after what it mutates, so its name is the same in every session.
            names = [f"{one.module_path} {one.operator_name} {one.occurrence}" for one in kept]
            keys = [hashlib.sha256(name.encode()).hexdigest()[:32] for name in names]
            database.add_work_items(map(WorkItem.single, keys, kept))
            print(f"{room}: {len(kept)} of {len(of_room[room])}")
