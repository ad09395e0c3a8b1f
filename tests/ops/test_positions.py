"""ALiBi, T5's buckets and rotation, against their definitions; and CoDA with rotation."""

import numpy as np
import pytest
import reference
from tools import run_with_gradients, to_numpy

from keras_quasiattn import ops
from keras_quasiattn.core.positions import relative_buckets


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 8, 12])
def test_alibi(heads):
    for target, source in ((3, 5), (1, 1), (0, 4), (4, 0)):
        got = to_numpy(ops.alibi_bias(heads, target, source))
        assert got.dtype == "float32"
        np.testing.assert_allclose(got, reference.alibi_bias(heads, target, source), rtol=1e-6)


def test_slopes_are_the_published_ones():
    eight = -to_numpy(ops.alibi_bias(8, 2, 1))[:, 1, 0]
    np.testing.assert_array_equal(eight, [2.0**-n for n in range(1, 9)])
    # "Train Short, Test Long", footnote and code: 12 heads have the slopes of 8, then every other
    # slope of 16.
    twelve = -to_numpy(ops.alibi_bias(12, 2, 1))[:, 1, 0]
    np.testing.assert_allclose(twelve[8:], [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5], rtol=1e-6)
    np.testing.assert_array_equal(twelve[:8], eight)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(
    "num_buckets,max_distance", [(32, 128), (8, 20), (6, 5), (4, 3), (5, 7), (64, 1000)]
)
def test_buckets(num_buckets, max_distance, bidirectional):
    if bidirectional and num_buckets % 2:
        pytest.skip("half of the buckets are for keys ahead")
    offsets = np.arange(-max_distance - 9, max_distance + 10)
    got = to_numpy(relative_buckets(offsets, num_buckets, max_distance, bidirectional))
    want = [
        reference.relative_bucket(offset, num_buckets, max_distance, bidirectional)
        for offset in offsets
    ]
    np.testing.assert_array_equal(got, want)
    assert got.min() == 0 and got.max() == num_buckets - 1


@pytest.mark.parametrize("size", [(2, 3, 5, 6), (5, 2), (2, 1, 4), (2, 0, 4)], ids=str)
@pytest.mark.parametrize("start", [0, 3])
def test_rotation(size, start):
    x = np.random.default_rng(0).normal(size=size)
    got = to_numpy(ops.rotary_embedding(x, start, base=100.0))
    np.testing.assert_allclose(got, reference.rotated(x, 100.0, start), rtol=1e-12, atol=1e-14)
    cotangent = np.random.default_rng(1).normal(size=size)
    _, (gradient,) = run_with_gradients(
        lambda x: [ops.rotary_embedding(x, start, base=100.0)], [x], [cotangent]
    )
    # The transpose of a rotation turns back.
    back = reference.rotated(cotangent[..., ::-1, :], 100.0, 0)
    assert back.shape == gradient.shape
    np.testing.assert_allclose(
        (gradient * x).sum(), (cotangent * reference.rotated(x, 100.0, start)).sum(), rtol=1e-9
    )


def test_far_positions_stay_apart_in_half_precision():
    x = np.random.default_rng(0).normal(size=(2, 8)).astype("float16")
    got = to_numpy(ops.rotary_embedding(x, 4096))
    assert got.dtype == "float16"
    np.testing.assert_allclose(got, reference.rotated(x.astype("float64"), start=4096), atol=4e-3)


def test_products_of_rotated_vectors_depend_on_the_offset_alone_and_l1_distances_do_not():
    """E is the same wherever the pair is; N is not, but stays within a factor of √H."""
    query, key = np.random.default_rng(0).normal(size=(2, 1000, 1, 64))
    products, distances = [], []
    for start in (0, 1, 10, 100, 1000):  # the key is always 3 positions ahead
        q, k = (to_numpy(ops.rotary_embedding(x, n)) for x, n in ((query, start), (key, start + 3)))
        products.append((q * k).sum(-1))
        distances.append(to_numpy(ops.pairwise_l1(q, k))[..., 0])
    np.testing.assert_allclose(np.ptp(products, axis=0), 0, atol=1e-11)
    # Of a pair of unit normals, the largest and smallest differ by 4% of the mean, at most by 11%.
    spread = np.ptp(distances, axis=0) / np.mean(distances, axis=0)
    assert 0.03 < spread.mean() < 0.05 and 0.1 < spread.max() < 0.13
    euclidean = np.linalg.norm(q - k, axis=-1)
    assert (distances >= euclidean).all() and (distances <= 8 * euclidean).all()


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda: ops.alibi_bias(0, 3, 3), "`num_heads` must be a positive integer.*num_heads=0"),
        (lambda: ops.alibi_bias(2, None, 3), "`target_length` must be .*target_length=None"),
        (lambda: ops.rotary_embedding(np.ones((2, 3))), r"even number of features.*\(2, 3\)"),
        (lambda: ops.rotary_embedding(np.ones((2, 4)), base=0), "`base` must be .*base=0"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
