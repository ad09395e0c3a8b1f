"""The models that lie in the repository answer, and are small."""

import sys
from pathlib import Path

import keras
import pytest
import warm

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="SavedModels are TensorFlow's")
@pytest.mark.parametrize(
    "model,question,answer",
    [
        ("arithmetic", "x=85,y=-52,y-x", "-137"),
        ("trec", "What is the capital of Yugoslavia ?", "LOC"),
    ],
)
def test_they_answer_without_keras_and_fit_into_five_megabytes(model, question, answer):
    folder = ROOT / "saved_models" / model / "1"
    command = [sys.executable, ROOT / "examples" / "ask.py", folder, question]
    ended = warm.run(command, text=True, before=warm.WITHOUT_KERAS)
    assert ended.stdout.splitlines()[0] == answer, ended.stderr[-1000:]
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < 5_000_000
