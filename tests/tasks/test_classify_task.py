import json
import shutil

import numpy as np
import pytest
import tiny_texts
from tiny import built, prepared
from tools import long_except

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks.classify_presets import MODELS
from keras_quasiattn.lab.tasks.encoder_place import ENCODER
from keras_quasiattn.lab.training import RunFolder
from keras_quasiattn.lab.training.trainer import compile_for


@pytest.fixture(scope="module")
def trained(texts_run, texts_data):
    folder = RunFolder.open(texts_run, finished=True)
    task = prepared(folder.task(texts_data))
    return task, folder.load_model()


def test_it_learns_and_reports_what_it_reads(trained):
    task, model = trained
    figures = task.evaluate(model)
    assert figures["accuracy"] > 0.9 and figures["texts"] == 60
    answers = task.predict(model, [text for text, _ in tiny_texts.rows(60, seed=1)])
    opened = sum(sum(answer["gates"]) for answer in answers)
    length = sum(len(answer["tokens"]) for answer in answers)
    assert figures["density"] == pytest.approx(opened / length)
    assert figures["attention_flops"] == 2 * 16 * opened
    right = [
        answer["label"] == label
        for answer, (_, label) in zip(answers, tiny_texts.rows(60, seed=1), strict=True)
    ]
    assert figures["accuracy"] == pytest.approx(np.mean(right))
    assert figures["per_class"].keys() == {"HUM", "LOC", "NUM"}
    assert figures["drop_without_open"] > figures["drop_with_open_only"]
    assert task.evaluate(model, limit=10)["texts"] == 10
    baselines = task.baselines()
    assert baselines["majority_accuracy"] == pytest.approx(1 / 3)
    assert baselines["bag_of_words_accuracy"] > 0.9


def test_answer_has_the_tokens_with_their_gates_and_weights(trained):
    task, model = trained
    (answer,) = task.predict(model, ["Where was the CITY? \udcff"])
    assert answer["input"] == "Where was the CITY? \udcff"
    assert answer["tokens"] == ["where", "was", "the", "city", "?", "\ufffd"]
    assert answer["label"] == "LOC" and answer["classes"] == ["HUM", "LOC", "NUM"]
    assert sum(answer["probabilities"]) == pytest.approx(1)
    assert sum(answer["weights"]) == pytest.approx(1)
    assert [weight > 0 for weight in answer["weights"]] == answer["gates"]


def test_any_text_has_finite_probabilities(trained):
    task, model = trained
    texts = ["", "  ", "zzz qqq xxyy", "where " * 100_000, "x" * 100_000, "\udcff" * 10]
    for given in (texts[:1], texts):
        for text, answer in zip(given, task.predict(model, given), strict=True):
            task.check_input(text)
            assert np.isfinite(answer["probabilities"]).all()
            assert len(answer["tokens"]) == len(answer["gates"]) == len(answer["weights"]) <= 12


OTHERS = [model for model in MODELS if model != ENCODER]  # which test_encoder.py has


# The run above, one of bilstm_gated, covers training in a graph.
@pytest.mark.parametrize("model", long_except(OTHERS, "bilstm_coda", "transformer"))
@pytest.mark.usefixtures("eagerly")
def test_every_model_trains_a_step_and_answers(model, texts_data):
    task, network = built(tiny_texts.make(texts_data, model, data__max_length=6))
    network.compile("adam", task.loss(), metrics=task.metrics())
    logs = network.fit(task.training_data(0), steps_per_epoch=1, epochs=1, verbose=0).history
    assert np.isfinite(logs["loss"]).all() and "accuracy" in logs
    figures = task.evaluate(network, limit=4)
    kind = model.rpartition("_")[2]
    assert ("density" in figures) == (kind == "gated")
    assert ("attention_flops" in figures) == (kind in ("gated", "soft", "local", "none"))
    (answer,) = task.predict(network, ["where is it"])
    assert ("weights" in answer) == (kind in ("gated", "soft", "local"))


