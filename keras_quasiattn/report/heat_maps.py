"""Heat maps: attention matrices with tokens on both axes, small enough for a page."""

import base64
import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

import keras
import numpy as np

from keras_quasiattn.attention.probe import AttentionMap
from keras_quasiattn.report.token_table import readable

# Bytes of all matrices on a page. If they need more, several pairs share a cell.
BUDGET = 24_000_000
_HIDDEN = -32768  # stands for a masked pair
_LARGEST = 32767
# Prefixes of the names of matrices in an answer.
_MATRICES = ("weights", "attention", "conflict")


@dataclasses.dataclass(frozen=True)
class Panel:
    """One matrix with all its heads."""

    title: str
    values: np.ndarray  # (N, T, S), NaN at pairs that are masked or have no finite weight
    rows: list[str]
    columns: list[str]

    @property
    def limit(self) -> float:
        """The value of the strongest colour: the largest of all heads, rounded up to 1, 2 or 5.

        Small weights are thus visible, and the same colour means the same value in every head.

        >>> Panel("M", np.array([[[0.04, -0.01]]]), [""], ["a", "b"]).limit
        0.05
        """
        largest = float(np.nanmax(np.abs(self.values), initial=0.0)) if self.values.size else 0.0
        if not largest:
            return 1.0
        step = 10.0 ** math.floor(math.log10(largest))
        # The sum of a row may be above 1 by rounding.
        least = largest * (1 - 1e-5)
        return float(f"{next(m for m in (1, 2, 5, 10) if m * step >= least) * step:.0e}")


@dataclasses.dataclass(frozen=True)
class HeatMap:
    """Matrices shown side by side: from one call of one layer, or attention and conflict."""

    name: str
    panels: list[Panel]

    @property
    def heads(self) -> int:
        """The largest number of heads of any panel."""
        return max(len(panel.values) for panel in self.panels)


@dataclasses.dataclass(frozen=True)
class Example:
    """One text or pair with its answer and heat maps."""

    name: str
    answer: str
    maps: list[HeatMap]


def heat_maps(
    maps: Iterable[AttentionMap], tokens: Mapping[str, Sequence[str]], index: int = 0
) -> list[HeatMap]:
    """Return the heat maps of one example of a batch."""
    found: list[tuple[tuple[str, int], HeatMap]] = []
    for one in maps:
        panels = []
        for recorded in one.matrices.values():
            # (B, ..., N, T, S), (B, T, S), or (B, S) where a sequence is pooled
            values = keras.ops.convert_to_numpy(keras.ops.cast(recorded.values, "float32"))
            visible = np.isfinite(values)
            if recorded.visible is not None:
                visible = visible & keras.ops.convert_to_numpy(recorded.visible)
            values = np.where(visible, values, np.nan)
            # A matrix with batch size 1 applies to all examples.
            values = values[min(index, len(values) - 1)]
            # (N, T, S); pooled: (1, 1, S). The slices below cut off the padding.
            values = values.reshape((-1, *((1,) * (2 - values.ndim)), *values.shape[-2:]))
            owners = [tokens.get(owner or "") for owner in recorded.sequences]
            rows, columns = map(_labels, owners, values.shape[1:])
            rows = [""] if values.shape[1] == 1 else rows
            values = values[:, : len(rows), : len(columns)]
            panels.append(Panel(recorded.label, values, rows, columns))
        parent = one.layer.rpartition("/")[0]
        call = f", call {one.call + 1}" if one.call else ""
        name = f"{one.layer} ({one.kind}){call}"
        key = (parent, one.call)
        if parent and found and found[-1][0] == key and _one_alike(found[-1][1].panels, panels):
            # Attention and conflict of the same pair of sequences share a heat map.
            first = found.pop()[1]
            panels = [
                dataclasses.replace(panel, title=f"{title}: {panel.title}")
                for title, panel in zip((first.name, name), (*first.panels, *panels), strict=True)
            ]
            name = f"{parent}{call}"
        found.append((key, HeatMap(name, panels)))
    return [one for _, one in found]


