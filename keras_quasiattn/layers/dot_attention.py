"""Dot-product attention from a decoder's states to an encoder's output."""

from typing import Any, cast

import keras

from keras_quasiattn.attention.base import make_attention
from keras_quasiattn.core.masks import pair_mask, real_rows
from keras_quasiattn.core.tensors import training_call
from keras_quasiattn.layers.base import Mask, PairAttention, Shape, check_pair, without_masked_rows
from keras_quasiattn.layers.dense import make_dense

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class DotAttention(PairAttention):
    """Pool v for every position of u, weighted by dot products of u with projected v.

    k = v·W;  w = softmax(u·kᵀ);  output = w·v

    With `attention="coda"` the weights are CoDA's for u and k. Means are taken within each row of
    u, so positions of u do not affect each other. Masks act as in `layers.AlignmentAttention`.

    A call consists of `project` and `pool`. A decoder can call `project` once for the same v.

    Args:
        attention: name of an attention, such as "softmax" (the default) or "coda"; an unknown name
            raises an error that lists them all.
        attention_options: dict of its multi-head layer's options, such as `alpha` for "coda".
        kernel_initializer: initializer of W. Defaults to "glorot_uniform".

    Call arguments:
        inputs: [u, v] with u (B, T, D) and v (B, S, features).
        mask: [mask_u, mask_v], boolean (B, T) and (B, S), or None. Defaults to Keras' masks.
        training: whether this is a training call.
        return_attention_scores: also return w, (B, T, S).

    Returns:
        (B, T, features), or that and w.

    Raises:
        ValueError: an unknown option, inputs that are not two (B, length, features), a float mask.

    Example:
    >>> u, v = np.ones((2, 3, 8), "float32"), np.ones((2, 5, 4), "float32")
    >>> tuple(DotAttention()([u, v]).shape)
    (2, 3, 4)

    Source: Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation",
    eqs. 7 and 8 ("general"); CoDA: Tay et al. 2019, "Compositional De-Attention Networks", eq. 10.
    """

    one_output = True

    def __init__(
        self,
        *,
        attention: str = "softmax",
        attention_options: dict[str, Any] | None = None,
        kernel_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._attention = make_attention(self, attention, attention_options, is_cross=True)
        self.attention, self.attention_options = attention, dict(attention_options or {}) or None
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, inputs_shape: list[Shape]) -> None:
        """Create W and the learned weights of the attention."""
        check_pair(inputs_shape, same_features=False)
        width = cast(int, inputs_shape[0][-1])
        self.key_projection = make_dense(
            self,
            "key_projection",
            width,
            inputs_shape[1],
            use_bias=False,
            kernel_initializer=self.kernel_initializer,
        )
        self._learned = self._attention.make_weights(self, width)

    def project(self, v: Tensor) -> Tensor:
        """Return the keys k (B, S, D) of v (B, S, features)."""
        return self.key_projection(v)

    def pool(
        self,
        u: Tensor,
        k: Tensor,
        v: Tensor,
        mask_v: Mask = None,
        *,
        mask_u: Mask = None,
        training: bool | None = None,
        return_scores: bool = False,
    ) -> Any:
        """Attend from u (B, T, D) to the keys k and values v; return (B, T, features).

        With `return_scores`, also return w (B, T, S). `mask_u` matters only for weights that depend
        on other queries; masked rows of the output are not set to 0.
        """
        with training_call(training):
            return self._attention.attend(
                u,
                k,
                v,
                pair_mask(mask_u if self._attention.sees_all_pairs else None, mask_v),
                learned=self._learned,
                return_scores=return_scores,
            )

    def attend(self, a: Tensor, b: Tensor, mask_a: Mask, mask_b: Mask, **options: Any) -> Any:
        """Return the output with masked rows of u set to 0, and the weights if requested."""
        with real_rows(pair_mask(mask_a, None)):
            results = self.pool(a, self.project(b), b, mask_b, mask_u=mask_a, **options)
        return without_masked_rows(results, mask_a)
