"""The paper's Table 3 from its Table 1, and the counts by hand."""

import numpy as np
import pytest

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.layers import GatedAttention, LocalAttention
from keras_quasiattn.metrics import attention_flops, auxiliary_flops

# Test texts, mean length, and what Table 3 prints for soft attention with BiLSTM states of 2 · 100.
TABLE_3 = {
    "IMDB": (25_000, 231, 2.4e9),
    "AG's News": (7_600, 44, 131e6),
    "SST-1": (2_210, 20, 17e6),
    "SST-2": (1_821, 20, 14.1e6),
    "TREC": (500, 7.5, 1.4e6),
}


@pytest.mark.parametrize("name", TABLE_3)
def test_soft_attention_of_table_3(name):
    texts, length, printed = TABLE_3[name]
    lengths = np.resize([int(length), int(2 * length) - int(length)], texts)  # of that mean
    assert attention_flops("soft", lengths, 200) == pytest.approx(printed, rel=0.08)


def test_poolings_by_hand():
    lengths = [3, 0, 50]
    assert attention_flops("none", lengths, 4) == 0
    assert attention_flops("soft", lengths, 4) == 2 * 4 * 53
    assert attention_flops("gated", lengths, 4, open_counts=[1, 0, 10]) == 2 * 4 * 11
    assert attention_flops("gated", lengths, 4, open_counts=lengths) == attention_flops(
        "soft", lengths, 4
    )
    assert attention_flops("local", lengths, 4, window=10) == 2 * 4 * (3 + 21)
    assert attention_flops("soft", [], 4) == 0


def test_auxiliary_counts_are_the_multiplications_of_the_networks_matrices():
    for network in ("bilstm", "feed_forward", "self_attention"):
        layer = GatedAttention(network, 3)
        layer.build((None, None, 5))
        kernels = sum(
            int(np.prod(w.shape)) for w in layer.gate_network.weights if "bias" not in w.path
        )
        pairs = 2 * 3 * 7**2 if network == "self_attention" else 0
        assert auxiliary_flops(network, [7], 5, 3) == 7 * kernels + pairs
    local = LocalAttention()
    local.build((None, None, 5))
    kernels = sum(int(np.prod(w.shape)) for w in local.hidden.weights + local.center.weights)
    assert auxiliary_flops("local", [7, 2], 5, 5) == 2 * kernels


@pytest.mark.parametrize(
    "arguments,message",
    [
        (("hard", [1], 4, {}), "`attention` must be one of .*attention='hard'"),
        (
            ("gated", [1], 4, {}),
            "`open_counts` must be given for .*attention='gated', open_counts=None",
        ),
        (
            ("soft", [1], 4, {"open_counts": [1]}),
            "`open_counts` must be given for .*attention='soft'",
        ),
        (("local", [1], 4, {}), "`window` must be given for .*window=None"),
        (("soft", [1], 4, {"window": 3}), "`window` must be given for .*window=3"),
        (
            ("gated", [1], 4, {"open_counts": [2]}),
            r"`open_counts` must have one number.*open_counts=\[2\].*lengths=\[1\]",
        ),
        (
            ("gated", [1], 4, {"open_counts": [-1]}),
            r"`open_counts` must have one number.*open_counts=\[-1\]",
        ),
        (("gated", [1], 4, {"open_counts": [1, 1]}), "`open_counts` must have one number"),
        (("local", [1], 4, {"window": -1}), "`window` must be 0 or more.*window=-1"),
    ],
)
def test_errors(arguments, message):
    *positional, options = arguments
    with pytest.raises(ValueError, match=message):
        attention_flops(*positional, **options)
    with pytest.raises(ValueError, match="`network` must be one of .*network='gru'"):
        auxiliary_flops("gru", [1], 2, 3)


# The operations of each attention; a multiplication and the addition after it count as one.
T, S, D, V, N = 3, 5, 4, 7, 2


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("softmax", {}, N * T * S * (D + V)),
        ("sigmoid", {}, N * T * S * (D + V)),
        ("gated", {}, N * T * S * (D + V)),
        *((name, {}, N * T * S * (D + V)) for name in ("sparsemax", "entmax", "relu")),
        ("null_softmax", {}, N * T * S * (D + V)),
        ("signed_softmax", {}, N * T * S * (D + 1 + V)),
        ("differential", {}, N * T * S * (D + 1 + V)),
        ("forgetting", {}, N * T * S * (D + 2 + V)),
        ("context_guided", {}, N * T * S * (2 * D + 2 + V)),
        ("coda", {}, N * T * S * (D + D + 1 + V)),
        ("conflict", {}, T * S * (D + V) + T * S * (2 * D + V)),
        ("conflict", {"conflict_heads": 2}, 2 * T * S * (2 * D + V)),
        ("conflict", {"difference": "signed"}, T * S * (D + V) + S * D + T * S * V),
        (
            "conflict",
            {"difference": "squared"},
            T * S * (D + V) + T * S * (D + V) + 2 * S * D + T * D,
        ),
    ],
)
def test_counts_by_hand(name, options, expected):
    assert ATTENTIONS[name].options_class(**options).operations(T, S, D, V, N) == expected


@pytest.mark.parametrize("name", sorted(ATTENTIONS.keys() - {"gated"}))
def test_every_attention_is_counted_by_its_name(name):
    one = ATTENTIONS[name].options_class().operations
    assert attention_flops(name, [T, 0, S], D) == one(T, T, D, D) + one(S, S, D, D)
    with pytest.raises(ValueError, match="`window` must be given for attention='local'"):
        attention_flops(name, [T], D, window=3)
