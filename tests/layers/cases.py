"""Every layer that the laws are checked on.

A new layer adds one or more cases to CASES here, and one entry to NON_DEFAULT in non_default.py. A
new attention gets cases in every layer that takes it by name, without a line here.
"""

from typing import Any

import pytest
from layer_case import ALONE, CROSS, DECODER, ONE_WAY, PAIR, POOLED, SELF, SINGLE, TARGET, LayerCase
from layer_case import SELF_WITH_BIAS as BIASED
from tools import CODA_IMPLEMENTATIONS

from keras_quasiattn import layers
from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.layers.gated_attention import GATED_IMPLEMENTATIONS

HEADS = {"num_heads": 2, "key_dim": 3}
LEARNED = {"alpha": "learned", "beta": "learned"}
CAUSAL = {"use_causal_mask": True}
NONE: dict[str, Any] = {}
CENTERED = {"gate_range": "centered", "center_similarity": True}
CENTERED_CODA = {"attention": "coda", "attention_options": {"alpha": "learned", **CENTERED}}
ROTARY = {"num_heads": 4, "key_dim": 6, "num_key_value_heads": 2, "rotary_base": 100.0}
TAKE_BIAS = tuple(name for name in CODA_IMPLEMENTATIONS if name != "compiled")
OPEN_GATES = {"largest_input": 30.0}
RARE = {**OPEN_GATES, "in_long_tests": True}
# What the laws must know about an attention: ReLU weights have no upper limit.
TRAITS = {"gated": {"noisy": True}, "relu": {"largest_input": 4.0}}


def coda(name, style, arguments=NONE, options=NONE, **traits):
    """Return a case of `MultiHeadCoDA` with two heads, if `arguments` say nothing else."""
    arguments = {**HEADS, **arguments}
    name = f"multi_head_coda{name}"
    return LayerCase(name, layers.MultiHeadCoDA, style, arguments, options, **traits)


CASES = [
    LayerCase("coda", layers.CoDA, PAIR),
    LayerCase(
        "coda_learned",
        layers.CoDA,
        PAIR,
        {"units": 13, "share_projections": False, "use_bias": True, **LEARNED},
    ),
    LayerCase("coda_centered", layers.CoDA, PAIR, {**CENTERED, "activation": "relu"}, **OPEN_GATES),
    coda("", SELF),
    coda("_cross", CROSS),
    coda("_causal", SELF, NONE, CAUSAL),
    coda("_centered", CROSS, CENTERED, **OPEN_GATES),
    coda("_centered_causal", SELF, CENTERED, CAUSAL, **OPEN_GATES),
    coda(
        "_centered_per_query",
        CROSS,
        {"gate_range": "centered", "center_per_query": True, "gate": "algebraic"},
        **OPEN_GATES,
    ),
    coda("_learned", CROSS, {**LEARNED, "scaling": "paper", "similarity": "sigmoid"}),
    coda("_sizes", CROSS, {"value_dim": 5, "output_shape": 13, "gate": "arctan"}, **OPEN_GATES),
    coda("_gated", SELF, {"use_gate": True, "gate": "tanh"}, **OPEN_GATES),
    coda("_window", SELF, {"sliding_window": 2}, positions_matter=True),
    # As many heads as positions, each of one feature.
    coda("_of_ones", SELF, {"num_heads": TARGET, "key_dim": 1, "use_gate": True}, **OPEN_GATES),
    LayerCase("coda_rotary", layers.MultiHeadCoDA, CROSS, ROTARY, positions_matter=True),
    LayerCase("coda_biased", layers.MultiHeadCoDA, BIASED, HEADS, implementations=TAKE_BIAS),
    LayerCase("multi_head_softmax", layers.MultiHeadSoftmax, SELF, HEADS),
    LayerCase("multi_head_softmax_cross", layers.MultiHeadSoftmax, CROSS, HEADS),
    LayerCase("multi_head_softmax_causal", layers.MultiHeadSoftmax, SELF, HEADS, CAUSAL),
    *(
        LayerCase(f"pooling_{mode}", layers.MaskedPooling, POOLED, {"mode": mode}, has_scores=False)
        for mode in ("mean", "sum", "max")
    ),
]

GATED = {"noisy": True, "extra_outputs": 1, "implementations": GATED_IMPLEMENTATIONS}
CASES += [
    LayerCase("soft_attention", layers.SoftAttention, POOLED),
    LayerCase("soft_attention_tanh", layers.SoftAttention, POOLED, {"final_tanh": True}),
    LayerCase("local_attention", layers.LocalAttention, POOLED),
    LayerCase("local_attention_narrow", layers.LocalAttention, POOLED, {"window": 2}),
    *(
        LayerCase(
            f"gated_{network}",
            layers.GatedAttention,
            POOLED,
            {"network": network, "units": 3},
            longest=longest,
            **GATED,
        )
        for network, longest in {"feed_forward": 512, "bilstm": 16, "self_attention": 512}.items()
    ),
    LayerCase("multi_head_gated", layers.MultiHeadGated, SELF, HEADS, noisy=True),
    LayerCase("multi_head_gated_cross", layers.MultiHeadGated, CROSS, HEADS, noisy=True),
    LayerCase("multi_head_gated_causal", layers.MultiHeadGated, SELF, HEADS, CAUSAL, noisy=True),
]

