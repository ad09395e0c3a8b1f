import pytest
import toy_task

from keras_quasiattn.lab import tasks


@pytest.fixture(autouse=True)
def toy_is_a_task(monkeypatch):
    monkeypatch.setitem(tasks._TASKS, "toy", f"{toy_task.__name__}:ToyTask")
