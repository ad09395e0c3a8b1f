"""Integers in place of floats gave results cut to integers: the weights of a softmax were 0."""

import numpy as np
import pytest
from tools import to_numpy

from keras_quasiattn import ops

X = np.arange(12).reshape(2, 3, 2) % 5
KERNEL = np.array([1.0, -0.5])
GATES = {"query_gate": np.full((2, 3), 0.2), "key_gate": np.full((2, 3), 0.3)}
CONTEXT = {"query_context": X, "key_context": X, **GATES}
SCORED = {"return_scores": True}
PLAIN = ["relu", "sigmoid", "signed_softmax", "softmax", "sparsemax", "entmax", "null_softmax"]
CALLS = {
    **{name: (f"{name}_attention", (X, X, X), SCORED) for name in PLAIN},
    "forgetting": ("forgetting_attention", (X, X, X), {"log_forget": -GATES["key_gate"], **SCORED}),
    "context_guided": ("context_guided_attention", (X, X, X), {**CONTEXT, **SCORED}),
    "differential": ("differential_attention", (X, X, X), {"subtracted": 0.5, **SCORED}),
    **{
        f"coda_{how}": ("coda_attention", (X, X, X), {"implementation": how, **more})
        for how, more in (("reference", SCORED), ("blockwise", {}), ("auto", {}))
    },
    "coda_pair": ("coda_pair", (X, X), SCORED),
    "alignment_pair": ("alignment_pair", (X, X), SCORED),
    "alignment": ("alignment_attention", (X, X, X), SCORED),
    "conflict": ("conflict_attention", (X, X, KERNEL, X), SCORED),
    "multi_head_conflict": ("multi_head_conflict_attention", (X, X, X, KERNEL[:, None]), SCORED),
    "attention_flow": ("attention_flow", (X, X, X, X), SCORED),
    "intra": ("intra_attention", (X, X, np.array([0.1, 0.2, 0.3])), SCORED),
    "soft": ("soft_attention", (X, KERNEL), SCORED),
    "local": ("local_attention", (X, KERNEL, np.full(2, 0.4)), SCORED),
    "open_positions": ("open_positions_attention", (X, KERNEL, X[..., 0] > 0), SCORED),
    "factorization_machine": ("factorization_machine", (X, 0.5, KERNEL, KERNEL[:, None]), {}),
    "rotary_embedding": ("rotary_embedding", (X,), {}),
}


def as_floats(x):
    is_integer = isinstance(x, np.ndarray) and x.dtype.kind == "i"
    return x.astype("float32") if is_integer else x


@pytest.mark.parametrize("name", CALLS)
def test_integers_were_not_taken_for_floats(name):
    function, arguments, options = CALLS[name]
    op = getattr(ops, function)
    more = {key: as_floats(value) for key, value in options.items()}
    got = op(*arguments, **options)
    want = op(*map(as_floats, arguments), **more)
    if not isinstance(got, tuple):
        got, want = (got,), (want,)
    for one, other in zip(got, want, strict=True):
        one, other = to_numpy(one), to_numpy(other)
        assert one.dtype == other.dtype == "float32"
        np.testing.assert_allclose(one, other, rtol=1e-6)
