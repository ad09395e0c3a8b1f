"""The scripts of the papers' tables, on rows made up for the purpose."""

import importlib
import importlib.util
import json
import re
import runpy
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from keras_quasiattn.data import questions_from_files, reading_texts
from keras_quasiattn.data.question_files import Question
from keras_quasiattn.layers.shared.mechanisms import MULTI_HEAD_LAYERS
from keras_quasiattn.tasks import get

ROOT = Path(__file__).resolve().parents[1]


def row(
    task: str, preset: str, model: str, seed: int, split: str = "test", **figures: float
) -> str:
    record = {
        "task": task,
        "preset": preset,
        "model": model,
        "seed": seed,
        "split": split,
        "options": {
            **get(task).presets[preset].for_model(model).options(),
            "data.vectors": "glove.npz",
        },
        "command": f"quasiattn train {task} --quiet",
        "data": {"version": "1"},
        **figures,
    }
    return json.dumps(record) + "\n"


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def printed(script: str, *arguments: str) -> str:
        path = ROOT / "examples" / script
        monkeypatch.syspath_prepend(path.parent)
        monkeypatch.setattr(sys, "argv", [str(path), *arguments])
        runpy.run_path(str(path), run_name="__main__")
        return capsys.readouterr().out

    return printed


def test_means_and_spreads_stand_beside_the_papers_figures(
    call: Callable[..., str], tmp_path: Path
) -> None:
    results = tmp_path / "classify.jsonl"
    seeds = [
        row("classify", "trec", "bilstm_soft", seed, accuracy=accuracy, attention_flops=2e6)
        for seed, accuracy in enumerate([0.90, 0.92])
    ]
    other = row("classify", "trec", "bilstm_soft", 2, "validation", accuracy=0.1)
    results.write_text("".join([*seeds, other]))
    printed = call("ganet_tables.py", "show", "--tables", "2", "--results", str(results))
    (line,) = [line for line in printed.splitlines() if "bilstm_soft" in line]
    assert line.split() == [
        "2",
        "trec",
        "bilstm_soft",
        "2",
        "0.9100",
        "±0.0141",
        "2.0000",
        "±0.0000",
        ".9008",
        "1.4M",
    ]
    assert printed.splitlines()[-1] == "trec: published splits"


@pytest.mark.parametrize(
    "script",
    [
        "ganet_tables.py",
        "mlu_tables.py",
        "pair_tables.py",
        "program_tables.py",
        "rank_tables.py",
        "reader_tables.py",
        "transfer_tables.py",
        "translate_tables.py",
    ],
)
def test_nothing_measured_prints_a_heading_alone(
    call: Callable[..., str], script: str, tmp_path: Path
) -> None:
    assert call(script, "show", "--results", str(tmp_path / "none.jsonl")).split()[:2] == [
        "table",
        "data",
    ]


