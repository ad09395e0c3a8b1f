"""A SavedModel of every pair model answers in a process without Keras."""

import numpy as np
import pytest
import without_keras
from pair_kinds import FIRST, SECOND, answer, make, pair

pytestmark = [pytest.mark.usefixtures("tensorflow_only"), pytest.mark.long]
EXPORTED = ("both", "elbo")  # the mixture has softmax, CoDA and intra-attention


def test_every_model_answers_without_keras(tmp_path):
    texts = {"padded": (FIRST, SECOND), "other": (FIRST[:1, :3], SECOND[1:2, :2])}
    for name in EXPORTED:
        model = make(name)
        model.export(str(tmp_path / name), verbose=False)
        for both in texts.values():
            (got,) = without_keras.ask(tmp_path / name, pair(*both)).values()
            assert np.isfinite(got).all()
            np.testing.assert_allclose(
                got, answer(model, *both), rtol=1e-5, atol=1e-5, err_msg=name
            )
