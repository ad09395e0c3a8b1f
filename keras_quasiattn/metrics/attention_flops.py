"""What attention costs in floating point operations, counted as the GA-Net paper counts them."""

from collections.abc import Sequence

import numpy as np

# Each with the argument that it needs beside the lengths.
ATTENTIONS = {"none": None, "local": "window", "soft": None, "gated": "open_counts"}


def attention_flops(
    attention: str,
    lengths: Sequence[int] | np.ndarray,
    width: int,
    *,
    open_counts: Sequence[int] | np.ndarray | None = None,
    window: int | None = None,
) -> int:
    """Operations of the attention unit over a set of texts.

    2·D for every position attended to: D for the score wᵀ·tanh(h_t) and D for adding α_t·h_t, a multiplication and
    the addition after it being one operation.

    The paper prints totals (Table 3) without a formula. This one gives its row for soft attention from its own
    Table 1 (number and mean length of the test texts, D = 200) to within 5 % for IMDB, AG's News, SST-1 and SST-2,
    and for TREC with the 7.5 words that its test questions have. So tanh, exp and the division, some 1 % more, are
    not in it, nor are padding, the BiLSTM, and the auxiliary network; for that see `auxiliary_flops`.

    Args:
        attention: "soft" attends to every word; "gated" to the open ones; "local" to those in a window (at most
            2·window + 1, taken as that many where the text has them); "none" to none.
        lengths: words of each text, without padding.
        width: D, size of the states, both directions of a BiLSTM.
        open_counts: open gates of each text, for "gated".
        window: positions on each side of the predicted one, for "local".

    Returns:
        The total over all texts.

    Raises:
        ValueError: an unknown attention, or `open_counts` or `window` missing, superfluous or out of range.

    >>> attention_flops("soft", [231] * 25_000, 200)  # IMDB; the paper prints 2.4G
    2310000000
    """
    if attention not in ATTENTIONS:
        raise ValueError(
            f"`attention` must be one of {tuple(ATTENTIONS)}. Received: attention={attention!r}"
        )
    for name, value in (("open_counts", open_counts), ("window", window)):
        if (value is None) == (ATTENTIONS[attention] == name):
            (owner,) = (one for one, needed in ATTENTIONS.items() if needed == name)
            raise ValueError(
                f'`{name}` belongs to "{owner}" and is needed there. Received: attention={attention!r}, '
                f"{name}={value!r}"
            )
    counts = np.asarray(lengths, "int64")
    if open_counts is not None:
        opened = np.asarray(open_counts, "int64")
        if opened.shape != counts.shape or (opened < 0).any() or (opened > counts).any():
            raise ValueError(
                "`open_counts` must hold one number between 0 and its length for each text. "
                f"Received: open_counts={opened.tolist()[:5]} …, lengths={counts.tolist()[:5]} …"
            )
        counts = opened
    if window is not None:
        counts = np.minimum(counts, 2 * window + 1)
    return 0 if attention == "none" else int(2 * width * counts.sum())


def auxiliary_flops(
    network: str, lengths: Sequence[int] | np.ndarray, input_width: int, units: int
) -> int:
    """Operations of what decides where to attend, counted alike: multiplications of its matrices alone.

    bilstm: 2·4·U·(E + U) + 2·U a word. feed_forward: E·U + U. self_attention: E·U + 4·U² + U a word and 2·U a
    pair of words. local: E·U + U a text, for the last state alone; E = U = D in `layers.LocalAttention`.

    Args:
        network: "bilstm", "feed_forward", "self_attention", as in `layers.GatedAttention`, or "local".
        lengths: words of each text, without padding.
        input_width: E, size of what the network reads.
        units: U, size of its hidden states.

    Returns:
        The total over all texts.

    Raises:
        ValueError: an unknown network.

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
    if network not in costs:
        raise ValueError(f"`network` must be one of {tuple(costs)}. Received: network={network!r}")
    return int(costs[network].sum())
