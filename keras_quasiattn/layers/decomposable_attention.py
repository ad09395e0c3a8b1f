"""The attend step of decomposable attention."""

from typing import Any

import keras

from keras_quasiattn.layers.shared.dense_stack import DenseStack
from keras_quasiattn.layers.shared.mechanisms import make_mechanism
from keras_quasiattn.layers.shared.pair_attention import PairAttention, Shape, check_pair

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class DecomposableAttention(PairAttention):
    """Aligns two sentences to each other by what one network makes of their words.

    E = F(a)·F(b)ᵀ;  β = softmax over S of E, times b;  α = (softmax over T of E)ᵀ, times a

    With `attention="coda"` the weights are CoDA's of F(a) and F(b), one matrix M for both: β = M·b, α = Mᵀ·a.
    β and α pool the sentences themselves. A masked position weighs exactly 0 for the other sentence, its own row
    of the output is exactly 0, and nothing that stands there, NaN included, matters. Each output keeps the mask
    of its input: β that of a, α that of b.

    Args:
        units: size of the layers of F.
        num_layers: number of layers of F, each dropout, dense and ReLU.
        dropout: rate in [0, 1) of the dropout in F. With "coda" F has none: what each word loses for itself would be
            a distance, so that in training the gate would be shut to the equal words that open it afterwards.
        kernel_initializer: of the kernels of F.
        attention: name of a mechanism, such as "softmax" (the default) or "coda"; an error lists them.
        attention_options: for "coda", those of the arguments of `layers.CoDA` that say how M is made: `alpha`,
            `beta`, `scaling`, `similarity`, `gate`, `gate_range`, `center_similarity`, `implementation`.
        **kwargs: `name`, `dtype` and the like.

    Call arguments:
        inputs: [a, b] with a (B, T, features) and b (B, S, features).
        mask: [mask_a, mask_b], each None or boolean (or 0/1 integer) (B, T) and (B, S); default the masks that
            Keras attached to the inputs.
        training: whether dropout is on.
        return_attention_scores: also return the weights, (B, T, S).

    Returns:
        [β, α] with β (B, T, features) and α (B, S, features). With the weights [β, α, W_β, W_α], of which the rows
        of W_β and the columns of W_α sum to 1; or [β, α, M].

    Raises:
        ValueError: an unknown option, inputs that are not two (B, length, features), a float mask.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import DecomposableAttention
    >>> a, b = np.ones((2, 3, 8), "float32"), np.ones((2, 5, 8), "float32")
    >>> [tuple(output.shape) for output in DecomposableAttention(units=16)([a, b])]
    [(2, 3, 8), (2, 5, 8)]

    Source: Parikh et al. 2016, "A Decomposable Attention Model", eqs. 1 and 2; with CoDA: Tay et al. 2019, §2.5.
    """

    def __init__(
        self,
        units: int = 200,
        *,
        num_layers: int = 2,
        dropout: float = 0.0,
        kernel_initializer: Any = "glorot_uniform",
        attention: str = "softmax",
        attention_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units, self.num_layers, self.dropout = units, num_layers, dropout
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self._mechanism = make_mechanism(attention, attention_options)
        self.attention, self.attention_options = attention, dict(attention_options or {})
        self.network = DenseStack(
            units,
            num_layers,
            0.0 if self._mechanism.compares_by_distance else dropout,
            kernel_initializer,
            dtype=self.dtype_policy,
            name="network",
        )

    @property
    def score_count(self) -> int:  # type: ignore[override]
        """Two matrices of softmax weights, one of CoDA's."""
        return self._mechanism.pair_score_count

    def build(self, inputs_shape: list[Shape]) -> None:
        """Makes F, and what the attention learns."""
        check_pair(inputs_shape)
        self.network.build(inputs_shape[0])
        self._learned = self._mechanism.make_weights(self)

    def attend(
        self, a: Tensor, b: Tensor, mask_a: Tensor | None, mask_b: Tensor | None, **options: Any
    ) -> list[Tensor]:
        """β and α."""
        values = {"value_a": a, "value_b": b}
        a, b = (self.network(x, training=options["training"]) for x in (a, b))
        return list(
            self._mechanism.pair(a, b, mask_a, mask_b, learned=self._learned, **values, **options)
        )

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument."""
        names = ("units", "num_layers", "dropout", "attention")
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in names},
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "attention_options": self.attention_options or None,
        }
