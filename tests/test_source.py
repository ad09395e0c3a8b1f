"""Rules about the source itself."""

import ast
import functools
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import keras_quasiattn
from keras_quasiattn.attention import MultiHeadQuasiAttention

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "keras_quasiattn").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
BACKENDS = {"tensorflow", "jax", "torch"}
OF_A_BACKEND = tuple(f".{name}" for name in BACKENDS)
PUBLIC = [
    pytest.param(getattr(getattr(keras_quasiattn, room), name), id=f"{room}.{name}")
    for room in ("ops", "layers")
    for name in getattr(keras_quasiattn, room).__all__
]
COMPUTING = [
    path
    for path in SOURCES
    if path.relative_to(ROOT / "keras_quasiattn").parts[0] in ("core", "attention", "layers")
]
# Modules that importing the package, or its metrics, must not load.
LATE = {
    "keras_quasiattn": {
        "tensorflow_text",
        "tensorflow_datasets",
        "click",
        "tensorflow",
        "sacrebleu",
    },
    "keras_quasiattn.metrics": {"click", "sacrebleu"},
}


@functools.cache
def text_of(path):
    return path.read_text()


@functools.cache
def tree_of(path):
    return ast.parse(text_of(path))


def imports(path, nodes=None):
    """Return the modules that a file imports, or only those that `nodes` import."""
    for node in ast.walk(tree_of(path)) if nodes is None else nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def importing(paths, names):
    """Return the files that import one of the modules, or a part of one.

    Only files that contain one of the names are parsed.
    """
    named = re.compile("|".join(map(re.escape, names)))
    found = re.compile(rf"({named.pattern})(\.|$)")
    return [
        str(path.relative_to(ROOT))
        for path in paths
        if named.search(text_of(path)) and any(found.match(name or "") for name in imports(path))
    ]


def test_no_two_modules_of_tests_have_one_name():
    """Pytest imports them by their names alone, and does not collect the second."""
    names = [path.name for path in TESTS if path.name.startswith("test_")]
    assert len(names) == len(set(names))


def test_no_private_keras():
    assert not importing([*SOURCES, *TESTS], ["keras.src"])


def test_what_scripts_import_of_the_package_is_there():
    """Some run only in tests that CI skips: a name had moved, and no test failed."""
    rooms = [ROOT / name for name in ("examples", "benchmarks", "docs")]
    gone = []
    for path in {*TESTS, *(path for room in rooms for path in room.rglob("*.py"))}:
        for name in imports(path):
            if name and name.startswith("keras_quasiattn"):
                try:
                    # The module exists, although its imports may need a GPU.
                    module = (ROOT / name.replace(".", "/")).with_suffix(".py")
                    module.is_file() or pkgutil.resolve_name(name)
                except (AttributeError, ImportError):
                    gone.append(f"{path.relative_to(ROOT)}: {name}")
    assert not gone


def test_what_reports_are_drawn_with_is_imported_when_something_is_drawn():
    assert not importing(SOURCES, ["jinja2", "matplotlib", "playwright"])


def test_no_signature_is_taken_of_a_class():
    """On Python 3.11.2 it is the signature of `__new__`, which takes anything in Keras' layers."""
    assert not [path for path in SOURCES if re.search(r"signature\([A-Z]\w*\)", text_of(path))]


def test_layers_name_no_backend():
    for path in COMPUTING:
        # Only a file whose name begins with a backend's may import it.
        assert not importing([path], BACKENDS - {path.stem.partition("_")[0]})


def test_autograph_cannot_convert_a_name_in_an_expression():
    # A tf.function that called an op with a bias, and `evaluate` of a translation by CoDA, printed
    # five lines about `:=`.
    computing = [*COMPUTING, *(ROOT / "keras_quasiattn" / "models").rglob("*.py")]
    found = [
        f"{path.relative_to(ROOT)}, line {node.lineno}"
        for path in computing
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.NamedExpr)
    ]
    assert not found


