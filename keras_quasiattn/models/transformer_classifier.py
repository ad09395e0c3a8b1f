"""A Transformer encoder that classifies texts, with any attention."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.attention.choice import AttentionChoice, options_at
from keras_quasiattn.core.arguments import check_positive_integer, check_rate
from keras_quasiattn.layers.dense import LayerNormalization
from keras_quasiattn.layers.pooling import MaskedPooling
from keras_quasiattn.layers.position_signals import TimingSignal
from keras_quasiattn.layers.token_embedding import TokenEmbedding
from keras_quasiattn.layers.transformer_encoder import TransformerEncoder
from keras_quasiattn.models.functional_model import FunctionalModel, arguments_of, policy_of

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class TransformerClassifier(FunctionalModel):
    """Classifies a text by Transformer encoder blocks, the mean over positions, a linear layer.

    x = √D·table[ids] + position;  x = EncoderBlock(x), num_layers times;
    logits = W·mean_t LayerNorm(x)_t + b

    Padding is id 0 and changes nothing (Tensor2Tensor's mean counts it). A text that is all padding
    gives the logits b.

    Args:
        vocabulary_size: number of token ids, including 0 for padding.
        num_classes: number of classes.
        num_layers: number of encoder blocks.
        hidden_dim: the width D.
        intermediate_dim: inner width of the feed-forward nets.
        num_heads: attention heads; None if `attention` is a layer.
        attention: name of a mechanism, such as "coda" (the default) or "softmax", or an unbuilt
            layer; see `TransformerEncoder`.
        attention_options: dict of further constructor arguments for a named attention.
        dropout: rate in [0, 1) of every dropout. Defaults to 0.1.
        **kwargs: `name`, `trainable` and `dtype` (a policy; the logits are always float32).

    Call arguments:
        inputs: ids (B, T), integers.
        training: whether dropout is on.

    Returns:
        Logits (B, num_classes), float32.

    Raises:
        ValueError: if an argument is out of range.

    Example:
    >>> sizes = {"num_layers": 1, "hidden_dim": 16, "intermediate_dim": 32, "num_heads": 2}
    >>> model = TransformerClassifier(vocabulary_size=20, num_classes=3, **sizes)
    >>> model(keras.ops.convert_to_tensor([[5, 4, 0], [7, 0, 0]])).shape == (2, 3)
    True

    Reference: Vaswani et al. 2017, "Attention Is All You Need"; Tensor2Tensor's
    `transformer_encoder`.
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int,
        num_layers: int,
        hidden_dim: int,
        intermediate_dim: int,
        num_heads: int | None = None,
        attention: Any = "coda",
        attention_options: dict[str, Any] | None = None,
        dropout: float = 0.1,
        **kwargs: Any,
    ) -> None:
        for name, value in (
            ("vocabulary_size", vocabulary_size),
            ("num_classes", num_classes),
            ("num_layers", num_layers),
            ("hidden_dim", hidden_dim),
        ):
            check_positive_integer(value, name)
        check_rate(dropout, "dropout")
        policy = policy_of(kwargs.pop("dtype", None))
        # A layer given as `attention` becomes plain config once; every block copies it from there.
        attention = AttentionChoice(attention, num_heads, None, attention_options).attention
        self._arguments = arguments_of(TransformerClassifier.__init__, locals())
        ids = keras.Input((None,), dtype="int32", name="ids")
        mask = ops.not_equal(ids, 0)
        x = TokenEmbedding(vocabulary_size, hidden_dim, dtype=policy, name="token_embedding")(ids)
        x = TimingSignal(dtype=policy, name="timing_signal")(x)
        x = keras.layers.Dropout(dropout, dtype=policy, name="embedding_dropout")(x)
        for number in range(num_layers):
            x = TransformerEncoder(
                intermediate_dim=intermediate_dim,
                num_heads=num_heads,
                attention=attention,
                attention_options=options_at(number + 1, attention, attention_options),
                dropout=dropout,
                dtype=policy,
                name=f"encoder_block_{number}",
            )(x, mask=mask)
        x = LayerNormalization(epsilon=1e-6, dtype=policy, name="encoder_norm")(x)
        # (B, T, hidden_dim) to (B, hidden_dim)
        x = MaskedPooling(dtype=policy, name="pooling")(x, mask=mask)
        logits = keras.layers.Dense(num_classes, dtype="float32", name="logits")(x)
        super().__init__(inputs=ids, outputs=logits, **kwargs)
        self.dtype_policy = policy

    def explain(self, ids: Tensor) -> dict[str, Tensor]:
        """Returns the logits (B, num_classes) of ids (B, T).

        It returns no attention weights: self-attention has no single weight per position.
        """
        return {"logits": self(ops.cast(ids, "int32"), training=False)}
