"""The two ways to call an exported model: with strings, and with the ids of their tokens."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from keras_quasiattn.tasks import ServingSignature

STRINGS: Final = "serving_default"
TOKEN_IDS: Final = "token_ids"


def signature_functions(signature: ServingSignature) -> dict[str, Any]:
    """The functions that a SavedModel answers with, by the signature's name.

    `serving_default` takes the strings. `token_ids` takes, for each of them, `NAME_ids`, int32 of the strings' shape
    with a last axis more, and `NAME_lengths`, int32 of the strings' shape: the ids at and behind a text's length never
    matter, whatever they are. Both refuse inputs that disagree about the number of rows.

    Args:
        signature: a task's.
    """
    specs = signature.input_signature

    def answer_strings(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
        with tf.control_dependencies(_same_rows([spec.name for spec in specs], texts)):
            texts = tuple(tf.identity(text) for text in texts)
        return signature.function(*texts)

    def answer_token_ids(*ids_and_lengths: tf.Tensor) -> dict[str, tf.Tensor]:
        ids, lengths = ids_and_lengths[::2], ids_and_lengths[1::2]
        checks = _same_rows([f"{spec.name}_ids" for spec in specs], ids)
        for spec, of_ids, of_lengths in zip(specs, ids, lengths, strict=True):
            message = f"{spec.name}_lengths must have one number for each text of {spec.name}_ids"
            checks.append(tf.debugging.assert_equal(tf.shape(of_ids)[:-1], tf.shape(of_lengths), message))
        with tf.control_dependencies(checks):
            return signature.answer_ids(*map(_without_rest, ids, lengths))

    id_specs = [
        tf.TensorSpec(shape, tf.int32, name=f"{spec.name}_{kind}")
        for spec in specs
        for kind, shape in (("ids", [*spec.shape, None]), ("lengths", spec.shape))
    ]
    return {
        STRINGS: tf.function(answer_strings, input_signature=specs),
        TOKEN_IDS: tf.function(answer_token_ids, input_signature=id_specs),
    }


def example_inputs(signature: ServingSignature, text: str) -> dict[str, dict[str, np.ndarray]]:
    """What both ways take for one input of `predict`: a batch of 1 by the signature's and the argument's name."""
    strings, token_ids = {}, {}
    for spec, column in zip(signature.input_signature, signature.columns(text), strict=True):
        texts = tf.constant([column], tf.string)
        ids = signature.tokenize(tf.reshape(texts, (-1,)))
        padded = tf.cast(ids.to_tensor(), tf.int32)
        strings[spec.name] = texts.numpy()
        token_ids[f"{spec.name}_ids"] = tf.reshape(padded, [*texts.shape, padded.shape[1]]).numpy()
        token_ids[f"{spec.name}_lengths"] = tf.reshape(ids.row_lengths(), texts.shape).numpy().astype("int32")
    return {STRINGS: strings, TOKEN_IDS: token_ids}


def _same_rows(names: Sequence[str], tensors: Sequence[tf.Tensor]) -> list[tf.Operation]:
    first, *others = zip(names, tensors, strict=True)
    return [
        tf.debugging.assert_equal(
            tf.shape(tensor)[0], tf.shape(first[1])[0], f"{name} and {first[0]} must have as many rows"
        )
        for name, tensor in others
    ]


def _without_rest(ids: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """The ids with 0 behind their length, and at least one place for each text."""
    places = tf.shape(ids)[-1]
    kept = tf.where(tf.range(places) < lengths[..., tf.newaxis], ids, 0)
    missing = tf.maximum(0, 1 - places)
    return tf.pad(kept, [[0, 0]] * (len(ids.shape) - 1) + [[0, missing]])
