"""The LSTM encoder-decoder, with or without attention."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.core.masks import zero_masked
from keras_quasiattn.layers import DotAttention
from keras_quasiattn.layers.dense import Dense
from keras_quasiattn.layers.recurrence import LSTM, Bidirectional, OrthogonalInitializer
from keras_quasiattn.models.functional_model import (
    FunctionalModel,
    check_token_ids,
    id_inputs,
    is_real,
)

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class Seq2Seq(FunctionalModel):
    """Encode a source with LSTMs, and predict each target token from the previous ones with LSTMs.

    z, s = LSTM(source_table[source]);  y = LSTM(target_table[target]) from the state s;
    logits = y·W + b

    With `attention` the encoder is bidirectional, s is a linear map of the last states of both
    directions, and the decoder attends to z: logits = [y; c]·W + b, c = DotAttention(y, z).
    Without `attention`, s is all that the decoder receives from the source.

    Inputs, padding and decoding are as in `Transformer`. Padding is id 0, follows the text and has
    no effect. The target input is the desired output shifted by one, with id 1 in front. The logits
    carry the target's mask. The searches use `start_cache` and `step`, and `prefill` for a prompt
    (`models.with_prompt`). If a source is padding alone, the decoder starts from zero states.

    Args:
        vocabulary_size: integer above 1, number of token ids including 0 (padding) and 1 (end).
            Source and target share the ids, but each has its own embedding table.
        attention: None (the default), or the name of an attention, such as "softmax" or "coda".
        attention_options: dict of the attention's options, as for `layers.DotAttention`.
        embedding_dim: width of both tables. Defaults to 100.
        units: units of each LSTM, per direction. Defaults to 100.
        num_layers: LSTM layers on each side. Defaults to 1.
        dropout: rate in [0, 1) before every LSTM and before the linear layer. Defaults to 0.
        **kwargs: `name`, `trainable` and `dtype` (a policy; the logits are always float32).

    Call arguments:
        inputs: dict of `source` (B, S) and `target` (B, T), integers.
        training: whether dropout is on.

    Returns:
        Logits (B, T, vocabulary_size), float32.

    Raises:
        ValueError: if an argument is out of range.

    Example:
    >>> model = Seq2Seq(vocabulary_size=20, attention="softmax", embedding_dim=8, units=8)
    >>> ids = keras.ops.ones((2, 5), dtype="int32")
    >>> model({"source": ids, "target": ids[:, :3]}).shape == (2, 3, 20)
    True

    Source: Sutskever et al. 2014, "Sequence to Sequence Learning with Neural Networks";
    attention: Luong et al. 2015, eqs. 7 and 8; the default sizes are those of the HW4 write-up,
    Tables 1 and 2 (Seq2Seq and Seq2SeqAttn). CoDA: Tay et al. 2019, eq. 10.
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
        check_token_ids(vocabulary_size)
        make = self._begin(
            locals(), positive=("embedding_dim", "units", "num_layers"), rates=("dropout",)
        )
        if attention is None and attention_options:
            raise ValueError(
                "`attention_options` need `attention`; set it or drop the options. "
                f"Received: attention_options={attention_options}, attention=None"
            )
        numbers, embedding = range(num_layers), keras.layers.Embedding
        options = {"return_sequences": True, "recurrent_initializer": OrthogonalInitializer}
        decoders = [make(LSTM, f"decoder_{i}", units, **options) for i in numbers]
        options["return_state"] = True
        encoders = [make(LSTM, f"encoder_{i}", units, **options) for i in numbers]
        layers: dict[str, Any] = {
            "source_embedding": make(embedding, "source_embedding", vocabulary_size, embedding_dim),
            # The mask is passed on to the logits. The LSTM does not need it: padding follows the
            # text and cannot change earlier positions.
            "target_embedding": make(
                embedding, "target_embedding", vocabulary_size, embedding_dim, mask_zero=True
            ),
            "encoders": encoders,
            "decoders": decoders,
            "dropout": make(keras.layers.Dropout, "dropout", dropout),
            "output_layer": make(keras.layers.Dense, "logits", vocabulary_size, dtype="float32"),
        }
        if attention is not None:
            layers["encoders"] = [make(Bidirectional, f"both_{one.name}", one) for one in encoders]
            layers["bridges"] = [
                [make(Dense, f"{state}_bridge_{number}", units) for state in ("hidden", "cell")]
                for number in numbers
            ]
            given = {"attention": attention, "attention_options": attention_options}
            layers["attention"] = make(DotAttention, "attention", **given)
            layers["join"] = make(keras.layers.Concatenate, "join")
        self._hold(**{f"_{name}": value for name, value in layers.items()})

        inputs = id_inputs("source", "target")
        self._end(inputs, self._answer(**inputs)["logits"], kwargs)

    def explain(self, source: Tensor, target: Tensor) -> dict[str, Tensor]:
        """Return the `logits` (B, T, vocabulary_size) for ids (B, S) and (B, T).

        With attention, also return the decoder's `weights` (B, T, S). For those of a decoded
        answer, pass id 1 followed by the answer as `target`.
        """
        return self._answer(ops.cast(source, "int32"), ops.cast(target, "int32"), explained=True)

    def start_cache(self, source: Tensor, length: Any) -> dict[str, Any]:
        """Encode `source` (B, S) for `step`; recurrent states do not depend on `length`."""
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
        """Run the decoder for one position; the logits equal those of a full call without dropout.

        All earlier positions must have been run. Tokens (B,) at position `index` (id 1 at index 0)
        give logits (B, vocabulary_size), float32, and the cache for the next position.
        """
        tokens = ops.expand_dims(ops.cast(tokens, "int32"), 1)
        x, states = self._step_states(self._target_embedding(tokens), 0, cache["states"])
        if "memory" in cache:
            keys, values, mask = (cache["memory"][name] for name in ("keys", "values", "mask"))
            # Attend from a sequence of one position: (B, 1, units) to (B, 1, D).
            query = ops.expand_dims(x, 1)
            context = self._attention.pool(query, keys, values, mask, training=False)
            x = ops.concatenate([x, ops.squeeze(context, 1)], axis=-1)
        return self._output_layer(x), {**cache, "states": states}

    def prefill(self, tokens: Tensor, count: Any, cache: dict[str, Any]) -> dict[str, Any]:
        """Run the recurrent states over the first `count` of the tokens (B, P), without logits."""
        x = self._target_embedding(ops.cast(tokens, "int32"))
        _, states = ops.while_loop(
            lambda index, states: index < count,
            lambda index, states: (index + 1, self._step_states(x, index, states)[1]),
            (ops.zeros((), dtype="int32"), cache["states"]),
        )
        return {**cache, "states": states}

    def _step_states(
        self, embedded: Tensor, index: Any, states: list[list[Tensor]]
    ) -> tuple[Tensor, list[list[Tensor]]]:
        """Return the last layer's output (B, units) for `embedded` (B, P, D) at `index`."""
        # (B, D): a new tensor, without the Keras mask.
        x, new_states = ops.take(embedded, index, axis=1), []
        for decoder, state in zip(self._decoders, states, strict=True):
            x, state = decoder.cell(x, state, training=False)
            new_states.append(state)
        return x, new_states

    def _encode(
        self, source: Tensor, training: bool | None = None
    ) -> tuple[Tensor, list[list[Tensor]]]:
        """Return the outputs (B, S, D) and, per decoder layer, the initial states (B, units)."""
        mask = is_real(source)
        has_text = ops.any(mask, axis=1, keepdims=True)
        x, states = self._source_embedding(source), []
        for number, encoder in enumerate(self._encoders):
            x, *last = encoder(self._dropout(x, training=training), mask=mask, training=training)
            if self._arguments["attention"] is not None:
                # `last` holds the hidden and cell states of one direction, then of the other, (B,
                # units) each; `both` holds the concatenated hidden and cell states, (B, 2·units).
                both = [ops.concatenate([last[i], last[i + 2]], axis=-1) for i in range(2)]
                pairs = zip(self._bridges[number], both, strict=True)
                last = [bridge(state) for bridge, state in pairs]
            states.append([zero_masked(state, has_text) for state in last])
        return x, states

    def _answer(self, source: Tensor, target: Tensor, explained: bool = False) -> dict[str, Tensor]:
        encoded, states = self._encode(source)  # (B, S, D)
        x, answer = self._target_embedding(target), {}
        for decoder, state in zip(self._decoders, states, strict=True):
            x = decoder(self._dropout(x), initial_state=state)  # (B, T, units)
        if self._arguments["attention"] is not None:
            masks = [is_real(target), is_real(source)]
            found = self._attention([x, encoded], mask=masks, return_attention_scores=explained)
            if explained:
                found, answer["weights"] = found
            x = self._join([x, found])  # (B, T, units + D)
        return {"logits": self._output_layer(self._dropout(x)), **answer}