def test_a_stream_goes_on_where_it_stopped_and_joins_like_lengths(texts_data):
    task = prepared(tiny_texts.make(texts_data))
    whole = list(task.training_data(0).take(40).as_numpy_iterator())
    rest = list(task.training_data(33).take(7).as_numpy_iterator())
    for batch, same in zip(whole[33:], rest, strict=True):
        np.testing.assert_array_equal(batch[0], same[0])
        np.testing.assert_array_equal(batch[1], same[1])
    padding = np.mean([(ids == 0).mean() for ids, _ in whole])
    assert padding < 0.1
    assert {len(ids) for ids, _ in whole} == {8} and len({ids.shape[1] for ids, _ in whole}) > 3


def test_validation_has_every_held_out_text_in_whole_batches(texts_data):
    task = prepared(tiny_texts.make(texts_data, data__validation_share=0.3))
    note = task.describe_data()["note"]
    held_out = int(note.split("validation is ")[1].split(" of")[0])
    batches = list(task.validation_data().as_numpy_iterator())
    assert {len(ids) for ids, _, _ in batches} == {8} and len(batches) == -(-held_out // 8)
    seen = {tuple(row[row > 0]) for ids, _, _ in batches for row in ids}
    assert len(seen) <= held_out
    assert task.evaluate(task.build_model(), "validation")["texts"] == held_out


def test_texts_that_filled_the_last_batch_counted_twice(texts_data):
    task, model = built(tiny_texts.make(texts_data, "bilstm_soft", training__batch_size=200))
    compile_for(task, model)
    figures = model.evaluate(task.validation_data(), return_dict=True, verbose=0)
    texts = task._data.splits["validation"]
    assert 0 < len(texts) < 100
    answers = task.predict(model, [text.decode() for text in texts.texts])
    right = [
        dict(zip(answer["classes"], answer["probabilities"], strict=True))[task._classes[label]]
        for answer, label in zip(answers, texts.labels, strict=True)
    ]
    assert figures["loss"] == pytest.approx(-np.mean(np.log(right)), rel=1e-5)
    assert figures["accuracy"] == pytest.approx(task.evaluate(model, "validation")["accuracy"])


def test_run_whose_data_have_changed_went_on_if_the_vocabulary_was_the_same(tmp_path):
    folder = tiny_texts.files(tmp_path)
    task = prepared(tiny_texts.make(folder))
    run = RunFolder.create(tmp_path / "run", task, options={})
    run.write_assets(task)
    file = folder / "train.tsv"
    file.write_text(file.read_text().replace("\tHUM", "\tLOC", 1))
    again = prepared(tiny_texts.make(folder))
    with pytest.raises(
        UserError, match="was started with the data train.tsv sha256:.*, and they are now train.tsv"
    ):
        run.write_assets(again)


def test_run_with_another_vocabulary_does_not_go_on(tmp_path):
    folder = tiny_texts.files(tmp_path)
    task = prepared(tiny_texts.make(folder))
    run = RunFolder.create(tmp_path / "run", task, options={})
    (run.path / "vocabulary.txt").write_text("the")
    with pytest.raises(
        UserError, match="vocabulary.txt does not match the data in .*: train in a new folder"
    ):
        run.write_assets(task)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("vocabulary.txt", b"\xff"),
        ("classes.json", b"\xff"),
        ("classes.json", b'["HUM", '),
        ("classes.json", b'{"HUM": 1}'),
        ("classes.json", b'["HUM", 2]'),
    ],
)
def test_damaged_run_is_named(name, content, texts_run, texts_data, tmp_path):
    task = tiny_texts.make(texts_data)
    for other in ("vocabulary.txt", "classes.json"):
        (tmp_path / other).write_bytes(
            (texts_run / other).read_bytes() if other != name else content
        )
    with pytest.raises(UserError, match=f"{tmp_path}.* is damaged"):
        task.read_assets(tmp_path)


