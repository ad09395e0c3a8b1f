"""Which runs a table needs: the grid first, then the seeds of each row at its best."""

import dataclasses
from pathlib import Path

import pytest

from keras_quasiattn.lab.comparison import engine
from keras_quasiattn.lab.comparison.experiments import Figure, Plan, Row, Table, read_records
from keras_quasiattn.lab.tasks import get
from keras_quasiattn.lab.training.config import part_name
from keras_quasiattn.lab.training.progress import Progress

RATE = "training.learning_rate"


def table(grid, seeds=2, split="test"):
    rows = [
        Row(name, "classify", "letters", "transformer", {"model.attention": name})
        for name in ("softmax", "relu")
    ]
    figures = {"accuracy": Figure("accuracy")}
    return Table(
        "t", "T", rows, Path("r.jsonl"), figures, grid, "accuracy", seeds=seeds, split=split
    )


def plan(made, records=()):
    def path_of(row, point, seed):
        return Path("-".join([row.name, *map(str, point.values()), str(seed)]))

    return Plan(made, records, path_of)


def record(run, accuracy):
    preset = get("classify").presets["letters"].for_model("transformer")
    options = preset.with_overrides(run.row.settings).options()
    return {
        **{"task": "classify", "preset": "letters", "model": "transformer", "seed": run.seed},
        **{"split": part_name(run.split, run.limit), "accuracy": accuracy, "options": options},
        **{"command": "quasiattn x"},
    }


def test_each_row_has_the_rate_that_is_best_for_it():
    made = plan(table({RATE: [0.001, 0.01]}))
    begun = []
    while (run := made.next()) is not None:
        begun.append((run.path.name, run.split))
        best = "softmax-0.001" in run.path.name or "relu-0.01" in run.path.name
        made.done(run, record(run, 0.9 if best else 0.1))
    assert begun[:4] == [
        ("softmax-0.001-0", "validation"),
        ("relu-0.001-0", "validation"),
        ("softmax-0.01-0", "validation"),
        ("relu-0.01-0", "validation"),
    ]
    assert begun[4:] == [
        ("softmax-0.001-0", "test"),
        ("relu-0.01-0", "test"),
        ("softmax-0.001-1", "test"),
        ("relu-0.01-1", "test"),
    ]
    assert {len(made.records(row)) for row in made.rows} == {2} and not made.trainings()


def test_no_test_figure_is_measured_while_a_rate_is_missing():
    made = plan(table({RATE: [0.001, 0.01]}))
    runs = [made.next() for _ in range(4)]
    assert made.next() is None  # all four are begun, none is done
    for run in runs[:3]:
        assert run is not None
        made.done(run, record(run, 0.5))
    following = made.next()
    assert following is not None and following.row.name == "softmax"
    assert made.chosen(made.rows[1]) is None


def test_recorded_runs_are_not_trained_again():
    first = plan(table({}))
    run = first.next()
    assert run is not None
    again = plan(table({}), [record(run, 0.5)])
    assert sorted(one.name for one in again.trainings()) == ["relu", "relu", "softmax"]
    assert again.records(again.rows[0])[0]["accuracy"] == 0.5


def test_a_failed_rate_is_not_chosen_and_a_failed_seed_is_told():
    made = plan(table({RATE: [0.001, 0.01]}))
    while (run := made.next()) is not None:
        fails = "0.001" in run.path.name or run.path.name == "relu-0.01-1"
        made.done(run, "it broke" if fails else record(run, 0.5))
    assert made.chosen(made.rows[0]) == {RATE: 0.01}
    assert made.errors(made.rows[0]) == {} and made.errors(made.rows[1]) == {1: "it broke"}
    assert list(made.records(made.rows[1])) == [0]


def test_a_failed_rate_of_validation_data_was_told_as_a_failed_seed():
    made = plan(table({RATE: [0.001, 0.01]}, split="validation"))
    while (run := made.next()) is not None:
        made.done(run, "it broke" if "0.001" in run.path.name else record(run, 0.5))
    assert made.errors(made.rows[0]) == {} and len(made.records(made.rows[0])) == 2


