"""A plain reader: bidirectional attention flow between two recurrent encoders."""

from typing import Any

import keras

from keras_quasiattn.models.attention_flow_network import AttentionFlowNetwork
from keras_quasiattn.models.functional_model import policy_of
from keras_quasiattn.models.reader import Reader


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class AttentionFlowReader(Reader):
    """A question and a passage to where the answer begins and ends, by one attention between them.

    P, Q = BiGRU(words), the same for both;  G = AttentionFlow(P, Q);  M = BiGRU(BiGRU(G));
    start = [G; M]·w_s;  end = [G; BiGRU(M)]·w_e

    A baseline in the style of BiDAF, with GRUs in the place of LSTMs and without its highway layers.

    Args:
        vocabulary_size: number of token ids, with 0 for padding.
        embedding_dim: width of the words' embedding. Defaults to 300.
        train_embedding: whether training changes it. Defaults to True.
        character_units: size of a state of the characters' GRU in each direction, 0 (the default) for no characters.
        character_dim: width of the characters' embedding. Defaults to 20.
        exact_match: whether words are told that they occur in the other text. Defaults to True.
        frequency: whether words are told their frequency. Defaults to True.
        units: of every recurrent layer in each direction. Defaults to 64.
        dropout: rate in [0, 1) before every recurrent layer, one mask over time. Defaults to 0.2.
        **kwargs: `name`, `trainable`, and `dtype` (a policy; the logits are float32 under any).

    Call arguments:
        inputs: as `Reader` has them.
        training: whether dropout is on.

    Returns:
        Logits (B, P, 2) of start and end, float32, −1e9 at padding.

    Raises:
        ValueError: an argument is out of range.

    Example:
    >>> model = AttentionFlowReader(20, embedding_dim=6, units=4, exact_match=False, frequency=False)
    >>> words = {"passage": keras.ops.ones((1, 7), "int32"), "question": keras.ops.ones((1, 3), "int32")}
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
        policy = policy_of(kwargs.pop("dtype", None))
        arguments: dict[str, Any] = {"units": units, "dropout": dropout}
        super().__init__(
            AttentionFlowNetwork(**arguments, dtype=policy, name="network"),
            arguments,
            vocabulary_size=vocabulary_size,
            embedding_dim=embedding_dim,
            train_embedding=train_embedding,
            character_units=character_units,
            character_dim=character_dim,
            exact_match=exact_match,
            frequency=frequency,
            dtype=policy,
            **kwargs,
        )
