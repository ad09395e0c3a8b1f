"""Every example runs at a small size, and the notebooks run and contain their outputs."""

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import warm

import keras_quasiattn

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
NOTEBOOKS = sorted((EXAMPLES / "notebooks").glob("*.ipynb"))
SMALL = ("--examples", "64", "--epochs", "1")
# Arguments, what the output must contain, and for one script, what is done first.
SCRIPTS = {
    "coda_parts.py": (
        *(("--parts", "gains", "--steps", "110"), r"gains: 0\.\d+ of the questions"),
        "import small_arithmetic as tasks\n"
        'tasks.SETTINGS.update({"data.high": 40, "training.jit_compile": False})',
    ),
    "compositions.py": (("--length", "5"), r"similarity=sigmoid, gate=algebraic +from"),
    "conflict.py": (SMALL, r"both: \d\.\d+ of 500 new pairs right"),
    "custom_composition.py": (
        *(("--pairs", "64", "--epochs", "1"), r"answers differ by (0|\de-\d+) at most"),
    ),
    "drop_in_image_patches.py": (SMALL, r"weights \(1, 2, 4, 4, 4, 4\): from -"),
    "drop_in_text.py": (SMALL, r"CoDA, by swap_attention: \d\.\d+ of 500"),
    "drop_in_time_series.py": (SMALL, r"CoDA, by swap_attention \(MultiHeadCoDA\): \d\.\d+ of 500"),
    "gated_reading.py": (SMALL, r"\+ \d\.\d+ (word|marker) \d+"),
    "learning_by_kind.py": (
        ("--models", "coda", "--every", "55", "--steps", "110"),
        r"coda \| x-x \| 55 \| 55 \| ",
    ),
    "pairs.py": (SMALL, r"coda: \d\.\d+ of 500 new pairs right"),
    "tune.py": (("--to", "here", "--trials", "1", "--steps", "6"), r'"model.units": \d+'),
    "workers.py": (("--to", "here", "--steps", "4"), r"2 workers: \d\.\d+ of the validation texts"),
}
# Scripts that other tests run: those of data, the clients in serving/, the language model below.
ELSEWHERE = {
    *("ask.py", "language_model.py", "made_up_texts.py"),
    *("own_tables.py", "retrieved_paragraphs.py", "small_arithmetic.py"),
}
NEEDS = {"tune.py": "keras_tuner"}


def test_every_script_is_run():
    names = {path.name for path in EXAMPLES.glob("*.py")}
    assert names - ELSEWHERE == set(SCRIPTS) and names >= ELSEWHERE


def test_the_examples_stay_what_a_user_copies():
    """They once had 4,531 lines, mostly scripts for the papers' tables."""
    files = list(EXAMPLES.rglob("*.py"))
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) <= 2000


def test_every_example_is_in_the_documentation():
    page = (ROOT / "docs" / "guides" / "examples.md").read_text(encoding="utf-8")
    for name in [*SCRIPTS, "language_model.py", *(f"notebooks/{path.name}" for path in NOTEBOOKS)]:
        assert f"`examples/{name}`" in page


# In CI the drop-in for texts stands for all three, pairs for conflict, and the parts of CoDA for
# what is learned when: both train models of the same task.
COMPLETE = (
    *("conflict.py", "workers.py", "learning_by_kind.py"),
    *("drop_in_image_patches.py", "drop_in_time_series.py"),
)


@pytest.mark.long
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(name, marks=pytest.mark.complete if name in COMPLETE else [])
        for name in SCRIPTS
    ],
)
def test_it_runs(script, tmp_path):
    if importlib.util.find_spec(NEEDS.get(script, "keras")) is None:
        pytest.skip(f"{script} needs {NEEDS[script]}")
    arguments, expected, *before = SCRIPTS[script]
    printed = warm.printed([EXAMPLES / script, *arguments], cwd=tmp_path, before="".join(before))
    assert re.search(expected, printed), printed


