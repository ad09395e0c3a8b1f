"""Law 6: a SavedModel runs where neither this package nor Keras can be imported."""

import subprocess
import sys
import textwrap

import keras
import numpy as np
import pytest
from cases import CASES, ONE_OF_EACH
from layer_case import BATCH, FEATURES
from running import outputs

pytestmark = pytest.mark.usefixtures("tensorflow_only")

ANSWER = textwrap.dedent(
    """
    import sys
    sys.modules["keras"] = sys.modules["keras_quasiattn"] = None
    import numpy as np
    import tensorflow as tf

    folder = sys.argv[1]
    questions = np.load(folder + "/questions.npz")
    loaded = tf.saved_model.load(folder + "/model")
    answers = {}
    for name in sorted({key.split("/")[0] for key in questions}):
        function = loaded.signatures[name]
        for size in ("padded", "other"):
            given = [key for key in questions if key.startswith(f"{name}/{size}/")]
            arguments = {key.split("/")[2]: tf.constant(questions[key]) for key in given}
            for key, value in function(**arguments).items():
                answers[f"{name}/{size}/{key}"] = value.numpy()
    assert not any(module.split(".")[0] in ("keras", "keras_quasiattn") for module in sys.modules
                   if sys.modules[module] is not None)
    np.savez(folder + "/answers.npz", **answers)
    """
)


def questions_of(case):
    """Return the padded example with an empty row, and another batch with other lengths."""
    lengths = [length + 2 for length in case.style.lengths]
    other = case.sequences(seed=9, lengths=lengths, batch=BATCH - 1)
    masks = [np.arange(x.shape[1]) < np.array([[1], [x.shape[1]]]) for x in other]
    return {"padded": (case.sequences(), case.masks()), "other": (other, masks)}


def server(case, layer, names):
    count = len(names) // 2

    def serve(inputs):
        tensors = [inputs[name] for name in names]
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
    questions, expected = {}, {}
    for case in cases:
        layer = case.make()
        archive.track(layer)
        count = len(case.style.lengths)
        names = [f"sequence_{i}" for i in range(count)] + [f"mask_{i}" for i in range(count)]
        signature = {
            name: tf.TensorSpec((None, None, FEATURES), name=name) for name in names[:count]
        }
        signature |= {
            name: tf.TensorSpec((None, None), tf.bool, name=name) for name in names[count:]
        }
        archive.add_endpoint(case.name, server(case, layer, names), input_signature=[signature])
        for size, (sequences, masks) in questions_of(case).items():
            for name, array in zip(names, [*sequences, *masks], strict=True):
                questions[f"{case.name}/{size}/{name}"] = array
            for i, array in enumerate(outputs(case, layer, sequences, masks)):
                expected[f"{case.name}/{size}/output_{i}"] = array
    archive.write_out(str(tmp_path / "model"), verbose=False)
    np.savez(tmp_path / "questions.npz", **questions)

    run = subprocess.run(
        [sys.executable, "-c", ANSWER, str(tmp_path)],
        cwd=tmp_path,
        timeout=120,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    answers = np.load(tmp_path / "answers.npz")
    assert sorted(answers) == sorted(expected)
    for key, array in expected.items():
        assert np.isfinite(answers[key]).all(), key
        np.testing.assert_allclose(answers[key], array, rtol=1e-5, atol=1e-5, err_msg=key)
