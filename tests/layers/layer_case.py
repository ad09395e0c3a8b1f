"""How the laws call a layer and set its weights; cases.py lists the layers.

Sizes are unequal primes, so that swapped dimensions cannot cancel.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
from tools import CODA_IMPLEMENTATIONS

BATCH, TARGET, SOURCE, FEATURES = 3, 5, 7, 11


@dataclasses.dataclass(frozen=True)
class Style:
    """How a layer is called.

    Args:
        call: (layer, sequences, masks, **options) → whatever the layer returns.
        build_arguments: shapes of the sequences → positional arguments of `build` and of
            `compute_output_shape`.
        mask_names: how an error names the mask of each sequence.
        lengths: length of each sequence.
        owners: for each output, the sequence whose positions it has; None = pooled.
    """

    call: Callable[..., Any]
    build_arguments: Callable[[list[tuple]], tuple]
    mask_names: tuple[str, ...]
    lengths: tuple[int, ...]
    owners: tuple[int | None, ...]


def _call_self(layer, sequences, masks, **options):
    (x,), (mask,) = sequences, masks
    return layer(x, x, query_mask=mask, value_mask=mask, **options)


def _call_biased(layer, sequences, masks, **options):
    # A bias computed from the content, so NaN where the content is NaN: (B, 1, T, S).
    bias = keras.ops.expand_dims(keras.ops.convert_to_tensor(sequences[0])[..., 0], 1)
    bias = keras.ops.expand_dims(bias, 2) - 0.5 * keras.ops.expand_dims(bias, 3)
    return _call_self(layer, sequences, masks, attention_bias=bias, **options)


def _call_cross(layer, sequences, masks, **options):
    return layer(*sequences, query_mask=masks[0], value_mask=masks[1], **options)


def _call_pair(layer, sequences, masks, **options):
    mask = None if all(mask is None for mask in masks) else list(masks)
    return layer(list(sequences), mask=mask, **options)


def _call_single(layer, sequences, masks, **options):
    return layer(sequences[0], mask=masks[0], **options)


def _call_decoder(layer, sequences, masks, **options):
    result = layer(*sequences, decoder_mask=masks[0], encoder_mask=masks[1], **options)
    if not isinstance(result, tuple):
        return result
    output, across, own = result
    return output, own, across  # the scores of the encoder's sequence come last


def _call_alone(layer, sequences, masks, **options):
    return layer(sequences[0], decoder_mask=masks[0], **options)


SELF = Style(_call_self, lambda shapes: (shapes[0], shapes[0]), ("query_mask",), (TARGET,), (0,))
SELF_WITH_BIAS = dataclasses.replace(SELF, call=_call_biased)
CROSS = Style(_call_cross, tuple, ("query_mask", "value_mask"), (TARGET, SOURCE), (0,))
PAIR = Style(
    _call_pair, lambda shapes: (list(shapes),), ("mask[0]", "mask[1]"), (TARGET, SOURCE), (0, 1)
)
SINGLE = Style(_call_single, tuple, ("mask",), (TARGET,), (0,))
DECODER = Style(_call_decoder, tuple, ("decoder_mask", "encoder_mask"), (TARGET, SOURCE), (0,))
ALONE = Style(_call_alone, tuple, ("decoder_mask",), (TARGET,), (0,))
ONE_WAY = dataclasses.replace(PAIR, owners=(0,))
POOLED = dataclasses.replace(SINGLE, owners=(None,))


@dataclasses.dataclass(
    frozen=True, eq=False
)  # a case equals only itself, so layers made from it can be cached
class LayerCase:
    """One layer with one set of arguments.

    Args:
        name: identifier of the tests.
        layer: the class.
        style: how it is called.
        arguments: constructor arguments.
        options: further call arguments.
        has_scores: whether `return_attention_scores=True` is understood and appends the weights.
        empty_rows_are_zero: False for layers with a residual path, whose rows are then only finite.
        stacks: whether the layer accepts its own output in place of the sequence it belongs to.
        positions_matter: True if deleting positions in the middle changes where the layer sees the
            others. Then only padding at the end can be deleted.
        largest_input: the scale of normal inputs whose sums over 512 positions still fit float16.
            Gates that close with distance allow larger inputs than those that do not.
        longest: the length at which sums over positions are tried. It is shorter for a recurrent
            layer, which takes a step per position.
        noisy: whether the layer draws random numbers in training even without dropout.
        extra_outputs: number of outputs between the output and the weights, if those are requested.
        implementations: the values of `implementation`, for a layer that has it.
        in_long_tests: whether its laws run only in the long tests.
    """

    name: str
    layer: type
    style: Style
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    has_scores: bool = True
    empty_rows_are_zero: bool = True
    stacks: bool = True
    positions_matter: bool = False
    largest_input: float = 1e3
    longest: int = 512
    noisy: bool = False
    extra_outputs: int = 0
    implementations: tuple[str, ...] = CODA_IMPLEMENTATIONS
    in_long_tests: bool = False

    @property
    def random_arguments(self) -> dict[str, Any]:
        """Constructor arguments that make the layer draw random numbers in training."""
        return {"dropout": 0.5} if "dropout" in self.parameters else {}

    @property
    def parameters(self) -> set[str]:
        """The names of all constructor arguments of the class."""
        return constructor_parameters(self.layer)

    def make(self, seed: int = 0, **overrides: Any) -> Any:
        """Return a built layer with random weights, biases included."""
        layer = self.layer(**{**self.arguments, **overrides})
        layer.build(*self.style.build_arguments([(None, None, FEATURES)] * len(self.style.lengths)))
        randomize(layer, seed)
        return layer

    def run(self, layer: Any, sequences: Any, masks: Any = None, **options: Any) -> list:
        """Return the outputs as a list; the scores, if requested, come last."""
        masks = [None] * len(sequences) if masks is None else masks
        return keras.tree.flatten(
            self.style.call(layer, list(sequences), list(masks), **{**self.options, **options})
        )

    def sequences(
        self, seed: int = 1, lengths: Any = None, batch: int = BATCH, scale: float = 1.0
    ) -> list:
        """Return unit normals (batch, length, FEATURES), one array per sequence."""
        random = np.random.default_rng(seed)
        lengths = self.style.lengths if lengths is None else lengths
        return [
            (scale * random.normal(size=(batch, n, FEATURES))).astype("float32") for n in lengths
        ]

    def masks(self) -> list:
        """Return a mask per sequence: example 0 has holes, example 1 is short, the last is padded.

        In the last sequence, the last example is padding only.
        """
        masks = []
        for length in self.style.lengths:
            mask = np.ones((BATCH, length), "bool")
            mask[0, [length - 1] if self.positions_matter else [0, 3]] = False
            mask[1, length // 2 + 1 :] = False
            mask[2, -1] = False
            masks.append(mask)
        masks[-1][-1] = False
        return masks

    def __str__(self) -> str:
        return self.name


def constructor_parameters(layer: type) -> set[str]:
    """Return every named argument of every `__init__` from `layer` up to `keras.layers.Layer`.

    The arguments of `keras.layers.Layer` itself are among them.
    """
    names = {"name", "dtype", "trainable", "activity_regularizer"}
    for base in layer.__mro__[: layer.__mro__.index(keras.layers.Layer)]:
        if "__init__" in vars(base):
            for name, parameter in inspect.signature(base.__init__).parameters.items():
                if name != "self" and parameter.kind not in (
                    parameter.VAR_POSITIONAL,
                    parameter.VAR_KEYWORD,
                ):
                    names.add(name)
    return names


def randomize(layer: Any, seed: int = 0) -> None:
    """Set every weight to normals; constrained weights to allowed values."""
    random = np.random.default_rng(seed)
    for weight in layer.weights:
        value = random.normal(scale=0.4, size=weight.shape)
        weight.assign(np.abs(value) if weight.constraint is not None else value)


def made(layer: Any, *inputs: Any) -> Any:
    """Return the layer, built for these inputs, with random weights."""
    layer.build(*[keras.tree.map_structure(lambda x: x.shape, x) for x in inputs])
    randomize(layer)
    return layer
