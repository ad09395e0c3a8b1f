"""A run records how it processes texts; an older run, without the record, keeps its way."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tiny_texts
from tiny import prepared

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.text import TEXT_VERSION, count_words, ranked_words, vocabulary_text
from keras_quasiattn.lab.training import RunFolder, train
from keras_quasiattn.lab.tuning.search import _continue_from
from keras_quasiattn.serving import export, load

RECORD = "text_processing.json"
TYPESET = "he isn\u2019t <so> old"
READ = ["he", "is", "n't", "<", "so", ">", "old"]
READ_BEFORE = ["he", "isn", "\u2019", "t", "old"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rows = [(f"{TYPESET} {text}", label) for text, label in tiny_texts.rows(60)]
    folder = tmp_path_factory.mktemp("typeset")
    for name in ("train.tsv", "test.tsv"):
        tiny_texts.write(folder / name, rows)
    return folder


def made_run(path, task):
    task.prepare()
    run = RunFolder.create(path, task, options={})
    run.write_assets(task)
    return run


def as_before(run, task):
    """Rewrite the run as a version without the record would have."""
    counts = count_words(task._training_texts(), "words", 1)
    words = ranked_words(counts, size=task.options.data["vocabulary_size"])
    (run.path / "vocabulary.txt").write_text(vocabulary_text(words), encoding="utf-8")
    (run.path / RECORD).unlink()
    return run


def words_of(task, text=TYPESET):
    (row,) = task.tokenizer.split(tf.constant([text])).to_list()
    assert (task._token_ids(tf.constant([text])).to_tensor().numpy() > 1).all()
    return [word.decode() for word in row]


def test_new_runs_record_their_text_processing(data, tmp_path):
    task = tiny_texts.make(data, data__min_count=1)
    run = made_run(tmp_path / "run", task)
    assert json.loads((run.path / RECORD).read_text()) == {"version": TEXT_VERSION}
    assert words_of(run.task(data)) == words_of(task) == READ


def test_earlier_runs_read_texts_as_they_did(data, tmp_path):
    task = tiny_texts.make(data, data__min_count=1)
    run = as_before(made_run(tmp_path / "run", task), task)
    vocabulary = (run.path / "vocabulary.txt").read_bytes()
    for again in (run.task(data), tiny_texts.make(data, data__min_count=1), task):
        again.resume(run.path)  # as training does; one of them has a vocabulary already
        again.prepare()
        assert words_of(again) == READ_BEFORE
        run.write_assets(again)  # refuses another vocabulary than the run's
    assert (run.path / "vocabulary.txt").read_bytes() == vocabulary
    assert not (run.path / RECORD).exists()


def test_a_run_that_was_stopped_before_it_had_a_vocabulary_is_a_new_one(data, tmp_path):
    task = tiny_texts.make(data, data__min_count=1)
    task.resume(RunFolder.create(tmp_path / "run", task, options={}).path)
    task.prepare()
    assert words_of(task) == READ


def test_a_trial_that_continues_an_earlier_one_reads_as_that_did(data, tmp_path):
    task = tiny_texts.make(data, data__min_count=1, training__schedule="constant")
    run = as_before(made_run(tmp_path / "run", task), task)
    run.model_file.touch()
    run.checkpoints.mkdir()
    again = tiny_texts.make(data, data__min_count=1, training__schedule="constant")
    _continue_from(run.path, tmp_path / "longer", again, ())
    again.resume(tmp_path / "longer")
    again.prepare()
    assert words_of(again) == READ_BEFORE
    RunFolder.open(tmp_path / "longer").write_assets(again)


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"{}", b"[]", b'{"version": "2"}', b'{"version": 99}']
)
def test_a_damaged_record_is_named(content, data, tmp_path):
    run = made_run(tmp_path / "run", tiny_texts.make(data))
    (run.path / RECORD).write_bytes(content)
    with pytest.raises(UserError, match=f"{RECORD} is damaged, or of a newer keras_quasiattn"):
        run.task(data)


@pytest.mark.long
def test_a_finished_run_from_before_answers_goes_on_and_is_exported_as_it_was(
    texts_run, texts_data, tmp_path
):
    run = shutil.copytree(texts_run, tmp_path / "run")
    for name in (RECORD, "manifest.json"):
        (run / name).unlink()
    texts = [TYPESET, "who isn\u2019t", "how many <3 where"]
    task = tiny_texts.make(texts_data, training__steps=80)
    folder = train(task, run, progress=False)
    assert not (run / RECORD).exists() and task.tokenizer.text_version == 1
    expected = folder.task(texts_data).predict(folder.load_model(), texts)
    assert expected[0]["tokens"] == READ_BEFORE
    export(folder, folder.task(texts_data), tmp_path / "saved", name="before")
    served = load(tmp_path / "saved" / "before" / "1")(texts)
    for one, other in zip(expected, served, strict=True):
        assert one["tokens"] == [token for token in other["tokens"] if token]
        np.testing.assert_allclose(one["probabilities"], other["probabilities"], rtol=1e-5)


def test_a_run_that_was_killed_among_its_assets_became_one_of_version_1(data, tmp_path):
    task = prepared(tiny_texts.make(data, data__min_count=1))
    run = RunFolder.create(tmp_path / "run", task, options={})
    for name, content in task.assets().items():
        (run.path / name).write_bytes(content)
        again = tiny_texts.make(data, data__min_count=1)
        again.resume(run.path)
        again.prepare()
        assert words_of(again) == READ
