"""A task to search, and a double of its training."""

from pathlib import Path

import pytest
import tiny_texts
from trainings import Trainings

from keras_quasiattn.lab.tasks import Task


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_texts.files(tmp_path_factory.mktemp("texts"))


@pytest.fixture
def task(texts: Path) -> Task:
    return tiny_texts.make(texts, "bilstm_none", training__select="accuracy")


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> Trainings:
    made = Trainings(lambda options: options["model.units"] + options["training.learning_rate"])
    monkeypatch.setattr("keras_quasiattn.lab.tuning.search.train", made)
    return made
