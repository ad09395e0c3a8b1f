"""Searches over a task that stands in for training, and one that trains."""

import json
import re
import shutil

import keras_tuner
import pytest
import tiny
import tiny_encoder
import tiny_sequences
import tiny_texts
from tools import long_except
from trainings import Trainings

from keras_quasiattn.errors import FileError, UserError
from keras_quasiattn.files import only_process
from keras_quasiattn.lab.tasks import get
from keras_quasiattn.lab.training import RunFolder
from keras_quasiattn.lab.training.config import METHODS
from keras_quasiattn.lab.tuning.search import _AtomicOracle, _validated
from keras_quasiattn.tuning import search, search_space

SPACE = {"training.learning_rate": [0.001, 0.003, 0.01, 0.03], "model.units": [4, 8, 16]}


def tried(trainings):
    return [
        (options["training.learning_rate"], options["model.units"])
        for _, options in trainings.asked
    ]


@pytest.mark.parametrize("method", long_except(METHODS, "random", others=pytest.mark.complete))
def test_the_best_trial_is_kept_and_a_seed_fixes_them_all(task, trainings, tmp_path, method):
    for name in ("one", "two"):
        folder = search(task, SPACE, tmp_path / name, method=method, trials=6, progress=False)
    first, second = (
        tried(trainings)[: len(trainings.asked) // 2],
        tried(trainings)[len(trainings.asked) // 2 :],
    )
    assert first == second and len(set(first)) >= 4
    options = folder.config["task_config"]["options"]
    best = max(first, key=sum)
    assert (options["training.learning_rate"], options["model.units"]) == best
    assert folder.path == tmp_path / "two" / "best"


def test_a_search_by_perplexity_kept_the_worst(tmp_path, monkeypatch):
    def trained(task, path, **options):
        task.prepare()
        folder = RunFolder.create(path, task, options={})
        folder.write_metrics("validation", {"perplexity": 1.0 + task.options.model["units"]})
        folder.model_file.write_text("trained")
        return folder

    monkeypatch.setattr("keras_quasiattn.lab.tuning.search.train", trained)
    task = tiny_sequences.make(
        tiny_sequences.files(tmp_path), "translate", "seq2seq", training__select="perplexity"
    )
    folder = search(
        task, {"model.units": [4, 8, 16]}, tmp_path / "search", trials=3, progress=False
    )
    assert folder.metrics()["validation"]["perplexity"] == 5.0


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(KeyboardInterrupt(), marks=pytest.mark.long),
        # KerasTuner called the trial invalid, continued without it, and the command exited with 0.
        FileError("cannot write run/config.json: No space left on device"),
        pytest.param(RuntimeError("a kernel failed"), marks=pytest.mark.long),
    ],
    ids=["Control-C", "the disk is full", "a defect"],
)
def test_a_search_goes_on_where_it_stopped(task, trainings, tmp_path, error):
    search(task, SPACE, tmp_path / "whole", trials=5, progress=False)
    whole, trainings.asked = tried(trainings), []
    trainings.stop_at, trainings.stopped_by = 2, error
    with pytest.raises(type(error)) as raised:
        search(task, SPACE, tmp_path / "killed", trials=5, progress=False)
    assert raised.value is error
    trainings.stop_at = None
    search(task, SPACE, tmp_path / "killed", trials=5, progress=False)
    assert tried(trainings) == whole
    assert [name for name, _ in trainings.asked] == [f"trial_{number}" for number in range(5)]
    search(task, SPACE, tmp_path / "killed", trials=5, progress=False)
    assert tried(trainings) == whole


