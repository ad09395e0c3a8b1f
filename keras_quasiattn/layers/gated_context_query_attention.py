"""Gated attention of a context to a query, with softmax or CoDA weights."""

from typing import Any

import keras

from keras_quasiattn.attention.base import make_attention
from keras_quasiattn.core.arguments import check_positive_integer, check_rate, check_sequence
from keras_quasiattn.core.masks import pair_mask, zero_padding
from keras_quasiattn.layers.base import Mask, PairAttention, Shape, check_pair
from keras_quasiattn.layers.dense import make_dense

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class GatedContextQueryAttention(PairAttention):
    """Concatenate every context position with what it attends to in a query, and gate the result.

    a = relu(P·W_in);  b = relu(Q·W_mem);  c = softmax(a·bᵀ/√units)·Q;  r = [P; c];
    output = r ⊙ sigmoid(r·W_g)

    With `attention="coda"` the weights are CoDA's for a and b, and c = M·Q. If P and Q then have
    equally many features, W_mem is W_in, because CoDA uses one projection for both. A context may
    be its own query. Masked positions, NaN included, have no effect: those of the query get weight
    exactly 0, masked rows of the context are 0 in the output, and c is 0 if the query is fully
    masked. The output keeps the mask of the context.

    Args:
        units: size of a and b.
        attention: name of an attention, such as "softmax" (the default) or "coda"; an unknown name
            raises an error that lists them all.
        attention_options: dict of its multi-head layer's options, such as `alpha` for "coda".
        dropout: rate in [0, 1) of the dropout before W_g. Defaults to 0.
        input_dropout: rate in [0, 1) of the dropout before W_in and W_mem. Usually 0 is best with
            "coda": dropping different features of two equal words creates a distance between them.
            Defaults to 0.
        kernel_initializer: initializer of W_in, W_mem and W_g. Defaults to "glorot_uniform".

    Call arguments:
        inputs: [p, q] with p (B, T, features) and q (B, S, features); the numbers of features may
            differ.
        mask: [mask_p, mask_q], boolean (B, T) and (B, S), or None. Defaults to Keras' masks.
        training: whether to apply dropout.
        return_attention_scores: also return the weights, (B, T, S).

    Returns:
        (B, T, features of p + features of q), or that and the weights.

    Raises:
        ValueError: an unknown option, inputs that are not two (B, length, features), a float mask.

    Example:
    >>> p, q = np.ones((2, 3, 8), "float32"), np.ones((2, 5, 4), "float32")
    >>> tuple(GatedContextQueryAttention(units=6)([p, q]).shape)
    (2, 3, 12)

    Source: Wang et al. 2017, "Gated Self-Matching Networks for Reading Comprehension and Question
    Answering", in the form used by the code of Tay et al. 2018; with CoDA: Tay et al. 2019, §3.1.
    """

    one_output = True

    def __init__(
        self,
        units: int,
        *,
        attention: str = "softmax",
        attention_options: dict[str, Any] | None = None,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        kernel_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = check_positive_integer(units, "units")
        self._attention = make_attention(self, attention, attention_options)
        self.attention, self.attention_options = attention, dict(attention_options or {}) or None
        self.dropout = check_rate(dropout, "dropout")
        input_dropout = check_rate(input_dropout, "input_dropout")
        self.input_dropout, self.gate_dropout = (
            keras.layers.Dropout(rate, dtype=self.dtype_policy, name=name)
            for name, rate in (("input_dropout", input_dropout), ("gate_dropout", dropout))
        )
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, inputs_shape: list[Shape]) -> None:
        """Create W_in, W_mem, W_g and the learned weights of the attention."""
        check_pair(inputs_shape, same_features=False)
        p, q = inputs_shape
        joined = self.compute_output_shape(inputs_shape)
        relu = {"activation": "relu", "use_bias": False}
        self.context_projection = make_dense(self, "context_projection", self.units, p, **relu)
        self.query_projection = (
            self.context_projection
            if self._attention.needs_one_projection and p[-1] == q[-1]
            else make_dense(self, "query_projection", self.units, q, **relu)
        )
        self.gate = make_dense(
            self, "gate", joined[-1], joined, activation="sigmoid", use_bias=False
        )
        self._learned = self._attention.make_weights(self, self.units)

    def attend(self, a: Tensor, b: Tensor, mask_a: Mask, mask_b: Mask, **options: Any) -> Any:
        """Return the gated output, and the weights if they are requested."""
        training, scored = options["training"], options["return_scores"]
        query = self.query_projection(self.input_dropout(b, training=training))  # (B, S, units)
        context = self.context_projection(self.input_dropout(a, training=training))
        mask = pair_mask(mask_a, mask_b)  # broadcasts to (B, T, S)
        results = self._attention.attend(
            context,
            query,
            b,
            mask,
            learned=self._learned,
            scale=self.units**-0.5,
            return_scores=scored,
        )
        found, *weights = results if scored else (results,)
        # r (B, T, features of p + features of q)
        joined = keras.ops.concatenate([a, found], axis=-1)
        gate = self.gate(self.gate_dropout(joined, training=training))
        output = zero_padding(joined * gate, mask_a)
        return (output, *weights) if scored else output

    def compute_output_shape(self, inputs_shape: list[Shape]) -> Any:
        """Return (B, T, features of p + features of q)."""
        p, q = (check_sequence(shape, f"inputs[{i}]") for i, shape in enumerate(inputs_shape))
        return (*inputs_shape[0][:-1], p + q)

    def get_config(self) -> dict[str, Any]:
        """Return every constructor argument."""
        return {**super().get_config(), "input_dropout": self.input_dropout.rate}
