"""A task to search, and a double of its training."""

import pytest
import tiny_texts
from trainings import Trainings


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return tiny_texts.files(tmp_path_factory.mktemp("texts"))


@pytest.fixture
def task(texts):
    return tiny_texts.make(texts, "bilstm_none", training__select="accuracy")


@pytest.fixture
def trainings(monkeypatch):
    made = Trainings(lambda options: options["model.units"] + options["training.learning_rate"])
    monkeypatch.setattr("keras_quasiattn.lab.tuning.search.train", made)
    return made