BLOCK = {"intermediate_dim": 13, **HEADS}
RESIDUAL = {"empty_rows_are_zero": False}
OF_TWO = {"extra_outputs": 1, **RESIDUAL}  # scores of both attentions
POST_NORM = {**BLOCK, "normalize_first": False}


def decoder(name, arguments, **traits):
    """Return a case of a decoder that also attends to an encoder's sequence."""
    arguments = {**BLOCK, **arguments}
    name = f"decoder{name}"
    return LayerCase(name, layers.TransformerDecoder, DECODER, arguments, **OF_TWO, **traits)


CASES += [
    LayerCase("encoder", layers.TransformerEncoder, SINGLE, BLOCK, **RESIDUAL),
    *(
        LayerCase(
            f"encoder_{name}",
            layers.TransformerEncoder,
            SINGLE,
            {**BLOCK, "attention": name},
            **TRAITS.get(name, {}),
            **RESIDUAL,
        )
        for name in ("softmax", "gated", "conflict")
    ),
    decoder("", NONE),
    decoder("_conflict", {"attention": "conflict"}),
    decoder(
        "_centered",
        {"attention_options": {"gate_range": "centered", "use_bias": True}},
        **OPEN_GATES,
    ),
    LayerCase("encoder_causal", layers.TransformerEncoder, SINGLE, POST_NORM, CAUSAL, **RESIDUAL),
    LayerCase(
        "decoder_only",
        layers.TransformerDecoder,
        ALONE,
        {**POST_NORM, "attention_options": CENTERED},
        CAUSAL,
        **OPEN_GATES,
        **RESIDUAL,
    ),
]

NETWORK = {"units": 3}
CASES += [
    LayerCase("decomposable", layers.DecomposableAttention, PAIR, NETWORK, extra_outputs=1),
    LayerCase(
        "decomposable_coda",
        layers.DecomposableAttention,
        PAIR,
        {**NETWORK, "num_layers": 1, "attention": "coda"},
    ),
    LayerCase(
        "decomposable_coda_centered",
        layers.DecomposableAttention,
        PAIR,
        {**NETWORK, **CENTERED_CODA},
        **OPEN_GATES,
    ),
    LayerCase("intra_sentence", layers.IntraSentenceAttention, SINGLE, NETWORK),
    LayerCase(
        "intra_sentence_unsigned",
        layers.IntraSentenceAttention,
        SINGLE,
        {**NETWORK, "max_distance": 1, "signed": False},
    ),
]

CASES += [
    LayerCase("dot", layers.DotAttention, ONE_WAY),
    LayerCase("dot_coda", layers.DotAttention, ONE_WAY, {"attention": "coda"}),
    LayerCase("dot_coda_centered", layers.DotAttention, ONE_WAY, CENTERED_CODA, **OPEN_GATES),
    LayerCase("alignment", layers.AlignmentAttention, ONE_WAY),
    LayerCase("conflict", layers.ConflictAttention, ONE_WAY),
    LayerCase(
        "conflict_signed", layers.ConflictAttention, ONE_WAY, {"difference": "signed", **NETWORK}
    ),
    LayerCase(
        "conflict_squared", layers.ConflictAttention, ONE_WAY, {"difference": "squared", **NETWORK}
    ),
    # Its output rows contain u itself.
    LayerCase(
        "attention_conflict",
        layers.AttentionConflict,
        ONE_WAY,
        extra_outputs=1,
        empty_rows_are_zero=False,
    ),
    LayerCase("multi_head_conflict", layers.MultiHeadConflict, SELF, HEADS),
    LayerCase(
        "multi_head_conflict_signed",
        layers.MultiHeadConflict,
        CROSS,
        {**HEADS, "conflict_heads": 2, "difference": "signed"},
    ),
    LayerCase(
        "multi_head_conflict_causal",
        layers.MultiHeadConflict,
        SELF,
        {**HEADS, "difference": "squared"},
        CAUSAL,
    ),
]

