"""What Keras 3.15's own tests of `MultiHeadAttention` and of grouped queries check, as a list.

Each name of theirs stands with the test of ours that shows the same, or with what differs and why.
The tests below are adapted from theirs and run on every mechanism.
"""

import ast
import functools
import importlib.util
from pathlib import Path

import keras
import numpy as np
import pytest
from drop_in import close
from layer_case import randomize
from running import detach
from tools import to_numpy

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.layers import MultiHeadCoDA

HERE = Path(__file__).parent
FLASH = "differs: there is no flash kernel, and asking for one is an error"
SHOWN = {
    "test_basics": "test_law_config.py::test_build_makes_every_weight",
    "test_basics_with_flash_attention": FLASH,
    "test_flash_attention_with_errors": FLASH,
    "test_high_dim_attention": "test_masks_over_axes_count_from_the_batch",
    "test_attention_axes_negative_indexing": "test_a_negative_axis_is_counted_from_the_end",
    "test_compute_output_shape": "test_the_computed_shape_is_that_of_the_output",
    "test_shape_mismatch_error": "test_inputs_that_do_not_fit_are_an_error",
    "test_invalid_scalar_args_rejected": "test_sizes_that_are_no_positive_integers_are_named",
    "test_initializer": "test_every_projection_starts_with_numbers_of_its_own",
    "test_query_mask_propagation": "test_the_mask_of_the_query_goes_on_without_a_warning",
    "test_no_warning_with_keras_mask": "test_the_mask_of_the_query_goes_on_without_a_warning",
    # Differs: masked queries and rows without a key are 0 here; Keras gives them a mean of padding.
    "test_masking": "test_implicit_masks_are_one_attention_mask",
    # Differs: theirs are floats, which are an error here.
    "test_masking_with_different_shapes": "test_a_mask_of_any_rank_means_the_same",
    "test_sliding_window": "test_a_window_shows_what_is_in_it",
    "test_causal_only_fast_path": "test_a_causal_mask_is_the_triangle",
    "test_causal_only_with_other_mask_falls_back": "test_a_causal_mask_is_the_triangle",
    "test_causal_only_masks_when_fused_path_disabled": "test_a_causal_mask_is_the_triangle",
    "test_causal_only_masks_non_4d_inputs": "test_a_causal_mask_over_one_of_two_axes",
    # Differs: the hook is `attend`, which gets heads first, one key for each query head.
    "test_causal_only_skipped_for_subclass": "test_drop_in.py::"
    "test_the_documented_extension_point_computes_attention",
    "test_compute_attention_combines_causal_and_explicit_mask": "test_drop_in.py::"
    "test_the_documented_extension_point_computes_attention",
    "test_sliding_window_validation": "test_sizes_that_are_no_positive_integers_are_named",
    "test_sliding_window_serialization": "test_law_config.py::"
    "test_an_argument_alone_reaches_the_config_and_comes_back",
    # Differs: the numbers are those of a softmax; each mechanism has its definition.
    "test_correctness": "test_drop_in_numbers.py::test_softmax_gives_the_same_numbers",
    "test_mha_constraints": "test_drop_in.py::test_constraints_are_on_the_same_weights",
    "test_lora": "test_drop_in.py::test_lora_leaves_its_own_weights_trainable",
    "test_symbolic_return_attention_scores": "test_law_config.py::"
    "test_symbolic_shapes_are_the_true_ones",
    "test_symbolic_shape_with_return_attention_scores": "test_law_config.py::"
    "test_scores_of_multi_head_layers_are_heads_by_target_by_source",
    "test_symbolic_shape_without_return_attention_scores": "test_law_config.py::"
    "test_symbolic_shapes_are_the_true_ones",
    "test_dtype_policy_map": "test_drop_in.py::test_a_map_of_policies_reaches_the_projections",
    "test_multi_head_attention_output_shape_as_int": "test_output_shape_is_a_number_or_several",
    "test_multi_head_attention_output_shape_as_tuple": "test_output_shape_is_a_number_or_several",
    "test_multi_head_attention_output_shape_error": "test_output_shape_is_a_number_or_several",
    "test_quantize_int8": "test_drop_in.py::test_int8_weights_give_nearly_the_same",
}
by_default = ("coda", "softmax", "gated")
every_mechanism = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in by_default else pytest.mark.long)
        for name in ATTENTIONS
    ],
)