def test_coda_whose_parts_change_nothing_is_coda(monkeypatch):
    """The same projections for N as for E, gains of 1; softmax only if the call is causal."""
    monkeypatch.syspath_prepend(EXAMPLES)
    parts = importlib.import_module("coda_parts")
    query, value = keras.random.normal((2, 5, 8)), keras.random.normal((2, 7, 8))
    mask = np.array([[1, 1, 1, 0, 0, 1, 1], [1, 1, 1, 1, 1, 1, 0]], "bool")
    coda = keras_quasiattn.layers.MultiHeadCoDA(2, 4)
    coda(query, value)
    calls = {False: (query, value), True: (value, value)}
    expected = {
        causal: coda(*inputs, value_mask=mask, use_causal_mask=causal)
        for causal, inputs in calls.items()
    }
    for layer in (parts.ProjectionsOfN(2, 4), parts.Gains(2, 4), parts.SoftmaxToThePast(2, 4)):
        layer(query, value)
        for name in ("query", "key", "value", "output"):
            weights = getattr(coda, f"{name}_dense").get_weights()
            getattr(layer, f"{name}_dense").set_weights(weights)
            if hasattr(layer, f"{name}_of_n"):
                getattr(layer, f"{name}_of_n").set_weights(weights)
        for causal, inputs in calls.items():
            got = layer(*inputs, value_mask=mask, use_causal_mask=causal)
            differs = causal and isinstance(layer, parts.SoftmaxToThePast)
            close = np.allclose(keras.ops.convert_to_numpy(got - expected[causal]), 0, atol=1e-5)
            assert close != differs, (layer, causal)


@pytest.mark.parametrize(("script", "least"), [("tune", 3), ("workers", 2)])
def test_too_few_steps_were_an_error_about_another_option(
    script, least, monkeypatch, tmp_path, capsys
):
    if importlib.util.find_spec(NEEDS.get(f"{script}.py", "keras")) is None:
        pytest.skip(f"{script} needs {NEEDS[f'{script}.py']}")
    monkeypatch.syspath_prepend(EXAMPLES)
    few = str(least - 1)
    monkeypatch.setattr(sys, "argv", [script, "--to", str(tmp_path / "new"), "--steps", few])
    with pytest.raises(SystemExit):
        importlib.import_module(script).main()
    assert f"--steps is {few}: it must be at least {least}" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_the_last_look_was_at_an_update_beyond_the_end(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    callback = importlib.import_module("learning_by_kind").RightByKind
    seen = callback.__new__(callback)
    seen.settings = SimpleNamespace(checkpoint_every=300, steps=4000)
    seen.batches, seen.kinds = [(None, np.array([[1]]), None)], np.array(["x+y"])
    seen.curves = {"x+y": []}
    seen.set_model(SimpleNamespace(predict_on_batch=lambda x: np.array([[[0.0, 1.0]]])))
    seen.on_epoch_end(13)
    assert seen.curves == {"x+y": [(4000, 1.0)]}


@pytest.mark.long
def test_the_language_models_are_better_than_unigrams(tmp_path):
    words = [EXAMPLES / "language_model.py", "--examples", "512", "--epochs", "2"]
    printed = warm.printed(words, cwd=tmp_path)
    losses = dict(re.findall(r"(\w+): (\d\.\d+) nats per token", printed))
    assert list(losses) == ["unigram", "bigram", "softmax", "coda"], printed
    assert max(float(losses["softmax"]), float(losses["coda"])) < float(losses["unigram"]) - 0.5
    assert len(re.findall(r"^ +eve likes \w+", printed, re.MULTILINE)) == 2, printed


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_has_its_outputs_and_nothing_of_the_machine(path):
    assert path.stat().st_size < 300_000
    cells = [
        cell
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "code"
    ]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert {output["output_type"] for output in outputs} <= {
        "stream",
        "execute_result",
        "display_data",
    }
    for output in outputs:
        texts = {
            kind: data
            for kind, data in output.get("data", {}).items()
            if not kind.startswith("image/")
        }
        assert not re.search(
            r"(^|[\s'\"(])/(tmp|home|root|work|usr|opt|Users)/",
            json.dumps([texts, output.get("text")]),
        )


@pytest.mark.long
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.name, marks=[] if "ganet" in path.name else pytest.mark.complete)
        for path in NOTEBOOKS
    ],
)
def test_a_notebook_runs(path, monkeypatch):
    for needed in ("nbclient", "ipykernel", "matplotlib", "jinja2", "tensorflow_datasets"):
        pytest.importorskip(needed)
    monkeypatch.syspath_prepend(EXAMPLES / "notebooks")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    executed = importlib.import_module("execute").executed(path)
    committed = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert [cell.cell_type for cell in executed.cells] == [cell["cell_type"] for cell in committed]
    for now, before in zip(executed.cells, committed, strict=True):
        kinds = [output["output_type"] for output in before.get("outputs", [])]
        assert [output.output_type for output in now.get("outputs", [])] == kinds
        if "ganet" in path.name:  # it prints figures of a benchmark, which were out of date
            assert printed(now) == printed(before)


def printed(cell):
    """Return the lines that a cell has printed, without their digits."""
    streams = [one for one in cell.get("outputs", []) if one["output_type"] == "stream"]
    return re.sub(r"[\d.]+", "0", "".join("".join(one["text"]) for one in streams))
