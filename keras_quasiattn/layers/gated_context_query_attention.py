"""Gated attention of a context to a query, by softmax or CoDA."""

from typing import Any

import keras

from keras_quasiattn.layers.shared.arguments import (
    check_positive_integer,
    check_rate,
    check_sequence,
)
from keras_quasiattn.layers.shared.dense import Dense
from keras_quasiattn.layers.shared.mechanisms import make_mechanism
from keras_quasiattn.layers.shared.pair_attention import PairAttention, Shape, check_pair
from keras_quasiattn.ops.masking import pair_mask, zero_padding

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class GatedContextQueryAttention(PairAttention):
    """Adds to every position of a context what it finds in a query, and lets a gate decide what of both goes on.

    a = relu(P·W_in);  b = relu(Q·W_mem);  c = softmax(a·bᵀ/√units)·Q;  r = [P; c];  output = r ⊙ sigmoid(r·W_g)

    With `attention="coda"` the weights are CoDA's of a and b, c = M·Q, and all else stays; where P and Q have as many
    features, W_mem is then W_in, as CoDA's F is one. A context may be its own query. A masked position of the query
    weighs exactly 0, a masked row of the context is exactly 0 in the output, and nothing that stands at masked
    positions, NaN included, matters; where nothing of the query is real, c is exact zeros. The output keeps the mask of
    the context.

    Args:
        units: size of a and b.
        attention: name of a mechanism, such as "softmax" (the default) or "coda"; an error lists them.
        attention_options: for "coda", those of the arguments of `layers.CoDA` that say how M is made: `alpha`,
            `beta`, `scaling`, `similarity`, `gate`, `gate_range`, `center_similarity`, `implementation`.
        dropout: rate in [0, 1) of the dropouts before W_in and W_mem, and before W_g. With "coda" there is none before
            W_in and W_mem: what each word loses for itself would be a distance.
        kernel_initializer: of W_in, W_mem and W_g.
        **kwargs: `name`, `dtype` and the like.

    Call arguments:
        inputs: [p, q] with p (B, T, features) and q (B, S, features), the features not necessarily as many.
        mask: [mask_p, mask_q], each None or boolean (or 0/1 integer) (B, T) and (B, S); default the masks that
            Keras attached to the inputs.
        training: whether dropout is on.
        return_attention_scores: also return the weights, (B, T, S).

    Returns:
        (B, T, features of p + features of q), or that and the weights.

    Raises:
        ValueError: an unknown option, inputs that are not two (B, length, features), a float mask.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import GatedContextQueryAttention
    >>> p, q = np.ones((2, 3, 8), "float32"), np.ones((2, 5, 4), "float32")
    >>> tuple(GatedContextQueryAttention(units=6)([p, q]).shape)
    (2, 3, 12)

    Source: Wang et al. 2017, "Gated Self-Matching Networks for Reading Comprehension and Question Answering", in the
    form that the code of Tay et al. 2018 gave it; with CoDA: Tay et al. 2019, §3.1.
    """

    def __init__(
        self,
        units: int,
        *,
        attention: str = "softmax",
        attention_options: dict[str, Any] | None = None,
        dropout: float = 0.0,
        kernel_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = check_positive_integer(units, "units")
        self._mechanism = make_mechanism(attention, attention_options)
        self.attention, self.attention_options = attention, dict(attention_options or {})
        self.dropout = check_rate(dropout, "dropout")
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, inputs_shape: list[Shape]) -> None:
        """Makes W_in, W_mem and W_g, and what the attention learns."""
        check_pair(inputs_shape, same_features=False)
        joined = self.compute_output_shape(inputs_shape)
        self.context_projection = self._dense(
            self.units, "relu", "context_projection", inputs_shape[0]
        )
        by_distance = self._mechanism.compares_by_distance
        self.query_projection = (
            self.context_projection
            if by_distance and inputs_shape[0][-1] == inputs_shape[1][-1]
            else self._dense(self.units, "relu", "query_projection", inputs_shape[1])
        )
        self.gate = self._dense(joined[-1], "sigmoid", "gate", joined)
        rates = {
            "input_dropout": 0.0 if by_distance else self.dropout,
            "gate_dropout": self.dropout,
        }
        self.input_dropout, self.gate_dropout = (
            keras.layers.Dropout(rate, dtype=self.dtype_policy, name=name)
            for name, rate in rates.items()
        )
        self._learned = self._mechanism.make_weights(self)

    def _dense(self, units: int, activation: str, name: str, shape: Shape) -> Dense:
        dense = Dense(
            units,
            activation=activation,
            use_bias=False,
            kernel_initializer=self.kernel_initializer.clone(),
            dtype=self.dtype_policy,
            name=name,
        )
        dense.build(shape)
        return dense

    def attend(
        self, a: Tensor, b: Tensor, mask_a: Tensor | None, mask_b: Tensor | None, **options: Any
    ) -> Any:
        """The gated context."""
        training, scored = options["training"], options["return_scores"]
        query = self.query_projection(self.input_dropout(b, training=training))
        context = self.context_projection(self.input_dropout(a, training=training))
        mask = pair_mask(mask_a, mask_b)
        results = self._mechanism.attend(
            context,
            query,
            b,
            mask,
            learned=self._learned,
            scale=self.units**-0.5,
            training=training,
            return_scores=scored,
        )
        found, *weights = results if scored else (results,)
        joined = keras.ops.concatenate([a, found], axis=-1)
        output = zero_padding(
            joined * self.gate(self.gate_dropout(joined, training=training)), mask_a
        )
        return (output, *weights) if scored else output

    def compute_mask(self, inputs: list[Tensor], mask: list[Tensor | None] | None = None) -> Any:
        """The mask of the context."""
        return None if mask is None else mask[0]

    def compute_output_shape(self, inputs_shape: list[Shape]) -> Any:
        """(B, T, features of p + features of q)."""
        p, q = (check_sequence(shape, f"inputs[{i}]") for i, shape in enumerate(inputs_shape))
        return (*inputs_shape[0][:-1], p + q)

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument."""
        return {
            **super().get_config(),
            "units": self.units,
            "attention": self.attention,
            "attention_options": self.attention_options or None,
            "dropout": self.dropout,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