def _one_alike(one: list[Panel], other: list[Panel]) -> bool:
    return len(one) == len(other) == 1 and one[0].values.shape == other[0].values.shape


def _labels(tokens: Sequence[str] | None, length: int) -> list[str]:
    if tokens is None:
        return [str(position + 1) for position in range(length)]
    return [readable(token) for token in tokens]


def from_answer(answer: Mapping[str, object]) -> list[HeatMap]:
    """Return the heat maps of an answer with weights, from `predict` or an exported model."""
    names = {
        "first": ("first_tokens", "answer_pieces"),
        "second": ("second_tokens", "source_pieces"),
    }
    tokens = {
        side: next((answer[name] for name in known if answer.get(name)), [])
        for side, known in names.items()
    }
    made: dict[str, list[Panel]] = {}
    for name, values in answer.items():
        # (T, S); values of other ranks are not matrices
        array = np.asarray(values, "float32") if name.split("_")[0] in _MATRICES else None
        if array is None or array.ndim != 2 or not array.size:
            continue
        side = "second" if name.endswith("_second") else "first"
        other = "first" if side == "second" else "second"
        rows, columns = map(_filled, (tokens[side], tokens[other]), array.shape)
        title = name.replace("_", " of the ", 1)
        made.setdefault(side, []).append(Panel(title, array[None], rows, columns))
    whose = "answer" if "answer_pieces" in answer else "{} text"
    return [HeatMap(f"weights of the {whose.format(side)}", made[side]) for side in made]


def _filled(tokens: object, size: int) -> list[str]:
    listed = [readable(str(token)) for token in tokens] if isinstance(tokens, list) else []
    return [*listed, *[""] * (size - len(listed))][:size]


def block_size(examples: Iterable[Example], budget: int = BUDGET) -> int:
    """Return the cell size, in positions per side, at which all matrices fit `budget` bytes."""
    panels = (panel for one in examples for shown in one.maps for panel in shown.panels)
    entries = sum(panel.values.size for panel in panels)
    # An entry takes 2 bytes, and a cell replaces block × block entries.
    return max(1, math.ceil(math.sqrt(2 * entries / budget)))


def pooled(values: np.ndarray, block: int) -> np.ndarray:
    """Pool (T, S) to the strongest value of each block × block cell; NaN if all are masked.

    >>> pooled(np.array([[0.1, -0.9, 0.2], [0.0, 0.3, np.nan]]), 2).tolist()
    [[-0.9, 0.2]]
    """
    if block == 1:
        return values
    rows, columns = (-(-size // block) for size in values.shape)
    padding = [(0, rows * block - values.shape[0]), (0, columns * block - values.shape[1])]
    # (T, S) padded to (rows · block, columns · block), then (rows, block, columns, block)
    blocks = np.pad(values, padding, constant_values=np.nan).reshape(rows, block, columns, block)
    cells = blocks.transpose(0, 2, 1, 3).reshape(rows, columns, block * block)
    # (rows, columns): the index of the strongest value in each cell
    strongest = np.argmax(np.where(np.isnan(cells), -1, np.abs(cells)), axis=-1)
    return np.take_along_axis(cells, strongest[..., None], axis=-1)[..., 0]


def encoded(values: np.ndarray) -> tuple[str, float]:
    """Encode values as little-endian int16 in base64; return them and the factor to restore them.

    >>> data, factor = encoded(np.array([[0.5, np.nan]]))
    >>> np.frombuffer(base64.b64decode(data), "<i2").tolist(), round(factor * 32767, 6)
    ([32767, -32768], 0.5)
    """
    hidden = np.isnan(values)
    largest = float(np.max(np.abs(values), where=~hidden, initial=0.0)) or 1.0
    whole = np.where(hidden, _HIDDEN, np.rint(np.nan_to_num(values) * (_LARGEST / largest)))
    return base64.b64encode(whole.astype("<i2").tobytes()).decode(), largest / _LARGEST
