"""What one process of a comparison does: it reuses what others learned."""

import dataclasses

import pytest
import tiny_texts
from tiny import prepared

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.comparison.engine import _run, _task
from keras_quasiattn.lab.comparison.experiments import Job, Row
from keras_quasiattn.lab.comparison.of_task import _written_assets
from keras_quasiattn.lab.tasks import sequence_task, vocabulary_task
from keras_quasiattn.lab.training import train


def job_of(task, assets):
    row = Row("softmax", task.name, task.preset, task.model, task.options.options())
    return Job("run", row, seed=task.seed + 1, data_dir=task.data_dir, assets=assets)


@pytest.mark.parametrize("name", ["classify", "pairs", "translate"])
def test_every_run_learned_the_same_vocabulary_again(name, tiny_task, tmp_path, monkeypatch):
    """It took 8 of the 70 seconds of a run on 4,000 sentences."""
    task = prepared(tiny_task(name))
    assets = _written_assets(task, tmp_path / "assets")
    assert assets is not None

    def learn(*texts, **options):
        raise AssertionError("the vocabulary is learned again")

    for module, one in (
        (vocabulary_task, "ranked_words"),
        (vocabulary_task, "learn_subwords"),
        (sequence_task, "learn_sentence_pieces"),
    ):
        monkeypatch.setattr(module, one, learn)
    other = prepared(_task(job_of(task, assets)))
    assert other.assets() == task.assets()
    with pytest.raises(AssertionError, match="learned again"):
        _task(job_of(task, None)).prepare()


def test_word_vectors_are_read_by_every_run(tiny_task, tmp_path):
    """They are not assets, so a run that reused the assets alone would begin without vectors."""
    (tmp_path / "glove.txt").write_text("cat 1 2 3 4 5 6 7 8\n")
    task = prepared(tiny_task("pairs", data__vectors=str(tmp_path / "glove.txt")))
    assert _written_assets(task, tmp_path / "assets") is None
    assert not (tmp_path / "assets").exists()


@pytest.mark.usefixtures("eagerly")  # its two updates are not worth a graph
def test_a_run_that_had_finished_was_measured_on_other_data(tmp_path):
    options = {"training__steps": 2, "training__checkpoint_every": 2, "model__units": 4}
    tiny_texts.files(tmp_path, train=40)
    task = tiny_texts.make(tmp_path, "bilstm_none", **options)
    job = dataclasses.replace(job_of(task, None), seed=task.seed, path=tmp_path / "run")
    train(task, job.path, progress=False)
    tiny_texts.files(tmp_path, train=50)
    with pytest.raises(UserError, match="was started with the data .*, and they are now"):
        _run(job)
