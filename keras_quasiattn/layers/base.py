"""Base classes of the layers over one sequence and over two: inputs, masks and shapes."""

from typing import Any

import keras

from keras_quasiattn.attention.multi_head import ProjectionInitializer
from keras_quasiattn.core.arguments import call_arguments, check_positive_integer
from keras_quasiattn.core.configured import ConfiguredLayer, clone_initializer
from keras_quasiattn.core.masks import (
    Mask,
    as_boolean_mask,
    check_sequence_mask,
    pair_mask,
    real_rows,
    sequence_mask,
    zero_padding,
)
from keras_quasiattn.core.tensors import training_call
from keras_quasiattn.layers.dense import make_dense

Tensor = Any
Shape = tuple[int | None, ...]
_TWO = "`inputs` must be a list [a, b] of two tensors of shape (batch, length, features)."


class SequenceLayer(ConfiguredLayer):
    """Take a sequence `inputs` (B, T, D) and a `mask` (B, T)."""

    def masked(self, inputs: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the inputs in the compute dtype, 0 where masked, and the boolean mask."""
        mask = sequence_mask(mask, "mask", inputs)
        inputs = keras.ops.cast(inputs, self.compute_dtype)  # Keras does not cast integers
        return zero_padding(inputs, mask), mask

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        """Return the shape of the output; by default, of the inputs."""
        return tuple(inputs_shape)

    def weights_shape(self, inputs_shape: Shape) -> Shape:
        """Return the shape of the weights, (B, T), of layers with `return_attention_scores`."""
        return tuple(inputs_shape[:2])

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """Return what `call` returns, as symbolic tensors."""
        given = call_arguments(self, args, kwargs)
        check_sequence_mask(given["mask"], "mask", given["inputs"])
        shape, dtype = given["inputs"].shape, self.compute_dtype
        output = keras.KerasTensor(self.compute_output_shape(shape), dtype=dtype)
        if not given.get("return_attention_scores"):
            return output
        return output, keras.KerasTensor(self.weights_shape(shape), dtype=dtype)


class PairAttention(ConfiguredLayer):
    """Take [a, b] and return a new version of each; subclasses implement `attend`.

    Values at masked positions are set to 0 before `attend`. Each output keeps the mask of its
    input; with `one_output` there is only one output, with the mask of a.
    """

    one_output = False
    # Number of weight matrices (B, T, S) that follow the outputs with `return_attention_scores`.
    score_count = 1
    kernel_initializer: Any = None  # for subclasses that call `add_score_kernel`

    def attend(self, a: Tensor, b: Tensor, mask_a: Mask, mask_b: Mask, **options: Any) -> Any:
        """Return what `call` returns.

        Args:
            a: (B, T, features).
            b: (B, S, features).
            mask_a: boolean (B, T), or None.
            mask_b: boolean (B, S), or None.
            **options: `training` and `return_scores`.
        """
        raise NotImplementedError

    def call(
        self,
        inputs: list[Tensor],
        mask: list[Tensor | None] | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        """Attend within the pair `inputs`; see the class."""
        masks = _checked_masks(inputs, mask)
        masks = [as_boolean_mask(one, f"mask[{index}]") for index, one in enumerate(masks)]
        a, b = (  # (B, T, features), (B, S, features)
            zero_padding(keras.ops.cast(x, self.compute_dtype), m)  # Keras does not cast integers
            for x, m in zip(inputs, masks, strict=True)
        )
        with training_call(training):
            return self.attend(
                a, b, *masks, training=training, return_scores=return_attention_scores
            )

    def add_score_kernel(self, shape: tuple[int, ...], name: str) -> Any:
        """Add a weight (D, …) used to compute scores; both stay float32 under 16-bit policies."""
        initializer = ProjectionInitializer(
            clone_initializer(self.kernel_initializer), input_axes=1
        )
        return self.add_weight(shape, initializer, autocast=False, name=name)

    def compute_mask(self, inputs: list[Tensor], mask: list[Tensor | None] | None = None) -> Any:
        """Return the mask of each input, or of a alone if there is one output."""
        return mask[0] if mask is not None and self.one_output else mask

    def compute_output_shape(self, inputs_shape: list[Shape]) -> Any:
        """Return the shapes of the inputs or, of a single output, (B, T, features of b)."""
        a, b = map(tuple, inputs_shape)
        return (*a[:-1], b[-1]) if self.one_output else [a, b]

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """Return symbolic outputs, and weights (B, T, S)."""
        given = call_arguments(self, args, kwargs)
        _checked_masks(given["inputs"], given["mask"])
        a, b = (tuple(x.shape) for x in given["inputs"])
        outputs = self.compute_output_shape([a, b])
        shapes = [outputs] if self.one_output else outputs
        scored = given.get("return_attention_scores", False)
        if scored:
            shapes = [*shapes, *[(a[0], a[1], b[1])] * self.score_count]
        specs = [keras.KerasTensor(shape, dtype=self.compute_dtype) for shape in shapes]
        if not self.one_output:
            return specs
        return tuple(specs) if scored else specs[0]


def check_pair(shapes: Any, same_features: bool = True) -> None:
    """Raise a `ValueError` unless `shapes` are two (B, length, features), with equal features."""
    is_pair = isinstance(shapes, (list, tuple)) and len(shapes) == 2
    if not is_pair or any(
        not isinstance(shape, (list, tuple)) or len(shape) != 3 for shape in shapes
    ):
        raise ValueError(f"{_TWO} Received shapes: {shapes}")
    features = {shape[-1] for shape in shapes}
    if None in features or (same_features and len(features) > 1):
        raise ValueError(
            f"`inputs` a and b must have {'the same, ' if same_features else 'a '}known number of "
            f"features (last dimension). Received shapes: {shapes}"
        )


def _checked_masks(inputs: Any, mask: Any) -> list[Any]:
    """Return the masks of two inputs, one each; raise a `ValueError` if they do not match."""
    if not isinstance(inputs, (list, tuple)):
        # Unpacking a single tensor would iterate over its examples.
        shape = tuple(getattr(inputs, "shape", ()))
        raise ValueError(f"{_TWO} Received: one {type(inputs).__name__} of shape {shape}")
    shapes = [tuple(x.shape) for x in inputs]
    if list(map(len, shapes)) != [3, 3]:
        raise ValueError(f"{_TWO} Received: {shapes}")
    if mask is None:
        return [None, None]
    if not isinstance(mask, (list, tuple)) or len(mask) != 2:
        what = f"{len(mask)} masks" if isinstance(mask, (list, tuple)) else f"type {type(mask)}"
        raise ValueError(
            f"`mask` must be a list [mask_a, mask_b] or None. Received: mask of {what}"
        )
    for index, (one, x) in enumerate(zip(mask, inputs, strict=True)):
        check_sequence_mask(one, f"mask[{index}]", x)
    return list(mask)


def without_masked_rows(results: Any, mask: Mask) -> Any:
    """Clear masked rows in an output (B, T, ...) and any weights."""
    return keras.tree.map_structure(lambda x: zero_padding(x, mask), results)


class OneWayAttention(PairAttention):
    """Take [u, v]; every position of u attends to v: (B, T, features of v).

    The projections are tanh(u·W_u) and tanh(v·W_v). Subclasses implement `weigh`.

    Args:
        units: size of the projections. Defaults to the number of features of u.
    """

    one_output = True

    def __init__(self, units: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = check_positive_integer(units, "units", optional=True)

    def weigh(self, u: Tensor, v: Tensor, values: Tensor, mask_v: Mask, return_scores: bool) -> Any:
        """Attend from projected u to projected v: (B, T, V), or that and the weights (B, T, S)."""
        raise NotImplementedError

    def build(self, inputs_shape: list[Shape]) -> None:
        """Create the projections."""
        check_pair(inputs_shape, same_features=False)
        units: Any = self.units or inputs_shape[0][-1]
        self.u_projection, self.v_projection = (
            make_dense(self, name, units, shape, activation="tanh", use_bias=False)
            for name, shape in zip(("u_projection", "v_projection"), inputs_shape, strict=True)
        )

    def attend(self, a: Tensor, b: Tensor, mask_a: Mask, mask_b: Mask, **options: Any) -> Any:
        """Return the weighted sums of v, with masked rows of u set to 0."""
        scored = options["return_scores"]
        with real_rows(pair_mask(mask_a, None)):
            results = self.weigh(self.u_projection(a), self.v_projection(b), b, mask_b, scored)
        return without_masked_rows(results, mask_a)
