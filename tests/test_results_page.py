"""The page of results: what it prints for made-up rows, and that the committed page is current."""

import importlib
import re
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from keras_quasiattn.tasks import get

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def results_page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "examples")
    return importlib.import_module("results_page")


def record(
    model: str, seed: int, accuracy: float, steps: int = 300, preset: str = "trec", **changed: Any
) -> dict:
    """A run of today, but for options that it had and its command does not name."""
    command = (
        f"quasiattn train classify --preset {preset} --model {model} --seed {seed} "
        f"--run runs/{seed}"
    )
    options = get("classify").presets[preset].for_model(model).options()
    return {
        "task": "classify",
        "preset": preset,
        "model": model,
        "seed": seed,
        "split": "test",
        "accuracy": accuracy,
        "steps": steps,
        "options": {
            **options,
            "data.vectors": "glove.npz",
            **{name.replace("__", "."): value for name, value in changed.items()},
        },
        "data": {"note": "some rows held out"},
        "command": command,
    }


def folder(record: dict) -> str:
    words = record["command"].split()
    return words[words.index("--run" if "--run" in words else "--to") + 1]


def section(page: str, title: str) -> str:
    (found,) = [part for part in page.split("\n## ") if part.startswith(title)]
    return found


def test_committed_page_is_what_the_records_make(results_page: ModuleType) -> None:
    wanted = results_page.whole_page(ROOT / "results")
    committed = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert committed == wanted, "write it again: python examples/results_page.py"


def test_every_recorded_run_is_on_the_page(results_page: ModuleType) -> None:
    records = results_page.all_records(ROOT / "results")
    page = results_page.page(records)
    # If a row has two seeds, the page shows one command. So every row has at least one run whose
    # folder is there.
    shown = {results_page.key_of(record) for record in records if folder(record) in page}
    others = section(page, "Other runs on record") if "## Other runs" in page else ""
    for record in records:
        key = results_page.key_of(record)
        assert key in shown or all(setting in others for setting in key[-1]), record["command"]


def test_a_row_has_the_papers_figure_and_the_mean_and_spread_of_the_seeds(
    results_page: ModuleType,
) -> None:
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
        "| MultiNLI, whole | decomposable_coda | .7219, .7245 |  |  | the data were not available |"
        in inference
    )
    assert "--preset multi_nli --model decomposable_coda" in inference
    for number in range(1, 10):
        assert f"\n## CoDA, table {number}:" in page


def test_runs_of_other_settings_stand_apart(results_page: ModuleType) -> None:
    page = results_page.page([record("bilstm_soft", 0, 0.9, model__dropout=0.1)])
    assert "0.9000" not in section(page, "GA-Net, tables 2 and 3")
    assert "model.dropout=0.1 | test | accuracy 0.9000 | 1 |" in section(
        page, "Other runs on record"
    )


def test_a_run_without_word_vectors_is_no_run_of_a_row_that_has_some(
    results_page: ModuleType,
) -> None:
    page = results_page.page([record("bilstm_soft", 0, 0.9, data__vectors="")])
    assert "0.9000" not in section(page, "GA-Net, tables 2 and 3")
    others = section(page, "Other runs on record")
    assert "without word vectors | test | accuracy 0.9000 | 1 |" in others
    assert "--set without" not in others


def test_a_run_from_before_a_preset_changed_names_the_options_it_had(
    results_page: ModuleType,
) -> None:
    # Its command has no --set: what it differs in was the preset's own then.
    settings = {"model.gate_network": "self_attention"}
    before = record("bilstm_gated", 0, 0.9, preset="imdb", model__gate_network="self_attention")
    row = results_page.Row("", "imdb", "bilstm_gated", settings, "")
    assert (
        results_page.key_of(before)
        == row.key("classify")
        != row._replace(settings={}).key("classify")
    )
    table = section(results_page.page([before]), "GA-Net, table 5")
    assert "--seed 0 --set model.gate_network=self_attention --run runs/0" in table


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
    assert "the best of `quasiattn tune` | test | accuracy 0.9000" in section(
        page, "Other runs on record"
    )


def pair_of_runs(seed: int, soft: float, gated: float, **changed: Any) -> list[dict]:
    return [record("bilstm_soft", seed, soft, **changed), record("bilstm_gated", seed, gated)]


def test_the_committed_chart_shows_what_the_records_make(results_page: ModuleType) -> None:
    compared = results_page.differences(results_page.all_records(ROOT / "results"))
    svg = (ROOT / "docs" / "images" / "differences.svg").read_text(encoding="utf-8")
    shown = re.findall(r"<text[^>]*>(.*?)</text>", svg)
    names = [line for row in compared for line in (f"{row.data}, {row.figure}", row.model)]
    numbers = []
    for row in compared:
        numbers += [row.ours, *([f"paper {row.printed}"] if row.printed else [])]
    for wanted in (names, numbers):
        first = shown.index(wanted[0])
        found = shown[first : first + len(wanted)]
        assert found == wanted, "draw it again: python examples/results_page.py"


def test_the_names_of_the_rows_leave_room_for_the_chart(results_page: ModuleType) -> None:
    """Matplotlib only warns, and cuts off the names, where a row's name is too long."""
    pytest.importorskip("matplotlib")
    compared = results_page.differences(results_page.all_records(ROOT / "results"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert results_page.results_chart.drawing(compared).png


def test_a_difference_is_that_of_the_same_seeds(results_page: ModuleType) -> None:
    seeds = [(0, 0.5, 0.52), (1, 0.8, 0.81), (2, 0.2, 0.23)]
    rows = [run for one in seeds for run in pair_of_runs(*one)]
    assert results_page.differences(rows[:4]) == []  # two seeds
    (found,) = results_page.differences([*rows, record("bilstm_soft", 3, 0.9)])
    assert (found.data, found.model, found.figure) == ("TREC", "bilstm_gated", "accuracy")
    assert found.ours == "+2.00 ± 1.00" and found.printed == "+1.16" and not found.unequal
    assert "| TREC | bilstm_gated | bilstm_soft | accuracy | +2.00 ± 1.00 | 3 | +1.16 |  |" in (
        section(results_page.page(rows), "Difference to softmax attention")
    )


def test_a_difference_in_another_option_is_marked(results_page: ModuleType) -> None:
    def ranked(model: str, seed: int, figure: float, **changed: Any) -> dict:
        options = get("rank").presets["wikiqa"].for_model(model).options()
        del options["model.attention_dropout"]  # as in a run from before there was one
        made = {**record("bilstm_soft", seed, 0), "task": "rank", "preset": "wikiqa", "map": figure}
        options["data.vectors"] = "glove.npz"
        return {**made, "model": model, "options": {**options, **changed}}

    dropout = {"model.attention_dropout": 0.2}
    rows = [ranked("decomposable", seed, 0.4, **dropout) for seed in range(3)]
    rows += [ranked("decomposable_coda", seed, 0.5) for seed in range(3)]
    (found,) = results_page.differences(rows)
    assert found.unequal == ("attention_dropout 0.0 and 0.2",) and found.mean == pytest.approx(10)
    # Runs with the same options come first.
    equal = [ranked("decomposable", seed, 0.45) for seed in range(3)]
    (found,) = results_page.differences([*rows, *equal])
    assert not found.unequal and found.mean == pytest.approx(5)
