"""The guide's table of KerasHub's blocks lists our arguments, their order and defaults."""

import inspect
import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from keras_quasiattn.layers import TransformerDecoder, TransformerEncoder

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "migration.md"
# KerasHub's arguments in its order: transformer_encoder.py of 1f6e92e, whose regularizers are new,
# and transformer_decoder.py of 1dfe107.
THEIRS = {
    "constructor": {
        **{"intermediate_dim": None, "num_heads": None, "dropout": 0, "activation": "relu"},
        **{"layer_norm_epsilon": 1e-5, "kernel_initializer": "glorot_uniform"},
        **{"bias_initializer": "zeros", "kernel_regularizer": None, "bias_regularizer": None},
        "normalize_first": False,
    },
    "encoder": dict.fromkeys(
        ["inputs", "padding_mask", "attention_mask", "training", "return_attention_scores"]
    ),
    "decoder": dict.fromkeys(
        [
            *("decoder_sequence", "encoder_sequence", "decoder_padding_mask"),
            *("decoder_attention_mask", "encoder_padding_mask", "encoder_attention_mask"),
            *("self_attention_cache", "cross_attention_cache", "use_causal_mask", "training"),
        ]
    ),
}


def rows() -> list[tuple[str, str]]:
    """Return the two columns of the table, without the header."""
    part = GUIDE.read_text(encoding="utf-8").partition("| KerasHub | here |\n")[2]
    lines = part.partition("\n\n")[0].splitlines()[1:]
    return [tuple(line.strip("| ").split(" | ")) for line in lines]  # type: ignore[misc]


def arguments(function: Any) -> dict[str, Any]:
    """Return the arguments except `self` and `**kwargs`, with their defaults."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return {one.name: one.default for one in parameters if one.kind is not one.VAR_KEYWORD}


OURS = {
    "constructor": arguments(TransformerEncoder.__init__),
    "encoder": arguments(TransformerEncoder.call),
    "decoder": arguments(TransformerDecoder.call),
}


def test_both_blocks_have_one_constructor() -> None:
    assert arguments(TransformerDecoder.__init__) == OURS["constructor"]


@pytest.mark.parametrize("number", range(3))
def test_the_order_of_the_arguments_is_that_of_the_signatures(number: int) -> None:
    theirs, ours = rows()[number]
    (kind,) = (name for name in THEIRS if name in theirs.partition(":")[0])
    said = [re.findall(r"\w+|…", re.search(r"`\((.*?)\)`", one)[1]) for one in (theirs, ours)]  # type: ignore[index]
    assert said[1] == list(OURS[kind])
    known = [name for name in THEIRS[kind] if name in said[0]]
    assert known == [name for name in said[0] if name != "…"]
    assert ("…" in said[0]) == (len(known) < len(THEIRS[kind]))


def test_every_argument_that_has_another_name_or_default_has_a_row() -> None:
    text = dict(rows()[3:])
    for kind, theirs in THEIRS.items():
        for name, default in theirs.items():
            row = [row for row in text if re.search(rf"`{name}(`|=)", row)]
            if name not in OURS[kind]:
                assert row, f"{name} of KerasHub's {kind} is missing"
            elif kind == "constructor" and OURS[kind][name] not in (
                default,
                inspect.Parameter.empty,
            ):
                if name == "num_heads":  # None with a layer as the attention
                    continue
                (row_,) = row
                said = [re.search(rf"`{name}=(.*?)`", one)[1] for one in (row_, text[row_])]  # type: ignore[index]
                assert [eval(one) for one in said] == [default, OURS[kind][name]]


def test_every_name_in_our_column_is_one_of_ours() -> None:
    known = {name for one in OURS.values() for name in one}
    known |= {"start_cache", "step", "use_bias", "bias_initializer", "kernel_regularizer"}
    for _, ours in rows():
        for code in re.findall(r"`(.*?)`", ours):
            assert set(re.findall(r"[a-z_]{4,}", code)) - {"alse"} <= known, code


@pytest.mark.parametrize("block", [TransformerEncoder, TransformerDecoder])
def test_biases_are_four_weights_of_each_attention(block: Any) -> None:
    x = np.ones((1, 2, 4), "float32")
    made = [block(4, 2, attention_options=o) for o in (None, {"use_bias": True})]
    for one in made:
        one(x, x) if block is TransformerDecoder else one(x)
    attentions = 1 + (block is TransformerDecoder)
    assert len(made[1].weights) - len(made[0].weights) == 4 * attentions
    options = {"use_bias": True, "bias_initializer": "ones", "kernel_regularizer": "l2"}
    made[0] = block(4, 2, attention_options=options)
    made[0](x)
    biases = [w for w in made[0].weights if w.path.endswith("attention/query/bias")]
    assert len(biases) == 1 and np.all(keras.ops.convert_to_numpy(biases[0]) == 1)
    assert len(made[0].losses) == 4