@pytest.mark.long
def test_a_trial_begun_in_one_file_alone_is_drawn_again(task, trainings, tmp_path, monkeypatch):
    """KerasTuner writes the trial's file before its own, and counts every trial with a file."""
    search(task, SPACE, tmp_path / "whole", trials=3, progress=False)
    whole, trainings.asked = tried(trainings), []
    save = _AtomicOracle.save

    def killing(oracle):
        if len(oracle.start_order) == 3:
            raise KeyboardInterrupt
        save(oracle)

    monkeypatch.setattr(_AtomicOracle, "save", killing)
    with pytest.raises(KeyboardInterrupt):
        search(task, SPACE, tmp_path / "search", trials=3, progress=False)
    assert (tmp_path / "search/trial_2/trial.json").exists()
    monkeypatch.undo()
    monkeypatch.setattr("keras_quasiattn.lab.tuning.search.train", trainings)
    search(task, SPACE, tmp_path / "search", trials=3, progress=False)
    assert tried(trainings) == whole


def test_options_that_do_not_go_together_fail_their_own_trial(task, trainings, tmp_path, capsys):
    space = {"training.warmup_steps": [-1, 0], "model.units": [4, 8, 16]}
    search(task, space, tmp_path / "search", trials=6)
    printed = capsys.readouterr()
    lines, said = printed.out.splitlines(), task.remarks()
    trials = lines[len(said) :]
    assert "Traceback" not in printed.err  # KerasTuner printed one for each
    assert lines[: len(said)] == said and len(trials) == 6
    assert sum("failed: training.warmup_steps is -1" in line for line in trials) == 3
    assert len(trainings.asked) == 3


def test_nan_as_a_score_was_ranked(task, monkeypatch, tmp_path, capsys):
    """No score equals NaN: there was no best trial, or any was the best."""
    made = Trainings(lambda options: {4: float("nan"), 8: 0.5, 16: 0.4}[options["model.units"]])
    monkeypatch.setattr("keras_quasiattn.lab.tuning.search.train", made)
    folder = search(task, {"model.units": [4, 8, 16]}, tmp_path / "search", trials=3)
    assert folder.config["task_config"]["options"]["model.units"] == 8
    assert "failed: its accuracy is nan (model.units 4)" in capsys.readouterr().out


def test_a_search_without_success_says_why(task, trainings, tmp_path):
    with pytest.raises(
        UserError, match="no trial of .* succeeded; the last one: training.warmup_steps is -2"
    ):
        search(
            task, {"training.warmup_steps": [-2, -2]}, tmp_path / "search", trials=1, progress=False
        )


@pytest.mark.long
def test_hyperband_trains_longer_what_was_good(task, trainings, tmp_path):
    search(task, SPACE, tmp_path / "search", method="hyperband", progress=False)
    steps = {options["training.steps"] for _, options in trainings.asked}
    assert steps == {20, 60}  # one period and all three
    long = [options for _, options in trainings.asked if options["training.steps"] == 60]
    short = [options for _, options in trainings.asked if options["training.steps"] == 20]
    assert max(trainings.figure(one) for one in short) in [trainings.figure(one) for one in long]


def test_the_updates_to_try_were_a_minimum_of_the_passes(texts, trainings, tmp_path):
    passes = {"training__select": "accuracy", "training__passes": 4}
    task = tiny_texts.make(texts, "bilstm_none", **passes)
    trainings.figure = lambda options: options["training.steps"]
    space = {"training.steps": [20, 40]}
    search(task, space, tmp_path / "search", trials=2, progress=False)
    lengths = {(one["training.steps"], one["training.passes"]) for _, one in trainings.asked}
    assert lengths == {(20, None), (40, None)}


def folds_of(task, trainings, folder):
    """Search with four folds; return the best run, and the texts of each training's splits."""
    splits = []

    def figure(options):
        made = type(task).from_config({**task.config(), "options": options}, task.data_dir)
        parts = made._data.splits.items()
        splits.append({name: set(part.texts.tolist()) for name, part in parts})
        return options["data.validation_fold"]

    trainings.figure = figure
    best = search(task, {"model.units": [4, 8]}, folder, trials=1, folds=4, progress=False)
    return best, splits


def test_folds_hold_out_every_text_once(task, trainings, tmp_path):
    best, splits = folds_of(task, trainings, tmp_path / "search")
    *folds, last = (one["validation"] for one in splits)
    assert sum(map(len, folds)) == len(set().union(*folds)) == 240
    assert len(folds) == 4 and last < folds[0]
    assert best.config["task_config"]["options"]["data.validation_share"] == 0.1
    assert json.loads((tmp_path / "search/trial_0/trial.json").read_text())["score"] == 1.5


