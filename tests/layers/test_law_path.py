"""Laws 2 and 7: no implementation changes the result, and randomness comes from seeds only."""

import random

import keras
import numpy as np
import pytest
from cases import CASES, one_of_each_by_default, one_of_each_call, one_of_each_first
from layer_case import BATCH
from running import (
    as_tensor,
    assert_close,
    masked_outputs,
    outputs,
    plain_outputs,
    pure,
    shared_layer,
    weights,
)
from tools import to_numpy

cases_with_scores = pytest.mark.parametrize(
    "case", [case for case in CASES if case.has_scores], ids=str
)
RANDOM_CASES = [case for case in CASES if case.random_arguments or case.noisy]
random_cases = pytest.mark.parametrize("case", one_of_each_first(RANDOM_CASES, call_alone=True))


@pytest.mark.parametrize(
    "case,implementation",
    [
        pytest.param(case, name, id=f"{case}-{name}")
        for case in CASES
        if "implementation" in case.parameters
        for name in case.implementations
        if name != "reference"
    ],
)
def test_implementation(case, implementation):
    results = [
        outputs(case, shared_layer(case, implementation=name), case.sequences(), case.masks())
        for name in (implementation, "reference")
    ]
    assert_close(*results)


@one_of_each_by_default
def test_jit(case):
    layer, sequences, masks = shared_layer(case), case.sequences(), case.masks()
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        compiled = tf.function(pure(case, layer, masks), jit_compile=True)
    elif backend == "jax":
        import jax

        def compiled(*tensors):
            with jax.disable_jit(False):
                return jax.jit(pure(case, layer, masks))(*tensors)
    else:
        pytest.skip("torch.compile needs a C++ compiler")
    result = compiled(*map(as_tensor, sequences), *weights(layer))
    assert_close(to_numpy(list(result)), masked_outputs(case))


@cases_with_scores
def test_scores_change_nothing(case):
    layer, sequences, masks = shared_layer(case), case.sequences(), case.masks()
    for given, plain in ((None, plain_outputs(case)), (masks, masked_outputs(case))):
        *result, scores = outputs(case, layer, sequences, given, return_attention_scores=True)
        assert_close(result[: len(plain)], plain, tolerance=2e-6)
        assert len(result) == len(plain) + case.extra_outputs
        pooled = case.style.owners == (None,)
        expected = case.style.lengths if pooled else (case.style.lengths[0], case.style.lengths[-1])
        assert scores.shape[-len(expected) :] == expected
        if "num_heads" in case.parameters:
            assert scores.shape[:-2] == (BATCH, case.arguments["num_heads"])
    # The weights that are returned are those of the masked call.
    assert not np.moveaxis(scores, -1, 1)[~masks[-1]].any()
    if not pooled:
        assert not np.moveaxis(scores, -2, 1)[~masks[0]].any()


@pytest.mark.parametrize("case", one_of_each_first([case for case in CASES if not case.noisy]))
def test_training_without_dropout_is_inference(case):
    in_training = outputs_in_training(case, shared_layer(case), case.sequences(), case.masks())
    for x, y in zip(in_training, masked_outputs(case), strict=True):
        np.testing.assert_array_equal(x, y)


def outputs_in_training(case, layer, sequences, masks, **options):
    options = {"training": True, **options} if case.random_arguments or case.noisy else options
    return outputs(case, layer, sequences, masks, **options)


def drawing(case, seed, **overrides):
    """Return a layer with dropout or noise, seeded by its argument `seed` or Keras' global seed."""
    keras.utils.set_random_seed(seed)
    seeds = {"seed": seed} if "seed" in case.parameters else {}
    return case.make(**case.random_arguments, **seeds, **overrides)


@random_cases
def test_the_same_seed_gives_the_same_run_on_every_path(case):
    sequences, masks = case.sequences(), case.masks()
    layer = drawing(case, 5)
    runs = [outputs_in_training(case, layer, sequences, masks) for _ in range(2)]
    assert np.abs(runs[0][0] - runs[1][0]).max() > 1e-3, "each step draws anew"
    # On PyTorch, Keras' own dropout draws from the state that `drawing` seeds.
    again = drawing(case, 5)
    np.testing.assert_array_equal(outputs_in_training(case, again, sequences, masks)[0], runs[0][0])
    if case.has_scores:
        options = {"return_attention_scores": True}
        result = outputs_in_training(case, again, sequences, masks, **options)
        assert_close(result[: len(runs[1])], runs[1], tolerance=2e-6)
    other = outputs_in_training(case, drawing(case, 6), sequences, masks)
    assert np.abs(runs[0][0] - other[0]).max() > 1e-3, "another seed draws something else"
    if "implementation" in case.parameters:
        for name in case.implementations:
            layer = drawing(case, 5, implementation=name)
            assert_close(outputs_in_training(case, layer, sequences, masks), runs[0])


@random_cases
def test_a_stateless_call_trains_as_the_call_does(case):
    # It calls no `__call__`, by which Keras tells sublayers that they train.
    layer, sequences, masks = drawing(case, 5), case.sequences(), case.masks()
    keras.utils.set_random_seed(5)
    state = [
        [to_numpy(variable.value) for variable in variables]
        for variables in (layer.trainable_variables, layer.non_trainable_variables)
    ]

    def stateless(*args, **kwargs):
        return layer.stateless_call(*state, *args, **kwargs)[0]

    got = outputs_in_training(case, stateless, sequences, masks)
    keras.utils.set_random_seed(5)
    assert_close(got, outputs_in_training(case, layer, sequences, masks))


@pytest.mark.long
@random_cases
def test_draws_do_not_depend_on_being_compiled(case, tensorflow_only):
    import tensorflow as tf

    sequences, masks = case.sequences(), case.masks()
    expected = outputs_in_training(case, drawing(case, 5), sequences, masks)
    layer = drawing(case, 5)
    # Blocks without a seed of their own use `keras.layers.Dropout`, which draws other numbers under
    # XLA.
    compiled = tf.function(
        lambda *x: case.run(layer, x, masks, training=True), jit_compile="seed" in case.parameters
    )
    assert_close(to_numpy(list(compiled(*map(as_tensor, sequences)))), expected)


@one_of_each_call
def test_global_random_state_is_left_alone(case):
    layer = drawing(case, 5)
    python, array = random.getstate(), np.random.get_state()
    for _ in range(2):
        outputs_in_training(case, layer, case.sequences(), case.masks())
    assert random.getstate() == python
    np.testing.assert_array_equal(np.random.get_state()[1], array[1])
    assert np.random.get_state()[2:] == array[2:]
    # The state that changes belongs to the layer.
    seeds = [variable for variable in layer.variables if "seed" in variable.path]
    states = {variable.path: to_numpy(variable.value) for variable in seeds}
    assert len(states) == len(layer.variables) - len(layer.weights)
    # Recurrent layers have a generator for a dropout that they do not have here.
    # On PyTorch, `keras.layers.Dropout` in blocks without a seed of their own leaves its generator
    # unused.
    if "seed" in case.parameters or (
        "dropout" in case.parameters and keras.backend.backend() != "torch"
    ):
        assert all(state[1] > 0 for path, state in states.items() if "gate_network" not in path)
