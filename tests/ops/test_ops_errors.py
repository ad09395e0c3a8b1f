"""Every ValueError of the ops names the argument and the value received."""

import re

import numpy as np
import pytest

from keras_quasiattn import ops

X = np.ones((2, 5, 3), "float32")


@pytest.mark.parametrize("op", [ops.coda_attention, ops.softmax_attention])
@pytest.mark.parametrize(
    "inputs,message",
    [
        ((X[0, 0], X, X), r"`query` must have shape \(\.\.\., length, features\).*\(3,\)"),
        ((X, X[0, 0], X), r"`key` must have shape.*\(3,\)"),
        ((X, X[..., :2], X), r"`query` and `key` must have the same.*\(2, 5, 3\).*\(2, 5, 2\)"),
        ((X, X, X[0, 0]), r"`value` must have shape.*\(3,\)"),
    ],
)
def test_attention(op, inputs, message):
    with pytest.raises(ValueError, match=message):
        op(*inputs)


GATED = {"query_context": X, "key_context": X, "query_gate": X[..., 0], "key_gate": X[..., 0]}


@pytest.mark.parametrize(
    "op,options,wrong,message",
    [
        (ops.differential_attention, {"subtracted": 0.5}, "query", r"\(\.\.\., length, features\)"),
        (ops.differential_attention, {"subtracted": 0.5}, "key", r"\(\.\.\., length, features\)"),
        (ops.forgetting_attention, {"log_forget": X[..., 0]}, "log_forget", "the length of `key`"),
        *(
            (ops.context_guided_attention, GATED, wrong, message)
            for wrong, message in (
                ("query_context", r"\(\.\.\., length, features\)"),
                ("key_context", r"\(\.\.\., length, features\)"),
                ("query_gate", "the length of `query`"),
                ("key_gate", "the length of `key`"),
            )
        ),
    ],
)
def test_wrong_sizes_are_not_left_to_the_backend(op, options, wrong, message):
    arguments = {"query": X, "key": X, "value": X, **options, wrong: X[0, 0]}
    with pytest.raises(ValueError, match=f"`{wrong}` must have shape .*{message}.*3,"):
        op(**arguments)


KERNEL, KEYS, PAIRS_OF_6 = np.ones(3, "float32"), np.ones((2, 6), bool), np.ones((2, 5, 6), bool)


@pytest.mark.parametrize(
    "op,arguments,wrong",
    [
        *(
            (op, (X, X, X), {"mask": mask})
            for op in (ops.softmax_attention, ops.coda_attention, ops.sigmoid_attention)
            for mask in (KEYS, PAIRS_OF_6, np.ones((7, 2, 5, 5), bool))
        ),
        (ops.multi_head_conflict_attention, (X, X, X, KERNEL), {"mask": KEYS}),
        (ops.sparsemax, (X,), {"mask": KEYS}),
        (ops.gated_softmax, (X[0], X[0]), {"mask": KEYS}),
        (ops.softmax_attention, (X, X, X), {"gates": np.ones((2, 6), "float32")}),
        (ops.entmax, (X,), {"mask": KEYS}),
        (ops.coda_pair, (X, X), {"mask_a": KEYS}),
        (ops.coda_pair, (X, X), {"mask_b": PAIRS_OF_6}),
        (ops.alignment_pair, (X, X), {"mask_b": KEYS}),
        (ops.attention_flow, (X, X, X, X), {"mask_u": KEYS}),
        (ops.alignment_attention, (X, X, X), {"mask_v": KEYS}),
        (ops.conflict_attention, (X, X, KERNEL, X), {"mask_v": KEYS}),
        (ops.intra_attention, (X, X, KERNEL), {"mask": KEYS}),
        (ops.soft_attention, (X, KERNEL), {"mask": KEYS}),
        (ops.soft_attention, (X, KERNEL), {"gates": np.ones((2, 6), "float32")}),
        (ops.local_attention, (X, KERNEL, np.ones(2)), {"mask": KEYS}),
        (ops.local_attention, (X, KERNEL), {"center": np.ones((2, 1))}),
        (ops.open_positions_attention, (X, KERNEL), {"open_positions": KEYS}),
        (ops.open_positions_attention, (X, KERNEL), {"open_positions": KEYS[:, :4]}),
    ],
)
def test_masks_of_another_shape_were_left_to_the_backend(op, arguments, wrong):
    ((name, value),) = wrong.items()
    shape = re.escape(str(value.shape))
    with pytest.raises(ValueError, match=rf"`{name}` must broadcast to \(.*{name}.shape={shape}"):
        op(*arguments, **wrong)


@pytest.mark.parametrize(
    "op,arguments,option,rows",
    [
        (ops.null_softmax_attention, (X, X, X), "null_score", "(2, 5, 1)"),
        (ops.differential_attention, (X, X, X), "subtracted", "(2, 5, 1)"),
        (ops.entmax_attention, (X, X, X), "alpha", "(2, 5, 1)"),
        (ops.entmax, (X[..., 0],), "alpha", "(2, 1)"),
        (ops.coda_attention, (X, X, X), "alpha", "(None, 5, 5)"),
        (ops.coda_attention, (X, X, X), "beta", "(None, 5, 5)"),
        (ops.coda_pair, (X, X), "alpha", "(None, 5, 5)"),
        (ops.coda_pair, (X, X), "beta", "(None, 5, 5)"),
    ],
)
def test_a_number_for_each_query_of_another_shape_was_taken_or_left_to_the_backend(
    op, arguments, option, rows
):
    for shape in ((6,), (2, 6, 1), (3, 1, 1, 1)) + (((5,),) if rows.endswith(" 1)") else ()):
        if op is ops.entmax and shape == (2, 6, 1):
            continue
        message = re.escape(f"`{option}` must broadcast to {rows}, ") + ".*Received: "
        with pytest.raises(ValueError, match=message + re.escape(f"{option}.shape={shape}")):
            op(*arguments, **{option: np.full(shape, 1.5, "float32")})


