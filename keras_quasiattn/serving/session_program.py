"""A program that runs a SavedModel with TensorFlow alone.

It is started by its path and makes Keras, tensorflow-text and this package impossible to import, so
that none of their Python affects the answers. It reads its job as JSON from standard input and
writes its result as JSON to the file descriptor given as the first argument: whatever the model
prints cannot corrupt the result. Further arguments are folders to import from, after the others.
Other modules import only `packed` and `unpacked`.
"""

import base64
import json
import os
import resource
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

_ABSENT = ("keras", "keras_quasiattn", "tensorflow_text")


def packed(array: "np.ndarray") -> str:
    """Encode an array, strings as objects, for JSON."""
    import tensorflow as tf

    dtype = tf.string if array.dtype == object else array.dtype
    tensor = tf.make_tensor_proto(array, dtype, array.shape)
    return base64.b64encode(tensor.SerializeToString()).decode()


def unpacked(text: str) -> "np.ndarray":
    """Decode what `packed` encoded.

    Raises:
        ValueError, TypeError or DecodeError: `packed` did not encode it.
    """
    import tensorflow as tf
    from tensorflow.core.framework import tensor_pb2

    return tf.make_ndarray(tensor_pb2.TensorProto.FromString(base64.b64decode(text, validate=True)))


def _work(job: dict[str, Any]) -> dict[str, Any]:
    import numpy as np
    import tensorflow as tf

    for kernel in job["kernels"]:
        tf.load_op_library(kernel)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.saved_model.load(session, ["serve"], job["path"])

        def call(inputs: dict[str, str], outputs: list[str], times: int = 1) -> tuple[Any, Any]:
            function = session.make_callable(outputs, list(inputs))
            fed = [unpacked(array) for array in inputs.values()]
            seconds: list[float] = []
            while len(seconds) < min(times, 2) or (  # the first is not counted
                len(seconds) < times and sum(seconds) < job["seconds"]
            ):
                begun = time.perf_counter()
                found = function(*fed)
                seconds.append(time.perf_counter() - begun)
            return [packed(np.asarray(array)) for array in found], seconds

        return {
            "answers": [call(inputs, outputs)[0] for inputs, outputs in job["requests"]],
            # The first run of a shape allocates memory.
            "seconds": [
                call(inputs, outputs, 1 + repetitions)[1][1:]
                for inputs, outputs, repetitions in job["timed"]
            ],
        }


if __name__ == "__main__":
    given = json.load(sys.stdin)
    for kind, limit in (("DATA", given["memory"]), ("FSIZE", 2**30), ("CORE", 0)):
        resource.setrlimit(getattr(resource, f"RLIMIT_{kind}"), (limit, limit))
    sys.path += sys.argv[2:]
    sys.modules.update(dict.fromkeys(_ABSENT))  # type: ignore[arg-type]
    try:
        result = _work(given)
    except Exception as error:
        result = {"error": str(error) or type(error).__name__}
    with os.fdopen(int(sys.argv[1]), "w") as reply:
        json.dump(result, reply)
