"""A baseline reader: bidirectional attention flow between two recurrent encoders."""

from typing import Any

import keras

from keras_quasiattn.models.attention_flow_network import AttentionFlowNetwork
from keras_quasiattn.models.functional_model import arguments_of
from keras_quasiattn.models.reader import Reader


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class AttentionFlowReader(Reader):
    """Finds the answer span in a passage, by one attention between passage and question.

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
        exact_match: whether each word gets a flag for occurring in the other text. Defaults to
            True.
        frequency: whether each word gets its frequency in its own text. Defaults to True.
        units: size of every recurrent state in each direction. Defaults to 64.
        dropout: rate in [0, 1) before every recurrent layer; one dropout mask serves all positions.
            Defaults to 0.2.
        **kwargs: `name`, `trainable` and `dtype` (a policy; the logits are always float32).

    Call arguments:
        inputs: dict of tensors; see `Reader`.
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
        super().__init__(
            AttentionFlowNetwork, arguments_of(AttentionFlowReader.__init__, locals()), **kwargs
        )
