"""DecaProp: a reader in which every layer is connected to every other."""

from typing import Any

import keras

from keras_quasiattn.models.decaprop_network import DecaPropNetwork
from keras_quasiattn.models.functional_model import arguments_of
from keras_quasiattn.models.reader import Reader


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class DecaProp(Reader):
    """Finds the answer span in a passage by densely connected attention propagation.

    P_i, Q_i = BiGRU_i(P_{i−1}), BiGRU_i(Q_{i−1});
    P̃ = [P_1; …; P_n; connector_ij(P_i, Q_j) for all i, j], and Q̃ by the same rule;
    U_1 = BiGRU(attend(P̃, Q̃));  U_2 = BiGRU(attend(U_1, U_1));
    logits = pointer([U_2; connector(U_k, Q_j) for all k, j])

    Each layer is 2d wide. Each of the n² connectors gives 3 numbers per position (6 with
    `use_intra`). `attend` is the gated attention of `layers.GatedContextQueryAttention`, with
    softmax or "coda". In the paper's code the final connectors replace U_2; here they are
    concatenated with it, like the dense features of the other layers. Two parts of the paper are
    not implemented: the variant that feeds features into the next recurrent layer, and contextual
    vectors. Words are compared as they are, without stemming.

    In training only one connector's tensors are in memory at a time; its gradient recomputes them.

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
        units: d, the size of every recurrent state in each direction and of the attention
            projections. Defaults to 64.
        num_layers: n, the number of recurrent layers; both texts share them. Defaults to 3.
        connectors: whether to use the n² connectors. Defaults to True.
        use_intra: whether the n² connectors also align each text to itself. Defaults to False.
        factors: number of factors of the factorization machines. Defaults to 32.
        attention: mechanism by which the passage attends to the question, such as "softmax" (the
            default) or "coda".
        attention_options: for "coda", dict of constructor arguments of `CoDA`; they also apply to
            `self_attention` where it names the same mechanism.
        self_attention: mechanism by which the passage attends to itself, or "none". Defaults to
            "softmax".
        final_connectors: whether U_1 and U_2 are connected to every layer of the question. Defaults
            to True.
        pointer: "recurrent" (`layers.RecurrentSpanPointer`, the default) or "attentive"
            (`layers.AttentiveSpanPointer`).
        dropout: rate in [0, 1) before every recurrent layer (one dropout mask serves all positions)
            and before the gates of the attentions. Defaults to 0.2.
        attention_dropout: rate in [0, 1) before the projections that the attentions compare.
            Defaults to 0; see `layers.GatedContextQueryAttention`.
        **kwargs: `name`, `trainable` and `dtype` (a policy; the logits are always float32).

    Call arguments:
        inputs: dict of tensors; see `Reader`.
        training: whether dropout is on.

    Returns:
        Logits (B, P, 2) of start and end, float32, −1e9 at padding.

    Raises:
        ValueError: if an argument is out of range.

    Example:
    >>> model = DecaProp(vocabulary_size=20, embedding_dim=6, units=4, num_layers=2)
    >>> words = {
    ...     "passage": keras.ops.ones((1, 7), "int32"),
    ...     "question": keras.ops.ones((1, 3), "int32"),
    ... }
    >>> model({**words, **{f"{side}_forms": ids for side, ids in words.items()}}).shape == (1, 7, 2)
    True

    Source: Tay et al. 2018, "Densely Connected Attention Propagation for Reading Comprehension",
    and its published code; with CoDA: Tay et al. 2019, "Compositional De-Attention Networks", §3.1.
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
        attention_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(DecaPropNetwork, arguments_of(DecaProp.__init__, locals()), **kwargs)
