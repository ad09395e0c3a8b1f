"""The encoder-decoder Transformer and the Universal Transformer, with any attention."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_quasiattn.attention.cache import write_first
from keras_quasiattn.attention.choice import AttentionChoice, options_at
from keras_quasiattn.core.arguments import check_positive_integer, check_rate
from keras_quasiattn.layers.adaptive_halting import AdaptiveHalting
from keras_quasiattn.layers.dense import LayerNormalization
from keras_quasiattn.layers.position_signals import StepSignal, TimingSignal
from keras_quasiattn.layers.token_embedding import TokenEmbedding
from keras_quasiattn.layers.transformer_decoder import TransformerDecoder
from keras_quasiattn.layers.transformer_encoder import TransformerEncoder
from keras_quasiattn.models.functional_model import FunctionalModel, arguments_of, policy_of
from keras_quasiattn.models.real_tokens import first_real, is_real, mark_real

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class Transformer(FunctionalModel):
    """Sequence to sequence: reads a source, then predicts each target token from the previous ones.

    x = √D·table[source] + position;  x = EncoderBlock(x), num_layers times;  z = LayerNorm(x)
    y = √D·table[target] + position;  y = DecoderBlock(y, z), num_layers times;
    logits = LayerNorm(y)·tableᵀ

    Source, target and output share one table. Padding is id 0: no position attends to it, and its
    logits have no meaning. The logits carry the target's mask, so Keras losses and metrics leave
    padding out. The target input is the wanted output shifted by one, with id 1 (the end of the
    sequence, also used as start symbol) in front. Sequences may have any length.

    `start_cache` and `step` serve the searches, and `prefill` reads the beginning of the answers at
    once where it is given (`models.with_prompt`).

    With `universal=True` a single encoder block and a single decoder block are applied `num_layers`
    times each, and the position and a learned step vector are added before every application
    (Universal Transformer). With `adaptive=True` too, each position halts on its own, at the latest
    after `num_layers` applications (`layers.AdaptiveHalting`). Its output is the weighted mean of
    its states, and the cost of pondering is added to the loss in training.

    Args:
        vocabulary_size: integer above 1, number of token ids including 0 (padding) and 1 (end).
        num_layers: positive integer, number of blocks on each side, or of applications of the one
            block.
        hidden_dim: positive integer, the width D.
        intermediate_dim: positive integer, inner width of the feed-forward nets.
        num_heads: positive integer, attention heads; None if `attention` is a layer.
        attention: name of a mechanism, such as "coda" (the default) or "softmax", or an unbuilt
            layer; see `TransformerEncoder`.
        attention_options: dict of further constructor arguments for a named attention.
        dropout: rate in [0, 1) of every dropout. Defaults to 0.1.
        universal: whether the blocks share their weights. Defaults to False.
        adaptive: whether each position of a universal model halts on its own. Defaults to False.
        halting_options: dict of constructor arguments of `layers.AdaptiveHalting`, for an adaptive
            model.
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

    Reference: Vaswani et al. 2017, "Attention Is All You Need"; Dehghani et al. 2019, "Universal
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
        if check_positive_integer(vocabulary_size, "vocabulary_size") < 2:
            raise ValueError(
                f"`vocabulary_size` must be above 1. Received: vocabulary_size={vocabulary_size}"
            )
        check_positive_integer(num_layers, "num_layers")
        check_positive_integer(hidden_dim, "hidden_dim")
        check_rate(dropout, "dropout")
        if adaptive and not universal:
            raise ValueError(
                "`adaptive` needs `universal=True`. Received: adaptive=True, universal=False"
            )
        if halting_options and not adaptive:
            raise ValueError(
                "`halting_options` need `adaptive=True`. "
                f"Received: halting_options={halting_options}, adaptive=False"
            )
        policy = policy_of(kwargs.pop("dtype", None))
        # A layer given as `attention` becomes plain config once; every block copies it from there.
        attention = AttentionChoice(attention, num_heads, None, attention_options).attention
        self._arguments = arguments_of(Transformer.__init__, locals())

        def block(number: int) -> dict[str, Any]:
            return {
                "intermediate_dim": intermediate_dim,
                "num_heads": num_heads,
                "attention": attention,
                "attention_options": options_at(number + 1, attention, attention_options),
                "dropout": dropout,
                "dtype": policy,
            }

        copies = 1 if universal else num_layers
        layers = {
            "token_embedding": TokenEmbedding(
                vocabulary_size, hidden_dim, dtype=policy, name="token_embedding"
            ),
            "timing_signal": TimingSignal(dtype=policy, name="timing_signal"),
            "embedding_dropout": keras.layers.Dropout(
                dropout, dtype=policy, name="embedding_dropout"
            ),
            "encoder_blocks": [
                TransformerEncoder(**block(i), name=f"encoder_block_{i}") for i in range(copies)
            ],
            "decoder_blocks": [
                TransformerDecoder(**block(i), name=f"decoder_block_{i}") for i in range(copies)
            ],
            "encoder_norm": LayerNormalization(epsilon=1e-6, dtype=policy, name="encoder_norm"),
            "decoder_norm": LayerNormalization(epsilon=1e-6, dtype=policy, name="decoder_norm"),
        }
        if universal:
            for name in ("encoder_step_signal", "decoder_step_signal"):
                layers[name] = StepSignal(num_layers, dtype=policy, name=name)
        if adaptive:
            for name in ("encoder_halting", "decoder_halting"):
                layers[name] = AdaptiveHalting(**(halting_options or {}), dtype=policy, name=name)
        self._hold(**layers)
        self.num_layers, self.hidden_dim = num_layers, hidden_dim
        self.universal, self.adaptive = universal, adaptive

        source = keras.Input((None,), dtype="int32", name="source")
        target = keras.Input((None,), dtype="int32", name="target")
        logits = self._decode(target, self.encode(source), is_real(source))
        super().__init__(inputs={"source": source, "target": target}, outputs=logits, **kwargs)
        self.dtype_policy = policy

    def encode(self, source: Tensor, training: bool | None = None) -> Tensor:
        """Returns the encoder's outputs (B, S, hidden_dim) for token ids `source` (B, S)."""
        mask = is_real(source)

        def apply(x: Tensor, i: int) -> Tensor:
            return self._block(self.encoder_blocks, i)(x, mask=mask, training=training)

        x = self._embed(source, training=training)
        return self.encoder_norm(
            self._apply_blocks("encoder", apply, x, mask=mask, training=training)
        )

    def explain(self, source: Tensor, target: Tensor) -> dict[str, Tensor]:
        """Returns the logits and the decoder's attention weights.

        For the weights of a decoded answer, pass id 1 followed by the answer as `target`.

        Args:
            source: ids (B, S), integers.
            target: ids (B, T), integers.

        Returns:
            `logits` (B, T, vocabulary_size), and the cross-attentions' `weights` (B, num_layers,
            heads, T, S).
        """
        source, target = ops.cast(source, "int32"), ops.cast(target, "int32")
        weights: list[Tensor] = []
        logits = self._decode(target, self.encode(source), is_real(source), weights)
        return {"logits": logits, "weights": ops.stack(weights, axis=1)}

    def start_cache(self, source: Tensor, length: Any) -> dict[str, Any]:
        """Encodes `source` (B, S) and makes room for `length` target tokens, for `step`.

        Every tensor of the cache has the batch as first axis, so a search may repeat, drop and
        reorder rows.
        """
        source = ops.cast(source, "int32")
        # (B, S, hidden_dim) and (B, S)
        encoded, source_mask = self.encode(source, training=False), is_real(source)
        blocks = [
            self._block(self.decoder_blocks, i).start_cache(encoded, length, source_mask)
            for i in range(self.num_layers)
        ]
        target_mask = ops.zeros((ops.shape(source)[0], length), dtype="bool")
        return {"source_mask": source_mask, "target_mask": target_mask, "blocks": blocks}

    def step(
        self, tokens: Tensor, index: Any, cache: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Any]]:
        """Runs the decoder for one position; the logits equal those of a full pass without dropout.

        Args:
            tokens: (B,) integers, the target tokens at position `index` (id 1 at index 0).
            index: scalar integer below the `length` of the cache; all earlier positions must have
                been passed already.
            cache: from `start_cache` or the previous step.

        Returns:
            Logits (B, vocabulary_size), float32, and the cache for the next position.
        """
        tokens = ops.expand_dims(ops.cast(tokens, "int32"), 1)  # (B, 1)
        mask = mark_real(cache["target_mask"], tokens, index)  # (B, length)
        source_mask = cache["source_mask"]

        def read(block: TransformerDecoder, x: Tensor, block_cache: Any) -> tuple[Tensor, Any]:
            return block.step(x, index, block_cache, mask, source_mask)

        x, blocks = self._decode_with_cache(tokens, read, cache, start_index=index)
        logits = ops.squeeze(self._logits(x), axis=1)  # (B, 1, vocabulary_size) to (B, …)
        return logits, {**cache, "target_mask": mask, "blocks": blocks}

    def prefill(self, tokens: Tensor, count: Any, cache: dict[str, Any]) -> dict[str, Any]:
        """Does in one pass what `step` does for the first tokens, one after the other.

        Args:
            tokens: (B, P) integers, the target tokens from position 0 on (id 1 at position 0).
            count: scalar integer, how many of the P columns to read.
            cache: from `start_cache`.

        Returns:
            The cache for a step at position `count`.
        """
        tokens = ops.cast(tokens, "int32")
        mask = first_real(tokens, count)

        def read(block: TransformerDecoder, x: Tensor, block_cache: Any) -> tuple[Tensor, Any]:
            return block.prefill(x, block_cache, mask, cache["source_mask"])

        _, blocks = self._decode_with_cache(tokens, read, cache, mask=mask)
        return {
            **cache,
            "target_mask": write_first(cache["target_mask"], mask),
            "blocks": blocks,
        }

    def _decode_with_cache(
        self,
        tokens: Tensor,
        read: Callable[[TransformerDecoder, Tensor, Any], tuple[Tensor, Any]],
        cache: dict[str, Any],
        start_index: Any = 0,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, list[Any]]:
        """Returns the last block's output and every block's cache."""
        blocks = []

        def apply(x: Tensor, i: int) -> Tensor:
            x, block_cache = read(self._block(self.decoder_blocks, i), x, cache["blocks"][i])
            blocks.append(block_cache)
            return x

        x = self._embed(tokens, start_index=start_index, training=False)
        options = {"start_index": start_index, "mask": mask, "training": False}
        return self._apply_blocks("decoder", apply, x, **options), blocks

    def _decode(
        self,
        target: Tensor,
        encoded: Tensor,
        source_mask: Tensor,
        weights: list[Tensor] | None = None,
    ) -> Tensor:
        """Returns the logits; appends the weights of each cross-attention to `weights` if given."""
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

    def _apply_blocks(
        self,
        side: str,
        apply: Callable[[Tensor, int], Tensor],
        x: Tensor,
        start_index: Any = 0,
        mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        """Applies `apply(x, i)` for every i; universal models add their signals and halting."""
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
        return self.token_embedding(self.decoder_norm(x), reverse=True)
