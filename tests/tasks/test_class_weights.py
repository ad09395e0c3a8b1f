"""Class weights in the loss, and macro-F1 on the validation data."""

import keras
import numpy as np
import pytest
import sklearn.metrics
import tensorflow as tf
import tiny
import tiny_pairs
import tiny_texts
from tiny import prepared

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.training import RunFolder, train
from keras_quasiattn.metrics.classification import MacroF1

BALANCED = {"training__class_weights": "balanced", "training__label_smoothing": 0.1}


def skewed(folder, task):
    """Return a task with classes, in which most rows have the same class."""
    if task == "classify":
        rows = tiny_texts.rows(240)
        kept = [row for n, row in enumerate(rows) if row[1] == "HUM" or n % 5 == 0]
        tiny_texts.write(folder / "train.tsv", kept)
        return tiny_texts.make(folder, "words_soft", data__test="", **BALANCED)
    columns = "first second label" if task == "pairs" else "question candidate label"
    make = tiny_pairs.pairs if task == "pairs" else tiny_pairs.questions
    files = {"train": 120, "validation": 30, "test": 30}
    for seed, (split, count) in enumerate(files.items()):
        rows = [row for n, row in enumerate(make(count, seed)) if row[2] != "other" or n % 8 == 0]
        tiny_pairs.write(folder / f"{split}.tsv", columns, rows)
    return tiny_pairs.make(folder, task, "decomposable", **BALANCED)


@pytest.mark.parametrize("name", ["classify", "pairs", "rank"])
def test_rare_classes_counted_as_little_as_their_rows(name, tmp_path):
    task = prepared(skewed(tmp_path, name))
    counts = np.bincount(task._data.splits["train"].labels)
    classes = len(counts)
    assert counts.max() > 2 * counts.min()
    _, target = next(iter(task.training_data(0)))[:2]
    labels = (target[:, 0] if name == "rank" else tf.argmax(target, axis=1)).numpy()
    logits = np.random.default_rng(0).normal(size=(len(labels), classes)).astype("float32")
    loss = task.loss()
    smooth = 0.9 * np.eye(classes)[labels] + 0.1 / classes
    each = -np.sum(smooth * np.log(tf.nn.softmax(logits)), axis=1)
    weights = counts.sum() / (classes * counts)
    assert float(loss(target, logits)) == pytest.approx(np.mean(weights[labels] * each), rel=1e-5)
    # All classes have equal total weight, and the mean weight of a row is 1.
    np.testing.assert_allclose(weights * counts, counts.sum() / classes)
    # Nothing is normalized per batch, so replicas that share a batch train like one device.
    halves = [float(loss(target[at], logits[at])) for at in (slice(4), slice(4, 8))]
    assert float(loss(target[:8], logits[:8])) == pytest.approx(np.mean(halves), rel=1e-5)
    # Weights of examples that only fill a batch still count.
    filled = loss(target[:4], logits[:4], sample_weight=tf.constant([2.0, 2.0, 0.0, 0.0]))
    assert float(filled) == pytest.approx(
        np.mean((weights[labels] * each)[:4] * [2, 2, 0, 0]), rel=1e-5
    )


@pytest.mark.parametrize(
    "policy", ["float32", pytest.param("mixed_float16", marks=pytest.mark.long)]
)
def test_a_run_with_weights_is_chosen_by_macro_f1_and_goes_on(policy, tmp_path, request):
    if policy == "float32":  # the loss and the metric are traced with the other
        request.getfixturevalue("eagerly")
    task = skewed(tmp_path, "classify")
    overrides = {
        **task.options.options(),
        "training.select": "macro_f1",
        "training.steps": 4,
        "training.checkpoint_every": 2,
        "training.passes": None,
    }
    task = tiny.make("classify", task.model, tmp_path, overrides)
    folder = train(task, tmp_path / "run", policy=policy, progress=False)
    rows = folder.history()
    assert all(np.isfinite(row["loss"]) and 0 <= row["val_macro_f1"] <= 1 for row in rows)
    best = max(rows, key=lambda row: row["val_macro_f1"])
    reached = folder.metrics()["validation"]
    assert reached["macro_f1"] == pytest.approx(best["val_macro_f1"], abs=1e-3)
    again = RunFolder.open(folder.path, finished=True).task(tmp_path)
    assert again.options.training.class_weights == "balanced"
    again.prepare()
    measured = again.measure(folder.load_model(), "validation").figures
    assert measured["macro_f1"] == pytest.approx(reached["macro_f1"], abs=1e-3)
    overrides["training.class_weights"] = "none"
    other = tiny.make("classify", task.model, tmp_path, overrides)
    with pytest.raises(UserError, match="training.class_weights 'balanced', not 'none'"):
        train(other, folder.path, progress=False)


@pytest.mark.parametrize("name", ["translate", "read"])
def test_tasks_without_classes_refuse_weights(name, tiny_task):
    with pytest.raises(UserError, match="training.class_weights is 'balanced': task .* no classes"):
        tiny_task(name, training__class_weights="balanced")
    with pytest.raises(UserError, match="unknown training.class_weights 'balance'"):
        tiny_task(name, training__class_weights="balance")


def test_macro_f1_is_that_of_scikit_learn_over_batches():
    draw = np.random.default_rng(1)
    labels, answers = draw.integers(0, 3, 60), draw.integers(0, 4, 60)
    metric = MacroF1(5)  # a class that is neither a label nor an answer does not count
    assert float(metric.result()) == 0.0
    for at in (slice(0, 20), slice(20, 60)):
        weights = np.full(len(labels[at]), 1.5)
        metric.update_state(np.eye(5)[labels[at]], np.eye(5)[answers[at]], weights)
    metric.update_state(np.eye(5)[[4]], np.eye(5)[[3]], np.zeros(1))  # fills a batch
    assert float(metric.result()) == pytest.approx(
        sklearn.metrics.f1_score(labels, answers, average="macro"), rel=1e-5
    )
    again = keras.metrics.deserialize(keras.metrics.serialize(metric))
    assert again.classes == 5 and again.name == "macro_f1"
