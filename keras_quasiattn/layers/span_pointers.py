"""Predict where an answer span starts and ends, by attention to the passage."""

import functools
from typing import Any

import keras

from keras_quasiattn.attention.softmax import attend
from keras_quasiattn.core.arguments import check_positive_integer, check_sequence
from keras_quasiattn.core.configured import clone_initializer
from keras_quasiattn.core.masks import sequence_mask, zero_padding
from keras_quasiattn.core.tensors import project
from keras_quasiattn.layers.base import Mask, PairAttention, SequenceLayer, Shape, check_pair
from keras_quasiattn.layers.dense import make_dense
from keras_quasiattn.layers.pooling import position_scores
from keras_quasiattn.layers.recurrence import BidirectionalGRU, OrthogonalInitializer

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class AttentiveSpanPointer(PairAttention):
    """Compute two logits per passage position, for an answer span to start and to end there.

    h₀ = Σ_s softmax_s(v_q·tanh(q_s·W_q))·q_s;  start_t = v·tanh(p_t·W_p + h₀·W_h);
    h₁ = GRU(Σ_t softmax_t(start)·p_t, h₀);  end_t = v·tanh(p_t·W_p + h₁·W_h)

    Masked positions of both sequences get weight exactly 0, and values there, NaN included, have no
    effect. The logits of masked passage rows are exactly 0, so a softmax over the logits must apply
    the mask. The output keeps the mask of the passage.

    Args:
        units: size of the tanh layers.
        kernel_initializer: initializer of every kernel except in the GRU. Defaults to
            "glorot_uniform".

    Call arguments:
        inputs: [p, q] with p (B, T, features) and q (B, S, features); the numbers of features may
            differ.
        mask: [mask_p, mask_q], boolean (B, T) and (B, S), or None. Defaults to Keras' masks.

    Returns:
        (B, T, 2): start, end.

    Raises:
        ValueError: `units` is not a positive integer, the inputs are not two tensors
            (B, length, features), or a mask holds floats.

    Example:
    >>> p, q = np.ones((2, 3, 8), "float32"), np.ones((2, 5, 4), "float32")
    >>> tuple(AttentiveSpanPointer(units=6)([p, q]).shape)
    (2, 3, 2)

    Source: Wang et al. 2017, "Gated Self-Matching Networks for Reading Comprehension and Question
    Answering", eqs. 9–11; Vinyals et al. 2015, "Pointer Networks".
    """

    one_output = True

    def __init__(
        self, units: int, *, kernel_initializer: Any = "glorot_uniform", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.units = check_positive_integer(units, "units")
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, inputs_shape: list[Shape]) -> None:
        """Create the kernels and score vectors of the tanh layers, and the GRU cell."""
        check_pair(inputs_shape, same_features=False)
        passage, question = (shape[-1] for shape in inputs_shape)
        clone = functools.partial(clone_initializer, self.kernel_initializer)
        widths = {"question_kernel": question, "passage_kernel": passage, "state_kernel": question}
        self._kernels = {
            name: self.add_weight((width, self.units), clone(), name=name)
            for name, width in widths.items()
        }
        self._scores = {
            name: self.add_weight((self.units, 1), clone(), autocast=False, name=name)
            for name in ("question_score", "passage_score")
        }
        self.recurrent_cell = keras.layers.GRUCell(
            question,
            recurrent_initializer=OrthogonalInitializer,
            dtype=self.dtype_policy,
            name="recurrent_cell",
        )
        self.recurrent_cell.build((inputs_shape[0][0], passage))

    def call(  # type: ignore[override]  # without `return_attention_scores`
        self,
        inputs: list[Tensor],
        mask: list[Tensor | None] | None = None,
        training: bool | None = None,
    ) -> Tensor:
        """Compute the logits; see the class."""
        return super().call(inputs, mask, training)

    def attend(self, a: Tensor, b: Tensor, mask_a: Mask, mask_b: Mask, **options: Any) -> Any:
        """Return the logits of start and end, (B, T, 2)."""

        def multiply(x: Tensor, kernel: Any) -> Tensor:
            return project(x, keras.ops.convert_to_tensor(kernel))

        scores = self._score(multiply(b, self._kernels["question_kernel"]), "question_score")
        state = _pooled(scores, b, mask_b)  # scores (B, S); h₀ (B, features of q)
        projected = multiply(a, self._kernels["passage_kernel"])  # (B, T, units)

        def pointed(state: Tensor) -> Tensor:
            of_state = keras.ops.expand_dims(multiply(state, self._kernels["state_kernel"]), 1)
            return self._score(projected + of_state, "passage_score")

        start = pointed(state)  # (B, T)
        _, (state,) = self.recurrent_cell(_pooled(start, a, mask_a), [state])
        logits = keras.ops.stack([start, pointed(state)], axis=-1)
        return zero_padding(keras.ops.cast(logits, a.dtype), mask_a)

    def _score(self, x: Tensor, name: str) -> Tensor:
        """Score (B, L, units) with one of the score vectors: (B, L), at least float32."""
        kernel = keras.ops.convert_to_tensor(self._scores[name])
        return position_scores(x, keras.ops.squeeze(kernel, 1))

    def compute_output_shape(self, inputs_shape: list[Shape]) -> Any:
        """Return (B, T, 2)."""
        return (*inputs_shape[0][:-1], 2)


