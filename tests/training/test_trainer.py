import json
import os
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import toy_task

from keras_quasiattn.errors import UserError
from keras_quasiattn.files import _prefix
from keras_quasiattn.lab.training import RunFolder, train
from keras_quasiattn.lab.training.checkpoints import CheckpointCallback, Checkpoints
from keras_quasiattn.lab.training.replicas import ReplicaLossScaleOptimizer
from keras_quasiattn.lab.training.strategy import dtype_policy
from keras_quasiattn.lab.training.trainer import compiled_model

SHORT = {
    "training__steps": 8,
    "training__average_checkpoints": 2,
    "model__batch_normalization": False,
}

SMOOTH = {"model__dropout": 0.0, "model__batch_normalization": False}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    train(
        toy_task.make(folder, **SHORT),
        folder / "run",
        progress=False,
        command=["quasiattn", "train", "a b"],
    )
    return folder / "run"


def test_run_folder_holds_everything(trained):
    assert {entry.name for entry in trained.iterdir()} == {
        "attention.jsonl",
        "checkpoints",
        "config.json",
        "history.jsonl",
        "manifest.json",
        "metrics.json",
        "model.keras",
        "tensorboard",
    }
    config = json.loads((trained / "config.json").read_text())
    assert config["format"] == 1
    assert config["versions"]["keras"] == keras.__version__
    assert config["command"] == "quasiattn train 'a b'"
    assert config["options"] == {"policy": "float32", "strategy": "one", "replicas": 1}
    assert RunFolder.open(trained).metrics()["validation"].keys() == {"loss", "accuracy"}


def test_folder_alone_rebuilds_the_task(trained, tmp_path):
    task = RunFolder.open(trained).task(tmp_path)
    assert task.config() == toy_task.make("elsewhere", **SHORT).config()
    assert task.data_dir == tmp_path


def test_figures_are_those_of_the_finished_model(trained, tmp_path):
    folder = RunFolder.open(trained)
    task = folder.task(tmp_path)
    model = folder.load_model()
    model.compile(loss=task.loss(), metrics=task.metrics())
    figures = model.evaluate(task.validation_data(), return_dict=True, verbose=0)
    assert figures == pytest.approx(folder.metrics()["validation"], rel=1e-5)


def test_a_finished_run_in_a_folder_that_cannot_be_written_was_an_error(
    trained, capsys, monkeypatch
):
    def refuse(*_, **__):
        raise PermissionError("read-only")

    monkeypatch.setattr("keras_quasiattn.files.locked", refuse)
    train(toy_task.make(trained.parent, **SHORT), trained)
    assert capsys.readouterr().out == f"{trained} is finished: nothing to train\n"


def test_what_a_process_killed_at_its_end_left_in_a_finished_run_stayed(trained):
    left = [
        trained / ".lock",
        trained / f"{_prefix().replace(str(os.getpid()), '999999999')}model.keras",
    ]
    for file in left:
        file.touch()
    train(toy_task.make(trained.parent, **SHORT), trained)
    assert not any(file.exists() for file in left)


