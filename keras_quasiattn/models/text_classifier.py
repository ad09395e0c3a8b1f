"""A text classifier: bidirectional LSTM or convolution layers, then attention."""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.core.arguments import check, check_positive_integer
from keras_quasiattn.core.masks import zero_masked, zero_padding
from keras_quasiattn.core.tensors import check_choice
from keras_quasiattn.layers import GatedAttention, LocalAttention, MaskedPooling, SoftAttention
from keras_quasiattn.layers.recurrence import (
    Bidirectional,
    OrthogonalInitializer,
    extended,
    missing,
)
from keras_quasiattn.models.functional_model import EmbeddingModel, is_real

Tensor = Any


class _Pooling(NamedTuple):
    """How to turn states into one vector: with a layer or, if None, by taking the last states.

    A gated layer also reads the embeddings, and computes the last convolution itself at the open
    positions.
    """

    layer: type[keras.layers.Layer] | None
    is_gated: bool = False
    explains: tuple[str, ...] = ("weights",)


_POOLINGS = {
    "none": _Pooling(None),
    "soft": _Pooling(SoftAttention),
    "local": _Pooling(LocalAttention),
    "gated": _Pooling(GatedAttention, is_gated=True, explains=("gates", "weights")),
}


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class Conv1D(keras.layers.Conv1D):
    """`keras.layers.Conv1D` with padding "same", also over no positions, which PyTorch rejects."""

    def call(self, inputs: Tensor) -> Tensor:
        """Return what Keras' layer returns."""
        length = ops.shape(inputs)[1]
        return super().call(extended(inputs, missing(length), 1))[:, :length]


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class TextClassifier(EmbeddingModel):
    """Classify a text with an embedding, a few encoder layers, attention and a linear layer.

    h = Encoder(… Encoder(table[ids]));  c = Σ_t α_t·h_t;  logits = W·c + b

    The encoder "lstm" is a bidirectional LSTM. Each of its states depends on the whole text, so a
    large weight does not show which words decide. "convolution" is relu(Σ_k V_k·x_{t+k} + v) over
    the nearest words, and its states depend only on those, so the weights α do show it.

    The attention computes α: "soft" is a softmax over all positions, "local" one over a window
    around a predicted position, and "gated" one over the positions whose gates are opened by an
    auxiliary network that reads the embeddings. At inference the model then computes the last
    convolution for the open positions only. "none" takes the last states of both directions
    instead. With any other name, such as "softmax" or "coda", the states attend to each other by
    the multi-head layer of that name, and c is the mean of h + attention(h).

    Padding is id 0, follows the text and has no effect. A text of padding alone gives finite
    logits.

    Args:
        vocabulary_size: number of token ids, including 0 for padding.
        num_classes: number of classes.
        attention: "gated" (the default), "soft", "local", "none" (only with LSTMs), or the name of
            a multi-head layer, such as "softmax" or "coda".
        attention_options: dict of further constructor arguments of the attention layer; for a
            multi-head layer also `num_heads`.
        embedding_dim: width of the embedding. Defaults to 100.
        units: width of each layer; of an LSTM, per direction. Defaults to 100.
        num_layers: number of encoder layers. Defaults to 2.
        merge_mode: "concat" (the default) joins both directions of an LSTM, "sum" adds them.
        embedding_dropout: rate in [0, 1) on the embeddings, before the encoder and the gates'
            network. Defaults to 0.
        dropout: rate in [0, 1) between encoder layers, and before the linear layer. Defaults to 0.
        train_embedding: whether the embedding is trained. Defaults to True.
        encoder: "lstm" (the default) or "convolution".
        kernel_size: odd number of words that a convolution reads, 1 or more. Defaults to 3.
        **kwargs: `name`, `trainable` and `dtype` (a policy; the logits are always float32).

    Call arguments:
        inputs: ids (B, T), integers.
        training: whether dropout and the gates' noise are on.

    Returns:
        Logits (B, num_classes), float32.

    Raises:
        ValueError: if an argument is out of range.

    Example:
    >>> model = TextClassifier(vocabulary_size=20, num_classes=3, attention="soft", units=8)
    >>> model(keras.ops.convert_to_tensor([[5, 4, 0], [7, 0, 0]])).shape == (2, 3)
    True

    Source: Xue et al. 2019, "Not All Attention Is Needed"; Zhou et al. 2016, "Attention-Based
    Bidirectional Long Short-Term Memory Networks for Relation Classification".
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int,
        attention: str = "gated",
        attention_options: dict[str, Any] | None = None,
        embedding_dim: int = 100,
        units: int = 100,
        num_layers: int = 2,
        merge_mode: str = "concat",
        embedding_dropout: float = 0.0,
        dropout: float = 0.0,
        train_embedding: bool = True,
        encoder: str = "lstm",
        kernel_size: int = 3,
        **kwargs: Any,
    ) -> None:
        make = self._begin(
            locals(),
            positive=("num_classes", "units", "num_layers", "kernel_size"),
            rates=("embedding_dropout", "dropout"),
        )
        check_choice(attention, (*_POOLINGS, *sorted(ATTENTIONS.keys() - _POOLINGS)), "attention")
        check_choice(encoder, ("lstm", "convolution"), "encoder")
        check_choice(merge_mode, ("concat", "sum"), "merge_mode")
        pooling = _POOLINGS.get(attention)
        local = encoder == "convolution"
        check(kernel_size % 2, kernel_size, "kernel_size", "odd")
        if local and attention == "none":
            raise ValueError(
                "`attention` must not be 'none' with `encoder='convolution'`, which has no last "
                "states"
            )
        if attention == "none" and attention_options:
            raise ValueError(
                "`attention_options` need an `attention` other than 'none'. "
                f"Received: attention_options={attention_options}, attention='none'"
            )
        self._hold_embedding(make)
        gates_convolution = local and pooling is not None and pooling.is_gated
        takes_all_states = pooling is None or pooling.layer is not None

        def recurrent(number: int) -> keras.layers.Layer:
            several = takes_all_states or number < num_layers - 1
            options = {"return_sequences": several, "recurrent_initializer": OrthogonalInitializer}
            lstm = make(keras.layers.LSTM, "lstm", units, **options)
            return make(Bidirectional, f"recurrent_{number}", lstm, merge_mode=merge_mode)

        def convolution(number: int) -> keras.layers.Layer:
            is_gated = gates_convolution and number == num_layers - 1
            kind = keras.layers.Conv1D if is_gated else Conv1D
            options = {
                "padding": "valid" if is_gated else "same",
                "activation": "relu",
                "data_format": "channels_last",  # Keras' default depends on the user's settings
            }
            return make(kind, f"convolution_{number}", units, kernel_size, **options)

        dropout_layer, numbers = keras.layers.Dropout, range(num_layers)
        layers: dict[str, Any] = {
            "embedding_dropout": make(dropout_layer, "embedding_dropout", embedding_dropout),
            "recurrent": [] if local else [recurrent(number) for number in numbers],
            "convolutions": [convolution(number) for number in numbers] if local else [],
            "dropout": [make(dropout_layer, f"dropout_{number}", dropout) for number in numbers],
            "output_layer": make(keras.layers.Dense, "logits", num_classes, dtype="float32"),
            "pooling": None,
        }
        options = attention_options or {}
        if gates_convolution:
            options = {**options, "convolution": layers["convolutions"].pop()}
        if pooling and pooling.layer:
            layers["attention"] = make(pooling.layer, "attention", **options)
        elif not pooling:
            width = units * (2 if merge_mode == "concat" and not local else 1)
            heads = check_positive_integer(options.get("num_heads", 1), "num_heads")
            fits = heads <= width or "key_dim" in options
            check(fits, heads, "num_heads", f"at most {width}, the width, without `key_dim`")
            sizes = {"num_heads": 1, "key_dim": width // heads}
            layers["attention"] = make(ATTENTIONS[attention], "attention", **sizes | options)
            layers["pooling"] = make(MaskedPooling, "pooling")
        self._hold(**{f"_{name}": value for name, value in layers.items()})

        ids = keras.Input((None,), dtype="int32", name="ids")
        self._end(ids, self._answer(ids)["logits"], kwargs)

    def explain(self, ids: Tensor) -> dict[str, Tensor]:
        """Return the logits for ids (B, T), and the `weights` and `gates` (B, T) of a pooling."""
        # `training` stays None: with False the gates would count this call in `evaluate`.
        return self._answer(ops.cast(ids, "int32"))

    def _answer(self, ids: Tensor, training: bool | None = None) -> dict[str, Tensor]:
        pooling = _POOLINGS.get(self._arguments["attention"])
        mask = is_real(ids)  # (B, T)
        embedded = self._embedding_dropout(self._embedding(ids), training=training)
        states = self._states(embedded, mask, training)  # (B, T, D), or the last ones (B, D)
        context, answer = states, {}
        if not pooling:
            attended = self._attention(
                states, states, query_mask=mask, value_mask=mask, training=training
            )
            context = self._pooling(states + attended, mask=mask)  # (B, T, D) to (B, D)
        elif not pooling.layer:
            context = zero_masked(states, ops.any(mask, axis=1, keepdims=True))
        else:
            options = {"gate_inputs": embedded} if pooling.is_gated else {}
            context, *matrices = self._attention(
                states, mask=mask, training=training, return_attention_scores=True, **options
            )
            answer = dict(zip(pooling.explains, matrices, strict=True))
        context = self._dropout[-1](context, training=training)  # (B, D)
        return {"logits": self._output_layer(context), **answer}

    def _states(self, x: Tensor, mask: Tensor, training: bool | None) -> Tensor:
        layers = self._convolutions or self._recurrent
        for number, layer in enumerate(layers):
            if self._convolutions:
                x = layer(zero_padding(x, mask))
            else:
                x = layer(x, mask=mask, training=training)
            if number < len(self._dropout) - 1:  # the last one follows the attention
                x = self._dropout[number](x, training=training)
        return x
