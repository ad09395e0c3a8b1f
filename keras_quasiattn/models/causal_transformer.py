"""A decoder-only Transformer: a language model with any attention."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_quasiattn.attention.cache import write_first
from keras_quasiattn.attention.choice import AttentionChoice, options_at
from keras_quasiattn.core.arguments import check_positive_integer, check_rate
from keras_quasiattn.core.tensors import check_choice
from keras_quasiattn.layers.dense import LayerNormalization
from keras_quasiattn.layers.position_signals import TimingSignal
from keras_quasiattn.layers.token_embedding import TokenEmbedding
from keras_quasiattn.layers.transformer_decoder import TransformerDecoder
from keras_quasiattn.models.decoding import greedy_search
from keras_quasiattn.models.functional_model import FunctionalModel, arguments_of, policy_of
from keras_quasiattn.models.prompts import with_prompt
from keras_quasiattn.models.real_tokens import first_real, is_real, mark_real

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class CausalTransformer(FunctionalModel):
    """A language model: predicts each token of a sequence from the previous ones.

    x = √D·table[ids] + position;  x = DecoderBlock(x), num_layers times;
    logits = LayerNorm(x)·tableᵀ

    The blocks are `layers.TransformerDecoder` without an encoder: position t sees positions 0 … t.
    With `normalize_first=False` the blocks end with a norm, and the last norm is left out. Input
    and output share one table. Padding is id 0: no position attends to it, and its logits have no
    meaning. The logits carry the mask of the ids, so Keras losses and metrics leave padding out.
    The input is the wanted output shifted by one, with id 1 (the end of the sequence, also used as
    start symbol) in front. Sequences may have any length. Where CoDA centres, means are taken over
    the positions that each query sees.

    Args:
        vocabulary_size: integer above 1, number of token ids including 0 (padding) and 1 (end).
        num_layers: positive integer, number of blocks.
        hidden_dim: positive integer, the width D.
        intermediate_dim: positive integer, inner width of the feed-forward nets.
        num_heads: positive integer, attention heads; None if `attention` is a layer.
        attention: name of a mechanism, such as "coda" (the default) or "softmax", or an unbuilt
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

    Named sizes: `CausalTransformer(vocabulary_size=258, **TRANSFORMER_SIZES["tiny"])`.

    Reference: Liu et al. 2018, "Generating Wikipedia by Summarizing Long Sequences", section 4.2;
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
        if check_positive_integer(vocabulary_size, "vocabulary_size") < 2:
            raise ValueError(
                f"`vocabulary_size` must be above 1. Received: vocabulary_size={vocabulary_size}"
            )
        check_positive_integer(num_layers, "num_layers")
        check_positive_integer(hidden_dim, "hidden_dim")
        check_rate(dropout, "dropout")
        check_choice(normalize_first, (True, False), "normalize_first")
        policy = policy_of(kwargs.pop("dtype", None))
        # A layer given as `attention` becomes plain config once; every block copies it from there.
        attention = AttentionChoice(attention, num_heads, None, attention_options).attention
        self._arguments = arguments_of(CausalTransformer.__init__, locals())
        blocks = [
            TransformerDecoder(
                intermediate_dim=intermediate_dim,
                num_heads=num_heads,
                attention=attention,
                attention_options=options_at(number + 1, attention, attention_options),
                dropout=dropout,
                normalize_first=normalize_first,
                dtype=policy,
                name=f"decoder_block_{number}",
            )
            for number in range(num_layers)
        ]
        self._hold(
            token_embedding=TokenEmbedding(
                vocabulary_size, hidden_dim, dtype=policy, name="token_embedding"
            ),
            timing_signal=TimingSignal(dtype=policy, name="timing_signal"),
            embedding_dropout=keras.layers.Dropout(dropout, dtype=policy, name="embedding_dropout"),
            decoder_blocks=blocks,
            decoder_norm=LayerNormalization(epsilon=1e-6, dtype=policy, name="decoder_norm")
            if normalize_first
            else None,
        )
        ids = keras.Input((None,), dtype="int32", name="ids")
        mask, x = is_real(ids), self._embed(ids)
        for block in blocks:
            x = block(x, decoder_mask=mask)
        super().__init__(inputs=ids, outputs=self._logits(x), **kwargs)
        self.dtype_policy = policy

    def start_cache(self, batch_size: Any, length: Any) -> dict[str, Any]:
        """Makes room for `length` tokens in each of `batch_size` rows, for `step`.

        Every tensor of the cache has the batch as first axis, so a search may repeat, drop and
        reorder rows.
        """
        blocks = [
            block.start_cache(None, length, batch_size=batch_size) for block in self.decoder_blocks
        ]
        return {"mask": ops.zeros((batch_size, length), dtype="bool"), "blocks": blocks}

    def step(
        self, tokens: Tensor, index: Any, cache: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Any]]:
        """Runs the model for one position; the logits equal those of a full pass without dropout.

        Args:
            tokens: (B,) integers, the tokens at position `index` (id 1 at index 0).
            index: scalar integer below the `length` of the cache; all earlier positions must have
                been passed already.
            cache: from `start_cache` or the previous step.

        Returns:
            Logits (B, vocabulary_size), float32, and the cache for the next position.
        """
        tokens = ops.expand_dims(ops.cast(tokens, "int32"), 1)  # (B, 1)
        mask = mark_real(cache["mask"], tokens, index)
        x = self._embed(tokens, start_index=index, training=False)
        blocks = []
        for block, block_cache in zip(self.decoder_blocks, cache["blocks"], strict=True):
            x, block_cache = block.step(x, index, block_cache, mask)
            blocks.append(block_cache)
        return ops.squeeze(self._logits(x), axis=1), {"mask": mask, "blocks": blocks}

    def prefill(self, tokens: Tensor, count: Any, cache: dict[str, Any]) -> dict[str, Any]:
        """Does in one pass what `step` does for the first tokens, one after the other.

        Args:
            tokens: (B, P) integers, from position 0 on (id 1 at position 0).
            count: scalar integer, how many of the P columns to read.
            cache: from `start_cache`.

        Returns:
            The cache for a step at position `count`.
        """
        tokens = ops.cast(tokens, "int32")
        mask, x = first_real(tokens, count), self._embed(tokens, training=False)
        blocks = []
        for block, block_cache in zip(self.decoder_blocks, cache["blocks"], strict=True):
            x, block_cache = block.prefill(x, block_cache, mask)
            blocks.append(block_cache)
        return {"mask": write_first(cache["mask"], mask), "blocks": blocks}

    def generate(
        self,
        prompt: Tensor,
        length: Any,
        search: Callable[..., tuple[Tensor, Tensor]] = greedy_search,
        **options: Any,
    ) -> tuple[Tensor, Tensor]:
        """Continues each prompt, one position at a time from the cache.

        The prompts are read in one pass, up to the end of the shortest one (`models.with_prompt`).
        Padding in a prompt is left out, wherever it stands: the answer is that of the prompt
        without it. An end token in a prompt ends nothing.

        Args:
            prompt: ids (B, P), integers below `vocabulary_size`, without the start symbol; shorter
                ones are padded, on either side. P may be 0.
            length: largest number of tokens, those of the prompt included; at least P.
            search: `models.greedy_search`, `models.beam_search` or `models.sampling_search`.
            **options: options of the search, such as `beam_width`.

        Returns:
            Tokens (B, length), int32, that begin with the tokens of the prompt, and the
            log-probability (B,) of those after them. Padding fills what follows the end of a
            sequence.

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

    def _embed(self, ids: Tensor, start_index: Any = 0, training: bool | None = None) -> Tensor:
        x = self.timing_signal(self.token_embedding(ids), start_index=start_index)
        return self.embedding_dropout(x, training=training)

    def _logits(self, x: Tensor) -> Tensor:
        x = x if self.decoder_norm is None else self.decoder_norm(x)
        return self.token_embedding(x, reverse=True)
