"""A text classifier: bidirectional LSTM or convolution layers, then attention."""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.core.arguments import check_positive_integer, check_rate
from keras_quasiattn.core.masks import zero_padding
from keras_quasiattn.core.tensors import check_choice
from keras_quasiattn.layers import GatedAttention, LocalAttention, MaskedPooling, SoftAttention
from keras_quasiattn.layers.recurrence import (
    OrthogonalInitializer,
    bidirectional,
    with_one_real_position,
)
from keras_quasiattn.models.functional_model import FunctionalModel, arguments_of, policy_of

Tensor = Any


class _Pooling(NamedTuple):
    """How states become one vector: by a layer, or, with None, by taking the last ones.

    A gated layer reads the embeddings, too, and computes the last convolution itself, at the
    positions that it opens.
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
class TextClassifier(FunctionalModel):
    """Classifies a text by an embedding, a few encoder layers, attention and a linear layer.

    h = Encoder(… Encoder(table[ids]));  c = Σ_t α_t·h_t;  logits = W·c + b

    The encoder "lstm" is a bidirectional LSTM, whose states know the whole text, so any of them may
    speak for it. "convolution" is relu(Σ_k V_k·x_{t+k} + v) over the nearest words: its state says
    only what these say, so the weights α show which words decide.

    The attention gives α: "soft" is a softmax over all positions, "local" one over a window around
    a predicted position, "gated" one over the positions whose gates are opened by an auxiliary
    network that reads the embeddings. Outside training the last convolution is computed for the
    open positions only. "none" takes the last states of both directions instead. With any other
    name, such as "softmax" or "coda", the states attend to each other by the multi-head layer of
    that name, and c is the mean of h + attention(h).

    Padding is id 0, follows the text and changes nothing. A text that is all padding gives finite
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
        merge_mode: "concat" joins the two directions of an LSTM, "sum" adds them. Defaults to
            "concat".
        embedding_dropout: rate in [0, 1) on the embeddings, before the encoder and the gates'
            network. Defaults to 0.
        dropout: rate in [0, 1) after every encoder layer except the last, and before the linear
            layer. Defaults to 0.
        train_embedding: whether the embedding is trained. Defaults to True.
        encoder: "lstm" (the default) or "convolution".
        kernel_size: words that a convolution reads, an odd number; 1 reads no neighbours. Defaults
            to 3.
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

    Reference: Xue et al. 2019, "Not All Attention Is Needed"; Zhou et al. 2016, "Attention-Based
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
        for name, value in (
            ("vocabulary_size", vocabulary_size),
            ("num_classes", num_classes),
            ("embedding_dim", embedding_dim),
            ("units", units),
            ("num_layers", num_layers),
            ("kernel_size", kernel_size),
        ):
            check_positive_integer(value, name)
        check_rate(embedding_dropout, "embedding_dropout")
        check_rate(dropout, "dropout")
        check_choice(attention, (*_POOLINGS, *sorted(ATTENTIONS.keys() - _POOLINGS)), "attention")
        check_choice(encoder, ("lstm", "convolution"), "encoder")
        pooling = _POOLINGS.get(attention)
        local = encoder == "convolution"
        if kernel_size % 2 == 0:
            raise ValueError(f"`kernel_size` must be odd. Received: kernel_size={kernel_size}")
        if local and attention == "none":
            raise ValueError(
                "`attention` must not be 'none' with `encoder='convolution'`, which has no last "
                "states"
            )
        if merge_mode not in ("concat", "sum"):
            raise ValueError(
                f"`merge_mode` must be 'concat' or 'sum'. Received: merge_mode={merge_mode!r}"
            )
        policy = policy_of(kwargs.pop("dtype", None))
        self._arguments = arguments_of(TextClassifier.__init__, locals())
        gates_convolution = local and pooling is not None and pooling.is_gated
        takes_all_states = pooling is None or pooling.layer is not None
        layers: dict[str, Any] = {
            "embedding": keras.layers.Embedding(
                vocabulary_size,
                embedding_dim,
                trainable=train_embedding,
                dtype=policy,
                name="embedding",
            ),
            "embedding_dropout": keras.layers.Dropout(
                embedding_dropout, dtype=policy, name="embedding_dropout"
            ),
            "recurrent": [
                bidirectional(
                    keras.layers.LSTM(
                        units,
                        recurrent_initializer=OrthogonalInitializer,
                        return_sequences=takes_all_states or number < num_layers - 1,
                        dtype=policy,
                        name="lstm",
                    ),
                    merge_mode=merge_mode,
                    dtype=policy,
                    name=f"recurrent_{number}",
                )
                for number in range(0 if local else num_layers)
            ],
            "convolutions": [
                keras.layers.Conv1D(
                    units,
                    kernel_size,
                    padding="valid" if gates_convolution and number == num_layers - 1 else "same",
                    activation="relu",
                    dtype=policy,
                    name=f"convolution_{number}",
                )
                for number in range(num_layers if local else 0)
            ],
            "dropout": [
                keras.layers.Dropout(dropout, dtype=policy, name=f"dropout_{number}")
                for number in range(num_layers)
            ],
            "output_layer": keras.layers.Dense(num_classes, dtype="float32", name="logits"),
            "pooling": None,
        }
        options = attention_options or {}
        if gates_convolution:
            options = {**options, "convolution": layers["convolutions"].pop()}
        if pooling and pooling.layer:
            layers["attention"] = pooling.layer(**options, dtype=policy, name="attention")
        elif not pooling:
            width = units * (2 if merge_mode == "concat" and not local else 1)
            heads = options.get("num_heads", 1)
            layers["attention"] = ATTENTIONS[attention](
                **{"num_heads": 1, "key_dim": width // heads, **options},
                dtype=policy,
                name="attention",
            )
            layers["pooling"] = MaskedPooling(dtype=policy, name="pooling")
        self._hold(**{f"_{name}": value for name, value in layers.items()})

        ids = keras.Input((None,), dtype="int32", name="ids")
        super().__init__(inputs=ids, outputs=self._answer(ids)["logits"], **kwargs)
        self.dtype_policy = policy

    @property
    def embedding(self) -> keras.layers.Embedding:
        """The embedding layer; its table can be set to pretrained word vectors."""
        return self._embedding

    def explain(self, ids: Tensor) -> dict[str, Tensor]:
        """Returns the logits, and the weights and gates of the attention.

        Args:
            ids: (B, T), integers.

        Returns:
            `logits` (B, num_classes); for "soft", "local" and "gated" also `weights` (B, T), and
            for "gated" also `gates` (B, T), each 0 or 1.
        """
        # `training` stays None: with False the gates would count this call as part of `evaluate`.
        return self._answer(ops.cast(ids, "int32"))

    def _answer(self, ids: Tensor, training: bool | None = None) -> dict[str, Tensor]:
        pooling = _POOLINGS.get(self._arguments["attention"])
        mask = ops.not_equal(ids, 0)  # (B, T)
        embedded = self._embedding_dropout(self._embedding(ids), training=training)
        states = self._states(embedded, mask, training)  # (B, T, D), or the last ones (B, D)
        context, answer = states, {}
        if not pooling:
            attended = self._attention(
                states, states, query_mask=mask, value_mask=mask, training=training
            )
            context = self._pooling(states + attended, mask=mask)  # (B, T, D) to (B, D)
        elif pooling.layer:
            beside = {"gate_inputs": embedded} if pooling.is_gated else {}
            context, *matrices = self._attention(
                states, mask=mask, training=training, return_attention_scores=True, **beside
            )
            answer = dict(zip(pooling.explains, matrices, strict=True))
        context = self._dropout[-1](context, training=training)  # (B, D)
        return {"logits": self._output_layer(context), **answer}

    def _states(self, x: Tensor, mask: Tensor, training: bool | None) -> Tensor:
        between = self._dropout[:-1]
        for number, convolution in enumerate(self._convolutions):
            x = convolution(zero_padding(x, mask))
            if number < len(between):
                x = between[number](x, training=training)
        read = with_one_real_position(mask)
        for number, recurrent in enumerate(self._recurrent):
            x = recurrent(x, mask=read, training=training)
            if number < len(between):
                x = between[number](x, training=training)
        return x
