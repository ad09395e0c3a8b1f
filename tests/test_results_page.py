"""The page of results: what it prints of rows made up for the purpose, and that the committed page is up to date."""

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def results_page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "examples")
    return importlib.import_module("results_page")


def record(model: str, seed: int, accuracy: float, settings: str = "", steps: int = 300) -> dict:
    command = (
        f"quasiattn train classify --preset trec --model {model} --seed {seed} {settings}--run runs/{seed}"
    )
    return {
        "task": "classify",
        "preset": "trec",
        "model": model,
        "seed": seed,
        "split": "test",
        "accuracy": accuracy,
        "steps": steps,
        "data": {"note": "some rows held out"},
        "command": command,
    }


def section(page: str, title: str) -> str:
    (found,) = [part for part in page.split("\n## ") if part.startswith(title)]
    return found


def test_committed_page_is_what_the_records_make(results_page: ModuleType) -> None:
    wanted = results_page.page(results_page.read_records(ROOT / "results"))
    committed = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert committed == wanted, "write it again: python examples/results_page.py"


def test_every_recorded_run_is_on_the_page(results_page: ModuleType) -> None:
    lines = [
        json.loads(line)
        for file in (ROOT / "results").glob("*.jsonl")
        for line in file.read_text(encoding="utf-8").splitlines()
        if file.name != "tried.jsonl"
    ]
    page = results_page.page(lines)
    # Of two seeds of a row one command is shown: every row has at least one run whose command is there.
    shown = {results_page.key_of(line) for line in lines if line["command"] in page}
    others = section(page, "Other runs on record") if "## Other runs" in page else ""
    for line in lines:
        key = results_page.key_of(line)
        assert key in shown or all(setting in others for setting in key[-1]), line["command"]


def test_a_row_has_the_papers_figure_and_the_mean_and_spread_of_the_seeds(results_page: ModuleType) -> None:
    page = results_page.page(
        [
            record("bilstm_soft", 0, 0.1),
            record("bilstm_soft", 1, 0.92, steps=400),
            record("bilstm_soft", 0, 0.9),
        ]
    )
    rows = section(page, "GA-Net, tables 2 and 3").splitlines()
    (line,) = [row for row in rows if row.startswith("| TREC") and "bilstm_soft" in row]
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        "TREC, whole",
        "bilstm_soft",
        ".9008, 1.4M",
        "0.9100 ± 0.0141",
        "2",
        "300–400",
        "some rows held out",
    ]


def test_rows_without_a_run_stay_and_say_why(results_page: ModuleType) -> None:
    page = results_page.page([])
    assert "| not run yet |" in section(page, "CoDA, table 2")
    inference = section(page, "CoDA, table 3")
    assert (
        "| MultiNLI, whole | decomposable_coda | .7219, .7245 |  |  | the data were not at hand |"
        in inference
    )
    assert "--preset multi_nli --model decomposable_coda" in inference
    for number in range(1, 10):
        assert f"\n## CoDA, table {number}:" in page


def test_runs_of_other_settings_stand_apart(results_page: ModuleType) -> None:
    page = results_page.page([record("bilstm_soft", 0, 0.9, "--set model.dropout=0.1 ")])
    assert "0.9000" not in section(page, "GA-Net, tables 2 and 3")
    assert "model.dropout=0.1 | test | accuracy 0.9000 | 1 |" in section(page, "Other runs on record")


def test_every_preset_on_the_page_is_described(results_page: ModuleType) -> None:
    tables = results_page.paper_tables()
    for table in [*tables, *results_page.unclaimed(tables)]:
        for entry in table.entries:
            assert (entry.row is None) == bool(entry.reason), entry
            if entry.row is not None:
                assert (table.task, entry.row.preset) in results_page.DATA, entry


def test_the_best_run_of_a_search_is_no_row_of_a_table(results_page: ModuleType) -> None:
    found = record("bilstm_soft", 0, 0.9)
    page = results_page.page([{**found, "command": found["command"].replace(" train ", " tune ")}])
    assert "0.9000" not in section(page, "GA-Net, tables 2 and 3")
    assert "the best of `quasiattn tune` | test | accuracy 0.9000" in section(page, "Other runs on record")
