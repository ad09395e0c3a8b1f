"""Transformers with any attention: encoder-decoder, decoder only, and encoder only."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_quasiattn.attention.cache import write_first
from keras_quasiattn.core.tensors import check_choice
from keras_quasiattn.layers.adaptive_halting import AdaptiveHalting
from keras_quasiattn.layers.dense import LayerNormalization
from keras_quasiattn.layers.pooling import MaskedPooling
from keras_quasiattn.layers.position_signals import StepSignal, TimingSignal
from keras_quasiattn.layers.token_embedding import TokenEmbedding
from keras_quasiattn.layers.transformer_block import AttentionChoice, options_at
from keras_quasiattn.layers.transformer_decoder import TransformerDecoder
from keras_quasiattn.layers.transformer_encoder import TransformerEncoder
from keras_quasiattn.models.decoding import greedy_search, with_prompt
from keras_quasiattn.models.functional_model import (
    FunctionalModel,
    check_token_ids,
    id_inputs,
    is_real,
)

Tensor = Any
Cache = dict[str, Any]


class _Decoder(FunctionalModel):
    """What both decoders share: token embeddings, blocks with a cache, logits from the same table.

    Subclasses define `token_embedding`, `timing_signal`, `embedding_dropout`, `decoder_blocks` and
    `decoder_norm`. The cache has `target_mask` (B, length), `blocks` and, with an encoder,
    `source_mask` (B, S), all with the batch as first axis.
    """

    num_layers: int
    universal = adaptive = False

    def step(self, tokens: Tensor, index: Any, cache: Cache) -> tuple[Tensor, Cache]:
        """Run the decoder for one position; the logits equal those of a full call without dropout.

        All earlier positions must have been run. Tokens (B,) at position `index` (id 1 at index 0)
        give logits (B, vocabulary_size), float32, and the cache for the next position.
        """
        tokens = ops.expand_dims(ops.cast(tokens, "int32"), 1)  # (B, 1)
        mask = cache["target_mask"]  # (B, length)
        here = ops.equal(ops.arange(ops.shape(mask)[1], dtype="int32"), ops.cast(index, "int32"))
        mask = ops.where(here, is_real(tokens), mask)

        def run(block: TransformerDecoder, x: Tensor, one: Any) -> tuple[Tensor, Any]:
            return block.step(x, index, one, mask, cache.get("source_mask"))

        x, blocks = self._decode_with_cache(tokens, run, cache, start_index=index)
        logits = ops.squeeze(self._logits(x), axis=1)  # (B, 1, vocabulary_size) to (B, …)
        return logits, {**cache, "target_mask": mask, "blocks": blocks}

    def prefill(self, tokens: Tensor, count: Any, cache: Cache) -> Cache:
        """Run the first `count` of the tokens (B, P) in one call; `step` goes on from there."""
        tokens = ops.cast(tokens, "int32")
        columns = ops.arange(ops.shape(tokens)[1], dtype="int32")
        mask = ops.logical_and(is_real(tokens), columns < ops.cast(count, "int32"))

        def run(block: TransformerDecoder, x: Tensor, one: Any) -> tuple[Tensor, Any]:
            return block.prefill(x, one, mask, cache.get("source_mask"))

        _, blocks = self._decode_with_cache(tokens, run, cache, mask=mask)
        return {**cache, "target_mask": write_first(cache["target_mask"], mask), "blocks": blocks}

    def _decode_with_cache(
        self,
        tokens: Tensor,
        run: Callable[[TransformerDecoder, Tensor, Any], tuple[Tensor, Any]],
        cache: Cache,
        start_index: Any = 0,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, list[Any]]:
        """Return the last block's output and every block's cache."""
        blocks = []

        def apply(x: Tensor, i: int) -> Tensor:
            x, block_cache = run(self._block(self.decoder_blocks, i), x, cache["blocks"][i])
            blocks.append(block_cache)
            return x

        x = self._embed(tokens, start_index=start_index, training=False)
        options = {"start_index": start_index, "mask": mask, "training": False}
        return self._apply_blocks("decoder", apply, x, **options), blocks

    def _apply_blocks(
        self,
        side: str,
        apply: Callable[[Tensor, int], Tensor],
        x: Tensor,
        start_index: Any = 0,
        mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        """Apply `apply(x, i)` for every i; universal models add signals and halting."""
        progress = None
        for i in range(self.num_layers):
            if self.universal:
                x = self.timing_signal(x, start_index=start_index)
                x = getattr(self, f"{side}_step_signal")(x, step=i)
            y = apply(x, i)
            if self.adaptive:
                is_last = i == self.num_layers - 1
                halting = getattr(self, f"{side}_halting")
                progress = halting(x, y, progress, mask=mask, is_last=is_last, training=training)
                y = progress["output" if is_last else "state"]
            x = y
        return x

    def _embed(self, ids: Tensor, start_index: Any = 0, training: bool | None = None) -> Tensor:
        x = self.token_embedding(ids)
        if not self.universal:
            x = self.timing_signal(x, start_index=start_index)
        return self.embedding_dropout(x, training=training)

    def _block(self, blocks: list[Any], i: int) -> Any:
        return blocks[0 if self.universal else i]

    def _logits(self, x: Tensor) -> Tensor:
        x = x if self.decoder_norm is None else self.decoder_norm(x)
        return self.token_embedding(x, reverse=True)


def _input_layers(make: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Create the layers between token ids and the first block, by name."""
    size, width, rate = (arguments[n] for n in ("vocabulary_size", "hidden_dim", "dropout"))
    return {
        "token_embedding": make(TokenEmbedding, "token_embedding", size, width),
        "timing_signal": make(TimingSignal, "timing_signal"),
        "embedding_dropout": make(keras.layers.Dropout, "embedding_dropout", rate),
    }


