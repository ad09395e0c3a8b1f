"""What each mechanism counts, by hand; a multiplication and the addition after it are one."""

import pytest

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.metrics import attention_flops

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
def test_counts_by_hand(name: str, options: dict[str, object], expected: int) -> None:
    assert ATTENTIONS[name].options_class(**options).operations(T, S, D, V, N) == expected


def test_open_keys_alone_cost() -> None:
    opened = ATTENTIONS["gated"].options_class().operations(T, 2, D, V, N)
    assert opened / ATTENTIONS["gated"].options_class().operations(T, S, D, V, N) == 2 / S


@pytest.mark.parametrize("name", sorted(ATTENTIONS.keys() - {"gated"}))
def test_every_mechanism_is_counted_by_its_name(name: str) -> None:
    one = ATTENTIONS[name].options_class().operations
    assert attention_flops(name, [T, 0, S], D) == one(T, T, D, D) + one(S, S, D, D)
    with pytest.raises(ValueError, match="`window` must be given for attention='local'"):
        attention_flops(name, [T], D, window=3)


def test_both_registries_have_the_same_names() -> None:
    assert ATTENTIONS.keys() == ATTENTIONS.keys()
