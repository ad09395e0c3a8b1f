"""A mask of positions may lack the batch axis, or have an axis of length 1 for all positions."""

import numpy as np
import pytest
from tools import to_numpy

from keras_quasiattn import ops

X = np.random.default_rng(0).normal(size=(3, 5, 4)).astype("float32")
KERNEL = np.array([1.0, -0.5, 0.3, 2.0], "float32")
CENTRES, DISTANCES = np.array([0.2, 0.5, 0.9], "float32"), np.arange(5.0, dtype="float32")
CENTERED = {"gate_range": "centered", "center_similarity": True}
CALLS = {
    "intra": lambda mask: ops.intra_attention(X, X, DISTANCES, mask),
    "soft": lambda mask: ops.soft_attention(X, KERNEL, mask),
    "local": lambda mask: ops.local_attention(X, KERNEL, CENTRES, mask, window=1),
    "open_positions": lambda mask: ops.open_positions_attention(X, KERNEL, mask),
    "hard_gates": lambda mask: ops.hard_gates(X[..., 0], mask),
    "attention_flow": lambda mask: ops.attention_flow(X, X, X, X, mask, mask),
    "alignment": lambda mask: ops.alignment_attention(X, X, X, mask),
    "alignment_pair": lambda mask: ops.alignment_pair(X, X, mask, mask),
    "coda_pair": lambda mask: ops.coda_pair(X, X, mask, mask, **CENTERED),
    **{
        f"conflict_{name}": lambda mask, name=name: ops.conflict_attention(
            X, X, KERNEL, X, mask, difference=name
        )
        for name in ("absolute", "signed", "squared")
    },
}


@pytest.mark.parametrize(
    "mask",
    [np.array([[True], [False], [True]]), np.arange(5) < 3, np.array([True])],
    ids=["one for all positions", "one for all examples", "one for all"],
)
@pytest.mark.parametrize("name", CALLS)
def test_an_axis_that_the_mask_lacks_was_one_position(name, mask):
    call = CALLS[name]
    whole = np.array(np.broadcast_to(mask, X.shape[:2]))
    for one, other in zip(*(_listed(call(given)) for given in (mask, whole)), strict=True):
        np.testing.assert_allclose(to_numpy(one), to_numpy(other), rtol=1e-5, atol=1e-6)


def _listed(results):
    return results if isinstance(results, (list, tuple)) else [results]