def _pooled(scores: Tensor, values: Tensor, mask: Mask) -> Tensor:
    """Pool values (B, L, V) to (B, V), weighted by the softmax of the scores (B, L)."""
    # Attention with a single query: scores and mask are (B, 1, L).
    rows = None if mask is None else keras.ops.expand_dims(mask, 1)
    return keras.ops.squeeze(attend(keras.ops.expand_dims(scores, 1), values, rows), 1)


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class RecurrentSpanPointer(SequenceLayer):
    """Compute two logits per position, for an answer span to start and to end there.

    h = BiGRU(x);  start = h·w_s;  h' = BiGRU(h);  end = h'·w_e

    There are no biases, since a softmax over the positions cancels them. The recurrent layers skip
    masked positions, so nothing stored there, NaN included, affects the output. The logits of
    masked positions are exactly 0, so a softmax over the logits must apply the mask. The output
    keeps the mask.

    Args:
        units: size of the states of each direction.

    Call arguments:
        inputs: (B, T, features).
        mask: boolean (B, T), True = real. Defaults to Keras' mask.

    Returns:
        (B, T, 2): start, end.

    Raises:
        ValueError: `units` below 1, inputs that are not (B, T, features), or a float mask.

    Example:
    >>> tuple(RecurrentSpanPointer(units=4)(np.ones((2, 5, 8), "float32")).shape)
    (2, 5, 2)

    Source: Tay et al. 2018, "Densely Connected Attention Propagation for Reading Comprehension",
    following its published code, which omits the mask.
    """

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = check_positive_integer(units, "units")

    def build(self, inputs_shape: Shape) -> None:
        """Make both recurrent layers and both logit projections."""
        check_sequence(inputs_shape, "inputs")
        dtype, states = self.dtype_policy, (*inputs_shape[:-1], 2 * self.units)
        self.start_recurrent = BidirectionalGRU(self.units, dtype=dtype, name="start_recurrent")
        self.start_recurrent.build(inputs_shape)
        self.end_recurrent = BidirectionalGRU(self.units, dtype=dtype, name="end_recurrent")
        self.end_recurrent.build(states)
        self.start_logit, self.end_logit = (
            make_dense(self, f"{side}_logit", 1, states, use_bias=False)
            for side in ("start", "end")
        )

    def call(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the logits; see the class."""
        mask = sequence_mask(mask, "mask", inputs)
        start = self.start_recurrent(inputs, mask=mask)  # (B, T, 2·units)
        end = self.end_recurrent(start, mask=mask)  # (B, T, 2·units)
        # (B, T, 1) each, joined to (B, T, 2)
        logits = keras.ops.concatenate([self.start_logit(start), self.end_logit(end)], axis=-1)
        return zero_padding(logits, mask)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        """Return (B, T, 2)."""
        return (*inputs_shape[:-1], 2)
