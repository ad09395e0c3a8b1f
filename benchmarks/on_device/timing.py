"""Times and memory of attention cores and whole layers, beside those of the framework and of Keras.

The cases of a group take turns in one process, so that their ratios hold whatever else changes.
"""

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from benchmarks.measure import interleaved_medians
from benchmarks.on_device.agreement import (
    IMPLEMENTATION,
    POLICIES,
    Options,
    implementations,
)
from keras_quasiattn.attention.base import ATTENTIONS

HEADS, FEATURES = 8, 64
FIRST = ("softmax", "coda")  # the attentions that are timed before all others
KERAS = "keras MultiHeadAttention"
Call = Callable[[int], None]
Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Group:
    """What is timed by turns: `kind` is "core" or "layer", `which` "first" or "others"."""

    kind: str
    which: str
    mode: str
    batch: int
    length: int
    dtype: str
    heads: int = HEADS
    features: int = FEATURES

    @property
    def unit(self) -> str:
        """The name that distinguishes it from every other group."""
        size = f"{self.batch}x{self.length}"
        return f"{self.kind}s, {self.which}, {size}, {self.dtype}, {self.mode}"


def groups(modes: tuple[str, ...]) -> list[Group]:
    """Return every group, the most valuable first: training lengths, longest, other modes, others.

    Compiling comes late, because it may take the time of everything after it.
    """
    usual, *others = modes
    low, full = "bfloat16", "float32"
    short, middle, long, longest = (4, 512), (4, 2048), (1, 8192), (1, 16384)

    def both_kinds(size: tuple[int, int], dtype: str, mode: str, which: str) -> list[Group]:
        return [Group(kind, which, mode, *size, dtype) for kind in ("core", "layer")]

    found = both_kinds(short, low, usual, "first") + both_kinds(middle, low, usual, "first")
    found += both_kinds(longest, low, usual, "first") + both_kinds(short, low, usual, "others")
    for mode in others:
        found += both_kinds(short, low, mode, "first")
    found += both_kinds(short, full, usual, "first") + both_kinds(long, low, usual, "first")
    found += both_kinds(middle, low, usual, "others") + both_kinds(middle, full, usual, "first")
    for mode in others:
        found += both_kinds(middle, low, mode, "first")
    return found + both_kinds(longest, low, usual, "others")


def tiny_groups(modes: tuple[str, ...]) -> list[Group]:
    """For a try without a device: each kind, mode and dtype, a few positions."""
    tiny = {"batch": 2, "length": 40, "heads": 2, "features": 4}
    return [
        Group("core", "first", modes[0], dtype="bfloat16", **tiny),
        *(Group("core", "first", mode, dtype="float32", **tiny) for mode in modes[1:]),
        *(
            Group("layer", which, modes[0], dtype="float32", **tiny)
            for which in ("first", "others")
        ),
    ]


def chosen(group: Group) -> list[tuple[str, str, Options]]:
    """Return names of rows, with the attention and the options of each."""
    first = group.which == "first"
    found: list[tuple[str, str, Options]] = []
    for name in (name for name in sorted(ATTENTIONS) if (name in FIRST) == first):
        found.append((name, name, ()))
        if group.mode != "compile":  # where each would take minutes
            found += [
                (f"{name}, {options[0][1]}", name, options) for options in implementations(name)
            ]
    return found


class Guarded:
    """A call that keeps the message of its failure, and is then over at once."""

    def __init__(self, call: Call, count: int) -> None:
        self.call, self.count, self.failure = call, count, ""

    def __call__(self) -> None:
        """Run it `count` times."""
        if not self.failure:
            try:
                self.call(self.count)
            except Exception as error:
                self.failure = message_of(error)


