"""`quasiattn compare`: from a task to a verdict, killed, continued and extended; wrong input."""

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiny_mlu
import tiny_texts
import warm

from keras_quasiattn.errors import UserError
from keras_quasiattn.files import only_process
from keras_quasiattn.lab.comparison import of_task
from keras_quasiattn.lab.comparison.experiments import read_records
from keras_quasiattn.lab.training import RunFolder

ROOT = Path(__file__).resolve().parents[2]
LETTERS = ("compare", "classify", "--preset", "letters", "--to")


def settings(folder):
    short = {"training__steps": 4, "training__checkpoint_every": 2, "training__warmup_steps": 0}
    return tiny_texts.overrides(folder, "transformer", model__hidden_dim=8, **short)


@pytest.mark.long
@pytest.mark.usefixtures("in_this_process", "eagerly")
def test_a_killed_comparison_goes_on_and_grows(run_cli, few_texts, tmp_path):
    folder, options = tmp_path / "compared", settings(few_texts)
    words = f"compare classify --data {options.pop('data.train')} --to {folder} --seeds 2".split()
    words += ["--rates", "0.003", *tiny_mlu.arguments(options), "--attention"]
    file = folder / "comparison.jsonl"
    first = warm.Process(
        [*tiny_mlu.COMMAND, *words, "softmax"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])},
        before="import one_process; one_process.patch()",
    )
    deadline = time.monotonic() + 600
    while not (file.exists() and file.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.02)
    first.kill()
    first.wait(60)
    begun = read_records(file)
    assert len(begun) == 1

    # A folder in the way of one run: that run fails, and no other.
    blocked = folder / "runs" / "sigmoid-0.003-seed1"
    blocked.mkdir()
    (blocked / "mine.txt").write_text("not a run")
    code, said, error = run_cli(*words, "sigmoid")
    assert code == 1 and "1 failed: " in said and "best run: " in said
    assert "1 run failed; sigmoid, seed 1: " in error and "holds other files" in error
    assert read_records(file)[: len(begun)] == begun  # nothing is measured twice
    (blocked / "mine.txt").unlink()

    code, said, _ = run_cli(*words, "sigmoid")
    assert code == 0 and "bag of words" in said and "majority" in said and " failed: " not in said
    records = read_records(file)
    found = {(one["options"]["model.attention"], one["seed"]) for one in records}
    assert found == {(name, seed) for name in ("softmax", "sigmoid") for seed in range(2)}
    assert len(records) == len(found)
    row = records[0]
    assert row["validation"][0]["step"] == 2 and "accuracy" in row["validation"][0]
    assert row.keys() >= {"commit", "processor", "command"} and "vocabulary.txt" in row["assets"]
    assert RunFolder.open(folder / "best", finished=True).config["task"] == "classify"
    table = (folder / "comparison.md").read_text()
    assert "| softmax |" in table and "| sigmoid |" in table and "95% interval" in table
    page = (folder / "comparison.html").read_text()
    assert page.count("image/svg+xml") >= 4 and '"title": "sigmoid"' in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--attention", "softmaxx"], "unknown attention 'softmaxx' (did you mean 'softmax'?)"),
        (["--model", "bilstm_gated"], "compare one of transformer"),
        (["--seeds", "0"], "the number of seeds is 0: it must be at least 1"),
        (["--rates", "-1"], "--rates -1.0: a learning rate must be a number above 0"),
        # Both were ignored.
        (["--set", "model.attention=coda"], "model.attention is 'coda': a comparison sets it"),
        (
            ["--set", "model.attention_options.gate=tanh"],
            "model.attention_options is {'gate': 'tanh'}: a comparison sets it",
        ),
    ],
)
def test_wrong_arguments_are_one_line_and_leave_nothing(run_cli, tmp_path, arguments, message):
    folder = tmp_path / "new"
    code, _, err = run_cli(*LETTERS, str(folder), *arguments)
    assert code == 1 and message in err and err.count("\n") == 1 and not folder.exists()


