import json
import os

import pytest
import toy_task

from keras_quasiattn import files
from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.training import RunFolder, train

OPTIONS = {"policy": "float32"}
NO_PROCESS = 2**22 + 1  # above what Linux gives


def left_by(process, folder, name):
    """Return the temporary path to which a process of this machine writes a file."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("os.getpid", lambda: process)
        with files.atomic_file(folder / name) as temporary:
            temporary.touch()
    (folder / name).unlink()
    return temporary


@pytest.fixture
def folder(tmp_path):
    return RunFolder.create(tmp_path / "run", toy_task.make(tmp_path), options=OPTIONS)


def test_config_round_trip(folder):
    again = RunFolder.open(folder.path)
    assert again.config == folder.config
    again.require_same(toy_task.make("another/data/folder"), OPTIONS)


def test_every_difference_is_named(folder):
    other = toy_task.make("data", seed=1, model__width=16)
    message = (
        "model.width 8, not 16; policy 'float32', not 'mixed_float16'; seed 7, not 1: use the same"
    )
    with pytest.raises(UserError, match=message):
        folder.require_same(other, {"policy": "mixed_float16"})


def test_a_run_of_so_many_passes_does_not_say_of_how_many_steps(folder):
    config = folder.config
    options = {**config["task_config"]["options"], "training.passes": 20}
    folder.write_config({**config, "task_config": {**config["task_config"], "options": options}})
    with pytest.raises(UserError, match=r"is not finished \(update 0 of 20 passes\)"):
        folder.require_finished()


def test_kill_before_the_config_counts_leaves_an_empty_folder(tmp_path):
    left_by(NO_PROCESS, tmp_path, "config.json").write_text('{"form')
    RunFolder.create(tmp_path, toy_task.make("data"), options=OPTIONS)
    with RunFolder.lock(tmp_path):
        assert {entry.name for entry in tmp_path.iterdir()} == {".lock", "config.json"}


def test_missing_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file is not a folder: name the folder of a training run"):
        RunFolder.open(tmp_path / "file")
    with pytest.raises(
        UserError, match="nowhere does not exist: name the folder of a training run"
    ):
        RunFolder.open(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "content", ["", '{"format": 1', "[]", '{"format": 1}', '{"format": "1"}', "\x00\xff"]
)
def test_damaged_config(tmp_path, content):
    (tmp_path / "config.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(UserError, match=r"config.json is damaged: it is not"):
        RunFolder.open(tmp_path)


@pytest.mark.parametrize(
    ("part", "name"),
    [
        *((None, name) for name in ("command", "options", "task", "task_config", "versions")),
        *(("task_config", name) for name in ("model", "options", "preset", "seed")),
    ],
)
def test_a_config_that_lacks_an_entry_is_damaged(part, name, folder):
    config = json.loads((folder.path / "config.json").read_text())
    del (config[part] if part else config)[name]
    (folder.path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"config.json is damaged"):
        RunFolder.open(folder.path)


def test_a_config_whose_data_are_no_object_ended_in_a_traceback(folder):
    config = json.loads((folder.path / "config.json").read_text())
    (folder.path / "config.json").write_text(json.dumps({**config, "data": "trec"}))
    with pytest.raises(UserError, match=r"config.json is damaged"):
        RunFolder.open(folder.path)


def test_unfinished_run_says_how_far_it_is(folder):
    RunFolder.open(folder.path)
    with pytest.raises(UserError, match=r"not finished \(update 0 of 24\)"):
        folder.load_model()
    folder.write_history([{"step": 4}, {"step": 8}])
    with pytest.raises(
        UserError, match=r"not finished \(update 8 of 24\): run the train command again"
    ):
        RunFolder.open(folder.path, finished=True)


def test_damaged_model_history_and_metrics(folder):
    for name in ("model.keras", "history.jsonl", "metrics.json"):
        (folder.path / name).write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(UserError, match=r"model.keras does not load"):
        folder.load_model()
    with pytest.raises(UserError, match=r"history.jsonl is damaged"):
        folder.history()
    with pytest.raises(UserError, match=r"metrics.json is damaged"):
        folder.write_metrics("test", {"accuracy": 1.0})


def test_metrics_of_splits_stand_side_by_side(folder):
    folder.write_metrics("validation", {"loss": 1.5})
    folder.write_metrics("test", {"accuracy": 0.5})
    folder.write_metrics("test", {"accuracy": 0.75})
    assert folder.metrics() == {"validation": {"loss": 1.5}, "test": {"accuracy": 0.75}}


def test_two_processes_do_not_train_in_one_folder(folder):
    with (
        RunFolder.lock(folder.path),
        pytest.raises(UserError, match="another process is training in"),
        RunFolder.lock(folder.path),
    ):
        pass
    with RunFolder.lock(folder.path):
        pass
    assert not (folder.path / ".lock").exists()


def test_a_training_that_begins_removed_what_a_running_evaluate_was_writing(folder):
    dead, running = (
        left_by(process, folder.path, "metrics.json") for process in (NO_PROCESS, os.getppid())
    )
    dead.touch()
    running.touch()
    with RunFolder.lock(folder.path):
        assert running.exists() and not dead.exists()


def test_two_trainings_that_start_together_both_believed_to_have_begun_the_run(
    tmp_path, monkeypatch
):
    task, outcomes = toy_task.make(tmp_path), []

    def prepare():
        with pytest.raises(UserError, match="another process is training in") as refused:
            train(task, tmp_path / "run", progress=False)
        outcomes.append(refused)
        raise UserError("enough")

    monkeypatch.setattr(task, "prepare", prepare)
    with pytest.raises(UserError, match="enough"):
        train(task, tmp_path / "run", progress=False)
    assert len(outcomes) == 1
    assert not (tmp_path / "run").exists(), "a run that was not begun leaves nothing"


def test_path_that_cannot_be_a_folder(tmp_path):
    (tmp_path / "file").write_text("kept")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(UserError, match=f"cannot create the run folder {path}: "):
            train(toy_task.make("data"), path, progress=False)
    assert (tmp_path / "file").read_text() == "kept"
