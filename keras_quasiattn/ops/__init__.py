"""Pure functions on tensors. Every attention weight of the package is computed here."""

from keras_quasiattn.ops.alignment import alignment_attention, alignment_pair
from keras_quasiattn.ops.attention_flow import attention_flow
from keras_quasiattn.ops.coda.attention import coda_attention, coda_pair
from keras_quasiattn.ops.conflict import conflict_attention, multi_head_conflict_attention
from keras_quasiattn.ops.context_guided import context_guided_attention
from keras_quasiattn.ops.differential import differential_attention
from keras_quasiattn.ops.entmax import entmax, entmax_attention
from keras_quasiattn.ops.factorization import factorization_machine
from keras_quasiattn.ops.forgetting import forgetting_attention
from keras_quasiattn.ops.gates import gated_softmax, gumbel_gate, hard_gates
from keras_quasiattn.ops.intra_attention import intra_attention
from keras_quasiattn.ops.l1.distance import pairwise_l1
from keras_quasiattn.ops.null_softmax import null_softmax_attention
from keras_quasiattn.ops.open_positions import open_positions_attention
from keras_quasiattn.ops.pooling import local_attention, soft_attention
from keras_quasiattn.ops.positions import alibi_bias, rotary_embedding
from keras_quasiattn.ops.ragged import from_ragged
from keras_quasiattn.ops.rectified import relu_attention
from keras_quasiattn.ops.sigmoid import sigmoid_attention
from keras_quasiattn.ops.signed_softmax import signed_softmax_attention
from keras_quasiattn.ops.softmax import softmax_attention
from keras_quasiattn.ops.sparsemax import sparsemax, sparsemax_attention

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