def test_a_folder_with_something_else_is_left_alone(run_cli, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    code, _, err = run_cli(*LETTERS, str(tmp_path))
    assert code == 1 and "holds other files but no comparison" in err
    assert [one.name for one in tmp_path.iterdir()] == ["mine.txt"]


def test_a_folder_of_another_comparison_names_what_differs(run_cli, tmp_path, monkeypatch):
    def stopped(*arguments):
        raise UserError("stopped")

    monkeypatch.setattr(of_task, "_Work", stopped)
    folder = str(tmp_path / "one")
    short = ("--set", "training.steps=20", "--set", "training.warmup_steps=0")
    for _ in range(2):
        assert "stopped" in run_cli(*LETTERS, folder, *short)[2]
    for changed, differing in (
        (("--set", "training.steps=30"), "training.steps 20, not 30"),
        # Figures of five examples stood in the table of all.
        (("--limit", "5"), "limit None, not 5"),
        (("--policy", "mixed_bfloat16"), "policy 'float32', not 'mixed_bfloat16'"),
    ):
        code, _, err = run_cli(*LETTERS, folder, *short, *changed)
        assert code == 1 and f"holds a comparison with {differing}: give the same" in err


def test_costs_of_an_earlier_call_had_its_number_of_processes_wrong(tmp_path):
    work = of_task._Work.__new__(of_task._Work)
    work._folder, work._costs = tmp_path, {}
    work._plan = SimpleNamespace(rows=[SimpleNamespace(name=name) for name in ("softmax", "coda")])
    assert work._at_once() == ""
    for row, number in zip(work._plan.rows, (2, 4), strict=True):
        work._processes = number
        work._keep(SimpleNamespace(kind="cost", row=row), {"step": 1.0})
        if row.name == "softmax":
            assert work._at_once() == "2 at once"
    assert work._at_once() == "2 at once (softmax); 4 at once (coda)"
    work._costs = {**json.loads((tmp_path / "costs.json").read_text()), "softmax": {"step": 1.0}}
    assert work._at_once() == "an unknown number at once (softmax); 4 at once (coda)"


def test_a_page_that_was_not_written_for_want_of_the_extra_was_named(
    run_cli, tmp_path, monkeypatch
):
    found = SimpleNamespace(table=lambda: "the table", best="softmax", entries=[])
    monkeypatch.setattr(of_task, "compare_task", lambda *given, **options: found)
    for page, said in (("", "page: none; a page needs pip"), ("<p>", f"page: {tmp_path}")):
        if page:
            (tmp_path / "comparison.html").write_text(page)
        assert said in run_cli(*LETTERS, str(tmp_path))[1]


def test_two_comparisons_in_one_folder_failed_each_others_runs(few_texts, tmp_path):
    task = tiny_texts.make(few_texts, "transformer")
    with only_process(tmp_path, "comparing"), pytest.raises(UserError, match="another process is"):
        of_task.compare_task(task, tmp_path, ["softmax"], seeds=1, rates=[0.01], progress=False)
    (tmp_path / "comparison.jsonl").write_text('{"seed": 0}\n')
    with pytest.raises(UserError, match="comparison.jsonl, line 1: not a record"):
        of_task.compare_task(task, tmp_path, ["softmax"], seeds=1, rates=[0.01], progress=False)


@pytest.fixture
def compared(few_texts, tmp_path, monkeypatch):
    """Return a function that compares without training and without measuring costs."""

    def make(attentions=(), engine=_Trained, costs=None, **options):
        monkeypatch.setattr(of_task, "Engine", engine)
        monkeypatch.setattr(of_task, "run_jobs", costs or (lambda *_, **__: None))
        task = tiny_texts.make(few_texts, "transformer", training__select="loss")
        options = {"rates": [0.01], "progress": False, **options}
        return of_task.compare_task(task, tmp_path / "compared", list(attentions), **options)

    return make


def test_an_interruption_lost_the_costs_measured_before_it(compared, tmp_path):
    cost = {"step": 1.0, "answer": 1.0, "memory": 1.0, "weights": 1.0}

    def interrupted(next_job, work, done, **options):
        done(next_job(), cost)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compared(["relu"], costs=interrupted)
    written = json.loads((tmp_path / "compared" / "costs.json").read_text())
    assert written["softmax"].pop("processes") >= 1 and written == {"softmax": cost}


def test_costs_that_could_not_be_measured_were_not_spoken_of(compared, capsys):
    def lost(next_job, work, done, **options):
        done(next_job(), of_task.Lost("its process was ended by SIGTERM"))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compared(["relu"], costs=lost, progress=True)
    said = capsys.readouterr().out
    assert "cost of softmax: failed: its process was ended by SIGTERM\n" in said


class _Trained:
    """Stands in for the engine: seed 4 has the least loss, seed 3 the best accuracy anywhere."""

    losses, accuracies = {3: (0.7, 2.0), 4: (0.6, 2.0)}, {3: (0.5, 0.9), 4: (0.5, 0.5)}

    def __init__(self, plans, *_, **__):
        (self.plan,) = plans

    def run(self):
        while (job := self.plan.next()) is not None:
            job.path.mkdir(parents=True, exist_ok=True)
            both = zip(self.losses[job.seed], self.accuracies[job.seed], strict=True)
            rows = [{"loss": loss, "accuracy": accuracy} for loss, accuracy in both]
            self.plan.done(job, {"seed": job.seed, "accuracy": 0.5, "validation": rows})


def test_the_best_run_was_that_of_a_checkpoint_that_was_not_kept(compared, tmp_path):
    compared(seeds=2)
    assert (tmp_path / "compared" / "best").readlink().name == "softmax-0.01-seed4"


def test_nan_at_a_checkpoint_hid_the_others_of_a_run(compared, tmp_path, monkeypatch):
    monkeypatch.setattr(_Trained, "losses", {3: (float("nan"), 0.7), 4: (0.6, float("nan"))})
    compared(seeds=2)
    assert (tmp_path / "compared" / "best").readlink().name == "softmax-0.01-seed4"


class _Lost(_Trained):
    """Stands in for the engine: the process of sigmoid at the rate .02 is lost."""

    def run(self):
        while (job := self.plan.next()) is not None:
            job.path.mkdir(parents=True, exist_ok=True)
            lost = "sigmoid-0.02" in job.path.name
            self.plan.done(job, "it was killed" if lost else {"seed": job.seed, "accuracy": 0.5})


def test_a_lost_rate_was_not_spoken_of(compared):
    """The verdict was of another rate, which the validation data would not have chosen."""
    found = compared(["sigmoid"], engine=_Lost, seeds=1, rates=[0.01, 0.02, 0.01])
    assert "sigmoid was not measured at the rate 0.02: it was killed." in found.notes
    assert "Rate: each attention's best of 0.01, 0.02 on the validation data" in found.table()
    assert found["sigmoid"].rate == "0.01" and not found["sigmoid"].errors


def test_the_last_attention_was_timed_on_more_cores_than_the_others(compared):
    numbers = []
    compared(costs=lambda *_, number, **__: numbers.append(number), seeds=1, processes=5)
    assert set(numbers) == {5}


def test_the_values_of_an_option_need_not_repeat_it():
    from keras_quasiattn.lab.cli.commands import _repeated

    words = ["classify", "--attention", "coda", "relu", "--seeds", "2", "--rates", "0.1", "0.2"]
    assert list(_repeated(words)) == [
        *("classify", "--attention", "coda", "--attention", "relu", "--seeds", "2"),
        *("--rates", "0.1", "--rates", "0.2"),
    ]


@pytest.mark.long
@pytest.mark.usefixtures("in_this_process", "eagerly")
def test_the_runs_of_a_file_are_trained_and_shown(run_cli, few_texts, tmp_path):
    (tmp_path / "tiny.toml").write_text(
        f"""
[[table]]
name = "tiny"
task = "classify"
presets = ["own"]
records = "tiny.jsonl"
figures = {{ accuracy = "accuracy" }}
seeds = 2
limit = 10
model = "transformer"
against = "softmax"
attentions = ["softmax", "relu"]
grid = {{ "training.learning_rate" = [0.003, 0.01] }}
[table.set]
{"".join(f"{name!r} = {json.dumps(value)}{chr(10)}" for name, value in settings(few_texts).items())}
"""
    )
    words = ("compare", str(tmp_path / "tiny.toml"), "--runs", str(tmp_path / "runs"))
    code, out, err = run_cli(*words)
    assert code == 0, err
    assert "6 runs to train" in out and "no difference shown" in out, out
    splits = [row["split"] for row in read_records(tmp_path / "tiny.jsonl")]
    assert splits.count("validation, first 10") == splits.count("test, first 10") == 4
    code, out, _ = run_cli(*words, "--show")
    assert code == 0 and "chosen" in out and "train" not in out
