"""The two signatures of an exported model: strings, or the ids of their tokens."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from keras_quasiattn.lab.tasks import ServingSignature
from keras_quasiattn.serving.xla_buckets import Buckets

STRINGS: Final = "serving_default"
TOKEN_IDS: Final = "token_ids"


def signature_functions(signature: ServingSignature) -> dict[str, Any]:
    """Return the functions of a SavedModel, by signature name.

    `serving_default` takes strings. `token_ids` takes two tensors for each of them: `NAME_ids`,
    int32 with the strings' shape and one more axis at the end, and `NAME_lengths`, int32 with the
    strings' shape. It ignores ids beyond a text's length. Both functions reject inputs with
    different numbers of rows. They return floats as float32: a server cannot write 16-bit ones as
    JSON.
    """
    specs = signature.input_signature
    id_specs = [
        tf.TensorSpec(shape, tf.int32, name=f"{spec.name}_{kind}")
        for spec in specs
        for kind, shape in (("ids", [*spec.shape, None]), ("lengths", spec.shape))
    ]

    def answer_strings(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
        return _in_float32(signature.function(*_checked(specs, texts)))

    def answer_token_ids(*ids_and_lengths: tf.Tensor) -> dict[str, tf.Tensor]:
        checked = _checked(id_specs, ids_and_lengths)
        names = [spec.name for spec in specs]
        ids = map(_without_rest, names, checked[::2], checked[1::2])
        return _in_float32(signature.answer_ids(*ids))

    return {
        STRINGS: tf.function(answer_strings, input_signature=specs),
        TOKEN_IDS: tf.function(answer_token_ids, input_signature=id_specs),
    }


def example_inputs(signature: ServingSignature, text: str) -> dict[str, dict[str, np.ndarray]]:
    """Return the inputs of both signatures for an input of `predict`, by argument name, batch 1."""
    strings, token_ids = {}, {}
    for spec, column in zip(signature.input_signature, signature.columns(text), strict=True):
        texts = tf.constant([column], tf.string)  # (1,), or (1, n) for a list of texts
        ids = signature.tokenize(tf.reshape(texts, (-1,)))  # ragged (n, None)
        padded = tf.cast(ids.to_tensor(), tf.int32)  # (n, length)
        strings[spec.name] = texts.numpy()
        token_ids[f"{spec.name}_ids"] = tf.reshape(padded, [*texts.shape, padded.shape[1]]).numpy()
        lengths = tf.reshape(ids.row_lengths(), texts.shape)
        token_ids[f"{spec.name}_lengths"] = lengths.numpy().astype("int32")
    return {STRINGS: strings, TOKEN_IDS: token_ids}


def bucket_inputs(
    signature: ServingSignature, example: str, buckets: Buckets
) -> Iterator[dict[str, np.ndarray]]:
    """Yield inputs of `token_ids` for every bucket: the example's ids, repeated.

    An argument that is a list of texts gets one row of that many, since the model gets a batch.
    """
    alone = example_inputs(signature, example)[TOKEN_IDS]
    listed = any(len(spec.shape) == 2 for spec in signature.input_signature)
    for length in buckets.lengths:
        for batch in buckets.batches:
            inputs = {}
            own = length
            if signature.joined:
                own = (length - signature.joined) // len(signature.input_signature)
            for spec in signature.input_signature:
                texts = [1, batch] if len(spec.shape) == 2 else [1 if listed else batch]
                ids = np.resize(alone[f"{spec.name}_ids"].ravel(), [*texts, own])
                inputs[f"{spec.name}_ids"] = ids
                inputs[f"{spec.name}_lengths"] = np.full(texts, own, "int32")
            yield inputs


def _in_float32(outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    return {
        name: tf.cast(output, tf.float32) if output.dtype.is_floating else output
        for name, output in outputs.items()
    }


def _checked(specs: Sequence[tf.TensorSpec], tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Check that each tensor fits its spec and that all have equally many rows."""
    shaped = [
        tf.ensure_shape(tensor, spec.shape) for tensor, spec in zip(tensors, specs, strict=True)
    ]
    rows = [tf.shape(tensor)[0] for tensor in shaped]
    checks = [
        tf.debugging.assert_equal(
            count, rows[0], f"{spec.name} and {specs[0].name} must have the same number of rows"
        )
        for spec, count in list(zip(specs, rows, strict=True))[1:]
    ]
    with tf.control_dependencies(checks):
        return [tf.identity(tensor) for tensor in shaped]


def _without_rest(name: str, ids: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Set ids beyond a text's length to 0, and pad to at least one id per text."""
    message = f"{name}_lengths must have one number for each text of {name}_ids"
    check = tf.debugging.assert_equal(tf.shape(lengths), tf.shape(ids)[:-1], message)
    with tf.control_dependencies([check]):
        places = tf.shape(ids)[-1]
    # (..., length) from ids (..., length) and lengths (...)
    kept = tf.where(tf.range(places) < lengths[..., tf.newaxis], ids, 0)
    missing = tf.maximum(0, 1 - places)
    # (..., max(length, 1))
    return tf.pad(kept, [[0, 0]] * (len(ids.shape) - 1) + [[0, missing]])