def test_a_trial_without_its_metrics_ended_in_a_traceback(tmp_path):
    folder = RunFolder(tmp_path, {})
    for split in (None, "test"):
        if split:
            folder.write_metrics(split, {"loss": 1.0})
        with pytest.raises(UserError, match="metrics.json is missing .* has no validation loss"):
            _validated(folder, "loss")
    folder.write_metrics("validation", {"loss": 0.5})
    assert _validated(folder, "loss") == 0.5


def test_folder_of_another_search(task, trainings, tmp_path):
    search(task, SPACE, tmp_path / "search", trials=1, progress=False)
    for changed, differing in (
        ({"trials": 2}, "trials 1, not 2"),
        # A trial that had begun failed for ever, and a finished search was not of this precision.
        ({"policy": "mixed_bfloat16"}, "policy 'float32', not 'mixed_bfloat16'"),
    ):
        with pytest.raises(UserError, match=f"holds a search with {differing}: give the same"):
            search(task, SPACE, tmp_path / "search", progress=False, **{"trials": 1, **changed})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").touch()
    with pytest.raises(UserError, match="holds other files but no search"):
        search(task, SPACE, tmp_path / "other", trials=1, progress=False)


def test_a_second_search_in_the_folder_failed_the_trials_of_the_first(task, trainings, tmp_path):
    with only_process(tmp_path, "searching"), pytest.raises(UserError, match="another process is"):
        search(task, SPACE, tmp_path, trials=1, progress=False)
    assert not trainings.asked


def test_folds_left_no_text_where_a_test_split_is_held_out(texts, trainings, tmp_path):
    shares = {"data__test": "", "data__test_share": 0.25}
    task = tiny_texts.make(texts, "bilstm_none", training__select="accuracy", **shares)
    _, (*folds, _) = folds_of(task, trainings, tmp_path / "search")
    assert not any(one["validation"] & one["test"] for one in folds)
    whole = task._data.splits
    rest = set(whole["train"].texts.tolist()) | set(whole["validation"].texts.tolist())
    assert len(folds) == 4 and set().union(*(one["validation"] for one in folds)) == rest


def test_data_that_cannot_be_had_bind_no_folder(tmp_path):
    """A search with a misspelt file name must not block the folder for the right one."""
    task = tiny.make("classify", "bilstm_none", tmp_path, {"data.train": "misspelt.tsv"})
    with pytest.raises(UserError, match="misspelt.tsv"):
        search(task, SPACE, tmp_path / "search", trials=1)
    assert not (tmp_path / "search").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "grid"}, "unknown method 'grid'"),
        ({"trials": 0}, "the number of trials is 0: it must be at least 1"),
        ({"folds": 0}, "the number of folds is 0: it must be at least 1"),
        ({"space": {"model.attention": ["coda", "sparsmax"]}}, "unknown attention 'sparsmax'"),
        # All trials had the same value, whichever was drawn.
        (
            {"space": {"training.steps": [20, 40]}, "method": "hyperband"},
            "training.steps cannot be searched, because Hyperband sets it in every trial",
        ),
        (
            {"space": {"data.validation_share": [0.1, 0.2]}, "folds": 2},
            "data.validation_share cannot be searched, because the cross-validation sets it",
        ),
    ],
)
def test_bad_arguments(task, tmp_path, arguments, message):
    with pytest.raises(UserError, match=message):
        search(task, path=tmp_path / "search", **{"space": SPACE, **arguments})
    assert not (tmp_path / "search").exists()


def test_folds_with_a_validation_file_trained_the_same_run_several_times(task, texts, tmp_path):
    own = str(texts / "train.tsv")
    given = task.from_config({**task.config(), "options": {"data.validation": own}}, tmp_path)
    said = f"the number of folds is 2: the validation data are those of {own}, so it must be 1"
    with pytest.raises(UserError, match=re.escape(said)):
        search(given, SPACE, tmp_path / "search", folds=2)


