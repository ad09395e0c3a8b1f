import shutil
from pathlib import Path

import numpy as np
import pytest
import toy_task

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks import TrainingSettings
from keras_quasiattn.lab.training import RunFolder, train
from keras_quasiattn.lab.training.checkpoints import (
    Checkpoints,
    early_end,
    is_over,
    required_step,
    selected_step,
)

SETTINGS = {
    "steps": 40,
    "batch_size": 1,
    "learning_rate": 1.0,
    "warmup_steps": 0,
    "checkpoint_every": 4,
}
BEST = {"training__average_checkpoints": 1, "training__select": "accuracy"}


def settings(**changed):
    return TrainingSettings(**{**SETTINGS, **changed})


def history(*accuracies):
    return [
        {
            "step": 4 * (number + 1),
            "val_accuracy": accuracy,
            "val_loss": 1 - accuracy,
            "val_perplexity": 9 - accuracy,
        }
        for number, accuracy in enumerate(accuracies)
    ]


def test_best_checkpoint_is_the_first_of_the_best():
    rows = history(0.1, 0.7, 0.3, 0.7)
    figures = ("accuracy", "loss", "perplexity", "last")
    assert [selected_step(rows, settings(select=name)) for name in figures] == [8, 8, 8, 16]


def test_a_first_checkpoint_whose_loss_was_nan_was_the_best():
    rows, nan = history(float("nan"), 0.3, 0.7), float("nan")
    assert [selected_step(rows, settings(select=name)) for name in ("accuracy", "loss")] == [12, 12]
    assert selected_step(history(nan, nan), settings(select="loss")) == 4


def test_a_model_that_still_changes_is_never_selected():
    shares, accuracies = (0.5, 1.0, 1.0, 1.0), (0.9, 0.2, 0.4, 0.3)
    rows = [
        {**row, "blend": share} for row, share in zip(history(*accuracies), shares, strict=True)
    ]
    patient = settings(select="accuracy", patience=1)
    assert [selected_step(rows[:end], patient) for end in range(1, 5)] == [None, 8, 12, 12]
    # Patience counts from the first checkpoint that may be selected.
    assert [is_over(rows[:end], patient) for end in range(1, 5)] == [False, False, False, True]
    assert selected_step(rows, settings()) == 16 and selected_step([], settings()) is None
    with pytest.raises(UserError, match=r"^run has no checkpoint yet .* moving \(blend 0.5\)"):
        required_step(rows[:1], patient, Path("run"))


def test_training_ends_when_nothing_gets_better():
    patient = settings(select="accuracy", patience=2)
    assert not is_over([], patient)
    assert not is_over(history(0.5, 0.4), patient)
    assert is_over(history(0.5, 0.4, 0.5), patient)
    assert not is_over(history(0.5, 0.4, 0.6), patient)
    assert not is_over(history(*[0.5] * 9), settings(select="accuracy"))
    assert is_over(history(*[0.5] * 10), settings(select="accuracy"))


def test_output_jumped_from_a_period_in_the_middle_to_the_figures():
    for select in ("accuracy", "loss", "perplexity"):
        patient = settings(select=select, patience=2)
        assert early_end(history(0.5, 0.4, 0.3), patient) == (
            f"Stopped: no better {select} since update 4; update 12 of at most 40"
        )
        assert early_end(history(*[0.5] * 10), patient) == ""
    assert early_end(history(0.5), settings()) == "Stopped by a callback: update 4 of 40"
    assert early_end([], settings()) == "Stopped by a callback: update 0 of 40"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"select": "loss", "average_checkpoints": 2},
            "average_checkpoints is 2: it must be 1 when",
        ),
        ({"patience": 2}, "patience is 2: it must be none when training.select is 'last'"),
        ({"select": "loss", "patience": 0}, "patience is 0: it must be none or at least 1"),
    ],
)
def test_settings_that_do_not_go_together(changed, message):
    with pytest.raises(UserError, match=message):
        settings(**changed)


def test_unknown_figure_is_refused_before_a_run_begins(tmp_path):
    task = toy_task.make(tmp_path, **{**BEST, "training__select": "accurracy"})
    with pytest.raises(
        UserError, match=r"unknown training.select 'accurracy' \(did you mean 'accuracy'\?\)"
    ):
        train(task, tmp_path / "run", progress=False)
    assert not RunFolder.exists(tmp_path / "run")


@pytest.fixture(scope="module")
def early(tmp_path_factory):
    """Return a run with too high a rate, which gets worse after some checkpoints and ends early."""
    task = toy_task.make(
        tmp_path_factory.mktemp("data"),
        **BEST,
        training__steps=200,
        training__patience=3,
        training__learning_rate=0.3,
    )
    return train(task, tmp_path_factory.mktemp("early") / "run", progress=False).path


def test_finished_model_is_the_best_checkpoint(early):
    folder = RunFolder.open(early, finished=True)
    rows = folder.history()
    best = max(rows, key=lambda row: row["val_accuracy"])
    assert rows[-1]["step"] == best["step"] + 12 < 200
    kept = Checkpoints(folder.checkpoints, keep=2)
    assert kept.steps() == sorted({best["step"], *(row["step"] for row in rows[-2:])})
    model = folder.load_model()
    for variable, array in zip(
        model.trainable_variables, kept.read(best["step"], "trainable"), strict=True
    ):
        np.testing.assert_array_equal(variable.numpy(), array)
    assert folder.metrics()["validation"]["accuracy"] == pytest.approx(best["val_accuracy"])
    assert folder.metrics()["validation"]["loss"] == pytest.approx(best["val_loss"], rel=1e-4)


def test_run_that_was_killed_after_its_early_end_is_only_finished(early, tmp_path, capsys):
    shutil.copytree(early, tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    rows, model = folder.history(), folder.load_model()
    folder.model_file.unlink()
    train(folder.task(tmp_path), folder.path)
    best = rows[-1]["step"] - 12
    assert f"Stopped: no better accuracy since update {best};" in capsys.readouterr().out
    assert folder.history() == rows
    for variable, before in zip(folder.load_model().variables, model.variables, strict=True):
        if "seed_generator" not in variable.path:  # Keras' files leave these out
            np.testing.assert_array_equal(variable.numpy(), before.numpy())
