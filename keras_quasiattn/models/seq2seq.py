"""The recurrent encoder-decoder, with or without attention."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.layers import DotAttention
from keras_quasiattn.layers.shared.arguments import check_positive_integer, check_rate
from keras_quasiattn.layers.shared.dense import Dense
from keras_quasiattn.layers.shared.orthogonal_initializer import OrthogonalInitializer
from keras_quasiattn.layers.shared.recurrence import bidirectional, readable
from keras_quasiattn.models.functional_model import FunctionalModel, arguments_of, policy_of
from keras_quasiattn.models.transformer import is_real
from keras_quasiattn.ops.masking import zero_masked

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class Seq2Seq(FunctionalModel):
    """Reads a source with LSTMs, and predicts each target token from the ones before it with others.

    z, s = LSTM(source_table[source]);  y = LSTM(target_table[target]) from the state s;  logits = y·W + b

    With `attention` the encoder reads both ways, s is a linear map of the last states of both, and the decoder
    looks back: logits = [y; c]·W + b, c = DotAttention(y, z). Without, s is all that it learns of the source.

    Inputs, padding and decoding are those of `Transformer`: id 0 is padding, behind the text, and changes nothing;
    the target that goes in is the wanted output shifted by one with id 1 in front; the logits carry the target's
    mask; `start_cache` and `step` serve `greedy_search` and `beam_search`. A source that is all padding starts the
    decoder from zeros.

    Args:
        vocabulary_size: integer above 1, number of token ids with 0 (padding) and 1 (end). Source and target share
            the ids, not the table.
        attention: None (the default), or the name of a mechanism, such as "softmax" or "coda".
        attention_options: for "coda", dict of its options, as for `layers.DotAttention`.
        embedding_dim: width of both tables. Defaults to 100.
        units: units of an LSTM, in each direction. Defaults to 100.
        num_layers: LSTM layers on each side. Defaults to 1.
        dropout: rate in [0, 1) before every LSTM and before the linear layer. Defaults to 0.
        **kwargs: `name`, `trainable`, and `dtype` (a policy; the logits are float32 under any).

    Call arguments:
        inputs: dict of `source` (B, S) and `target` (B, T), integers.
        training: whether dropout is on.

    Returns:
        Logits (B, T, vocabulary_size), float32.

    Raises:
        ValueError: an argument is out of range.

    Example:
    >>> model = Seq2Seq(vocabulary_size=20, attention="softmax", embedding_dim=8, units=8)
    >>> ids = keras.ops.ones((2, 5), dtype="int32")
    >>> model({"source": ids, "target": ids[:, :3]}).shape == (2, 3, 20)
    True

    Reference: Sutskever et al. 2014, "Sequence to Sequence Learning with Neural Networks"; attention: Luong et al.
    2015, eqs. 7 and 8; the default sizes are those of the CS 287 write-up, Tables 1 and 2 (Seq2Seq and
    Seq2SeqAttn). CoDA: Tay et al. 2019, eq. 10.
    """

    def __init__(
        self,
        vocabulary_size: int,
        attention: str | None = None,
        attention_options: dict[str, Any] | None = None,
        embedding_dim: int = 100,
        units: int = 100,
        num_layers: int = 1,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        if check_positive_integer(vocabulary_size, "vocabulary_size") < 2:
            raise ValueError(
                f"`vocabulary_size` must be above 1. Received: vocabulary_size={vocabulary_size}"
            )
        check_positive_integer(embedding_dim, "embedding_dim")
        check_positive_integer(units, "units")
        check_positive_integer(num_layers, "num_layers")
        check_rate(dropout, "dropout")
        if attention is None and attention_options:
            raise ValueError(
                "`attention_options` say nothing without `attention`. "
                f"Received: attention_options={attention_options}"
            )
        policy = policy_of(kwargs.pop("dtype", None))
        self._arguments = arguments_of(Seq2Seq.__init__, locals())

        def lstm(name: str, **options: Any) -> keras.layers.LSTM:
            return keras.layers.LSTM(
                units,
                recurrent_initializer=OrthogonalInitializer,
                return_sequences=True,
                dtype=policy,
                name=name,
                **options,
            )

        layers: dict[str, Any] = {
            "source_embedding": keras.layers.Embedding(
                vocabulary_size, embedding_dim, dtype=policy, name="source_embedding"
            ),
            # Its mask travels to the logits. The LSTM does not need it: what stands behind a text comes too late.
            "target_embedding": keras.layers.Embedding(
                vocabulary_size,
                embedding_dim,
                mask_zero=True,
                dtype=policy,
                name="target_embedding",
            ),
            "encoders": [
                lstm(f"encoder_{number}", return_state=True) for number in range(num_layers)
            ],
            "decoders": [lstm(f"decoder_{number}") for number in range(num_layers)],
            "dropout": keras.layers.Dropout(dropout, dtype=policy, name="dropout"),
            "output_layer": keras.layers.Dense(vocabulary_size, dtype="float32", name="logits"),
        }
        if attention is not None:
            layers["encoders"] = [
                bidirectional(encoder, dtype=policy, name=f"both_{encoder.name}")
                for encoder in layers["encoders"]
            ]
            layers["bridges"] = [
                [
                    Dense(units, dtype=policy, name=f"{state}_bridge_{number}")
                    for state in ("hidden", "cell")
                ]
                for number in range(num_layers)
            ]
            layers["attention"] = DotAttention(
                attention=attention,
                attention_options=attention_options,
                dtype=policy,
                name="attention",
            )
            layers["join"] = keras.layers.Concatenate(dtype=policy, name="join")
        self._hold(**{f"_{name}": value for name, value in layers.items()})

        inputs = {
            name: keras.Input((None,), dtype="int32", name=name) for name in ("source", "target")
        }
        super().__init__(inputs=inputs, outputs=self._answer(**inputs)["logits"], **kwargs)
        self.dtype_policy = policy

    def explain(self, source: Tensor, target: Tensor) -> dict[str, Tensor]:
        """The logits, and where the decoder looked.

        For a decoded answer give it as `target` behind id 1: the weights are those of its decoding.

        Args:
            source: ids (B, S), integers.
            target: ids (B, T), integers.

        Returns:
            `logits` (B, T, vocabulary_size), and with attention `weights` (B, T, S).
        """
        return self._answer(ops.cast(source, "int32"), ops.cast(target, "int32"), explained=True)

    def start_cache(self, source: Tensor, length: Any) -> dict[str, Any]:
        """Encodes `source` (B, S) for `step`.

        Every leaf of the cache has the batch first, so a search may repeat, drop and reorder rows. A recurrent
        state has one size, whatever `length`, the number of target tokens.
        """
        source = ops.cast(source, "int32")
        encoded, states = self._encode(source, training=False)
        cache: dict[str, Any] = {"states": states}
        if self._arguments["attention"] is not None:
            keys = self._attention.project(encoded)
            cache["memory"] = {"keys": keys, "values": encoded, "mask": is_real(source)}
        return cache

    def step(
        self, tokens: Tensor, index: Any, cache: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Any]]:
        """One position of the decoder: the logits that a full pass gives there, without dropout.

        Args:
            tokens: (B,) integers, the target tokens at position `index` (id 1 at index 0).
            index: scalar integer; earlier positions have been given already.
            cache: from `start_cache` or the previous step.

        Returns:
            Logits (B, vocabulary_size), float32, and the cache for the next position.
        """
        tokens = ops.expand_dims(ops.cast(tokens, "int32"), 1)
        x, states = (
            ops.squeeze(self._target_embedding(tokens), 1),
            [],
        )  # a new tensor, without the mask
        for decoder, state in zip(self._decoders, cache["states"], strict=True):
            x, state = decoder.cell(x, state, training=False)
            states.append(state)
        if "memory" in cache:
            keys, values, mask = (cache["memory"][name] for name in ("keys", "values", "mask"))
            context = self._attention.pool(
                ops.expand_dims(x, 1), keys, values, mask, training=False
            )
            x = ops.concatenate([x, ops.squeeze(context, 1)], axis=-1)
        return self._output_layer(x), {**cache, "states": states}

    def _encode(
        self, source: Tensor, training: bool | None = None
    ) -> tuple[Tensor, list[list[Tensor]]]:
        """The encoder's outputs (B, S, D), and the states (B, units) that start the decoder's layers."""
        mask = is_real(source)
        read, has_text = readable(mask), ops.any(mask, axis=1, keepdims=True)
        x, states = self._source_embedding(source), []
        for number, encoder in enumerate(self._encoders):
            x, *last = encoder(self._dropout(x, training=training), mask=read, training=training)
            if self._arguments["attention"] is not None:
                # Hidden and cell state of the one direction, then of the other.
                both = [ops.concatenate([last[i], last[i + 2]], axis=-1) for i in range(2)]
                last = [
                    bridge(state) for bridge, state in zip(self._bridges[number], both, strict=True)
                ]
            states.append([zero_masked(state, has_text) for state in last])
        return x, states

    def _answer(self, source: Tensor, target: Tensor, explained: bool = False) -> dict[str, Tensor]:
        encoded, states = self._encode(source)
        x, answer = self._target_embedding(target), {}
        for decoder, state in zip(self._decoders, states, strict=True):
            x = decoder(self._dropout(x), initial_state=state)
        if self._arguments["attention"] is not None:
            masks = [is_real(target), is_real(source)]
            found = self._attention([x, encoded], mask=masks, return_attention_scores=explained)
            if explained:
                found, answer["weights"] = found
            x = self._join([x, found])
        return {"logits": self._output_layer(self._dropout(x)), **answer}
