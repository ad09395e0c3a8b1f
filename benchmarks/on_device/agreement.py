"""Whether every attention gives on a device what float64 gives on the CPU, both passes.

The inputs are numbers that float32, bfloat16 and float16 all hold exactly, so that one float64
result is right for all of them, and what differs is how a device computes.
"""

import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.attention.coda.choice import CODA_IMPLEMENTATIONS

Array = Any
Options = tuple[tuple[str, Any], ...]
IMPLEMENTATION = "implementation"

# "tf32" is float32 with products as JAX computes them on a GPU unless told otherwise.
DTYPES = ("float32", "bfloat16", "float16", "tf32")
POLICIES = {"bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
MASKS = ("none", "padding", "causal", "pairs")
# What `error_of` an output or a gradient may be: some roundings of the dtype. A whole layer rounds
# its projections too; in 16 bits that opens gates, and adds keys to sparse weights or drops them.
TOLERANCES = {"float32": 2e-5, "bfloat16": 2**-7, "float16": 2**-10, "tf32": 2**-8}
LAYER_TOLERANCES = {"float32": 2e-5, "bfloat16": 2**-2, "float16": 2**-4, "tf32": 2**-4}


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Lengths to check, and how much of each: batch, heads, features of a head."""

    short: int = 33
    long: int = 2048
    of_short: tuple[int, int, int] = (3, 2, 64)
    of_long: tuple[int, int, int] = (1, 2, 16)

    def of(self, length: int) -> tuple[int, int, int]:
        """Return batch, heads and features at a length."""
        return self.of_long if length == self.long else self.of_short


FULL = Sizes()
TINY = Sizes(short=5, long=33, of_short=(3, 2, 8), of_long=(1, 2, 8))


@dataclasses.dataclass(frozen=True)
class Case:
    """One attention at one length; `part` is "core" (queries, keys and values) or "layer"."""

    attention: str
    options: Options
    part: str
    length: int
    mask: str
    dtype: str

    @property
    def name(self) -> str:
        """The attention with those options that are not its defaults."""
        options = ", ".join(f"{name}={value}" for name, value in self.options)
        return f"{self.attention}({options})" if options else self.attention

    @property
    def unit(self) -> str:
        """What distinguishes it from the other units."""
        return f"{self.part} {self.name} {self.length} {self.mask} {self.dtype}"

    @property
    def exact(self) -> "Case":
        """The case whose float64 result is right for this one."""
        if IMPLEMENTATION not in _fields(self.attention):
            return dataclasses.replace(self, dtype="float64")
        rest = tuple(option for option in self.options if option[0] != IMPLEMENTATION)
        options = (*rest, (IMPLEMENTATION, "reference"))
        return dataclasses.replace(self, options=options, dtype="float64")


def _fields(attention: str) -> dict[str, Any]:
    return {
        field.name: field.default
        for field in dataclasses.fields(ATTENTIONS[attention].options_class)
    }


def implementations(attention: str) -> list[Options]:
    """Return the options that choose each implementation of an attention which has several."""
    if IMPLEMENTATION not in _fields(attention):
        return []
    return [((IMPLEMENTATION, name),) for name in CODA_IMPLEMENTATIONS if name != "auto"]


def variants(attention: str) -> list[Options]:
    """Return the last value of each option that a search tries, and every learnable option."""
    fields = _fields(attention)
    searched = {
        name: [value for value in values if value != fields[name]][-1]
        for name, values in ATTENTIONS[attention].options_class.search_space.items()
    }
    learned = {}
    for name in fields:
        try:
            ATTENTIONS[attention].options_class(**{name: "learned"})
        except (TypeError, ValueError):
            continue
        learned[name] = "learned"
    return [tuple(options.items()) for options in (learned, searched) if options]


def cases(sizes: Sizes) -> list[Case]:
    """Return every check, the most valuable first."""
    names = sorted(ATTENTIONS)
    usual: list[tuple[str, Options]] = [(name, ()) for name in names]
    chosen = [(name, options) for name in names for options in implementations(name)]
    other = [(name, options) for name in names for options in variants(name)]
    found = []
    for dtype in DTYPES[:3]:
        of_short = [
            Case(*which, "core", sizes.short, mask, dtype)
            for which in (*usual, *chosen)
            for mask in MASKS
        ]
        found += of_short + [
            Case(*which, "layer", sizes.short, "padding", dtype) for which in usual
        ]
    for dtype in DTYPES[:3]:
        for mask in ("causal", "padding"):
            found += [Case(*which, "core", sizes.long, mask, dtype) for which in usual]
    found += [Case(*which, "core", 1, "padding", dtype) for dtype in DTYPES[:3] for which in usual]
    found += [
        Case(*which, "core", sizes.short, mask, dtype)
        for dtype in DTYPES[:3]
        for which in other
        for mask in MASKS
    ]
    found += [
        Case(*which, part, sizes.short, "none", DTYPES[3])
        for part in ("core", "layer")
        for which in usual
    ]
    return found


def some(every: list[Case]) -> list[Case]:
    """For a try without a device: each attention and option, with masks and dtypes in turn."""
    kinds: dict[tuple[Any, ...], list[Case]] = {}
    for case in every:
        long = case.length not in (1, TINY.short)
        kinds.setdefault((case.attention, case.options, case.part, long), []).append(case)
    # A step that shares no factor with the numbers of masks and dtypes sees all of both.
    return [of_kind[7 * number % len(of_kind)] for number, of_kind in enumerate(kinds.values())]


@dataclasses.dataclass(frozen=True)
class Inputs:
    """Query, key, value and the gradient of the output, float32, and the mask of a case."""

    tensors: tuple[np.ndarray, np.ndarray, np.ndarray]
    upstream: np.ndarray
    mask: np.ndarray | None


def held_exactly(x: np.ndarray) -> np.ndarray:
    """Return normals of eight significant bits, none so near 0 that float16 would round it."""
    x = (x + np.copysign(2.0**-6, x)).astype("float32")
    return (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def inputs_of(case: Case, sizes: Sizes) -> Inputs:
    """Return the same numbers for each dtype and backend."""
    batch, heads, features = sizes.of(case.length)
    random = np.random.default_rng(case.length)
    shape = (batch, heads, case.length, features)
    if case.part == "layer":
        shape = (batch, case.length, heads * features)
    query, key, value, upstream = (held_exactly(random.normal(size=shape)) for _ in range(4))
    mask = None
    if case.mask == "padding":
        # The first example is whole, or all but a quarter if it is alone; the last sees nothing.
        real = [case.length, case.length // 2, 0] if batch > 1 else [case.length * 3 // 4]
        mask = np.arange(case.length) < np.array(real)[:, None]
        if case.part == "layer":
            for tensor in (query, key, value):
                tensor[~mask] = np.nan
        else:
            mask = mask[:, None, None]  # (B, 1, 1, S)
    elif case.mask == "pairs":
        mask = random.random((1, 1, case.length, case.length)) < 0.7
        mask[..., 1, :] = False
    return Inputs((query, key, value), upstream, mask)


def layer_of(case: Case, sizes: Sizes) -> keras.layers.Layer:
    """Return a built layer with the same weights for each dtype and backend."""
    _, heads, features = sizes.of(case.length)
    dtype = {**POLICIES, "tf32": "float32"}.get(case.dtype, case.dtype)
    layer = ATTENTIONS[case.attention](heads, features, **dict(case.options), dtype=dtype)
    layer.build(*[(None, case.length, heads * features)] * 2)
    random = np.random.default_rng(0)
    for weight in layer.trainable_variables:
        scale = weight.shape[0] ** -0.5 if len(weight.shape) > 1 else 0.25
        content = held_exactly(random.normal(size=weight.shape)) * scale
        weight.assign(np.abs(content) if weight.constraint is not None else content)
    return layer


def forward_of(case: Case, layer: keras.layers.Layer, mask: Array) -> Callable[..., Array]:
    """Return the attention as a function of query, key and value."""
    is_causal = case.mask == "causal"
    if case.part == "layer":
        masks = {"query_mask": mask, "value_mask": mask}
        return lambda query, key, value: layer(
            query, value, key=key, use_causal_mask=is_causal, **masks
        )
    return lambda query, key, value: layer.attend(
        query,
        key,
        value,
        mask,
        is_causal=is_causal,
        dropout=0.0,
        dropout_seed=None,
        return_scores=False,
    )


Results = tuple[np.ndarray, list[np.ndarray | None]]


def started(case: Case, sizes: Sizes, device: Any) -> Callable[[], Results]:
    """Begin a case on a device.

    Returns:
        A function that ends it: the output, and the gradients of query, key, value and each weight;
        None for a weight that the output does not depend on.
    """
    device.set_fast_products(case.dtype == "tf32")
    inputs, layer = inputs_of(case, sizes), layer_of(case, sizes)
    dtype = "float32" if case.dtype == "tf32" else case.dtype
    tensors = [device.tensor(x, dtype) for x in inputs.tensors]
    mask = None if inputs.mask is None else device.tensor(inputs.mask, "bool")
    return device.start(
        forward_of(case, layer, mask), layer, tensors, device.tensor(inputs.upstream, dtype)
    )


def error_of(found: np.ndarray, exact: np.ndarray, largest: float = 0.0) -> float:
    """‖found − exact‖ / ‖exact‖, or over a share of the `largest` norm where that is more.

    A gradient may be 0 but for rounding, as that of a bias which moves all scores of a row alike.
    """
    if not np.isfinite(found).all():
        return float("inf")
    size = max(float(np.linalg.norm(exact)), largest / 30)
    difference = float(np.linalg.norm(found - exact))
    return difference / size if size else difference


def compared(case: Case, results: Results, exact: Results) -> dict[str, Any]:
    """Return a row: the largest errors, and whether they are small enough."""
    output, gradients = results
    exact_output, exact_gradients = exact
    names = ("query", "key", "value")
    errors = {"output": error_of(output, exact_output)}
    largest = max(float(np.linalg.norm(right)) for right in exact_gradients if right is not None)
    for number, (found, right) in enumerate(zip(gradients, exact_gradients, strict=True)):
        if right is not None:
            name = names[number] if number < len(names) else f"weight {number - len(names)}"
            errors[name] = error_of(
                np.zeros_like(right) if found is None else found, right, largest
            )
    of_part = LAYER_TOLERANCES if case.part == "layer" else TOLERANCES
    limit = of_part[case.dtype]
    # A row that sees nothing is exactly 0.
    nothing = ~exact_output.any(axis=-1)
    not_zero = bool(output[nothing].any())
    wrong = [
        f"{name} is off by {error:.1e}" for name, error in errors.items() if not error <= limit
    ]
    if not_zero:
        wrong.append("a row that sees nothing is not 0")
    return {
        "status": "wrong" if wrong else "ok",
        "error": max(errors.values()),
        "limit": limit,
        "message": "; ".join(wrong),
    }


# References: one file for each exact case, which a process on the CPU writes.


def _path(folder: Path, case: Case) -> Path:
    return folder / f"{case.unit.replace('=', '-').replace('/', '-')}.npz"


def references(every: list[Case]) -> Iterator[Case]:
    """Return the exact cases that are needed, each once, in their order."""
    yield from dict.fromkeys(case.exact for case in every)


def write_reference(case: Case, sizes: Sizes, device: Any, folder: Path) -> None:
    """Compute an exact case, or keep the message of its error."""
    found: dict[str, Any] = {}
    try:
        output, gradients = started(case, sizes, device)()
        found = {"output": output}
        found |= {str(n): x for n, x in enumerate(gradients) if x is not None}
        found["count"] = np.array(len(gradients))
    except Exception as error:
        found = {"message": np.array(f"the reference failed: {type(error).__name__}: {error}")}
    path = _path(folder, case)
    temporary = path.with_suffix(".part")
    with temporary.open("wb") as file:
        np.savez(file, **found)
    temporary.rename(path)


def read_reference(case: Case, folder: Path, until: float) -> Results:
    """Wait for an exact case while it may still come; `until` is a `time.time`."""
    path = _path(folder, case.exact)
    while not path.exists():
        if (folder / "done").exists() or time.time() > until:
            raise LookupError("there is no reference in time")
        time.sleep(0.05)
    with np.load(path) as file:
        if "message" in file:
            raise LookupError(str(file["message"]))
        count = int(file["count"])
        gradients = [file.get(str(n)) for n in range(count)]
        return file["output"], gradients


def described(case: Case) -> dict[str, Any]:
    """Describe a row's case."""
    return {
        "kind": "agreement",
        "unit": case.unit,
        "part": case.part,
        "attention": case.name,
        "length": case.length,
        "mask": case.mask,
        "dtype": case.dtype,
    }


def as_json(value: Any) -> str:
    """Return a line of JSON; infinity as a string, which every reader of JSON takes."""
    return json.dumps(value, allow_nan=True, default=str).replace("Infinity", '"inf"')