# They return products of features, and products of those.
READING = {"largest_input": 4.0}
CASES += [
    LayerCase(
        "factorization",
        layers.FactorizationMachine,
        SINGLE,
        {"factors": 3},
        has_scores=False,
        **READING,
    ),
    LayerCase(
        "connector",
        layers.BidirectionalAttentionConnector,
        PAIR,
        {"factors": 3},
        extra_outputs=1,
        **READING,
    ),
    # A sequence's alignment to itself needs no other sequence.
    LayerCase(
        "connector_intra",
        layers.BidirectionalAttentionConnector,
        PAIR,
        {"factors": 2, "use_intra": True},
        extra_outputs=1,
        empty_rows_are_zero=False,
        **READING,
    ),
    # Their output rows contain the context itself.
    LayerCase(
        "gated_context_query",
        layers.GatedContextQueryAttention,
        ONE_WAY,
        NETWORK,
        empty_rows_are_zero=False,
    ),
    LayerCase(
        "gated_context_query_coda",
        layers.GatedContextQueryAttention,
        ONE_WAY,
        {
            **NETWORK,
            "attention": "coda",
            "attention_options": {"alpha": "learned", "gate_range": "centered"},
        },
        empty_rows_are_zero=False,
        **OPEN_GATES,
    ),
    LayerCase(
        "attention_flow",
        layers.AttentionFlow,
        ONE_WAY,
        empty_rows_are_zero=False,
        stacks=False,
        **OPEN_GATES,
    ),
    LayerCase(
        "recurrent_pointer",
        layers.RecurrentSpanPointer,
        SINGLE,
        NETWORK,
        has_scores=False,
        longest=16,
    ),
    # It points somewhere even if the question is empty.
    LayerCase(
        "attentive_pointer",
        layers.AttentiveSpanPointer,
        ONE_WAY,
        NETWORK,
        has_scores=False,
        empty_rows_are_zero=False,
    ),
]

# Layers that start as another attention; here with random factors and shares.
ADDED = {"start": {"attention": "softmax", "options": None, "form": "added"}}
BLENDED = {"attention": "coda", "options": CENTERED, "form": "blended"}
FROM_CODA = {"attention": "softmax", "attention_options": {"start": BLENDED}}
CASES += [
    LayerCase("coda_added", layers.MultiHeadCoDA, CROSS, {**HEADS, **ADDED, "use_gate": True}),
    LayerCase(
        "sigmoid_added",
        layers.MultiHeadSigmoid,
        SELF,
        {**ROTARY, **ADDED, "num_key_value_heads": None, "rotary_base": 50.0},
        CAUSAL,
        positions_matter=True,
        **RARE,
    ),
    LayerCase(
        "softmax_blended", layers.MultiHeadSoftmax, SELF, {**HEADS, "start": BLENDED}, **RARE
    ),
    decoder("_blended", FROM_CODA, **RARE),
]

# Every attention in every kind of layer that no case above covers; half are long tests.
_written = {(case.layer, case.arguments.get("attention")) for case in CASES}
for name, multi_head in ATTENTIONS.items():
    chosen = {"attention": name}
    common = {**OPEN_GATES, **TRAITS.get(name, {})}
    rare = {**RARE, **TRAITS.get(name, {})}
    if (multi_head, None) not in _written:
        CASES += [
            LayerCase(f"multi_head_{name}", multi_head, CROSS, HEADS, **common),
            LayerCase(f"multi_head_{name}_causal", multi_head, SELF, HEADS, CAUSAL, **rare),
        ]
    if name != "softmax" and (layers.DotAttention, name) not in _written:  # softmax is the default
        CASES += [
            LayerCase(
                f"decomposable_{name}",
                layers.DecomposableAttention,
                PAIR,
                {**NETWORK, **chosen},
                extra_outputs=multi_head.options_class.pair_score_count - 1,
                **rare,
            ),
            LayerCase(f"dot_{name}", layers.DotAttention, ONE_WAY, chosen, **common),
        ]

CASES += [
    LayerCase(f"{name}_learned", ATTENTIONS[name], CROSS, {**HEADS, one: "learned"}, **RARE)
    for name, one in (("entmax", "alpha"), ("null_softmax", "null_score"))
]

# One case of each class; its style defines how to call the class.
ONE_OF_EACH = list({case.layer: case for case in reversed(CASES)}.values())
# Multi-head layers without weights of their own, whose calls are those of `MultiHeadSoftmax`.
WITHOUT_WEIGHTS = [
    ATTENTIONS[name]
    for name in ("entmax", "null_softmax", "relu", "sigmoid", "signed_softmax", "sparsemax")
]


def one_of_each_first(cases, call_alone=False):
    """The cases as parameters: one of each class runs by default, the others are long.

    If a law is about the call alone, whatever the weights, layers without weights of their own are
    left to the complete tests.
    """

    def marks(case):
        if call_alone and case.layer in WITHOUT_WEIGHTS:
            return pytest.mark.complete
        return [] if case in ONE_OF_EACH else pytest.mark.long

    return [pytest.param(case, id=str(case), marks=marks(case)) for case in cases]


every_case = pytest.mark.parametrize("case", CASES, ids=str)
one_of_each_by_default = pytest.mark.parametrize("case", one_of_each_first(CASES))
one_of_each_call = pytest.mark.parametrize("case", one_of_each_first(CASES, call_alone=True))
