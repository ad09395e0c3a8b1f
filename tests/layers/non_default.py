"""For each layer class, a non-default value of every constructor argument."""

import dataclasses
from typing import Any

import keras

from keras_quasiattn import layers
from keras_quasiattn.attention.base import ATTENTIONS

_EVERY_LAYER = {
    "name": "renamed",
    "dtype": "mixed_bfloat16",
    "trainable": False,
    "activity_regularizer": "l2",
}
_MULTI_HEAD = {
    **_EVERY_LAYER,
    "num_heads": 3,
    "key_dim": 8,
    "value_dim": 7,
    "dropout": 0.25,
    "use_bias": False,
    "output_shape": (13,),
    "attention_axes": (1,),
    "sliding_window": 4,
    "flash_attention": False,
    "kernel_initializer": keras.initializers.RandomNormal(stddev=0.3, seed=5),
    "bias_initializer": "ones",
    "kernel_regularizer": "l1",
    "bias_regularizer": "l2",
    "kernel_constraint": "max_norm",
    "bias_constraint": "non_neg",
    "use_gate": True,
    "seed": 17,
    "num_key_value_heads": 1,
    "rotary_base": 100.0,
    "start": {
        "attention": "coda",
        "options": {"alpha": "learned"},
        "form": "blended",
    },
}
_CODA = {
    "alpha": 0.5,
    "beta": "learned",
    "scaling": "paper",
    "similarity": "sigmoid",
    "gate": "algebraic",
    "gate_range": "centered",
    "center_similarity": True,
    "implementation": "reference",
}

_GATES = {
    "temperature": 0.5,
    "final_temperature": 0.25,
    "annealing_steps": 7,
    "open_gate_cost": 0.5,
    "inference": "sample",
    "threshold": 0.25,
}
_POOLING = {**_EVERY_LAYER, "final_tanh": True, "kernel_initializer": "he_normal"}

_BLOCK = {
    **_EVERY_LAYER,
    "intermediate_dim": 17,
    "num_heads": 3,
    "attention": "softmax",
    "attention_options": {"value_dim": 7},
    "key_dim": 5,
    "dropout": 0.25,
    "activation": "gelu",
    "layer_norm_epsilon": 1e-3,
    "kernel_initializer": "he_normal",
    "normalize_first": False,
}

_ONE_WAY = {**_EVERY_LAYER, "units": 7}
_NETWORK = {
    **_EVERY_LAYER,
    "units": 7,
    "num_layers": 3,
    "dropout": 0.25,
    "kernel_initializer": "he_normal",
}

_FACTORS = {"factors": 5, "factors_initializer": "he_normal"}

NON_DEFAULT: dict[type, dict[str, Any]] = {
    layers.CoDA: {
        **_EVERY_LAYER,
        **_CODA,
        "units": 13,
        "activation": "relu",
        "use_bias": True,
        "share_projections": False,
        "kernel_initializer": "he_normal",
    },
    layers.MultiHeadCoDA: {**_MULTI_HEAD, **_CODA, "center_per_query": True},
    layers.MultiHeadSoftmax: {**_MULTI_HEAD, "alpha": 0.5},
    layers.MultiHeadGated: {**_MULTI_HEAD, **_GATES},
    layers.SoftAttention: _POOLING,
    layers.LocalAttention: {**_POOLING, "window": 3},
    layers.GatedAttention: {
        **_POOLING,
        **_GATES,
        "network": "self_attention",
        "units": 7,
        "seed": 17,
        "convolution": {
            "module": "keras.layers",
            "class_name": "Conv1D",
            "config": {"filters": 4, "kernel_size": 3, "activation": "relu"},
            "registered_name": None,
        },
        "implementation": "reference",
    },
    layers.MaskedPooling: {**_EVERY_LAYER, "mode": "max"},
    **dict.fromkeys((layers.TransformerEncoder, layers.TransformerDecoder), _BLOCK),
    layers.AlignmentAttention: _ONE_WAY,
    layers.ConflictAttention: {**_ONE_WAY, "difference": "squared"},
    layers.AttentionConflict: {**_ONE_WAY, "difference": "squared"},
    layers.MultiHeadConflict: {**_MULTI_HEAD, "conflict_heads": 2, "difference": "squared"},
    layers.DotAttention: {
        **_EVERY_LAYER,
        "attention": "coda",
        "attention_options": _CODA,
        "kernel_initializer": "he_normal",
    },
    layers.DecomposableAttention: {
        **_NETWORK,
        "attention": "coda",
        "attention_options": _CODA,
        "last_activation": "tanh",
        "share_networks": False,
    },
    layers.FactorizationMachine: {**_EVERY_LAYER, **_FACTORS},
    layers.BidirectionalAttentionConnector: {
        **_EVERY_LAYER,
        **_FACTORS,
        "use_intra": True,
        "kernel_initializer": "he_normal",
    },
    layers.GatedContextQueryAttention: {
        **_ONE_WAY,
        "attention": "coda",
        "attention_options": _CODA,
        "dropout": 0.25,
        "input_dropout": 0.125,
        "kernel_initializer": "he_normal",
    },
    layers.AttentionFlow: {**_EVERY_LAYER, "kernel_initializer": "he_normal"},
    layers.RecurrentSpanPointer: _ONE_WAY,
    layers.AttentiveSpanPointer: {**_ONE_WAY, "kernel_initializer": "he_normal"},
    layers.IntraSentenceAttention: {**_NETWORK, "max_distance": 3, "signed": False},
}


def _options(attention: type) -> dict[str, Any]:
    """Return for each option a value from the search space or, without one, another number."""
    return {
        field.name: next(
            value
            for value in (
                *attention.search_space.get(field.name, ()),
                field.default + 1 if isinstance(field.default, int) else 0.25,
            )
            if value != field.default
        )
        for field in dataclasses.fields(attention)
    }


# Multi-head layers that are not named above.
for name, layer in ATTENTIONS.items():
    NON_DEFAULT.setdefault(layer, {**_MULTI_HEAD, **_options(ATTENTIONS[name].options_class)})

# Arguments without which another argument has no meaning.
TOGETHER: dict[tuple[type, str], dict[str, Any]] = {
    (layer, "attention_options"): {"attention": "coda"}
    for layer in (
        layers.DecomposableAttention,
        layers.DotAttention,
        layers.GatedContextQueryAttention,
    )
}
TOGETHER[layers.DecomposableAttention, "share_networks"] = {"attention": "coda"}
TOGETHER |= {
    (layer, "rotary_base"): {"key_dim": 4}
    for layer, arguments in NON_DEFAULT.items()
    if "rotary_base" in arguments
}