@pytest.mark.parametrize(
    "op,wrong,of",
    [
        (ops.hard_gates, {"mask": KEYS}, "probability"),
        (ops.hard_gates, {"mask": np.ones((3, 2, 6), bool)}, "probability"),
        (ops.hard_gates, {"threshold": np.ones((2, 6), "float32")}, "probability"),
        (ops.gated_softmax, {"gates": KEYS}, "scores"),
    ],
)
def test_gates_of_another_shape_were_left_to_the_backend(op, wrong, of):
    ((name, value),) = wrong.items()
    message = f"`{name}` must broadcast against `{of}`. Received: {name}.shape={value.shape} and "
    with pytest.raises(ValueError, match=re.escape(message + f"{of}.shape=(2, 5)")):
        op(X[..., 0], **wrong)


@pytest.mark.parametrize(
    "option", ["similarity", "gate", "gate_range", "implementation", "center_similarity"]
)
def test_unknown_options(option):
    for call in (
        lambda **options: ops.coda_attention(X, X, X, **options),
        lambda **options: ops.coda_pair(X, X, **options),
    ):
        with pytest.raises(ValueError, match=f"`{option}` must be one of .*{option}='relu'"):
            call(**{option: "relu"})


def shorter(name, of):
    """Return an input that is shorter than another one, and what is said of it."""
    said = rf"`{name}` must have shape.*length as `{of}`.*\(2, 4, 3\).*\(2, 5, 3\)"
    return {name: X[:, :4]}, said


WRONG_PAIRS = [
    ({"a": X[0, 0]}, r"`a` must have shape.*\(3,\)"),
    ({"b": X[..., :2]}, r"`a` and `b` must have the same.*\(2, 5, 2\)"),
    ({"mask_a": np.ones((2, 5))}, "`mask_a` must be boolean.*float64"),
    ({"mask_b": np.ones((2, 5), "float32")}, "`mask_b` must be boolean.*float32"),
    shorter("value_a", "a"),
    shorter("value_b", "b"),
]
WRONG_DISTANCES = [
    ({"distance_a": X[..., :2]}, r"`distance_a` and `distance_b` must have the same.*\(2, 5, 2\)"),
    shorter("distance_b", "b"),
]


@pytest.mark.parametrize(
    "op,arguments,message",
    [
        *((ops.coda_pair, *wrong) for wrong in [*WRONG_PAIRS, *WRONG_DISTANCES]),
        *((ops.alignment_pair, *wrong) for wrong in WRONG_PAIRS),
    ],
)
def test_pairs(op, arguments, message):
    with pytest.raises(ValueError, match=message):
        op(**{"a": X, "b": X, **arguments})


def test_pairwise_l1():
    with pytest.raises(
        ValueError, match=r"`x` and `y` must have the same number.*\(2, 5, 3\).*\(2, 5, 2\)"
    ):
        ops.pairwise_l1(X, X[..., :2])
    with pytest.raises(ValueError, match=r"`y` must have shape.*\(3,\)"):
        ops.pairwise_l1(X, X[0, 0])
    with pytest.raises(ValueError, match=r"`weights` must have shape \(3,\).*\(2,\)"):
        ops.pairwise_l1(X, X, np.ones(2))


PAIRS = [
    lambda **given: ops.alignment_attention(**given),
    lambda **given: ops.conflict_attention(score_kernel=np.ones(3), **given),
]


@pytest.mark.parametrize("op", PAIRS, ids=["alignment", "conflict"])
@pytest.mark.parametrize(
    "arguments,message",
    [
        ({"u": X[0, 0]}, r"`u` must have shape.*\(3,\)"),
        ({"v": X[..., :2]}, r"`u` and `v` must have the same.*\(2, 5, 3\).*\(2, 5, 2\)"),
        shorter("values", "v"),
        ({"mask_v": np.ones((2, 5))}, "`mask_v` must be boolean.*float64"),
    ],
)
def test_alignment_and_conflict(op, arguments, message):
    with pytest.raises(ValueError, match=message):
        op(**{"u": X, "v": X, "values": X, **arguments})


def test_conflict():
    with pytest.raises(ValueError, match=r"`score_kernel` must have shape \(3,\).*\(2,\)"):
        ops.conflict_attention(X, X, np.ones(2), X)
    with pytest.raises(
        ValueError, match=r"`score_kernels` must have shape \(3, C\), with C at most 2, .*\(3, 3\)"
    ):
        ops.multi_head_conflict_attention(X, X, X, np.ones((3, 3)))
    with pytest.raises(ValueError, match="`difference` must be one of .*difference='relu'"):
        ops.conflict_attention(X, X, np.ones(3), X, None, "relu")


@pytest.mark.parametrize("size,signed", [(1, True), (4, True), (1, False)])
def test_intra_attention(size, signed):
    message = rf"`distance_bias` must be a vector with .*\({size},\), signed={signed}"
    with pytest.raises(ValueError, match=message):
        ops.intra_attention(X, X, np.ones(size), signed=signed)
