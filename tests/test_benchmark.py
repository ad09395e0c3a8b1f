"""The benchmarks' commands, each once at a tiny size, and how their figures are computed."""

import json
import sys
from pathlib import Path

import pytest
import tiny_encoder
import warm

from benchmarks import coda, layers, report, rows
from keras_quasiattn.lab.training import train

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.complete
def test_one_command_prints_writes_and_plots_and_compares_with_another_ref(tmp_path):
    output, picture = tmp_path / "run.json", tmp_path / "run.png"
    words = (
        "-m benchmarks.coda --heads 2 --lengths 8 16 --features 5 --repeats 1 --no-layers "
        f"--memory-lengths 33 --compare-ref HEAD --output {output} --plot {picture}"
    ).split()
    assert "faster_than_broadcast" in warm.printed(words, warm.fresh, cwd=ROOT)
    found = json.loads(output.read_text())
    assert {row["case"] for row in found["core"]} >= {"softmax", "broadcast", "blockwise"}
    modes = {row["mode"] for row in found["core"] if row["case"] == "blockwise"}
    assert modes == {"graph", "xla", "eager"}
    assert {row["from"] for row in found["growth"]} == {8}
    assert all(row["above_base_mib"] >= 0 for row in found["memory"])
    assert found["compared_with"]["ref"] == "HEAD"
    assert len(found["compared_with"]["core"]) == len(found["core"])
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "wrong,named",
    [(["--compare-ref", "no-such-ref"], "no-such-ref"), (["--lengths", "0"], "at least 1")],
)
def test_wrong_options_are_named_before_anything_is_measured(wrong, named, capsys):
    with pytest.raises(SystemExit) as ended:
        coda.main(wrong)
    printed = capsys.readouterr()
    assert ended.value.code == 2 and named in printed.err.splitlines()[-1] and not printed.out


@pytest.mark.parametrize("wrong", [["--sizes", "4"], ["--layers", "codda"]])
def test_an_unknown_size_or_layer_was_a_traceback(wrong, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["layers", *wrong])
    with pytest.raises(SystemExit) as ended:
        layers.main()
    assert ended.value.code == 2 and "invalid choice" in capsys.readouterr().err.splitlines()[-1]


def test_a_table_with_a_row_that_failed_was_a_traceback():
    """As of Triton's sizes that need more shared memory than there is."""
    assert report.table([{"tile": 64, "error": "no"}, {"tile": 8, "ms": 0.5}]).splitlines() == [
        "tile  error   ms",
        "  64     no     ",
        "   8         0.5",
    ]


def test_ratios_are_those_of_the_same_size_and_pass():
    size = {"heads": 1, "length": 8, "features": 4, "passes": "both"}
    measured = [
        {**size, "case": "softmax", "mode": "graph", "ms": 4.0},
        {**size, "case": "softmax", "mode": "xla", "ms": 2.0},
        {**size, "case": "broadcast", "mode": "graph", "ms": 30.0},
        {**size, "case": "blockwise", "mode": "xla", "ms": 3.0},
    ]
    other = [{**row, "length": 16, "ms": row["ms"] * 4} for row in measured]
    first = rows.goals(measured + other)[0]
    assert (first["faster_than_broadcast"], first["slower_than_softmax"]) == (10.0, 1.5)
    assert {row["exponent"] for row in rows.growth(measured + other)} == {2.0}
    assert "blockwise" in report.table(rows.goals(measured))


def test_long_problems_get_fewer_heads():
    assert [rows.heads_that_fit(32, length) for length in (64, 4096, 16384, 40000)] == [
        32,
        16,
        1,
        1,
    ]


BENCHMARKS = {
    "gated_inference --batch 2 --length 9 --width 8 --lengths 7 --repeats 1 --densities 0.5 0.2": (
        *("unit", "classifiers"),
    ),
    "pairs --batch 2 --batches 2 --vocabulary 30 --width 5 --units 4 --repeats 1": (
        *("parameters", "step_ms", "softmax_of_plain", "coda_of_softmax"),
    ),
    "summaries --batch 2 --length 4 --width 8 --vocabulary 20 --steps 2 --repeats 1": ("models",),
    "workers --model bilstm_none --batch 4 --length 4 --steps 2 --periods 2 --repeats 1": (
        *("steps_per_second", "two_to_one"),
    ),
    "layers --layers coda --sizes 3 --repeats 1 --seconds 1": ("rows",),
    "layer_memory --layers keras coda --size 4 512 256 4": ("rows",),
}


@pytest.mark.complete
@pytest.mark.parametrize("command", BENCHMARKS)
def test_a_benchmark_writes_what_it_measured(command, tmp_path):
    output = tmp_path / "found.json"
    words = ["-m", *f"benchmarks.{command}".split(), "--output", output]
    warm.printed(words, cwd=ROOT)
    found = json.loads(output.read_text())
    assert all(found[name] for name in BENCHMARKS[command])


@pytest.mark.complete
def test_exports_of_an_encoder_are_timed_beside_those_of_keras_hub(
    encoder_folder, texts_data, tmp_path
):
    encoders = pytest.importorskip("benchmarks.encoders", reason="needs the extra pretrained")
    short = {"training__steps": 2, "training__checkpoint_every": 1}
    task = tiny_encoder.make(texts_data, "classify", encoder_folder, **short)
    train(task, tmp_path / "run", progress=False)
    found = encoders.measured(str(tmp_path / "run"), "data", repeats=1, seconds=0)
    assert {row["texts"] for row in found} == {1, 8, 32} and len(found) == 18
    assert all(row["ratio"] == 1 for row in found if "KerasHub" in row["way"])
