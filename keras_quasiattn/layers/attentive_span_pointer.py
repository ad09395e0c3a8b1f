"""Where an answer begins and ends, by attention to the passage."""

from typing import Any

import keras

from keras_quasiattn.layers.shared.arguments import check_positive_integer
from keras_quasiattn.layers.shared.orthogonal_initializer import OrthogonalInitializer
from keras_quasiattn.layers.shared.pair_attention import PairAttention, Shape, check_pair
from keras_quasiattn.ops.masking import zero_padding
from keras_quasiattn.ops.pooling import position_scores
from keras_quasiattn.ops.precision import project
from keras_quasiattn.ops.softmax import attend

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class AttentiveSpanPointer(PairAttention):
    """Two logits a position of a passage, that a span begins or ends there, pointed at by a state of the question.

    h₀ = Σ_s softmax_s(v_q·tanh(q_s·W_q))·q_s;  start_t = v·tanh(p_t·W_p + h₀·W_h);
    h₁ = GRU(Σ_t softmax_t(start)·p_t, h₀);  end_t = v·tanh(p_t·W_p + h₁·W_h)

    A masked position of either weighs exactly 0, the logits of a masked row of the passage are exactly 0, and nothing
    that stands at masked positions, NaN included, matters: a softmax over the logits has to leave them out. The output
    keeps the mask of the passage.

    Args:
        units: size of the tanh layers.
        kernel_initializer: of every kernel but the GRU's.
        **kwargs: `name`, `dtype` and the like.

    Call arguments:
        inputs: [p, q] with p (B, T, features) and q (B, S, features), the features not necessarily as many.
        mask: [mask_p, mask_q], each None or boolean (or 0/1 integer) (B, T) and (B, S); default the masks that
            Keras attached to the inputs.

    Returns:
        (B, T, 2): start, end.

    Raises:
        ValueError: units that are not a positive integer, inputs that are not two (B, length, features), a float mask.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import AttentiveSpanPointer
    >>> p, q = np.ones((2, 3, 8), "float32"), np.ones((2, 5, 4), "float32")
    >>> tuple(AttentiveSpanPointer(units=6)([p, q]).shape)
    (2, 3, 2)

    Source: Wang et al. 2017, "Gated Self-Matching Networks for Reading Comprehension and Question Answering", eqs.
    9–11; Vinyals et al. 2015, "Pointer Networks".
    """

    def __init__(
        self, units: int, *, kernel_initializer: Any = "glorot_uniform", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.units = check_positive_integer(units, "units")
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, inputs_shape: list[Shape]) -> None:
        """Makes the tanh layers, their scores and the GRU."""
        check_pair(inputs_shape, same_features=False)
        passage, question = (shape[-1] for shape in inputs_shape)
        self._kernels = {
            name: self.add_weight(
                shape=shape, initializer=self.kernel_initializer.clone(), name=name
            )
            for name, shape in (
                ("question_kernel", (question, self.units)),
                ("passage_kernel", (passage, self.units)),
                ("state_kernel", (question, self.units)),
            )
        }
        self._scores = {
            name: self.add_weight(
                shape=(self.units, 1),
                initializer=self.kernel_initializer.clone(),
                autocast=False,
                name=name,
            )
            for name in ("question_score", "passage_score")
        }
        self.recurrent_cell = keras.layers.GRUCell(
            question,
            recurrent_initializer=OrthogonalInitializer,
            dtype=self.dtype_policy,
            name="recurrent_cell",
        )
        self.recurrent_cell.build((inputs_shape[0][0], passage))

    def call(  # type: ignore[override]  # no weights of every pair to return
        self,
        inputs: list[Tensor],
        mask: list[Tensor | None] | None = None,
        training: bool | None = None,
    ) -> Tensor:
        """The logits; see the class."""
        return super().call(inputs, mask, training)

    def attend(
        self, a: Tensor, b: Tensor, mask_a: Tensor | None, mask_b: Tensor | None, **options: Any
    ) -> Any:
        """The logits of start and end."""

        def multiply(x: Tensor, kernel: Any) -> Tensor:
            return project(x, keras.ops.convert_to_tensor(kernel))

        scores = self._score(multiply(b, self._kernels["question_kernel"]), "question_score")
        state = _pooled(scores, b, mask_b)
        projected = multiply(a, self._kernels["passage_kernel"])

        def pointed(state: Tensor) -> Tensor:
            of_state = keras.ops.expand_dims(multiply(state, self._kernels["state_kernel"]), 1)
            return self._score(projected + of_state, "passage_score")

        start = pointed(state)
        _, (state,) = self.recurrent_cell(_pooled(start, a, mask_a), [state])
        logits = keras.ops.stack([start, pointed(state)], axis=-1)
        return zero_padding(keras.ops.cast(logits, a.dtype), mask_a)

    def _score(self, x: Tensor, name: str) -> Tensor:
        """(B, L) in float32."""
        return position_scores(
            x, keras.ops.squeeze(keras.ops.convert_to_tensor(self._scores[name]), 1)
        )

    def compute_mask(self, inputs: list[Tensor], mask: list[Tensor | None] | None = None) -> Any:
        """The mask of the passage."""
        return None if mask is None else mask[0]

    def compute_output_shape(self, inputs_shape: list[Shape]) -> Any:
        """(B, T, 2)."""
        return (*inputs_shape[0][:-1], 2)

    def compute_output_spec(  # type: ignore[override]
        self,
        inputs: list[Tensor],
        mask: list[Tensor | None] | None = None,
        training: bool | None = None,
    ) -> Any:
        """Symbolic logits (B, T, 2)."""
        return super().compute_output_spec(inputs, mask, training)

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument."""
        return {
            **super().get_config(),
            "units": self.units,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }


def _pooled(scores: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """(B, V): the values (B, L, V), weighed by a softmax of the scores (B, L)."""
    rows = None if mask is None else keras.ops.expand_dims(mask, 1)
    return keras.ops.squeeze(attend(keras.ops.expand_dims(scores, 1), values, rows), 1)