def test_half_a_cluster_is_refused(task, tmp_path, monkeypatch):
    monkeypatch.setenv("KERASTUNER_ORACLE_IP", "127.0.0.1")
    with pytest.raises(UserError, match="KERASTUNER_TUNER_ID, KERASTUNER_ORACLE_PORT is not set"):
        search(task, SPACE, tmp_path / "search")


@pytest.mark.complete
def test_a_search_that_trains(task, tmp_path):
    """The longer trial continues where the shorter one with the same rate ended."""
    space = {"training.learning_rate": [1e-9, 0.01, 0.02, 0.03]}
    folder = search(task, space, tmp_path / "search", method="hyperband", progress=False)
    assert folder.config["task_config"]["options"]["training.learning_rate"] > 1e-9
    runs = [RunFolder.open(run) for run in sorted((tmp_path / "search").glob("trial_*/run"))]
    histories = [run.history() for run in runs]
    assert sorted([row["step"] for row in rows] for rows in histories)[-1] == [20, 40, 60]
    # Even the seconds are the same: the first period was not trained again.
    assert next(rows[0] for rows in histories if len(rows) == 3) in [
        rows[0] for rows in histories if len(rows) == 1
    ]
    answer = folder.task(tmp_path).predict(folder.load_model(), ["who is it ?"])[0]
    assert answer["label"] == "HUM"


def test_search_spaces(task, texts):
    assert list(search_space(task)) == ["training.learning_rate", "training.batch_size"]
    gated = tiny_texts.make(texts, "bilstm_gated")
    assert search_space(gated)["model.gate_temperature"] == [0.5, 1.0, 1.5, 2.0]
    encoder = tiny_encoder.make(texts, "classify", "place")
    assert list(search_space(encoder)) == ["training.learning_rate", "training.batch_size"]
    assert max(search_space(encoder)["training.learning_rate"]) == 2e-4
    encoder = tiny_encoder.make(texts, "classify", "place", model__attention="coda")
    assert "model.attention_options.beta" in search_space(encoder)
    coda = tiny_texts.make(texts, "transformer", model__attention="coda")
    assert search_space(coda)["model.attention_options.beta"] == [0.5, 1.0, 2.0]
    assert search_space(coda, {"model.attention_options.gate": "tanh,arctan"}) == {
        "model.attention_options.gate": ["tanh", "arctan"]
    }
    assert search_space(coda, {"model.attention_options.alpha": "1.0, learned,None"}) == {
        "model.attention_options.alpha": [1.0, "learned", None]
    }
    assert search_space(task, {"model.units": "4, 8"}) == {"model.units": [4, 8]}
    for wanted, message in (
        ({"model.width": "1,2"}, "--try model.width=1,2: unknown option 'model.width'"),
        (
            {"model.units": "4,big"},
            "--try model.units=4,big: model.units is 'big': it must be of type int",
        ),
        ({"model.units": "4"}, "--try model.units=4: give at least two values"),
    ):
        with pytest.raises(UserError, match=message):
            search_space(task, wanted)


def test_the_search_of_a_translation_tried_batches_of_eight_tokens():
    common = {"preset": "multi30k", "model": "transformer", "seed": 0, "data_dir": "data"}
    assert "training.batch_size" not in search_space(get("translate")(**common))


def test_of_equal_trials_a_killed_search_picked_another(task, monkeypatch, tmp_path):
    made = Trainings(lambda _: 0.5)
    monkeypatch.setattr("keras_quasiattn.lab.tuning.search.train", made)
    chosen = search(task, SPACE, tmp_path / "search", trials=4, progress=False).config[
        "task_config"
    ]
    shutil.rmtree(tmp_path / "search" / "best")
    oracle = keras_tuner.Oracle.reload

    def reload(self):
        oracle(self)
        self.trials = dict(reversed(self.trials.items()))

    monkeypatch.setattr(keras_tuner.Oracle, "reload", reload)
    again = search(task, SPACE, tmp_path / "search", trials=4, progress=False).config["task_config"]
    assert again == chosen and len(made.asked) == 4