def test_run_is_not_continued_where_a_new_one_was_asked_for(trained):
    with pytest.raises(UserError, match="already holds a run: name a new folder"):
        train(toy_task.make(trained.parent, **SHORT), trained, resume=False, progress=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": "float8"}, "unknown precision policy 'float8'.*: choose from float32, mixed_"),
        (
            {"strategy": "mirored"},
            r"unknown strategy 'mirored' \(did you mean 'mirrored'\?\): choose from",
        ),
        (
            {"strategy": "mirrored"},
            "strategy 'mirrored' found no GPU and only one CPU device: use strategy 'one'",
        ),
    ],
)
def test_unknown_or_impossible_options_make_no_folder(tmp_path, options, message):
    with pytest.raises(UserError, match=message):
        train(toy_task.make(tmp_path), tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()
    assert keras.config.dtype_policy().name == "float32"


@pytest.fixture(scope="module")
def float32_losses(tmp_path_factory):
    folder = tmp_path_factory.mktemp("float32")
    run = train(toy_task.make(folder, **SMOOTH), folder / "run", progress=False)
    return [row["val_loss"] for row in run.history()]


@pytest.mark.parametrize(
    "policy", ["mixed_float16", pytest.param("mixed_bfloat16", marks=pytest.mark.long)]
)
def test_low_precision_learns_as_float32_does(tmp_path, policy, float32_losses):
    folder = train(
        toy_task.make(tmp_path, **SMOOTH), tmp_path / "run", policy=policy, progress=False
    )
    assert keras.config.dtype_policy().name == "float32"
    model = folder.load_model()
    assert model.layers[1].compute_dtype == policy.removeprefix("mixed_")
    assert all(
        np.isfinite(weight).all() and weight.dtype == np.float32 for weight in model.get_weights()
    )
    losses = [row["val_loss"] for row in folder.history()]
    np.testing.assert_allclose(losses, float32_losses, atol=0.01)
    assert max(float32_losses) - min(float32_losses) > 0.1


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("mixed_float16", ReplicaLossScaleOptimizer), ("mixed_bfloat16", keras.optimizers.Adam)],
)
def test_float16_alone_scales_the_loss(tmp_path, policy, expected):
    with dtype_policy(policy):
        assert type(compiled_model(toy_task.make(tmp_path), policy).optimizer) is expected


def test_settings_reach_the_optimizer_and_the_model(tmp_path):
    task = toy_task.make(tmp_path, training__jit_compile=True, training__clip_norm=0.25)
    model = compiled_model(task, "float32")
    optimizer = model.optimizer
    assert (optimizer.beta_1, optimizer.beta_2, optimizer.epsilon) == (0.9, 0.997, 1e-9)
    assert float(optimizer.learning_rate) == pytest.approx(1e-2 / 4)
    assert model.jit_compile is True and optimizer.global_clipnorm == 0.25


def test_loss_that_is_not_finite_stops_before_the_checkpoint(tmp_path):
    task = toy_task.make(tmp_path, **SHORT, training__learning_rate=1e38)
    with pytest.raises(
        UserError, match=r"the loss is nan in the updates up to .* training.learning_rate"
    ):
        train(task, tmp_path / "run", progress=False)
    for file in (tmp_path / "run" / "checkpoints").glob("*"):
        with np.load(file) as arrays:
            assert all(
                np.isfinite(arrays[name]).all()
                for name in arrays.files
                if name.startswith("trainable")
            )


def test_damaged_checkpoint_is_named_and_the_one_before_it_serves(tmp_path, capsys):
    task = toy_task.make(tmp_path, **SHORT)
    run = tmp_path / "run"
    folder = train(task, run, progress=False)
    expected = folder.load_model().get_weights()
    folder.model_file.unlink()
    last = run / "checkpoints" / "step-00000008.npz"
    last.write_bytes(last.read_bytes()[:-200])
    again = train(task, run).load_model().get_weights()
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == [
        f"{last} is damaged: continuing from the checkpoint before it",
        f"{run}: continuing from update 4 of 8",
    ]
    for one, other in zip(expected, again, strict=True):
        np.testing.assert_array_equal(one, other)
    assert [row["step"] for row in folder.history()] == [4, 8]


def test_seconds_are_kept_to_the_millisecond(tmp_path, monkeypatch):
    task = toy_task.make(tmp_path)
    folder = RunFolder.create(tmp_path / "run", task, options={})
    checkpoints = Checkpoints(folder.checkpoints, keep=1)
    saving = CheckpointCallback(folder, checkpoints, 0, task.options.training, writes=False)
    saving.set_model(SimpleNamespace(optimizer=SimpleNamespace(learning_rate=0.1)))
    moments = iter([10.0, 11.23456])
    monkeypatch.setattr(
        "keras_quasiattn.lab.training.checkpoints.time",
        SimpleNamespace(monotonic=moments.__next__),
    )
    saving.on_train_begin()
    saving.on_epoch_begin(0)
    saving.on_epoch_end(0, {"loss": 1.0})
    assert [row["seconds"] for row in saving.rows] == [1.235]