def test_a_class_whose_name_has_a_line_break_was_answered_as_the_next_one(texts_run, tmp_path):
    rows = [
        (text, {"HUM": "a\nb", "LOC": "c", "NUM": "d\u2028e"}[label])
        for text, label in tiny_texts.rows(60)
    ]
    for name in ("train", "test"):
        lines = [json.dumps({"text": text, "label": label}) for text, label in rows]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    files = {f"data__{name}": str(tmp_path / f"{name}.jsonl") for name in ("train", "test")}
    task = prepared(tiny_texts.make(tmp_path, **files))
    for name, content in task.assets().items():
        (tmp_path / name).write_bytes(content)
    again = tiny_texts.make(tmp_path, **files)
    again.read_assets(tmp_path)
    (answer,) = again.predict(again.build_model(), ["who is it"])
    assert answer["classes"] == ["a\nb", "c", "d\u2028e"]


def test_classes_of_earlier_runs_are_read_a_line_each(texts_run, tmp_path):
    run = shutil.copytree(texts_run, tmp_path / "run")
    (run / "classes.json").unlink()
    (run / "manifest.json").unlink()
    (run / "classes.txt").write_text("HUM\nLOC\nNUM\n")
    folder = RunFolder.open(run, finished=True)
    (answer,) = folder.task(tmp_path).predict(folder.load_model(), ["who is it"])
    assert answer["classes"] == ["HUM", "LOC", "NUM"]
    # Mistakes that such a file cannot express are at least noticed.
    (run / "classes.txt").write_text("HUM\nLOC\nNUM\nMAN\n")
    with pytest.raises(
        UserError,
        match=r"model has num_classes 3 and classes.txt gives 4: they come from different",
    ):
        folder.load_model()


def test_files_that_do_not_belong_together_were_answered_from(texts_run, tmp_path):
    run = shutil.copytree(texts_run, tmp_path / "run")
    (run / "classes.json").write_text('["LOC", "HUM", "NUM"]\n')
    folder = RunFolder.open(run, finished=True)
    for load in (folder.load_model, lambda: folder.task(tmp_path)):
        with pytest.raises(
            UserError, match="classes.json is not the file that .*manifest.json lists"
        ):
            load()


def test_word_vectors_fill_the_embedding_and_save_rare_words(texts_data, tmp_path):
    known = [f"{number} 8 7 6 5 4 3 2 {number}" for number in range(120)]  # each is in one text
    (tmp_path / "glove.txt").write_text(
        "\n".join(["who 1 2 3 4 5 6 7 8", "never 0 0 0 0 0 0 0 0", *known])
    )
    trained = {"model__train_embedding": True}  # frozen vectors are kept for unseen words too
    task = prepared(
        tiny_texts.make(
            texts_data, data__vectors=str(tmp_path / "glove.txt"), data__min_count=2, **trained
        )
    )
    table = task.build_model().embedding.embeddings.numpy()
    vocabulary = task.tokenizer.vocabulary
    assert table[vocabulary.index("who")].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    numbers = [word for word in vocabulary if word.isdecimal()]
    assert len(numbers) > 90 and max(map(int, numbers)) < 120 and "never" not in vocabulary
    for number in numbers:
        assert table[vocabulary.index(number)].tolist() == [8, 7, 6, 5, 4, 3, 2, int(number)]


@pytest.mark.parametrize(
    ("model", "changed", "message"),
    [
        ("bilstm_gated", {"data__tokenizer": "bytes"}, "unknown data.tokenizer 'bytes'"),
        ("bilstm_gated", {"data__max_length": 0}, "data.max_length is 0: it must be at least 1"),
        (
            "transformer",
            {"data__vectors": "x.txt"},
            "data.vectors is 'x.txt': the model 'transformer' of task classify cannot start with ",
        ),
        (
            "bilstm_gated",
            {"data__vectors": "x.txt", "data__tokenizer": "subwords"},
            "data.vectors is 'x.txt': word vectors need a tokenizer of words",
        ),
        ("bilstm_gated", {"data__train": ""}, "data.train is ''"),
        ("bilstm_gated", {"data__train": "/none.tsv"}, "cannot read /none.tsv"),
        ("bilstm_gated", {"data__validation_share": 0.0}, "data.validation_share is 0.0"),
    ],
)
def test_options_that_cannot_be(model, changed, message, texts_data):
    with pytest.raises(UserError, match=message) as caught:
        tiny_texts.make(texts_data, model, **changed).prepare()
    assert len(str(caught.value).splitlines()) == 1
