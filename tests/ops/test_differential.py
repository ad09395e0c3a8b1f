"""Differential attention against its definition, a softmax, and the paper's values of λ."""

import numpy as np
import pytest
from tools import to_numpy
from weight_laws import WeightLaws, products, softmax

from keras_quasiattn import layers, models, ops


class TestDifferential(WeightLaws):
    op = staticmethod(ops.differential_attention)
    layer = layers.MultiHeadDifferential
    options = ({"subtracted": 0.4}, {"subtracted": 1.7, "output_scale": 0.8})
    fewest_features = 2

    def arguments_of(self, layer, query, key):
        learned = {weight.name: to_numpy(weight) for weight in layer.weights}
        first, second = (
            np.exp(learned[f"lambda_query_{part}"] @ learned[f"lambda_key_{part}"])
            for part in (1, 2)
        )
        start = 0.2  # of depth 1
        return {"subtracted": first - second + start, "output_scale": 1 - start}

    def weights(self, query, key, seen, bias, *, subtracted, output_scale=None):
        half = (query.shape[-1] + 1) // 2
        one, other = (
            softmax(products(q, k, q.shape[-1] ** -0.5) + bias, seen)
            for q, k in zip(*(np.split(x, [half], -1) for x in (query, key)), strict=True)
        )
        return one - subtracted * other

    def output(self, weights, value, *, subtracted, output_scale=None):
        output = weights @ value
        if output_scale is None:
            return output
        return output_scale * output / np.sqrt(np.square(output).mean(-1, keepdims=True) + 1e-5)


class TestDifferentialOfEachHead(TestDifferential):
    options = ({},)

    def tensors(self, size):
        return {"subtracted": np.array([-0.5, 0.0, 1.2])[:, None, None]}

    def output(self, weights, value, **options):
        return weights @ value


@pytest.mark.parametrize("depth,start", [(1, 0.2), (2, 0.3555), (4, 0.5561), (12, 0.7779)])
def test_a_layer_starts_near_the_papers_value_for_its_depth(depth, start):
    layer = layers.MultiHeadDifferential(2, 8, depth=depth)
    x = np.random.default_rng(0).normal(size=(2, 5, 6)).astype("float32")
    for one in (layer.build(x.shape, x.shape), *layer.weights[:4])[1:]:
        assert tuple(one.shape) == (4,)
        one.assign(np.zeros(4))
    _, weights = layer(x, x, return_attention_scores=True)
    np.testing.assert_allclose(to_numpy(weights).sum(-1), 1 - start, atol=1e-4)
    layer.weights[0].assign(np.ones(4))
    layer.weights[1].assign(np.full(4, 0.25))
    _, weights = layer(x, x, return_attention_scores=True)
    np.testing.assert_allclose(to_numpy(weights).sum(-1), 2 - start - np.e, atol=1e-4)


def test_each_half_is_rotated_by_itself_so_that_only_distances_matter():
    x = np.random.default_rng(0).normal(size=(2, 5, 6)).astype("float32")
    padded, mask = np.pad(x, ((0, 0), (3, 0), (0, 0))), np.tile(np.arange(8) >= 3, (2, 1))
    layer = layers.MultiHeadDifferential(2, 8, rotary_base=10.0)
    here = to_numpy(layer(x, x))
    there = to_numpy(layer(padded, padded, query_mask=mask, value_mask=mask))[:, 3:]
    np.testing.assert_allclose(there, here, atol=1e-5)
    order = [1, 0, 2, 3, 4]
    assert np.abs(to_numpy(layer(x[:, order], x[:, order]))[:, order] - here).max() > 1e-2
    with pytest.raises(ValueError, match="`key_dim` must be a multiple of 4 .*key_dim=6"):
        layers.MultiHeadDifferential(2, 6, rotary_base=10.0)


def test_the_blocks_of_a_model_know_their_depth_and_others_do_not():
    sizes = {"num_layers": 3, "hidden_dim": 8, "intermediate_dim": 8, "num_heads": 2}
    for attention, options, expected in (
        ("differential", None, [{"depth": 1}, {"depth": 2}, {"depth": 3}]),
        ("differential", {"depth": 5}, [{"depth": 5}] * 3),
        ("sigmoid", {"score_bias": 0.0}, [{"score_bias": 0.0}] * 3),
    ):
        model = models.TransformerClassifier(
            9, 2, **sizes, attention=attention, attention_options=options
        )
        blocks = [layer for layer in model.layers if "block" in layer.name]
        assert [block.get_config()["attention_options"] for block in blocks] == expected


def test_large_outputs_were_normalized_to_zero():
    query, key, value = (np.random.default_rng(n).normal(size=(5, 4)) for n in range(3))
    small, large = (
        to_numpy(
            ops.differential_attention(
                *(x.astype("float32") for x in (query, key, factor * value)),
                subtracted=0.5,
                output_scale=0.8,
            )
        )
        for factor in (1e4, 1e25)
    )
    np.testing.assert_allclose(large, small, rtol=1e-5)


def test_it_needs_two_features():
    x = np.zeros((2, 3, 1))
    with pytest.raises(ValueError, match="`query` must have at least 2 features"):
        ops.differential_attention(x, x, x, subtracted=0.5)