def message_of(error: Exception) -> str:
    """One line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]


def state_of(message: str) -> str:
    """Classify a failure: out of memory, refused by the option, or a fault."""
    if any(sign in message for sign in ("out of memory", "OutOfMemory", "RESOURCE_EXHAUSTED")):
        return "out of memory"
    return "unavailable" if f"`{IMPLEMENTATION}='" in message else "failed"


def too_large(group: Group, options: Options, free: float) -> str:
    """Why a case that makes a (B, N, T, S, H) tensor cannot fit, or nothing."""
    if dict(options).get(IMPLEMENTATION) != "reference":
        return ""
    pairs = group.batch * group.heads * group.length**2
    need = 3 * 4 * pairs * group.features  # float32; it, its slope, and the weights of both
    return f"needs about {need / 2**30:.0f} GiB" if need > free else ""


def preparations(
    group: Group, device: Any
) -> list[tuple[str, str, Callable[[], Callable[[], Call]] | str]]:
    """Return names of rows, passes, and what prepares a call, or why there is none."""
    device.set_fast_products(True)
    random = np.random.default_rng(0)
    shape = (group.batch, group.heads, group.length, group.features)
    width = group.heads * group.features
    free, found = device.free_bytes(), []

    def add(name: str, make: Any, options: Options = ()) -> None:
        for passes in ("forward", "both") if group.kind == "core" else ("predict", "train"):
            obstacle = too_large(group, options, free)
            found.append((name, passes, obstacle or make(passes in ("both", "train"))))

    if group.kind == "core":
        arrays = [random.normal(size=shape).astype("float32") for _ in range(3)]
        tensors = [device.tensor(x, group.dtype) for x in arrays]
        swapped = [device.tensor(x.swapaxes(1, 2), group.dtype) for x in arrays]

        def core(function: Callable[..., Any], heads_first: bool) -> Any:
            given = tensors if heads_first else swapped
            return lambda backward: lambda: device.prepared(function, given, group.mode, backward)

        for name, (function, heads_first) in device.own_attention(group.dtype).items():
            add(name, core(function, heads_first))
    else:
        x = device.tensor(
            random.normal(size=(group.batch, group.length, width)).astype("float32"), group.dtype
        )

        def whole(cls: Any, **options: Any) -> Any:
            def prepared(train: bool) -> Any:
                layer = cls(group.heads, group.features, **options, dtype=_policy(group.dtype))
                layer.build(*[(None, group.length, width)] * 2)
                return device.prepared_layer(layer, x, group.mode, train)

            return lambda train: lambda: prepared(train)

        add(KERAS, whole(keras.layers.MultiHeadAttention))
    for name, attention, options in chosen(group):
        cls = ATTENTIONS[attention]
        if group.kind == "layer":
            add(name, whole(cls, **dict(options)), options)
            continue
        layer = cls(group.heads, group.features, **dict(options), dtype=_policy(group.dtype))
        layer.build(*[(None, group.length, width)] * 2)
        add(name, core(_core_of(layer), heads_first=True), options)
    return found


def _policy(dtype: str) -> str:
    return POLICIES.get(dtype, dtype)


def _core_of(layer: Any) -> Callable[..., Any]:
    call = {"is_causal": False, "dropout": 0.0, "dropout_seed": None, "return_scores": False}
    return lambda query, key, value: layer.attend(query, key, value, None, **call)


def measured(group: Group, device: Any, repeats: int, seconds: float) -> list[Row]:
    """One row for each case and passes: median milliseconds, MiB, and the ratio to the first.

    The first of each passes is the framework's own attention, or Keras' own layer.
    """
    rows: list[Row] = []
    ready: dict[tuple[str, str], tuple[Row, Guarded]] = {}
    begun: list[tuple[Row, Any]] = []
    for name, passes, prepare in preparations(group, device):
        row = {**described(group), "attention": name, "passes": passes, "status": "ok"}
        rows.append(row)
        if isinstance(prepare, str):
            row |= {"status": "skipped", "message": prepare}
            continue
        try:
            begun.append((row, prepare()))
        except Exception as error:
            _fail(row, message_of(error))
    end = time.perf_counter() + seconds
    # All are compiled before the first runs: compilers try kernels on the device, and may record
    # what another thread does there.
    compiled: list[tuple[Row, Any]] = []
    for row, finish in begun:
        try:
            compiled.append((row, finish()))
        except Exception as error:
            _fail(row, message_of(error))
    for row, call in compiled:
        if time.perf_counter() > end:
            row |= {"status": "skipped", "message": "no time was left in its group"}
            continue
        try:
            call(1)  # PyTorch compiles now
            row["mib"] = device.memory(call)
            started = device.clock()
            call(1)
            once = device.clock() - started
        except Exception as error:
            _fail(row, message_of(error))
            continue
        row |= {"ms": 1e3 * once, "calls": 1}
        if 5 * once < seconds / len(begun):  # else that call is all there is time for
            count = max(1, min(50, math.ceil(5e-3 / max(once, 1e-6))))
            ready[row["attention"], row["passes"]] = (row, Guarded(call, count))
    _take_turns(ready, device, repeats, end)
    _ratios(rows)
    return rows


def _take_turns(
    ready: dict[tuple[str, str], tuple[Row, Guarded]], device: Any, repeats: int, end: float
) -> None:
    if not ready:
        return
    calls: Any = {name: guarded for name, (_, guarded) in ready.items()}
    left = max(0.0, end - time.perf_counter())
    for name, ms in interleaved_medians(calls, repeats, left, device.clock).items():
        row, guarded = ready[name]
        if guarded.failure:
            _fail(row, guarded.failure)
        else:
            row |= {"ms": ms / guarded.count, "calls": repeats * guarded.count}


def _fail(row: Row, message: str) -> None:
    row.pop("ms", None)
    row |= {"status": state_of(message), "message": message}


def _ratios(rows: list[Row]) -> None:
    first: dict[str, float] = {}
    for row in rows:
        if row["attention"] == rows[0]["attention"] and "ms" in row:
            first[row["passes"]] = row["ms"]
    for row in rows:
        if "ms" in row and row["passes"] in first:
            row["ratio"] = row["ms"] / first[row["passes"]]


def described(group: Group) -> Row:
    """Describe a row's group."""
    return {
        "kind": group.kind,
        "unit": group.unit,
        "mode": group.mode,
        "batch": group.batch,
        "length": group.length,
        "dtype": group.dtype,
    }
