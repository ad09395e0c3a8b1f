"""FeedForward acts on each position alone; its mask is only checked and passed on."""

import keras
import numpy as np
import pytest
from tools import to_numpy

from keras_quasiattn.layers import FeedForward, TransformerDecoder, TransformerEncoder

X = np.random.default_rng(0).normal(size=(3, 5, 11)).astype("float32")


def test_positions_do_not_meet():
    layer = FeedForward(13)
    whole = to_numpy(layer(X))
    assert np.abs(whole - X).max() > 0.1
    for position in range(5):
        alone = to_numpy(layer(X[:, position : position + 1]))
        np.testing.assert_allclose(alone[:, 0], whole[:, position], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(to_numpy(layer(X, mask=np.zeros((3, 5), "bool"))), whole)


@pytest.mark.parametrize("x", [X, keras.Input((5, 11))], ids=["eager", "symbolic"])
def test_a_float_mask_is_refused(x):
    mask = keras.Input((5,)) if isinstance(x, keras.KerasTensor) else np.ones((3, 5), "float32")
    with pytest.raises(ValueError, match="`mask` must be boolean.*float32"):
        FeedForward(13)(x, mask=mask)


@pytest.mark.parametrize("kind", [FeedForward, TransformerEncoder, TransformerDecoder])
def test_blocks_took_no_integers(kind):
    layer = kind(13, **({} if kind is FeedForward else {"num_heads": 1}))
    x = np.arange(3 * 5 * 2).reshape(3, 5, 2)
    pair = (x, x) if kind is TransformerDecoder else (x,)
    want = to_numpy(layer(*(one.astype("float32") for one in pair)))
    np.testing.assert_allclose(to_numpy(layer(*pair)), want, rtol=1e-5, atol=1e-6)
