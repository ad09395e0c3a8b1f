"""Attention of a decoder's outputs to what an encoder has read."""

from typing import Any

import keras

from keras_quasiattn.layers.shared.dense import Dense
from keras_quasiattn.layers.shared.mechanisms import make_mechanism
from keras_quasiattn.layers.shared.pair_attention import PairAttention, Shape, check_pair
from keras_quasiattn.ops.masking import pair_mask, zero_padding
from keras_quasiattn.ops.recording import mark_visible

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class DotAttention(PairAttention):
    """Gives every position of u what it finds in v, by the products of u with a linear map of v.

    k = v·W;  w = softmax(u·kᵀ);  output = w·v

    With `attention="coda"` the weights are CoDA's of u and k, centred within a row of u where they are centred, so
    that positions of u never see each other. A masked position of v weighs exactly 0, a masked row of u is exactly
    0 in the output, and so is every row if nothing of v is real; nothing that stands at masked positions, NaN
    included, matters. The output keeps the mask of u.

    `project` and `pool` do the same in two parts, for a decoder that comes back to the same v.

    Args:
        attention: name of a mechanism, such as "softmax" (the default) or "coda"; an error lists them.
        attention_options: for "coda", those of the arguments of `layers.CoDA` that say how M is made: `alpha`,
            `beta`, `scaling`, `similarity`, `gate`, `gate_range`, `center_similarity`, `implementation`.
        kernel_initializer: of W. Defaults to "glorot_uniform".
        **kwargs: `name`, `dtype` and the like.

    Call arguments:
        inputs: [u, v] with u (B, T, D) and v (B, S, features).
        mask: [mask_u, mask_v], each None or boolean (or 0/1 integer) (B, T) and (B, S); default the masks that
            Keras attached to the inputs.
        training: whether this is a step of training.
        return_attention_scores: also return w, (B, T, S).

    Returns:
        (B, T, features), or that and w.

    Raises:
        ValueError: an unknown option, inputs that are not two (B, length, features), a float mask.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import DotAttention
    >>> u, v = np.ones((2, 3, 8), "float32"), np.ones((2, 5, 4), "float32")
    >>> tuple(DotAttention()([u, v]).shape)
    (2, 3, 4)

    Source: Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation", eqs. 7 and 8
    ("general"); CoDA: Tay et al. 2019, "Compositional De-Attention Networks", eq. 10.
    """

    def __init__(
        self,
        *,
        attention: str = "softmax",
        attention_options: dict[str, Any] | None = None,
        kernel_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._mechanism = make_mechanism(attention, attention_options)
        self.attention, self.attention_options = attention, dict(attention_options or {})
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, inputs_shape: list[Shape]) -> None:
        """Makes W, and what the attention learns."""
        check_pair(inputs_shape, same_features=False)
        self.key_projection = Dense(
            inputs_shape[0][-1],
            use_bias=False,
            kernel_initializer=self.kernel_initializer,
            dtype=self.dtype_policy,
            name="key_projection",
        )
        self.key_projection.build(inputs_shape[1])
        self._learned = self._mechanism.make_weights(self)

    def project(self, v: Tensor) -> Tensor:
        """The keys k (B, S, D) of v (B, S, features)."""
        return self.key_projection(v)

    def pool(
        self,
        u: Tensor,
        k: Tensor,
        v: Tensor,
        mask_v: Tensor | None = None,
        *,
        training: bool | None = None,
        return_scores: bool = False,
    ) -> Any:
        """The output (B, T, features) for u (B, T, D) and what `project` made of v, or that and w (B, T, S)."""
        return self._mechanism.attend(
            u,
            k,
            v,
            pair_mask(None, mask_v),
            learned=self._learned,
            center_per_query=True,
            return_scores=return_scores,
            training=training,
        )

    def attend(
        self, a: Tensor, b: Tensor, mask_a: Tensor | None, mask_b: Tensor | None, **options: Any
    ) -> Any:
        """What every real position of u finds."""
        results = self.pool(a, self.project(b), b, mask_b, **options)
        mark_visible(None if mask_a is None else mask_a[..., None])
        if not options["return_scores"]:
            return zero_padding(results, mask_a)
        return tuple(zero_padding(x, mask_a) for x in results)

    def compute_mask(self, inputs: list[Tensor], mask: list[Tensor | None] | None = None) -> Any:
        """The mask of u."""
        return None if mask is None else mask[0]

    def compute_output_shape(self, inputs_shape: list[Shape]) -> Any:
        """(B, T, features of v)."""
        return (*inputs_shape[0][:-1], inputs_shape[1][-1])

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument."""
        return {
            **super().get_config(),
            "attention": self.attention,
            "attention_options": self.attention_options or None,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
