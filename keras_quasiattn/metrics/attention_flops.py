"""The cost of attention in floating point operations, counted as in the GA-Net paper."""

from collections.abc import Sequence

import numpy as np

from keras_quasiattn.attention.base import ATTENTIONS, Attention
from keras_quasiattn.core.arguments import check
from keras_quasiattn.core.tensors import check_choice

# For each pooling, the argument that it needs besides the lengths.
POOLINGS = {"none": None, "local": "window", "soft": None, "gated": "open_counts"}


def attention_flops(
    attention: str,
    lengths: Sequence[int] | np.ndarray,
    width: int,
    *,
    open_counts: Sequence[int] | np.ndarray | None = None,
    window: int | None = None,
) -> int:
    """Count the operations of an attention over a set of texts.

    A multiplication and the addition after it count as one operation. Pooling costs 2·D per
    attended word: D for the score wᵀ·tanh(h_t) and D for adding α_t·h_t. In an attention such as
    "softmax" or "coda", every word of a text attends to all words, in one head with default
    options; this costs 2·D per pair of words with softmax and 3·D + 1 with CoDA.

    The paper prints totals (Table 3) without a formula. From its Table 1 (number and mean length of
    the test texts, D = 200), this formula reproduces its row for soft attention within 5 % for
    IMDB, AG's News, SST-1 and SST-2, and also for TREC with the 7.5 words of its test questions.
    The count leaves out tanh, exp and the division (about 1 % more), padding, the BiLSTM and the
    auxiliary network; `auxiliary_flops` counts the latter.

    Args:
        attention: a pooling, as for `models.TextClassifier`, or the name of an attention. "soft"
            attends to every word, "gated" to the open ones, "local" to those in a window (counted
            as 2·window + 1 words, or all words of a shorter text), "none" to none.
        lengths: number of words in each text, without padding.
        width: D, size of the states; for a BiLSTM, of both directions together.
        open_counts: number of open gates in each text, for "gated".
        window: number of words on each side of the predicted one, for "local".

    Returns:
        The total over all texts.

    Raises:
        ValueError: `attention` is unknown, `open_counts` or `window` is missing, superfluous or out
            of range.

    >>> attention_flops("soft", [231] * 25_000, 200)  # IMDB; the paper prints 2.4G
    2310000000
    """
    check_choice(attention, (*POOLINGS, *sorted(ATTENTIONS.keys() - POOLINGS)), "attention")
    needed = POOLINGS.get(attention)
    for name, value in (("open_counts", open_counts), ("window", window)):
        if (value is None) == (needed == name):
            (pooling,) = (one for one, argument in POOLINGS.items() if argument == name)
            raise ValueError(
                f"`{name}` must be given for attention={pooling!r} and be None for all others. "
                f"Received: attention={attention!r}, {name}={value!r}"
            )
    counts, sizes = np.asarray(lengths, "int64"), (width, width)
    if open_counts is not None:
        opened = np.asarray(open_counts, "int64")
        if opened.shape != counts.shape or (opened < 0).any() or (opened > counts).any():
            raise ValueError(
                "`open_counts` must have one number per text, from 0 to the length of that text. "
                f"Received: open_counts={opened.tolist()[:5]} …, lengths={counts.tolist()[:5]} …"
            )
        counts = opened
    if window is not None:
        check(window >= 0, window, "window", "0 or more")
        counts = np.minimum(counts, 2 * window + 1)
    if attention in POOLINGS:  # one query per text, at the cost of a dot product
        return 0 if attention == "none" else Attention().operations(1, int(counts.sum()), *sizes)
    options = ATTENTIONS[attention].options_class()
    return sum(options.operations(count, count, *sizes) for count in counts.tolist())


def auxiliary_flops(
    network: str, lengths: Sequence[int] | np.ndarray, input_width: int, units: int
) -> int:
    """Count the operations of the network that decides where to attend (matrix products only).

    bilstm: 2·4·U·(E + U) + 2·U per word. feed_forward: E·U + U per word. self_attention:
    E·U + 4·U² + U per word and 2·U per pair of words. local: E·U + U per text, for its last state
    only; E = U = D in `layers.LocalAttention`.

    Args:
        network: "bilstm", "feed_forward", "self_attention" (`layers.GatedAttention`) or "local".
        lengths: number of words in each text, without padding.
        input_width: E, size of the vectors that the network reads.
        units: U, size of its hidden states.

    Returns:
        The total over all texts.

    Raises:
        ValueError: `network` is unknown.

    >>> auxiliary_flops("bilstm", [10], input_width=100, units=100)
    1602000
    """
    words = np.asarray(lengths, "int64")
    pairs, texts = words**2, np.ones_like(words)
    hidden = input_width * units
    costs = {
        "bilstm": (8 * units * (input_width + units) + 2 * units) * words,
        "feed_forward": (hidden + units) * words,
        "self_attention": (hidden + 4 * units**2 + units) * words + 2 * units * pairs,
        "local": (hidden + units) * texts,
    }
    check(network in costs, network, "network", f"one of {tuple(costs)}")
    return int(costs[network].sum())