def names_in(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {node.name for node in functions if node.name.startswith("test_")}


def test_every_test_of_keras_has_its_line():
    for shown in SHOWN.values():
        file, _, test = shown.rpartition("::")
        if not shown.startswith("differs"):
            assert test in names_in(HERE / (file or Path(__file__).name)), shown
    folder = Path(importlib.util.find_spec("keras").origin).parent / "src/layers/attention"
    theirs = [folder / f"{name}_attention_test.py" for name in ("multi_head", "grouped_query")]
    if not keras.__version__.startswith("3.15.") or not all(path.exists() for path in theirs):
        pytest.skip("the list is of Keras 3.15, and its tests may not be installed")
    assert set().union(*map(names_in, theirs)) == SHOWN.keys()


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


@functools.cache
def built(name, rank=3, **options):
    layer = ATTENTIONS[name](2, 4, **options)
    layer.build(*[(None,) * (rank - 1) + (8,)] * 2)
    randomize(layer)
    return layer


def numbers(structure):
    return to_numpy(keras.tree.map_structure(detach, structure))


X, Y = normal(3, 5, 8), normal(3, 4, 8, seed=1)
TRIANGLE = np.tril(np.ones((5, 5), "bool"))


@every_mechanism
def test_a_mask_of_any_rank_means_the_same(name):
    layer = built(name)
    expected = numbers(layer(X, X, attention_mask=TRIANGLE))
    for shape in ((3, 1, 1), (3, 2, 1, 1)):
        mask = np.tile(TRIANGLE, shape)
        np.testing.assert_allclose(numbers(layer(X, X, attention_mask=mask)), expected, atol=1e-6)


@every_mechanism
def test_a_causal_mask_is_the_triangle(name):
    layer, further = built(name), np.random.default_rng(2).random((3, 5, 5)) < 0.7
    for call, mask in (({}, TRIANGLE), ({"attention_mask": further}, further & TRIANGLE)):
        want = numbers(layer(X, X, attention_mask=mask))
        close(layer(X, X, use_causal_mask=True, **call), want)
        close(layer(X, X, use_causal_mask=True, training=False, **call), want)
        output, scores = numbers(
            layer(X, X, use_causal_mask=True, return_attention_scores=True, **call)
        )
        np.testing.assert_allclose(output, want, rtol=1e-4, atol=1e-5)
        assert not scores[..., ~TRIANGLE].any()


@every_mechanism
def test_a_causal_mask_over_one_of_two_axes(name):
    layer, x = built(name, 4, attention_axes=(1,)), normal(2, 5, 3, 8)
    _, scores = layer(x, x, use_causal_mask=True, return_attention_scores=True)
    assert not numbers(scores)[..., ~TRIANGLE].any()


@every_mechanism
def test_a_window_shows_what_is_in_it(name):
    layer = built(name, sliding_window=3)
    _, scores = layer(X, X, return_attention_scores=True)
    distance = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    assert not numbers(scores)[..., distance >= 3].any()
    _, scores = layer(X, X, use_causal_mask=True, return_attention_scores=True)
    assert not numbers(scores)[..., (distance >= 3) | ~TRIANGLE].any()


@every_mechanism
def test_implicit_masks_are_one_attention_mask(name):
    layer = built(name)
    queries = np.array([[1, 2, 3, 0, 0], [3, 3, 1, 1, 2], [1, 0, 0, 0, 0]])
    values = np.array([[5, 4, 0], [3, 0, 0], [2, 1, 1]])
    x, y = (keras.layers.Embedding(6, 8, mask_zero=True)(ids) for ids in (queries, values))
    pairs = (queries != 0)[:, :, None] & (values != 0)[:, None]
    plain = [keras.ops.convert_to_tensor(numbers(one)) for one in (x, y)]
    for causal in (False, True):
        close(
            layer(x, y, use_causal_mask=causal),
            numbers(layer(*plain, attention_mask=pairs, use_causal_mask=causal)),
        )


@every_mechanism
def test_the_mask_of_the_query_goes_on_without_a_warning(name, recwarn):
    ids = np.array([[1, 2, 3, 0, 0], [3, 3, 1, 1, 2], [1, 0, 0, 0, 0]])
    x = keras.layers.Embedding(6, 8, mask_zero=True)(ids)
    recwarn.clear()
    output = built(name)(x, Y)
    assert not [one for one in recwarn if "mask" in str(one.message)]
    np.testing.assert_array_equal(numbers(output._keras_mask), ids != 0)


@every_mechanism
def test_masks_over_axes_count_from_the_batch(name):
    for q, v, mask, axes in (
        ((3, 4), (3, 2), (4, 2), (2,)),
        ((3, 4), (3, 2), (3, 4, 2), (2,)),
        ((3, 4), (3, 2), (3, 3, 2, 4, 2), (2,)),
        ((3, 4), (3, 2), (3, 4, 3, 2), (1, 2)),
        ((5, 3, 4), (5, 3, 2), (3, 5, 3, 4, 3, 2), (2, 3)),
    ):
        layer = built(name, len(q) + 2, attention_axes=axes)
        query, value = normal(3, *q, 8), normal(3, *v, 8, seed=1)
        seen = np.random.default_rng(0).random(mask) < 0.6
        assert layer(query, value, attention_mask=seen).shape == query.shape
        everything = np.ones(mask, "bool")
        close(layer(query, value, attention_mask=everything), numbers(layer(query, value)))


@every_mechanism
def test_a_negative_axis_is_counted_from_the_end(name):
    x = normal(2, 3, 6, 8)
    one, other = (built(name, 4, attention_axes=axes) for axes in ((2,), (-2,)))
    close(
        other(x, x, return_attention_scores=True), numbers(one(x, x, return_attention_scores=True))
    )


@every_mechanism
def test_the_computed_shape_is_that_of_the_output(name):
    for query, value, key, size in (
        ((4, 8), (2, 8), None, None),
        ((4, 8), (2, 8), (2, 3), None),
        ((4, 8), (2, 8), None, (3, 4)),
        ((4, 2, 3, 8), (1, 1, 5, 8), (1, 1, 5, 2), (3, 2)),
        ((4, 2, 3, 8), (4, 2, 3, 7), (4, 2, 3, 8), None),
    ):
        layer = ATTENTIONS[name](2, 2, value_dim=2, output_shape=size)
        shapes = [(7, *shape) if shape else None for shape in (query, value, key)]
        inputs = [None if shape is None else np.ones(shape, "float32") for shape in shapes]
        assert tuple(layer(*inputs).shape) == layer.compute_output_shape(*shapes)
        lists = [None if shape is None else list(shape) for shape in shapes]
        assert layer.compute_output_shape(*lists) == layer.compute_output_shape(*shapes)


@every_mechanism
def test_inputs_that_do_not_fit_are_an_error(name):
    for query, value, key in (
        ((2, 4, 8), (2, 2, 7), (2,)),
        ((2, 4, 8), (2, 2, 8), (2, 1, 7)),
        ((2, 4, 2, 3, 8), (2, 1, 1, 5, 8), (2, 1, 15, 5, 2)),
    ):
        with pytest.raises(ValueError, match=r"must be equal|must have shape"):
            ATTENTIONS[name](4, 2)(*(np.ones(one) for one in (query, value, key)))


@every_mechanism
def test_sizes_that_are_no_positive_integers_are_named(name):
    right = {"num_heads": 2, "key_dim": 4}
    for argument in ("num_heads", "key_dim", "value_dim", "sliding_window"):
        for wrong in (0, -2, 1.5):
            with pytest.raises(ValueError, match=f"`{argument}` must be a positive integer"):
                ATTENTIONS[name](**{**right, argument: wrong})


@every_mechanism
def test_every_projection_starts_with_numbers_of_its_own(name):
    initializer = keras.initializers.TruncatedNormal(stddev=0.02)
    layer = ATTENTIONS[name](2, 4, use_gate=True, kernel_initializer=initializer)
    layer.build((2, 4, 8), (2, 4, 8))
    projections = (layer.query_dense, layer.key_dense, layer.value_dense, layer._gate_dense)
    kernels = [numbers(one.kernel.value) for one in projections]
    assert all((one != other).all() for one in kernels for other in kernels if one is not other)


@every_mechanism
def test_output_shape_is_a_number_or_several(name):
    for given, features in ((9, (9,)), ((2, 3), (2, 3))):
        layer = ATTENTIONS[name](2, 4, output_shape=given)
        assert tuple(layer(X, Y).shape) == (3, 5, *features)
    with pytest.raises(ValueError, match="`output_shape`"):
        ATTENTIONS[name](2, 4, output_shape=8.0)


def test_flash_attention_is_refused_not_ignored():
    with pytest.raises(ValueError, match="`flash_attention` must be None or False"):
        MultiHeadCoDA(2, 4, flash_attention=True)
