import keras
import numpy as np
import pytest
import toy_task

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.training.checkpoints import Checkpoints, average
from keras_quasiattn.lab.training.replicas import ReplicaLossScaleOptimizer


def build(path, **overrides):
    model = toy_task.make(path, **overrides).build_model()
    model.compile(ReplicaLossScaleOptimizer(keras.optimizers.Adam()))
    model.optimizer.build(model.trainable_variables)
    return model


def fill(variables, value):
    for number, variable in enumerate(variables):
        variable.assign(np.full(variable.shape, value + number))


def test_every_variable_comes_back(tmp_path):
    """Weights, moving means, the states of seed generators, slots, counts and the loss scale."""
    model = build(tmp_path)
    everything = [*model.variables, *model.optimizer.variables]
    names = " ".join(variable.path for variable in everything)
    for part in (
        *("seed_generator_state", "moving_variance", "momentum", "iteration", "dynamic_scale"),
    ):
        assert part in names
    fill(everything, 3)
    before = [variable.numpy() for variable in everything]
    checkpoints = Checkpoints(tmp_path, keep=2)
    checkpoints.save(10, model)
    fill(everything, 50)
    checkpoints.restore(10, model)
    for variable, value in zip(everything, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value, err_msg=variable.path)


def test_only_the_last_are_kept(tmp_path):
    model = build(tmp_path)
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (5, 10, 100_000_000):
        checkpoints.save(step, model)
    assert checkpoints.steps() == [10, 100_000_000]


def test_checkpoint_of_another_model_is_refused(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.save(5, build(tmp_path))
    with pytest.raises(UserError, match=r"step-00000005.npz does not fit the model"):
        checkpoints.restore(5, build(tmp_path, model__width=4))


def test_missing_checkpoint_is_named(tmp_path):
    with pytest.raises(UserError, match=r"step-00000005.npz is missing"):
        Checkpoints(tmp_path, keep=1).read(5, "trainable")


def test_average_is_taken_in_float64(tmp_path):
    """In float32, the small last addend would be lost next to the first."""
    model = build(tmp_path)
    checkpoints = Checkpoints(tmp_path, keep=3)
    values = {1: 2.0**24, 2: 1.0, 3: 1.0}
    for step, value in values.items():
        for variable in model.trainable_variables:
            variable.assign(np.full(variable.shape, value))
        checkpoints.save(step, model)
    expected = np.float32(sum(values.values()) / 3)
    assert expected != np.float32(2.0**24 / 3)
    for array, variable in zip(
        average(checkpoints, [1, 2, 3]), model.trainable_variables, strict=True
    ):
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, np.full(variable.shape, expected))
    np.testing.assert_array_equal(average(checkpoints, [2])[0], 1.0)