def _blocks(
    make: Callable[..., Any],
    kind: type[keras.layers.Layer],
    name: str,
    count: int,
    arguments: dict[str, Any],
    **options: Any,
) -> list[Any]:
    """Create `count` encoder or decoder blocks, and serialize a layer given as `attention`."""
    heads, given = arguments["num_heads"], arguments["attention_options"]
    attention = AttentionChoice(arguments["attention"], heads, None, given).attention
    arguments["attention"] = attention
    shared = {one: arguments[one] for one in ("intermediate_dim", "num_heads", "dropout")}
    return [
        make(
            kind,
            f"{name}_{number}",
            attention=attention,
            attention_options=options_at(number + 1, attention, given),
            **shared,
            **options,
        )
        for number in range(count)
    ]


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class Transformer(_Decoder):
    """Encode a source sequence, and predict each target token from the previous ones.

    x = √D·table[source] + position;  x = EncoderBlock(x), num_layers times;  z = LayerNorm(x)
    y = √D·table[target] + position;  y = DecoderBlock(y, z), num_layers times;
    logits = LayerNorm(y)·tableᵀ

    Source, target and output share one table. Padding is id 0: no position attends to it, and its
    logits have no meaning. They carry the target's mask, so Keras losses and metrics leave padding
    out. The target input is the desired output shifted by one, with id 1 (the end of the sequence)
    in front. Sequences may have any length. The searches use `start_cache` and `step`, and
    `prefill` for a prompt (`models.with_prompt`).

    With `universal=True` the model applies a single encoder block and a single decoder block
    `num_layers` times each, and adds the position and a learned step vector before every
    application (Universal Transformer). With `adaptive=True` in addition, each position halts
    separately, after at most `num_layers` applications (`layers.AdaptiveHalting`), and training
    adds the cost of pondering to the loss.

    Args:
        vocabulary_size: integer above 1, number of token ids including 0 (padding) and 1 (end).
        num_layers: positive integer, number of blocks on each side, or of applications of the one
            block.
        hidden_dim: positive integer, the width D.
        intermediate_dim: positive integer, inner width of the feed-forward nets.
        num_heads: positive integer, attention heads; None if `attention` is a layer.
        attention: name of an attention, such as "coda" (the default) or "softmax", or an unbuilt
            layer; see `layers.TransformerEncoder`.
        attention_options: dict of further constructor arguments for a named attention.
        dropout: rate in [0, 1) of every dropout. Defaults to 0.1.
        universal: whether the blocks share their weights. Defaults to False.
        adaptive: whether each position of a universal model halts separately. Defaults to False.
        halting_options: dict of arguments of `layers.AdaptiveHalting`, for an adaptive model.
        **kwargs: `name`, `trainable` and `dtype` (a policy; the logits are always float32).

    Call arguments:
        inputs: dict of `source` (B, S) and `target` (B, T), integers.
        training: whether dropout is on.

    Returns:
        Logits (B, T, vocabulary_size), float32.

    Raises:
        ValueError: if an argument is out of range.

    Example:
    >>> model = Transformer(
    ...     vocabulary_size=20, num_layers=1, hidden_dim=16, intermediate_dim=32, num_heads=2
    ... )
    >>> ids = keras.ops.ones((2, 5), dtype="int32")
    >>> model({"source": ids, "target": ids[:, :3]}).shape == (2, 3, 20)
    True

    Named sizes: `Transformer(vocabulary_size=258, **TRANSFORMER_SIZES["tiny"])`.

    Source: Vaswani et al. 2017, "Attention Is All You Need"; Dehghani et al. 2019, "Universal
    Transformers"; details as in Tensor2Tensor, except that no target-space vector is added. CoDA:
    Tay et al. 2019, eq. 10.
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_layers: int,
        hidden_dim: int,
        intermediate_dim: int,
        num_heads: int | None = None,
        attention: Any = "coda",
        attention_options: dict[str, Any] | None = None,
        dropout: float = 0.1,
        universal: bool = False,
        adaptive: bool = False,
        halting_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        check_token_ids(vocabulary_size)
        make = self._begin(locals(), positive=("num_layers", "hidden_dim"), rates=("dropout",))
        if adaptive and not universal:
            raise ValueError(
                "`adaptive` needs `universal=True`. Received: adaptive=True, universal=False"
            )
        if halting_options and not adaptive:
            raise ValueError(
                "`halting_options` need `adaptive=True`. "
                f"Received: halting_options={halting_options}, adaptive=False"
            )
        copies, given = 1 if universal else num_layers, self._arguments
        layers = {
            **_input_layers(make, given),
            "encoder_blocks": _blocks(make, TransformerEncoder, "encoder_block", copies, given),
            "decoder_blocks": _blocks(make, TransformerDecoder, "decoder_block", copies, given),
            "encoder_norm": make(LayerNormalization, "encoder_norm", epsilon=1e-6),
            "decoder_norm": make(LayerNormalization, "decoder_norm", epsilon=1e-6),
        }
        for side in ("encoder", "decoder"):
            if universal:
                name = f"{side}_step_signal"
                layers[name] = make(StepSignal, name, num_layers)
            if adaptive:
                name = f"{side}_halting"
                layers[name] = make(AdaptiveHalting, name, **(halting_options or {}))
        self._hold(**layers)
        self.num_layers, self.hidden_dim = num_layers, hidden_dim
        self.universal, self.adaptive = universal, adaptive
        inputs = id_inputs("source", "target")
        source, target = inputs.values()
        self._end(inputs, self._decode(target, self.encode(source), is_real(source)), kwargs)

    def encode(self, source: Tensor, training: bool | None = None) -> Tensor:
        """Return the encoder's outputs (B, S, hidden_dim) for token ids `source` (B, S)."""
        mask = is_real(source)

        def apply(x: Tensor, i: int) -> Tensor:
            return self._block(self.encoder_blocks, i)(x, mask=mask, training=training)

        x = self._embed(source, training=training)
        x = self._apply_blocks("encoder", apply, x, mask=mask, training=training)
        return self.encoder_norm(x)

    def explain(self, source: Tensor, target: Tensor) -> dict[str, Tensor]:
        """Return the `logits` (B, T, vocabulary_size) for ids (B, S) and (B, T).

        Also return the cross-attentions' `weights` (B, num_layers, heads, T, S). For those of a
        decoded answer, pass id 1 followed by the answer as `target`.
        """
        source, target = ops.cast(source, "int32"), ops.cast(target, "int32")
        weights: list[Tensor] = []
        logits = self._decode(target, self.encode(source), is_real(source), weights)
        return {"logits": logits, "weights": ops.stack(weights, axis=1)}

    def start_cache(self, source: Tensor, length: Any) -> Cache:
        """Encode `source` (B, S), and return a cache for `length` target tokens, for `step`."""
        source = ops.cast(source, "int32")
        # (B, S, hidden_dim) and (B, S)
        encoded, source_mask = self.encode(source, training=False), is_real(source)
        of_layers = [self._block(self.decoder_blocks, i) for i in range(self.num_layers)]
        blocks = [block.start_cache(encoded, length, source_mask) for block in of_layers]
        target_mask = ops.zeros((ops.shape(source)[0], length), dtype="bool")
        return {"source_mask": source_mask, "target_mask": target_mask, "blocks": blocks}

    def _decode(
        self,
        target: Tensor,
        encoded: Tensor,
        source_mask: Tensor,
        weights: list[Tensor] | None = None,
    ) -> Tensor:
        """Return the logits; append the weights of each cross-attention to `weights` if given."""
        mask = is_real(target)

        def apply(x: Tensor, i: int) -> Tensor:
            block = self._block(self.decoder_blocks, i)
            masks = {"decoder_mask": mask, "encoder_mask": source_mask}
            if weights is None:
                return block(x, encoded, **masks)
            x, scores, _ = block(x, encoded, **masks, return_attention_scores=True)
            weights.append(scores)
            return x

        return self._logits(self._apply_blocks("decoder", apply, self._embed(target), mask=mask))


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class CausalTransformer(_Decoder):
    """Predict each token of a sequence from the previous ones: a language model.

    x = √D·table[ids] + position;  x = DecoderBlock(x), num_layers times;
    logits = LayerNorm(x)·tableᵀ

    The blocks are `layers.TransformerDecoder` without an encoder: position t sees positions 0 … t.
    With `normalize_first=False` the blocks end with a norm, so there is no final norm. Ids, padding
    and masks are as in `Transformer`; the input is the desired output shifted by one, with id 1 in
    front. If CoDA subtracts means, it takes them over the positions that each query sees.

    Args:
        vocabulary_size: integer above 1, number of token ids including 0 (padding) and 1 (end).
        num_layers: positive integer, number of blocks.
        hidden_dim: positive integer, the width D.
        intermediate_dim: positive integer, inner width of the feed-forward nets.
        num_heads: positive integer, attention heads; None if `attention` is a layer.
        attention: name of an attention, such as "coda" (the default) or "softmax", or an unbuilt
            layer; see `layers.TransformerEncoder`.
        attention_options: dict of further constructor arguments for a named attention.
        dropout: rate in [0, 1) of every dropout. Defaults to 0.1.
        normalize_first: True for pre-norm, False for post-norm blocks. Defaults to True.
        **kwargs: `name`, `trainable` and `dtype` (a policy; the logits are always float32).

    Call arguments:
        inputs: ids (B, T), integers.
        training: whether dropout is on.

    Returns:
        Logits (B, T, vocabulary_size), float32.

    Raises:
        ValueError: if an argument is out of range.

    Example:
    >>> model = CausalTransformer(
    ...     vocabulary_size=20, num_layers=1, hidden_dim=16, intermediate_dim=32, num_heads=2
    ... )
    >>> model(keras.ops.convert_to_tensor([[1, 5, 3], [1, 4, 0]])).shape == (2, 3, 20)
    True
    >>> tokens, log_probability = model.generate(keras.ops.convert_to_tensor([[5, 3]]), length=4)
    >>> keras.ops.convert_to_numpy(tokens)[:, :2].tolist()
    [[5, 3]]

    Source: Liu et al. 2018, "Generating Wikipedia by Summarizing Long Sequences", section 4.2;
    details as in `Transformer`. CoDA: Tay et al. 2019, eq. 10.
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_layers: int,
        hidden_dim: int,
        intermediate_dim: int,
        num_heads: int | None = None,
        attention: Any = "coda",
        attention_options: dict[str, Any] | None = None,
        dropout: float = 0.1,
        normalize_first: bool = True,
        **kwargs: Any,
    ) -> None:
        check_token_ids(vocabulary_size)
        check_choice(normalize_first, (True, False), "normalize_first")
        make = self._begin(locals(), positive=("num_layers", "hidden_dim"), rates=("dropout",))
        given, options = self._arguments, {"normalize_first": normalize_first}
        blocks = _blocks(make, TransformerDecoder, "decoder_block", num_layers, given, **options)
        norm = make(LayerNormalization, "decoder_norm", epsilon=1e-6) if normalize_first else None
        self._hold(**_input_layers(make, given), decoder_blocks=blocks, decoder_norm=norm)
        self.num_layers = num_layers
        ids = keras.Input((None,), dtype="int32", name="ids")
        mask, x = is_real(ids), self._embed(ids)
        for block in blocks:
            x = block(x, decoder_mask=mask)
        self._end(ids, self._logits(x), kwargs)

    def start_cache(self, batch_size: Any, length: Any) -> Cache:
        """Return a cache for `length` tokens in each of `batch_size` rows, for `step`."""
        blocks = [
            block.start_cache(None, length, batch_size=batch_size) for block in self.decoder_blocks
        ]
        return {"target_mask": ops.zeros((batch_size, length), dtype="bool"), "blocks": blocks}

    def generate(
        self,
        prompt: Tensor,
        length: Any,
        search: Callable[..., tuple[Tensor, Tensor]] = greedy_search,
        **options: Any,
    ) -> tuple[Tensor, Tensor]:
        """Continue each prompt, one position at a time from the cache.

        The prompts are read in one call, up to the end of the shortest (`models.with_prompt`).
        Padding in them is ignored, and an end token in a prompt does not end the sequence.

        Args:
            prompt: ids (B, P), integers below `vocabulary_size`, without the start symbol; pad
                shorter prompts on either side. P may be 0.
            length: largest number of tokens, including the prompt; at least P.
            search: `models.greedy_search` (the default), `models.beam_search` or
                `models.sampling_search`.
            **options: options of the search, such as `beam_width`.

        Returns:
            Tokens (B, length), int32, that begin with the tokens of the prompt, and the
            log-probability (B,) of the tokens after the prompt. Padding follows the end.

        Raises:
            ValueError: if the prompt is not a matrix of integers, or longer than `length`.
        """
        prompt = ops.convert_to_tensor(prompt)
        dtype = keras.backend.standardize_dtype(prompt.dtype)
        if len(prompt.shape) != 2 or "int" not in dtype:
            raise ValueError(
                "`prompt` must be integers of shape (batch, length). "
                f"Received: prompt.shape={tuple(prompt.shape)}, prompt.dtype={dtype}"
            )
        batch_size, given = ops.shape(prompt)
        if isinstance(given, int) and isinstance(length, int) and given > length:
            raise ValueError(
                "`length` must be at least the length of the prompt. "
                f"Received: length={length}, prompt.shape={tuple(prompt.shape)}"
            )
        step, cache = with_prompt(
            self.step,
            self.start_cache(batch_size, length),
            prompt,
            prefill=self.prefill,
            **{name: options[name] for name in ("start_id", "padding_id") if name in options},
        )
        return search(step, cache, length, **options)


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class TransformerClassifier(FunctionalModel):
    """Classify a text with Transformer encoder blocks, a mean over positions and a linear layer.

    x = √D·table[ids] + position;  x = EncoderBlock(x), num_layers times;
    logits = W·mean_t LayerNorm(x)_t + b

    Padding is id 0, follows the text and has no effect (Tensor2Tensor's mean includes it). A text
    of padding alone gives the logits b.

    Args:
        vocabulary_size: number of token ids, including 0 for padding.
        num_classes: number of classes.
        num_layers: number of encoder blocks.
        hidden_dim: the width D.
        intermediate_dim: inner width of the feed-forward nets.
        num_heads: attention heads; None if `attention` is a layer.
        attention: name of an attention, such as "coda" (the default) or "softmax", or an unbuilt
            layer; see `layers.TransformerEncoder`.
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

    Source: Vaswani et al. 2017, "Attention Is All You Need"; Tensor2Tensor's `transformer_encoder`.
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
        make = self._begin(
            locals(),
            positive=("vocabulary_size", "num_classes", "num_layers", "hidden_dim"),
            rates=("dropout",),
        )
        ids = keras.Input((None,), dtype="int32", name="ids")
        mask, x = is_real(ids), ids
        for layer in _input_layers(make, self._arguments).values():
            x = layer(x)
        kind, name = TransformerEncoder, "encoder_block"
        for block in _blocks(make, kind, name, num_layers, self._arguments):
            x = block(x, mask=mask)
        x = make(LayerNormalization, "encoder_norm", epsilon=1e-6)(x)
        x = make(MaskedPooling, "pooling")(x, mask=mask)  # (B, T, hidden_dim) to (B, hidden_dim)
        self._end(ids, make(keras.layers.Dense, "logits", num_classes, dtype="float32")(x), kwargs)

    def explain(self, ids: Tensor) -> dict[str, Tensor]:
        """Return the logits (B, num_classes) of ids (B, T); no position has a single weight."""
        return {"logits": self(ops.cast(ids, "int32"), training=False)}
