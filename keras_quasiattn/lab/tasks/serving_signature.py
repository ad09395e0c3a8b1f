"""How an exported model is called."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf


class ServingSignature(NamedTuple):
    """How to call an exported model with strings or token ids; it returns a dictionary of tensors.

    Args:
        function: takes the tensors of `input_signature` and returns a dictionary of tensors whose
            first axis is the batch.
        input_signature: one named string spec per argument; its axes are all None.
        resources: the objects, besides the model, that own the lookup tables of the functions.
        tokenize: maps strings (n,) to the ids that the model reads, ragged int32 (n, ids), without
            padding.
        answer_ids: takes, for each argument of `input_signature` in order, the token ids of its
            texts: int32 of the argument's shape plus a last axis of length 1 or more, with 0 after
            the end of a text. It accepts any integer as an id. Returns, under the same names, the
            outputs of `function` that do not need the text.
        columns: splits one input of `predict` into the value of each argument, without the batch.
        longest: the most ids of a text that the model reads, if it answers in one call of `explain`
            or of itself, with ids (B, L) only; otherwise None.
        joined: number of ids that are added to those of all texts of an answer where the model
            reads these as one sequence; 0 where it reads each by itself.
        model_ids: maps one input of `predict` to the ids (1, L) that the model reads, by the name
            of its input, where it does not read those of each argument.
    """

    function: Callable[..., dict[str, tf.Tensor]]
    input_signature: list[tf.TensorSpec]
    resources: list[Any]
    tokenize: Callable[[tf.Tensor], tf.RaggedTensor]
    answer_ids: Callable[..., dict[str, tf.Tensor]]
    columns: Callable[[str], list[Any]] = lambda text: [text]
    longest: int | None = None
    joined: int = 0
    model_ids: Callable[[str], dict[str, np.ndarray]] | None = None