def test_no_condition_names_an_attention():
    """Only an attention's own code names it; elsewhere it is a table entry or an argument."""
    from keras_quasiattn.attention import ATTENTIONS

    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in SOURCES
        if "attention" not in path.parts  # where "sigmoid" is a function too
        for node in ast.walk(tree_of(path))
        if isinstance(node, (ast.Compare, ast.match_case))
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and part.value in ATTENTIONS
    ]
    assert not found


def test_layers_draw_from_seed_generators_only():
    for path in COMPUTING:
        drawn = re.compile(r"\b(?:keras\.|np\.|numpy\.)?random\.(?!SeedGenerator)\w+")
        assert not (drawn.search(text_of(path)) and drawn.findall(code_of(path))), path


def code_of(path):
    """Return the source without docstrings and other bare strings."""
    lines = text_of(path).splitlines()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    return "\n".join(lines)


def run_at_import(tree):
    """Return the nodes that importing a file runs: not functions, nor code for type checkers."""
    for node in ast.iter_child_nodes(tree):
        for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if not for_types and not isinstance(
            node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        ):
            yield node
            yield from run_at_import(node)


def loaded_with(module):
    """Return all modules that importing `module` loads, itself included, by the source."""
    loaded, waiting = set(), [module]
    while waiting:
        name = waiting.pop()
        if name in loaded:
            continue
        loaded.add(name)
        place = ROOT.joinpath(*name.split("."))
        path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        # A file for one backend is imported only if that backend is chosen.
        if name.startswith("keras_quasiattn") and path.exists() and not name.endswith(OF_A_BACKEND):
            waiting += imports(path, run_at_import(tree_of(path)))
            waiting += [name.rpartition(".")[0]] if "." in name else []
    return loaded


@pytest.mark.parametrize("module", LATE)
def test_no_import_statement_loads_what_is_not_used_yet(module):
    loaded = loaded_with(module)
    assert {"keras_quasiattn", "keras_quasiattn.layers", "keras_quasiattn.attention.coda"} <= loaded
    assert not {name.split(".")[0] for name in loaded} & LATE[module]


@pytest.mark.parametrize("symbol", PUBLIC)
def test_public_symbols_are_documented_and_typed(symbol):
    methods = (
        [symbol]
        if inspect.isfunction(symbol)
        else [m for m in vars(symbol).values() if inspect.isfunction(m)]
    )
    assert inspect.getdoc(symbol)
    for section in ("Args:", "Returns:", "Example:"):
        assert section in symbol.__doc__, section
    for method in methods:
        assert method.__name__ == "__init__" or method.__name__.startswith("_") or method.__doc__, (
            method
        )
        signature = inspect.signature(method)
        assert signature.return_annotation is not inspect.Signature.empty, method
        for parameter in signature.parameters.values():
            annotated = parameter.annotation is not inspect.Parameter.empty
            assert parameter.name == "self" or annotated, parameter


@pytest.mark.parametrize("symbol", PUBLIC)
def test_public_functions_document_every_argument(symbol):
    if inspect.isfunction(symbol):
        arguments = list(inspect.signature(symbol).parameters)
    else:
        arguments = inspect.signature(symbol.__init__).parameters.keys()
        arguments -= {"self", "args", "kwargs"}
        if "**arguments: as for " in symbol.__doc__:
            arguments -= inspect.signature(MultiHeadQuasiAttention.__init__).parameters.keys()
    for argument in arguments:
        assert re.search(rf"^\s+(?:\*\*)?{argument}: ", symbol.__doc__, re.MULTILINE), argument


@pytest.mark.parametrize("symbol", PUBLIC)
def test_public_symbols_are_tested(symbol):
    named = re.compile(rf"\b{symbol.__name__}\b")
    assert any(named.search(text_of(path)) for path in TESTS)


def test_a_file_that_is_named_for_every_backend_did_not_exist(pytestconfig):
    (conftest,) = (
        plugin
        for plugin in pytestconfig.pluginmanager.get_plugins()
        if getattr(plugin, "__file__", None) == str(ROOT / "tests" / "conftest.py")
    )
    missing = [name for name in conftest.ON_EVERY_BACKEND if not (ROOT / "tests" / name).exists()]
    assert missing == []
