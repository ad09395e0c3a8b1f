"""The attend step of the decomposable attention model."""

from typing import Any

import keras

from keras_quasiattn.attention.base import make_attention
from keras_quasiattn.core.arguments import check_activation
from keras_quasiattn.core.tensors import check_choice
from keras_quasiattn.layers.base import Mask, PairAttention, Shape, check_pair
from keras_quasiattn.layers.dense import DenseStack

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class DecomposableAttention(PairAttention):
    """Align two sentences with each other by comparing their words after a feed-forward network F.

    E = F(a)·F(b)ᵀ;  β = softmax over S of E, times b;  α = (softmax over T of E)ᵀ, times a

    With `attention="coda"` the weights are CoDA's for F(a) and F(b), one matrix M for both
    directions: β = M·b, α = Mᵀ·a. β and α pool the sentences themselves. Masked positions, NaN
    included, have no effect and get weight exactly 0; their own output rows are 0. β keeps the mask
    of a, and α that of b.

    Args:
        units: size of the layers of F. Defaults to 200.
        num_layers: number of layers of F. Each consists of dropout, a dense layer and ReLU.
            Defaults to 2.
        dropout: dropout rate in F, in [0, 1). Usually 0 is best with "coda" or "conflict", because
            dropping different features of two equal words creates a distance between them. Defaults
            to 0.
        kernel_initializer: initializer of the kernels of F. Defaults to "glorot_uniform".
        attention: name of an attention, such as "softmax" (the default) or "coda"; an unknown name
            raises an error that lists them all.
        attention_options: dict of the options that its multi-head layer adds, such as `alpha` and
            `scaling` for "coda". With word vectors of length 1, as the tasks use, choose
            {"scaling": "none"} for "coda": with the default, "mean", its weights start close to 0.
        last_activation: activation of the last layer of F. With "relu" (the default) E is not
            negative, so CoDA never subtracts. "tanh" and "linear" give E either sign.
        share_networks: whether the distance N of "coda" compares F(a) and F(b) too (the default),
            or the outputs of a second network like F.

    Call arguments:
        inputs: [a, b] with a (B, T, features) and b (B, S, features).
        mask: [mask_a, mask_b], boolean (B, T) and (B, S), or None. Defaults to Keras' masks.
        training: whether to apply dropout.
        return_attention_scores: also return the weights, (B, T, S).

    Returns:
        [β, α] with β (B, T, features) and α (B, S, features). With the weights: [β, α, W_β, W_α],
        or [β, α, M] for CoDA. With softmax the rows of W_β and the columns of W_α sum to 1.

    Raises:
        ValueError: an unknown option, inputs that are not two (B, length, features), a float mask.

    Example:
    >>> a, b = np.ones((2, 3, 8), "float32"), np.ones((2, 5, 8), "float32")
    >>> [tuple(output.shape) for output in DecomposableAttention(units=16)([a, b])]
    [(2, 3, 8), (2, 5, 8)]

    Source: Parikh et al. 2016, "A Decomposable Attention Model", eqs. 1 and 2; with CoDA: Tay et
    al. 2019, §2.5.
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
        last_activation: Any = "relu",
        share_networks: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units, self.num_layers, self.dropout = units, num_layers, dropout
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self._attention = make_attention(self, attention, attention_options)
        self.attention, self.attention_options = attention, dict(attention_options or {}) or None
        self.last_activation = check_activation(last_activation, "last_activation")
        self.share_networks = check_choice(share_networks, (True, False), "share_networks")
        if not share_networks and not self._attention.pair_has_distance:
            raise ValueError(
                f"attention={attention!r} compares no distances, so it has no use for "
                "`share_networks=False`."
            )
        self.network = self._make_network("network")
        self.distance_network = None if share_networks else self._make_network("distance_network")

    def _make_network(self, name: str) -> DenseStack:
        return DenseStack(
            self.units,
            self.num_layers,
            self.dropout,
            self.kernel_initializer,
            self.last_activation,
            dtype=self.dtype_policy,
            name=name,
        )

    @property
    def score_count(self) -> int:  # type: ignore[override]
        """Number of weight matrices: one if both directions share it (CoDA), otherwise two."""
        return self._attention.pair_score_count

    def build(self, inputs_shape: list[Shape]) -> None:
        """Build F and create the learned weights of the attention."""
        check_pair(inputs_shape)
        self.network.build(inputs_shape[0])
        if self.distance_network:
            self.distance_network.build(inputs_shape[0])
        self._learned = self._attention.make_weights(self, self.units)

    def attend(
        self, a: Tensor, b: Tensor, mask_a: Mask, mask_b: Mask, **options: Any
    ) -> list[Tensor]:
        """Return β and α, and the weights if they are requested."""
        training = options["training"]
        network_a, network_b = (self.network(x, training=training) for x in (a, b))
        distances = {}
        if self.distance_network:
            distances = {
                "distance_a": self.distance_network(a, training=training),
                "distance_b": self.distance_network(b, training=training),
            }
        return list(
            self._attention.pair(
                network_a,  # (B, T, units)
                network_b,  # (B, S, units)
                mask_a,
                mask_b,
                value_a=a,
                value_b=b,
                learned=self._learned,
                return_scores=options["return_scores"],
                **distances,
            )
        )
