"""Heat maps of a call of any layer or model, in a notebook or a file."""

import html
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_quasiattn.attention.probe import AttentionMap, probe, with_sequences
from keras_quasiattn.core.arguments import check_layer
from keras_quasiattn.files import write
from keras_quasiattn.report.figures import Drawing, heat_map
from keras_quasiattn.report.heat_maps import Example, HeatMap, heat_maps
from keras_quasiattn.report.page_writer import page

_HEIGHT = 620


class AttentionView:
    """The heat maps of one call; a notebook shows them with pickers for layer and head."""

    def __init__(self, maps: Sequence[HeatMap], title: str) -> None:
        self.maps = list(maps)
        self.title = title

    def html(self) -> str:
        """Return the whole HTML page."""
        return page(self.title, examples=[Example(self.title, "", self.maps)])

    def save(self, file: str | Path) -> None:
        """Write the page to a file, which a browser can open from disk."""
        write(Path(file), self.html())

    def figure(self, number: int = 0, head: int = 0) -> Drawing:
        """Return one map and head as a `Drawing`, with `light` and `dark` SVG and `png`."""
        number = _place(number, len(self.maps), "number", "a map of this view")
        heads = self.maps[number].heads
        return heat_map("attention", self.maps[number], _place(head, heads, "head", "a head"))

    def _repr_html_(self) -> str:
        # An iframe keeps the page's script and style apart from the notebook's.
        return (
            f'<iframe sandbox="allow-scripts" style="width: 100%; height: {_HEIGHT}px; border: 0" '
            f'title="{html.escape(self.title)}" srcdoc="{html.escape(self.html())}"></iframe>'
        )


def show(
    layer: keras.Layer,
    *args: Any,
    tokens: Sequence[Sequence[str]] = (),
    index: int = 0,
    title: str | None = None,
    **kwargs: Any,
) -> AttentionView:
    """Call a layer or a whole model, and show what every attention layer in it computed.

    Args:
        layer: any Keras layer or model that contains attention layers of this package, or
            `keras.layers.MultiHeadAttention`.
        *args: positional arguments of the call.
        tokens: one list of tokens per sequence, with a token for every position, padding included.
            Each axis is labelled with the list of its length; if two lists have the same length,
            rows get the first and columns the last. Defaults to position numbers.
        index: which example of the batch to show. Defaults to 0.
        title: the heading. Defaults to the layer's name.
        **kwargs: further arguments of the call, such as masks.

    Returns:
        A view that a notebook shows, with `save(file)` and `figure(number, head)`.

    Raises:
        ValueError: `layer` is not a Keras layer, no such attention layer was called, `tokens` are
            not lists, a list has a different length from every sequence, the batch has no example
            `index`, or, from `figure`, there is no such map or head.
        UserError: on display, if jinja2 (or for `figure` matplotlib) is not installed.

    Example:
    >>> from keras_quasiattn.layers import CoDA
    >>> a, b = np.ones((1, 2, 4), "float32"), np.ones((1, 3, 4), "float32")
    >>> view = show(CoDA(name="coda"), [a, b], tokens=[["who", "?"], ["it", "was", "she"]])
    >>> [panel.title for panel in view.maps[0].panels], view.maps[0].panels[2].columns
    (['tanh(E)', '2·sigmoid(N)', 'M'], ['it', 'was', 'she'])
    """
    if not check_layer(layer, "layer").built:
        layer(*args, **kwargs)
    _, seen = probe(layer, *args, **kwargs)
    if not seen:
        raise ValueError(
            "`layer` must contain an attention layer of keras_quasiattn, or "
            f"keras.layers.MultiHeadAttention. Received: {layer.name!r}"
        )
    listed = _texts(tokens)
    _check_lengths(listed, seen)
    index = _checked_index(index, seen)
    sequences = {str(number): one for number, one in enumerate(listed)}
    owned = with_sequences(seen, {name: len(one) for name, one in sequences.items()})
    return AttentionView(heat_maps(owned, sequences, index), layer.name if title is None else title)


def _texts(tokens: Any) -> list[list[str]]:
    """Return the tokens as strings: tokens of a vocabulary may be bytes, and ids are numbers."""
    if isinstance(tokens, (str, bytes, Mapping)) or any(
        isinstance(one, (str, bytes)) or not isinstance(one, Iterable) for one in tokens
    ):
        raise ValueError(
            "`tokens` must be a list for each sequence, such as [['who', '?'], ['she', 'was']]. "
            f"Received: {tokens!r}"
        )
    return [
        [one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one) for one in listed]
        for listed in tokens
    ]


def _place(number: Any, size: int, name: str, of: str) -> int:
    """Return a number below `size`; negative ones count from the end."""
    if not isinstance(number, (int, np.integer)) or not -size <= number < size:
        raise ValueError(f"`{name}` must be the number of {of}, below {size}. Received: {number!r}")
    return int(number) % size


def _checked_index(index: Any, seen: Sequence[AttentionMap]) -> int:
    shapes = [recorded.values.shape for one in seen for recorded in one.matrices.values()]
    if any(0 in shape[1:] for shape in shapes):
        raise ValueError(
            "the inputs must have sequences of at least one position. Received: weights of the "
            f"shapes {', '.join(str(tuple(shape)) for shape in shapes)}"
        )
    return _place(index, max(shape[0] for shape in shapes), "index", "an example in the batch")


def _check_lengths(tokens: Sequence[Sequence[str]], seen: Sequence[AttentionMap]) -> None:
    matrices = [recorded.values for one in seen for recorded in one.matrices.values()]
    # (B, ..., T, S), or (B, S) where a sequence is pooled
    lengths = {length for matrix in matrices for length in matrix.shape[1:][-2:]}
    for number, listed in enumerate(tokens):
        if len(listed) not in lengths:
            known = " and ".join(map(str, sorted(lengths)))
            raise ValueError(
                f"`tokens[{number}]` must have a token for every position of a sequence, padding "
                f"included. Received: {len(listed)} tokens; the sequences have {known} positions"
            )
