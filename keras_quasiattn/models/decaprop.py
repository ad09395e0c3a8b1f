"""DecaProp: a reader whose layers are all connected with all."""

from typing import Any

import keras

from keras_quasiattn.models.decaprop_network import DecaPropNetwork
from keras_quasiattn.models.functional_model import policy_of
from keras_quasiattn.models.reader import Reader


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class DecaProp(Reader):
    """A question and a passage to where the answer begins and ends, by densely connected attention propagation.

    P_i, Q_i = BiGRU_i(P_{i−1}), BiGRU_i(Q_{i−1});  P̃ = [P_1; …; P_n; connector_ij(P_i, Q_j) for all i, j], likewise Q̃;
    U_1 = BiGRU(attend(P̃, Q̃));  U_2 = BiGRU(attend(U_1, U_1));  logits = pointer([U_2; connector(U_k, Q_j) for all k, j])

    with 2d wide layers, n² connectors of 3 numbers each (6 with `use_intra`) and the gated attention of
    `layers.GatedContextQueryAttention`, which "coda" may stand in. The paper's code lets the last connectors replace U_2;
    here they stand beside it, as the dense features of the other layers do. The paper's variant that feeds features
    into the next recurrent layer, and contextual vectors, are not here. Words are compared as they are, not by stems.

    In a training step one connector is in memory at a time; the rest is recomputed for its gradient.

    Args:
        vocabulary_size: number of token ids, with 0 for padding.
        embedding_dim: width of the words' embedding. Defaults to 300.
        train_embedding: whether training changes it. Defaults to True.
        character_units: size of a state of the characters' GRU in each direction, 0 (the default) for no characters.
        character_dim: width of the characters' embedding. Defaults to 20.
        exact_match: whether words are told that they occur in the other text. Defaults to True.
        frequency: whether words are told their frequency. Defaults to True.
        units: d, of every recurrent layer in each direction and of the attentions' projections. Defaults to 64.
        num_layers: n, recurrent layers that both texts share. Defaults to 3.
        connectors: whether there are the n² connectors. Defaults to True.
        use_intra: whether a connector aligns each text to itself, too. Defaults to False.
        factors: of the factorization machines. Defaults to 32.
        attention: of the passage to the question: name of a mechanism, such as "softmax" (the default) or "coda".
        attention_options: for "coda", dict of constructor arguments of `CoDA`.
        self_attention: of the passage to itself, as `attention`, or "none".
        final_connectors: whether U_1 and U_2 are connected with every layer of the question. Defaults to True.
        pointer: "recurrent" (`layers.RecurrentSpanPointer`) or "attentive" (`layers.AttentiveSpanPointer`).
        dropout: rate in [0, 1) before every recurrent layer, one mask over time, and in the attentions. Defaults to 0.2.
        **kwargs: `name`, `trainable`, and `dtype` (a policy; the logits are float32 under any).

    Call arguments:
        inputs: as `Reader` has them.
        training: whether dropout is on.

    Returns:
        Logits (B, P, 2) of start and end, float32, −1e9 at padding.

    Raises:
        ValueError: an argument is out of range.

    Example:
    >>> model = DecaProp(vocabulary_size=20, embedding_dim=6, units=4, num_layers=2)
    >>> words = {"passage": keras.ops.ones((1, 7), "int32"), "question": keras.ops.ones((1, 3), "int32")}
    >>> model({**words, **{f"{side}_forms": ids for side, ids in words.items()}}).shape == (1, 7, 2)
    True

    Source: Tay et al. 2018, "Densely Connected Attention Propagation for Reading Comprehension", and its published
    code; with CoDA: Tay et al. 2019, "Compositional De-Attention Networks", §3.1.
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
        num_layers: int = 3,
        connectors: bool = True,
        use_intra: bool = False,
        factors: int = 32,
        attention: str = "softmax",
        attention_options: dict[str, Any] | None = None,
        self_attention: str = "softmax",
        final_connectors: bool = True,
        pointer: str = "recurrent",
        dropout: float = 0.2,
        **kwargs: Any,
    ) -> None:
        policy = policy_of(kwargs.pop("dtype", None))
        arguments: dict[str, Any] = {
            "units": units,
            "num_layers": num_layers,
            "connectors": connectors,
            "use_intra": use_intra,
            "factors": factors,
            "attention": attention,
            "attention_options": attention_options,
            "self_attention": self_attention,
            "final_connectors": final_connectors,
            "pointer": pointer,
            "dropout": dropout,
        }
        super().__init__(
            DecaPropNetwork(**arguments, dtype=policy, name="network"),
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
