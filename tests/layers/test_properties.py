"""The laws on random cases: equal sizes, sizes 0 and 1, any masks, every public layer.

python -m pytest -m "" tests/layers/test_properties.py                          # 100 cases
QUASIATTN_CASES=10000 python -m pytest -m "" tests/layers/test_properties.py    # by hand
"""

import os

import keras
import numpy as np
import pytest
import reference
from cases import CASES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from running import assert_close, gradients, outputs, shared_layer
from tools import CODA_IMPLEMENTATIONS, run_with_gradients, to_numpy

from keras_quasiattn import ops

pytestmark = pytest.mark.long
many = settings(
    max_examples=int(os.environ.get("QUASIATTN_CASES", "50")),
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
# Few sizes, so that many coincide with each other and with the two heads of three features. There
# are even fewer on JAX, which compiles every operation for every shape.
ON_JAX = keras.backend.backend() == "jax"
SIZES = some.sampled_from([0, 2] if ON_JAX else [0, 1, 2, 3, 5])


def masks_of(draw, sequences, only_ends):
    """Draw no masks, or for each sequence any mask, or a mask of lengths."""
    if draw(some.booleans()):
        return None
    random = np.random.default_rng(draw(some.integers(0, 2**16)))
    masks = []
    for x in sequences:
        batch, length = x.shape[:2]
        if only_ends or draw(some.booleans()):
            masks.append(np.arange(length) < random.integers(0, length + 1, (batch, 1)))
        else:
            masks.append(random.random((batch, length)) < 0.6)
    return masks


def rows(case, results, size=None, length=None):
    """Return the first `size` examples of each output.

    An output that has positions is also cut to the `length` of its sequence.
    """
    return [
        x[:size] if owner is None else x[:size, : length[owner]]
        for x, owner in zip(results, case.style.owners, strict=True)
    ]


@many
@given(some.data())
def test_laws_of_layers(data):
    case = data.draw(some.sampled_from(CASES))
    batch = data.draw(SIZES)
    lengths = [data.draw(SIZES) for _ in case.style.lengths]
    sequences = case.sequences(seed=data.draw(some.integers(0, 9)), lengths=lengths, batch=batch)
    masks = masks_of(data.draw, sequences, case.positions_matter)
    layer = shared_layer(case)
    result = outputs(case, layer, sequences, masks)
    for x, owner in zip(result, case.style.owners, strict=True):
        assert x.shape[0] == batch and (owner is None or x.shape[1] == lengths[owner])
        assert np.isfinite(x).all()

    law = data.draw(some.sampled_from(sorted(LAWS)))
    LAWS[law](data.draw, case, layer, sequences, masks, result)


def whole(sequences, masks):
    """Return the masks, or masks that hide nothing."""
    return [np.ones(x.shape[:2], "bool") for x in sequences] if masks is None else masks


def padding_never_matters(draw, case, layer, sequences, masks, result):
    hidden = whole(sequences, masks)
    spoiled = [
        np.where(mask[..., None], x, np.nan) for x, mask in zip(sequences, hidden, strict=True)
    ]
    assert_close(outputs(case, layer, spoiled, masks), result)


def padded_is_unpadded(draw, case, layer, sequences, masks, result):
    more = [draw(some.integers(1, 1 if ON_JAX else 3)) for _ in sequences]
    longer = [np.pad(x, ((0, 1), (0, n), (0, 0))) for x, n in zip(sequences, more, strict=True)]
    hidden = [
        np.pad(mask, ((0, 1), (0, n)))
        for mask, n in zip(whole(sequences, masks), more, strict=True)
    ]
    lengths = [x.shape[1] for x in sequences]
    unpadded = rows(case, outputs(case, layer, longer, hidden), len(sequences[0]), lengths)
    assert_close(unpadded, result)


def order_of_the_batch_does_not_matter(draw, case, layer, sequences, masks, result):
    order = np.random.default_rng(0).permutation(len(sequences[0]))
    moved = None if masks is None else [mask[order] for mask in masks]
    permuted = outputs(case, layer, [x[order] for x in sequences], moved)
    assert_close(permuted, [x[order] for x in result])


def neighbours_in_the_batch_do_not_matter(draw, case, layer, sequences, masks, result):
    if not len(sequences[0]):
        return
    one = draw(some.integers(0, len(sequences[0]) - 1))
    only = slice(one, one + 1)
    alone = outputs(
        case,
        layer,
        [x[only] for x in sequences],
        None if masks is None else [mask[only] for mask in masks],
    )
    assert_close(alone, [x[only] for x in result])


def implementations_agree(draw, case, layer, sequences, masks, result):
    if "implementation" in case.parameters:
        for name in case.implementations:
            other = shared_layer(case, implementation=name)
            assert_close(outputs(case, other, sequences, masks), result)


def rows_without_a_key_are_zero(draw, case, layer, sequences, masks, result):
    hidden = [np.copy(mask) for mask in whole(sequences, masks)]
    for mask in hidden:
        mask[:1] = False
    for x in outputs(case, layer, sequences, hidden):
        assert np.isfinite(x).all()
        assert not (case.empty_rows_are_zero and x[:1].any())


def gradients_are_finite_and_zero_at_padding(draw, case, layer, sequences, masks, result):
    cotangents = [np.ones(x.shape) for x in result]
    found = gradients(case, layer, sequences, masks, cotangents)
    assert all(np.isfinite(gradient).all() for gradient in found)
    for gradient, mask in zip(found, whole(sequences, masks), strict=False):  # weights follow
        assert not gradient[~mask].any()


def a_config_makes_the_same_layer(draw, case, layer, sequences, masks, result):
    copy = case.layer.from_config(layer.get_config())
    copy.build(*case.style.build_arguments([(None, *x.shape[1:]) for x in sequences]))
    copy.set_weights(layer.get_weights())
    assert_close(outputs(case, copy, sequences, masks), result)


def symbolic_shapes_are_true(draw, case, layer, sequences, masks, result):
    symbolic = case.run(layer, [keras.KerasTensor(x.shape) for x in sequences], masks)
    assert [tuple(x.shape) for x in symbolic] == [x.shape for x in result]


def sixteen_bits_are_finite(draw, case, layer, sequences, masks, result):
    policy = draw(some.sampled_from(["mixed_float16", "mixed_bfloat16"]))
    for x, full in zip(
        outputs(case, shared_layer(case, dtype=policy), sequences, masks), result, strict=True
    ):
        assert keras.backend.standardize_dtype(x.dtype) == policy.removeprefix("mixed_")
        assert x.shape == full.shape and np.isfinite(x.astype("float32")).all()


def causal_rows_see_nothing_ahead(draw, case, layer, sequences, masks, result):
    if not case.options.get("use_causal_mask"):
        return
    (x,) = sequences
    first = draw(some.integers(0, x.shape[1]))
    ahead = x.copy()
    ahead[:, first:] = draw(some.sampled_from([np.nan, np.inf, 1e30]))
    (found,) = outputs(case, layer, [ahead], masks)
    assert_close([found[:, :first]], [result[0][:, :first]])


LAWS = {
    law.__name__: law
    for law in (
        *(padding_never_matters, padded_is_unpadded, order_of_the_batch_does_not_matter),
        *(neighbours_in_the_batch_do_not_matter, implementations_agree),
        *(rows_without_a_key_are_zero, gradients_are_finite_and_zero_at_padding),
        *(a_config_makes_the_same_layer, symbolic_shapes_are_true, sixteen_bits_are_finite),
        causal_rows_see_nothing_ahead,
    )
}


@many
@given(some.data())
def test_coda_is_its_definition_in_float64(data):
    draw = data.draw
    *leading, target, source = (draw(SIZES) for _ in range(4))
    features = draw(some.sampled_from([2] if ON_JAX else [1, 2, 3, 5]))
    width = draw(some.sampled_from([1, 2, 3]))
    random = np.random.default_rng(draw(some.integers(0, 2**16)))
    query, key, value = (
        random.normal(size=(*leading, *shape))
        for shape in ((target, features), (source, features), (source, width))
    )
    # A mask may lack axes, or have them with length 1.
    shape = [draw(some.sampled_from([1, size])) for size in (*leading, target, source)]
    mask = draw(some.sampled_from([None, random.random(shape) < 0.6]))
    gate = draw(some.sampled_from(["sigmoid", "tanh", "arctan", "algebraic"]))
    options = {
        "alpha": draw(some.sampled_from([1.0, 0.25, -2.0])),
        "beta": draw(some.sampled_from([1.0, 0.125])),
        "similarity": draw(some.sampled_from(["tanh", "sigmoid"])),
        "gate": gate,
        "gate_range": draw(some.sampled_from(["scaled", "centered", "raw"])),
        "center_similarity": draw(some.booleans()),
        "is_causal": draw(some.booleans()),
    }
    weights = reference.coda_weights(query, key, mask, **options)
    cotangent = random.normal(size=(*leading, target, width))
    expected = None
    for implementation in CODA_IMPLEMENTATIONS:

        def attend(*arrays, implementation=implementation):
            return [ops.coda_attention(*arrays, mask, implementation=implementation, **options)]

        (output,), gradients = run_with_gradients(attend, [query, key, value], [cotangent])
        np.testing.assert_allclose(output, weights @ value, rtol=1e-9, atol=1e-9)
        expected = gradients if expected is None else expected
        for got, right in zip(to_numpy(gradients), expected, strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-8, atol=1e-8)
