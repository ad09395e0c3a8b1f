"""Law 6: a SavedModel runs where neither this package nor Keras can be imported."""

import keras
import numpy as np
import pytest
import without_keras
from cases import CASES, ONE_OF_EACH
from layer_case import BATCH, FEATURES
from running import outputs

pytestmark = pytest.mark.usefixtures("tensorflow_only")


def questions_of(case):
    """Return the padded example with an empty row, and another batch with other lengths."""
    lengths = [length + 2 for length in case.style.lengths]
    other = case.sequences(seed=9, lengths=lengths, batch=BATCH - 1)
    masks = [np.arange(x.shape[1]) < np.array([[1], [x.shape[1]]]) for x in other]
    return (case.sequences(), case.masks()), (other, masks)


def names_of(case):
    count = len(case.style.lengths)
    return [f"sequence_{i}" for i in range(count)] + [f"mask_{i}" for i in range(count)]


def server(case, layer):
    def serve(inputs):
        tensors = [inputs[name] for name in names_of(case)]
        count = len(tensors) // 2
        results = case.run(layer, tensors[:count], tensors[count:])
        return {f"output_{i}": x for i, x in enumerate(results)}

    return serve


@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(ONE_OF_EACH, marks=pytest.mark.long, id="one-of-each"),
        pytest.param(CASES, marks=pytest.mark.complete, id="all"),
    ],
)
def test_every_layer_answers_without_keras(cases, tmp_path):
    import tensorflow as tf

    archive = keras.export.ExportArchive()
    layers = {case: case.make() for case in cases}
    for case, layer in layers.items():
        archive.track(layer)
        signature = {
            name: tf.TensorSpec((None, None), tf.bool, name=name)
            if name.startswith("mask")
            else tf.TensorSpec((None, None, FEATURES), name=name)
            for name in names_of(case)
        }
        archive.add_endpoint(case.name, server(case, layer), input_signature=[signature])
    archive.write_out(str(tmp_path), verbose=False)
    for case, layer in layers.items():
        for sequences, masks in questions_of(case):
            asked = dict(zip(names_of(case), [*sequences, *masks], strict=True))
            answer = without_keras.ask(tmp_path, asked, case.name)
            expected = outputs(case, layer, sequences, masks)
            assert len(answer) == len(expected)
            for number, array in enumerate(expected):
                got = answer[f"output_{number}"]
                assert np.isfinite(got).all(), case
                np.testing.assert_allclose(got, array, rtol=1e-5, atol=1e-5, err_msg=str(case))