def test_of_three_classes_entailment_alone_is_scitails_entails(
    call: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    transfer = importlib.import_module("transfer_tables")
    answers = ["entailment", "contradiction", "neutral", "entailment"]
    truth = ["entails", "entails", "neutral", "neutral"]
    assert transfer.scores(answers, truth) == {"accuracy": 0.5, "majority_accuracy": 0.5}
    figures = {"accuracy": 0.7, "majority_accuracy": 0.6}
    results = tmp_path / "transfer.jsonl"
    results.write_text(row("pairs", "snli_part", "decomposable_coda", 0, "scitail test", **figures))
    printed = call("transfer_tables.py", "show", "--results", str(results))
    (line,) = [line for line in printed.splitlines() if "decomposable_coda" in line]
    assert line.split()[-3:] == ["1", "0.7000", "0.6000"]


@pytest.mark.parametrize(
    ("script", "task"),
    [
        ("ganet_tables", "classify"),
        ("mlu_tables", "mlu"),
        ("pair_tables", "pairs"),
        ("program_tables", "programs"),
        ("rank_tables", "rank"),
        ("reader_tables", "read"),
        ("transfer_tables", "pairs"),
        ("translate_tables", "translate"),
    ],
)
def test_every_row_is_of_options_that_there_are(
    script: str, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    rows = list(importlib.import_module(script).rows())
    assert len({(row.run(0), row.split) for row in rows}) > 1
    for row in rows:
        get(task)(
            preset=row.preset, model=row.model, seed=0, data_dir="data", overrides=row.settings
        )


def test_a_question_has_the_paragraphs_most_like_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    retrieved = importlib.import_module("retrieved_paragraphs")
    paragraphs = [f"Nothing but number {word}." for word in ("one", "two", "three", "four")]
    paragraphs += ["The river Seine is 777 km long.", "The tower beside the river is 330 m high."]
    asked = [
        Question("1", "How high is the tower beside the river?", "", ["300 m", "330 m"], [-1, -1]),
        Question("2", "Which number is four?", "", ["the last"], [-1]),
    ]
    file = tmp_path / "train.jsonl"
    assert retrieved.write(file, reading_texts(asked), paragraphs) == 0.5
    assert list(tmp_path.iterdir()) == [file]
    read = questions_from_files({"train": file})
    assert read.dropped == {"train": 1}
    (passages,) = read.splits["train"].passages
    found = passages.decode().split("\n")
    assert len(found) == retrieved.PARAGRAPHS
    assert found[:2] == paragraphs[:-3:-1]
    assert passages[read.splits["train"].starts[0] : read.splits["train"].ends[0]] == b"330 m"


def test_paragraphs_that_cannot_be_found_are_an_error_of_one_line(
    call: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("QUASIATTN_DATA_DIR", str(tmp_path / "data"))
    for code, error in ((1, "squad11/train.jsonl is not in"), (2, "has a file of test; name")):
        with pytest.raises(SystemExit) as stopped:
            call("retrieved_paragraphs.py", "--folder", str(tmp_path))
        assert stopped.value.code == code
        assert error in capsys.readouterr().err.splitlines()[-1]
        (tmp_path / "test.jsonl").touch()


def test_every_attention_is_compared_with_options_that_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rows of translation once asked for more checkpoints to average than there were."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    for experiment in importlib.import_module("mechanism_tables").EXPERIMENTS.values():
        assert len(experiment.rates) > 1
        for attention in MULTI_HEAD_LAYERS:
            row = experiment.row(attention, experiment.rates[0], "test")
            get(row.table)(
                preset=row.preset, model=row.model, seed=0, data_dir="data", overrides=row.settings
            )


def test_attentions_beyond_the_spread_of_softmax_are_marked(
    call: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    tables = importlib.import_module("mechanism_tables")
    experiment, rows = tables.EXPERIMENTS["trec"], []
    accuracies = {"softmax": 0.80, "sigmoid": 0.805, "coda": 0.9, "relu": 0.7}
    for attention, accuracy in accuracies.items():
        for rate, split, seeds in (
            ("0.002", "validation", [0.5]),
            ("0.006", "validation", [0.4]),
            ("0.018", "validation", [0.3]),
            ("0.002", "test", [accuracy, accuracy + 0.01]),
            ("0.006", "test", [1.0, 1.0]),  # not the rate that validation data chose
        ):
            settings = experiment.row(attention, rate, split).settings
            for seed, figure in enumerate(seeds):
                record = json.loads(row("classify", "trec", "transformer", seed, split))
                options = get("classify").presets["trec"].for_model("transformer")
                record["options"] = options.with_overrides(settings).options()
                rows.append(json.dumps({**record, "accuracy": figure}) + "\n")
    results = tmp_path / "mechanisms.jsonl"
    results.write_text("".join(rows))
    printed = call("mechanism_tables.py", "show", "--results", str(results))
    cells = [line.split("|")[1:3] for line in printed.splitlines() if "`" in line]
    assert {name.strip(" `"): cell.strip() for name, cell in cells} == {
        "coda": "**0.905 ± 0.007**",
        "sigmoid": "0.810 ± 0.007",
        "softmax": "0.805 ± 0.007",
        "relu": "*0.705 ± 0.007*",
    }
    assert "trec: 2 seeds" in printed
    if importlib.util.find_spec("matplotlib"):
        drawn = tmp_path / "chart.svg"
        call("mechanism_tables.py", "chart", "--results", str(results), "--output", str(drawn))
        shown = re.findall(r"<!-- (coda|relu|sigmoid|softmax) -->", drawn.read_text())
        assert shown == ["coda", "sigmoid", "softmax", "relu"]


@pytest.mark.parametrize(
    ("task", "script", "figures", "seeds"),
    [
        ("mlu", "mlu_tables", ["sequence_accuracy"], 3),
        ("programs", "program_tables", ["sequence_accuracy", "program_accuracy"], 1),
    ],
)
def test_both_models_are_at_their_best_by_validation_data(
    task: str, script: str, figures: list[str], seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    tables = importlib.import_module("tables")
    rows = importlib.import_module(script).rows
    found = tables.by_key(tables.read_records(ROOT / "results" / f"{task}.jsonl"))
    grid: dict[str, dict[frozenset[tuple[str, str]], list[float]]] = {}
    best = {row.model: row.settings for row in rows() if row.table == "best"}
    for grid_row in (row for row in rows() if row.table == "grid"):
        runs = found[grid_row.key(task)].values()
        # The lower rate is far below on arithmetic, so that one run of it is enough.
        assert len(runs) == seeds or grid_row.settings["training.learning_rate"] == "0.002"
        means = [statistics.mean(run[figure] for run in runs) for figure in figures]
        grid.setdefault(grid_row.model, {})[frozenset(grid_row.settings.items())] = means
    assert len(best) == 2
    for model, settings in best.items():
        by_settings = grid[model]
        assert max(by_settings, key=lambda x: by_settings[x]) == frozenset(settings.items())


def test_the_documentation_has_the_comparison_of_attentions_as_measured(
    call: Callable[..., str],
) -> None:
    page = (ROOT / "docs" / "guides" / "which-layer.md").read_text(encoding="utf-8")
    rows = [line for line in call("mechanism_tables.py", "show").splitlines() if "| `" in line]
    assert len(rows) == len(MULTI_HEAD_LAYERS)
    for row in rows:
        assert row in page, "paste what `python examples/mechanism_tables.py show` prints"


def test_own_data_stands_beside_its_baselines(call: Callable[..., str]) -> None:
    printed = call("own_data.py", "show")
    assert "majority" in printed and "decomposable_coda" in printed


def test_rows_that_are_there_are_not_trained_again(
    call: Callable[..., str], tmp_path: Path
) -> None:
    results = tmp_path / "rank.jsonl"
    dropped = get("rank").presets["wikiqa"].for_model("decomposable")
    dropped = dropped.with_overrides({"model.attention_dropout": "0.2"})
    results.write_text(
        row("rank", "wikiqa", "decomposable", 0, map=0.5)
        + row(
            "rank",
            "wikiqa",
            "decomposable",
            0,
            map=0.5,
            options={**dropped.options(), "data.vectors": "glove.npz"},
        )
        + row("rank", "wikiqa", "decomposable_coda", 0, map=0.5)
    )
    chosen = ["--tables", "2", "--datasets", "wikiqa", "--seeds", "1", "--results", str(results)]
    assert call("rank_tables.py", "train", *chosen) == ""


@pytest.mark.long
def test_a_run_that_fails_ends_the_script_without_a_traceback(
    call: Callable[..., str], tmp_path: Path
) -> None:
    """The command says what is wrong in one line; the script once added its own traceback."""
    files = ("--runs", str(tmp_path), "--results", str(tmp_path / "none.jsonl"))
    with pytest.raises(SystemExit) as end:
        call("transfer_tables.py", "train", "--seeds", "1", "--vectors", "no.txt", *files)
    assert end.value.code == 1


@pytest.mark.long
def test_loss_curves_have_the_mean_and_the_spread_of_the_seeds(
    call: Callable[..., str], tmp_path: Path
) -> None:
    for seed, losses in enumerate([(3.0, 1.0), (5.0, 2.0, 1.0)]):
        run = tmp_path / f"run{seed}"
        run.mkdir()
        (run / "config.json").write_text(json.dumps({"task_config": {"model": "siamese_both"}}))
        rows = [{"step": 10 * number, "loss": loss} for number, loss in enumerate(losses, 1)]
        (run / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pytest.importorskip("matplotlib")
    runs = [str(tmp_path / f"run{seed}") for seed in (0, 1)]
    call("loss_curves.py", *runs, "--output", str(tmp_path / "out" / "loss.png"))
    curve = json.loads((tmp_path / "out" / "loss.json").read_text())["siamese_both"]
    assert (
        curve[0] == {"step": 10, "mean": 4.0, "least": 3.0, "largest": 5.0, "runs": 2}
        and len(curve) == 2
    )
    assert (tmp_path / "out" / "loss.png").read_bytes().startswith(b"\x89PNG")
