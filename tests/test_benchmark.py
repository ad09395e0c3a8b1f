"""The benchmark's one command: every case once, at a tiny size, with all that it writes."""

import json
import subprocess
import sys
from pathlib import Path

import keras
import pytest
import warm

from benchmarks import coda, report, rows

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="measures the TensorFlow backend"
)


def measure(command, output):
    ended = warm.run([sys.executable, *command.split(), "--output", output], cwd=ROOT, text=True)
    assert ended.returncode == 0, ended.stderr[-2000:]


@pytest.mark.complete
def test_one_command_prints_writes_and_plots_and_compares_with_another_ref(tmp_path):
    output, picture = tmp_path / "run.json", tmp_path / "run.png"
    command = (
        "-m benchmarks.coda --heads 2 --lengths 8 16 --features 5 --repeats 1 --no-layers "
        "--memory-lengths 33"
    )
    result = subprocess.run(
        [
            sys.executable,
            *command.split(),
            "--compare-ref",
            "HEAD",
            "--output",
            output,
            "--plot",
            picture,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert "faster_than_broadcast" in result.stdout
    found = json.loads(output.read_text())
    assert {row["case"] for row in found["core"]} >= {"softmax", "broadcast", "blockwise"}
    assert {row["mode"] for row in found["core"] if row["case"] == "blockwise"} == {
        "graph",
        "xla",
        "eager",
    }
    assert {row["from"] for row in found["growth"]} == {8}
    assert all(row["above_base_mib"] >= 0 for row in found["memory"])
    assert found["compared_with"]["ref"] == "HEAD" and len(found["compared_with"]["core"]) == len(
        found["core"]
    )
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


@pytest.mark.complete
def test_gated_inference_is_timed_beside_soft_attention(tmp_path):
    output = tmp_path / "gated.json"
    command = (
        "-m benchmarks.gated_inference --batch 2 --length 9 --width 8 --lengths 7 --repeats 1 "
        "--densities 0.5 0.2"
    )
    measure(command, output)
    found = json.loads(output.read_text())
    assert [row["ratio"] for row in found["unit"]] == [
        row["gathered_ms"] / row["soft_ms"] for row in found["unit"]
    ]
    whole = found["classifiers"]
    assert all(row["ratio"] == row["gated_ms"] / row["soft_ms"] for row in whole)
    assert all(0 <= row["density"] < 0.6 for row in whole)
    assert {row["encoder"] for row in whole} == {"lstm", "convolution"}


@pytest.mark.long
def test_pairs_step_beside_the_same_model_in_stock_layers(tmp_path):
    output = tmp_path / "pairs.json"
    command = (
        "-m benchmarks.pairs --batch 2 --batches 2 --vocabulary 30 --width 5 --units 4 --repeats 1"
    )
    measure(command, output)
    found = json.loads(output.read_text())
    assert len(set(found["parameters"].values())) == 1, "not the same widths"
    times = found["step_ms"]
    assert found["softmax_of_plain"]["ratio"] == times["softmax"] / times["plain"]
    assert found["coda_of_softmax"]["ratio"] == times["coda"] / times["softmax"]


@pytest.mark.complete
def test_summaries_are_timed_beside_epochs_without_them(tmp_path):
    output = tmp_path / "summaries.json"
    command = (
        "-m benchmarks.summaries --batch 2 --length 4 --width 8 --vocabulary 20 --steps 2 "
        "--repeats 1"
    )
    measure(command, output)
    found = json.loads(output.read_text())["models"]
    assert set(found) == {"pairs", "transformer", "gated"}
    for row in found.values():
        assert row["share_of_step_time"] == pytest.approx(
            row["epoch_ms_with"] / row["epoch_ms_without"] - 1
        )
        assert row["first_ms"] > 0


@pytest.mark.complete
def test_decoding_with_coda_beside_softmax(tmp_path):
    output = tmp_path / "decoding.json"
    command = (
        "-m benchmarks.decoding --batch 2 --vocabulary 30 --source-length 4 --length 3 --repeats 1"
    )
    measure(command, output)
    found = json.loads(output.read_text())
    rates = found["tokens_per_second"]
    assert found["coda_of_softmax"]["ratio"] == pytest.approx(rates["softmax"] / rates["coda"])


@pytest.mark.complete
def test_workers_are_timed_beside_one(tmp_path):
    output = tmp_path / "workers.json"
    command = (
        "-m benchmarks.workers --model bilstm_none --batch 4 --length 4 --steps 2 --periods 2 "
        "--repeats 1"
    )
    measure(command, output)
    found = json.loads(output.read_text())
    rates = found["steps_per_second"]
    assert found["two_to_one"] == rates["2"] / rates["1"]


@pytest.mark.complete
def test_whole_layers_train_predict_and_are_exported(tmp_path):
    output = tmp_path / "layers.json"
    measure("-m benchmarks.layers --layers coda --sizes 3 --repeats 1 --seconds 1", output)
    rows = json.loads(output.read_text())["rows"]
    assert {(row["way"], row["layer"]) for row in rows} == {
        (way, layer)
        for way in ("train_on_batch", "predict_on_batch", "exported", "compiled")
        for layer in ("keras", "coda")
    }
    # Keras' own is the measure of its compiled export, too.
    own = [row for row in rows if row["layer"] == "keras" and row["way"] != "compiled"]
    assert all(row["ratio"] == 1 for row in own)


@pytest.mark.complete
def test_the_memory_of_a_layer_is_that_of_a_long_sequence(tmp_path):
    output = tmp_path / "memory.json"
    measure("-m benchmarks.layer_memory --layers keras coda --size 4 512 256 4", output)
    rows = json.loads(output.read_text())["rows"]
    assert [row["layer"] for row in rows] == ["keras", "coda"]
    assert all(0 < row["mib"] < 1024 for row in rows)
