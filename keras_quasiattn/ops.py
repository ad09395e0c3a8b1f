"""The attentions as pure functions on tensors."""

from keras_quasiattn.attention.coda.attention import coda_attention, coda_pair
from keras_quasiattn.attention.conflict import conflict_attention, multi_head_conflict_attention
from keras_quasiattn.attention.context_guided import context_guided_attention
from keras_quasiattn.attention.differential import differential_attention
from keras_quasiattn.attention.entmax import entmax, entmax_attention
from keras_quasiattn.attention.forgetting import forgetting_attention
from keras_quasiattn.attention.gated import gated_softmax, gumbel_gate, hard_gates
from keras_quasiattn.attention.null_softmax import null_softmax_attention
from keras_quasiattn.attention.relu import relu_attention
from keras_quasiattn.attention.sigmoid import sigmoid_attention
from keras_quasiattn.attention.signed_softmax import signed_softmax_attention
from keras_quasiattn.attention.softmax import alignment_pair, softmax_attention
from keras_quasiattn.attention.sparsemax import sparsemax, sparsemax_attention
from keras_quasiattn.core.l1 import pairwise_l1
from keras_quasiattn.core.positions import alibi_bias, rotary_embedding
from keras_quasiattn.core.ragged import from_ragged
from keras_quasiattn.layers.attention_flow import attention_flow
from keras_quasiattn.layers.conflict_attention import alignment_attention
from keras_quasiattn.layers.factorization_machine import factorization_machine
from keras_quasiattn.layers.gated_attention import open_positions_attention
from keras_quasiattn.layers.intra_sentence_attention import intra_attention
from keras_quasiattn.layers.pooling import local_attention, soft_attention

__all__ = [
    "alibi_bias",
    "alignment_attention",
    "alignment_pair",
    "attention_flow",
    "coda_attention",
    "coda_pair",
    "conflict_attention",
    "context_guided_attention",
    "differential_attention",
    "entmax",
    "entmax_attention",
    "factorization_machine",
    "forgetting_attention",
    "from_ragged",
    "gated_softmax",
    "gumbel_gate",
    "hard_gates",
    "intra_attention",
    "local_attention",
    "multi_head_conflict_attention",
    "null_softmax_attention",
    "open_positions_attention",
    "pairwise_l1",
    "relu_attention",
    "rotary_embedding",
    "sigmoid_attention",
    "signed_softmax_attention",
    "soft_attention",
    "softmax_attention",
    "sparsemax",
    "sparsemax_attention",
]
