"""A SavedModel of every pair model answers in a fresh process without Keras."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from pair_kinds import FIRST, SECOND, answer, make, pair

pytestmark = pytest.mark.usefixtures("tensorflow_only")
EXPORTED = ("both", "elbo")  # the mixture has softmax, CoDA and intra attention

ANSWER = textwrap.dedent(
    """
    import sys
    sys.modules["keras"] = sys.modules["keras_quasiattn"] = None
    import numpy as np
    import tensorflow as tf

    folder, *names = sys.argv[1:]
    questions = np.load(folder + "/questions.npz")
    answers = {}
    for name in names:
        serve = tf.saved_model.load(f"{folder}/{name}").signatures["serving_default"]
        for size in ("padded", "other"):
            texts = {side: tf.constant(questions[f"{size}_{side}"]) for side in ("first", "second")}
            (answers[f"{name}/{size}"],) = (value.numpy() for value in serve(**texts).values())
    np.savez(folder + "/answers.npz", **answers)
    """
)


def test_every_model_answers_without_keras(tmp_path):
    texts = {"padded": (FIRST, SECOND), "other": (FIRST[:1, :3], SECOND[1:2, :2])}
    expected = {}
    for name in EXPORTED:
        model = make(name)
        model.export(str(tmp_path / name), verbose=False)
        expected |= {f"{name}/{size}": answer(model, *both) for size, both in texts.items()}
    questions = {f"{size}_{side}": ids for size, both in texts.items() for side, ids in pair(*both).items()}
    np.savez(tmp_path / "questions.npz", **questions)
    run = subprocess.run(
        [sys.executable, "-c", ANSWER, str(tmp_path), *EXPORTED],
        cwd=tmp_path,
        timeout=120,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    answers = np.load(tmp_path / "answers.npz")
    assert sorted(answers) == sorted(expected)
    for name, array in expected.items():
        assert np.isfinite(answers[name]).all()
        np.testing.assert_allclose(answers[name], array, rtol=1e-5, atol=1e-5, err_msg=name)