def test_of_two_rows_with_equal_values_of_different_options_one_was_never_trained():
    settings = [{f"model.{name}": 48} for name in ("hidden_dim", "intermediate_dim")]
    rows = [Row("a", "classify", "letters", "transformer", one) for one in settings]
    made = Plan(
        dataclasses.replace(table({}, seeds=1), rows=rows), (), lambda row, _, seed: row.run(seed)
    )
    runs = [made.next() for _ in rows]
    assert [run and run.row.settings for run in runs] == settings
    assert runs[0].path == "letters-transformer-hidden_dim=48-seed0"


def test_further_seeds_of_the_chosen_rate_changed_the_choice():
    made = plan(table({RATE: [0.001, 0.01]}, split="validation"))
    begun = []
    while (run := made.next()) is not None:
        begun.append(run.path.name)
        first = 0.8 if "0.001" in run.path.name else 0.7
        made.done(run, record(run, first if run.seed == 0 else 0.1))
    assert begun[4:] == ["softmax-0.001-1", "relu-0.001-1"]


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_run_of_two_tables_was_trained_by_both_at_once(at_once, tmp_path, monkeypatch):
    trained = []

    def run_jobs(next_job, work, done, **_):
        while jobs := [job for _ in range(at_once) if (job := next_job()) is not None]:
            for job in jobs:
                trained.append(job.path.name)
                done(job, record(job, 0.5))

    monkeypatch.setattr(engine, "run_jobs", run_jobs)
    files = [tmp_path / name for name in ("one.jsonl", "one.jsonl", "other.jsonl")]
    tables = [dataclasses.replace(table({}), records=file) for file in files]
    # Its run folders have the same names.
    rows = [row.with_settings({"model.dropout": 0.4}) for row in tables[0].rows]
    plans = list(map(plan, [*tables, dataclasses.replace(tables[0], rows=rows)]))
    with Progress(False) as shown:
        engine.Engine(plans, lambda row: 1.0, processes=1, log=tmp_path / "log", shown=shown).run()
    assert sorted(trained) == sorted(2 * ["relu-0", "relu-1", "softmax-0", "softmax-1"])
    assert [len(read_records(file)) for file in files] == [8, 8, 4]
    assert all(len(one.records(row)) == 2 for one in plans for row in one.rows)


def test_two_tables_trained_one_run_folder_at_once(tmp_path, monkeypatch):
    begun = []

    def run_jobs(next_job, work, done, **_):
        while jobs := list(iter(next_job, None)):  # as many as may run at once
            begun.append(sorted(f"{job.path.name} {job.split}" for job in jobs))
            for job in jobs:
                done(job, record(job, 0.5))

    monkeypatch.setattr(engine, "run_jobs", run_jobs)
    splits = ("test", "validation", "test")
    tables = [
        dataclasses.replace(table({}, seeds=1, split=split), records=tmp_path / "r.jsonl")
        for split in splits
    ]
    plans = list(map(plan, tables))
    with Progress(False) as shown:
        engine.Engine(plans, lambda row: 1.0, processes=4, log=tmp_path / "log", shown=shown).run()
    assert begun == [[f"{name}-0 {split}" for name in ("relu", "softmax")] for split in splits[:2]]
    assert all(len(one.records(row)) == 1 for one in plans for row in one.rows)


@pytest.mark.parametrize(("before", "after"), [(9, None), (None, 9), (9, 8)])
def test_runs_of_a_few_examples_were_not_repeated_on_all(before, after):
    some, others = (dataclasses.replace(table({}), limit=limit) for limit in (before, after))
    made, records = plan(some), []
    while (run := made.next()) is not None:
        records.append(record(run, 0.5))
        made.done(run, records[-1])
    assert len(records) == 4 and all(len(made.records(row)) == 2 for row in made.rows)
    assert plan(some, records).next() is None
    again = plan(others, records)
    assert len(again.trainings()) == 4 and not any(map(again.records, again.rows))
