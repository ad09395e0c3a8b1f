"""A baseline reader: bidirectional attention flow between two recurrent encoders."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.layers import AttentionFlow
from keras_quasiattn.layers.recurrence import BidirectionalGRU
from keras_quasiattn.models.reader import Reader, Shape, SpanNetwork

Tensor = Any


class AttentionFlowNetwork(SpanNetwork):
    """The network of `AttentionFlowReader`, with its arguments from `units` on."""

    def __init__(self, *, units: int, dropout: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.encoder, *self.modelling, self.ending = (
            BidirectionalGRU(units, dropout, dtype=self.dtype_policy, name=name)
            for name in ("encoder", "modelling_0", "modelling_1", "ending")
        )
        self.flow = AttentionFlow(dtype=self.dtype_policy, name="flow")
        options: Any = {"use_bias": False, "dtype": "float32"}
        self.start_logit = keras.layers.Dense(1, name="start_logit", **options)
        self.end_logit = keras.layers.Dense(1, name="end_logit", **options)

    def build(self, inputs_shape: list[Shape]) -> None:
        """Create the weights."""
        states = (*inputs_shape[0][:-1], 2 * self.units)
        self.encoder.build(inputs_shape[0])
        self.flow.build([states, states])
        flow = self.flow.compute_output_shape([states, states])
        layers = (*self.modelling, self.ending)
        for layer, shape in zip(layers, (flow, states, states), strict=True):
            layer.build(shape)
        for logit in (self.start_logit, self.end_logit):
            logit.build((*states[:-1], flow[-1] + states[-1]))

    def call(
        self,
        inputs: list[Tensor],
        mask: list[Tensor | None] | None = None,
        training: bool | None = None,
    ) -> Tensor:
        """Return the logits; see the class."""
        masks = list(mask or (None, None))
        given = zip(inputs, masks, strict=True)
        pair = [self.encoder(x, mask=m, training=training) for x, m in given]
        flow = states = self.flow(pair, mask=masks)  # (B, P, 8·units)
        for layer in self.modelling:
            states = layer(states, mask=masks[0], training=training)  # (B, P, 2·units)
        ending = self.ending(states, mask=masks[0], training=training)
        start = self.start_logit(ops.concatenate([flow, states], axis=-1))  # (B, P, 1)
        end = self.end_logit(ops.concatenate([flow, ending], axis=-1))
        return ops.concatenate([start, end], axis=-1)


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class AttentionFlowReader(Reader):
    """Find the answer span in a passage with one attention between passage and question.

    P, Q = BiGRU(words), one BiGRU for both;  G = AttentionFlow(P, Q);  M = BiGRU(BiGRU(G));
    start = [G; M]·w_s;  end = [G; BiGRU(M)]·w_e

    A baseline in the style of BiDAF, with GRUs instead of LSTMs and without its highway layers.

    Args:
        vocabulary_size: number of token ids, including 0 for padding.
        embedding_dim: width of the word embedding. Defaults to 300.
        train_embedding: whether the word embedding is trained. Defaults to True.
        character_units: state size of the character GRU in each direction; 0 (the default) uses no
            characters.
        character_dim: width of the character embedding. Defaults to 20.
        exact_match: whether the network reads whether each word occurs in the other text. Defaults
            to True.
        frequency: whether the network reads how frequent each word is in its own text. Defaults to
            True.
        units: size of every recurrent state in each direction. Defaults to 64.
        dropout: rate in [0, 1) before every recurrent layer; all positions share one dropout mask.
            Defaults to 0.2.
        **kwargs: `name`, `trainable` and `dtype` (a policy; the logits are always float32).

    Call arguments:
        inputs: {"passage": ids (B, P), "question": ids (B, Q)}, integers, 0 for padding. With
            `character_units` also "passage_characters" (B, P, C) and "question_characters" (B, Q,
            C), integers from 0 (padding) to 256. With `exact_match` or `frequency` also
            "passage_forms" (B, P) and "question_forms" (B, Q), integers that are equal for words
            that count as the same.
        training: whether dropout is on.

    Returns:
        Logits (B, P, 2) of start and end, float32, −1e9 at padding.

    Raises:
        ValueError: if an argument is out of range.

    Example:
    >>> model = AttentionFlowReader(
    ...     20, embedding_dim=6, units=4, exact_match=False, frequency=False
    ... )
    >>> words = {
    ...     "passage": keras.ops.ones((1, 7), "int32"),
    ...     "question": keras.ops.ones((1, 3), "int32"),
    ... }
    >>> model(words).shape == (1, 7, 2)
    True

    Source: Seo et al. 2017, "Bidirectional Attention Flow for Machine Comprehension".
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        embedding_dim: int = 300,
        train_embedding: bool = True,
        character_units: int = 0,
        character_dim: int = 20,
        exact_match: bool = True,
        frequency: bool = True,
        units: int = 64,
        dropout: float = 0.2,
        **kwargs: Any,
    ) -> None:
        super().__init__(AttentionFlowNetwork, locals())
