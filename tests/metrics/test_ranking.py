import inspect
import itertools
import lzma
import time
from pathlib import Path

import keras
import numpy as np
import pytest
import warm
from shared_data import PATH, needs_shared_data
from tools import sampled

from keras_quasiattn.metrics import MeanAveragePrecision, MeanReciprocalRank, RecallAtK
from keras_quasiattn.models import RankingCrossentropy

SCRIPT = Path(__file__).with_name("rank_mirrored.py")
FIGURES = {
    "map": lambda labels: np.mean([labels[: r + 1].mean() for r in np.flatnonzero(labels)]),
    "mrr": lambda labels: 1 / (1 + np.argmax(labels)),
    "recall": lambda labels: labels[:3].sum() / labels.sum(),
}
NAMES = list(FIGURES)


def metric_of(figure, capacity, **settings):
    if figure == "recall":
        return RecallAtK(3, capacity=capacity, **settings)
    return {"map": MeanAveragePrecision, "mrr": MeanReciprocalRank}[figure](
        capacity=capacity, **settings
    )


def reference(name, labels, groups, scores, questions="positive", ties="worst"):
    """Compute the definition, question by question."""
    figures = []
    for group in np.unique(groups):
        chosen = groups == group
        label, score = labels[chosen], scores[chosen].astype(float)
        if not label.any() or (questions == "both" and label.all()):
            continue
        unknown = np.isnan(score)
        first = np.where((ties == "worst") | unknown, label, 1 - label)
        order = np.lexsort((first, -np.where(unknown, 0, score), unknown))
        figures.append(FIGURES[name](label[order]))
    return np.mean(figures) if figures else 0.0


def measured(metric, labels, groups, scores, order=None, cuts=()):
    order = np.arange(len(labels)) if order is None else order
    rows = np.stack([labels, groups, np.arange(len(labels))], axis=1)
    for batch in np.split(order, cuts):
        metric.update_state(rows[batch], scores[batch])
    return float(metric.result())


PRODUCT = itertools.product(NAMES, ["positive", "both"], ["worst", "best"], range(4))


@pytest.mark.parametrize("name,questions,ties,seed", sampled(PRODUCT, 14))
def test_any_order_and_any_batches_give_the_definition(name, questions, ties, seed):
    random = np.random.default_rng(seed)
    size = 60
    labels = (random.random(size) < 0.3).astype(int)
    groups = random.choice([-(2**31), -3, 0, 7, 2**31 - 1, 12, 13, 14, 15, 16], size)
    # Few values, so that many tie; infinities and NaN among them.
    scores = random.choice([-np.inf, -1.5, -0.0, 0.0, 0.25, np.inf, np.nan], size).astype("float32")
    groups[:3], labels[:3] = [101, 102, 102], [1, 1, 1]  # one candidate; all are positive
    groups[3:6], labels[3:6] = [103, 104, 104], [0, 0, 0]  # no positive
    metric = metric_of(name, size + 9, questions=questions, ties=ties)
    cuts = np.sort(random.integers(0, size, 5))
    found = measured(metric, labels, groups, scores, random.permutation(size), cuts)
    assert found == pytest.approx(
        reference(name, labels, groups, scores, questions, ties), abs=1e-6
    )
    metric.reset_state()
    assert float(metric.result()) == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_logits_of_two_classes_score_as_their_difference(name):
    random = np.random.default_rng(5)
    labels, groups = random.integers(0, 2, 40), random.integers(0, 5, 40)
    logits = random.normal(size=(40, 2)).astype("float32")
    expected = reference(name, labels, groups, logits[:, 1] - logits[:, 0])
    assert measured(metric_of(name, 40), labels, groups, logits) == pytest.approx(
        expected, abs=1e-6
    )
    column = (logits[:, 1] - logits[:, 0])[:, None]
    assert measured(metric_of(name, 40), labels, groups, column) == pytest.approx(
        expected, abs=1e-6
    )


def test_low_precision_logits_are_compared_as_they_are():
    metric = MeanReciprocalRank(capacity=2)
    # In float16 both differences would be 2048.
    metric.update_state([[1, 0, 0], [0, 0, 1]], np.array([[0.75, 2048], [1, 2048]], "float16"))
    assert float(metric.result()) == 1.0


@pytest.mark.parametrize("name", NAMES)
def test_numbers_below_zero_do_not_count(name):
    metric = metric_of(name, 4)
    metric.update_state([[1, 0, 0], [1, 0, -1], [0, 0, 1], [0, 1, -7]], [0.0, 9.0, 1.0, 8.0])
    assert float(metric.result()) == pytest.approx(1 if name == "recall" else 1 / 2)
    metric.reset_state()
    metric.update_state([[1, 0, -1]], [0.0])
    assert float(metric.result()) == 0.0


@pytest.mark.parametrize(("question", "number"), [(0, 4), (1, 5), (-1, 2**31 - 1)])
def test_beyond_the_capacity_there_is_no_figure(question, number):
    metric = MeanAveragePrecision(capacity=4)
    metric.update_state([[1, 0, 0], [1, 0, 3]], [0.0, 1.0])
    assert float(metric.result()) == 1.0
    metric.update_state([[1, question, number]], [0.0])
    assert np.isnan(float(metric.result()))
    metric.reset_state()
    metric.update_state([[1, 1, 0]], [0.0])
    assert float(metric.result()) == 1.0


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0]])
def test_nan_ranks_below_the_lowest_score_where_all_scores_differ_and_the_capacity_is_full(order):
    scores, labels = np.array([np.nan, 1.0, -1.0]), np.array([0, 0, 1])
    metric = MeanReciprocalRank(capacity=3)
    assert measured(metric, labels[order], np.zeros(3, int), scores[order]) == 1 / 2


@pytest.mark.parametrize("capacity", [1, 2, 40_000])
def test_every_capacity_sorts_within_32_bits(capacity):
    """From 32,768 examples on, question and score need more bits than one key has."""
    random = np.random.default_rng(0)
    labels, groups = (
        random.integers(0, 2, capacity),
        random.integers(0, capacity // 8 + 1, capacity),
    )
    scores = random.integers(0, max(capacity // 2, 2), capacity).astype("float32")
    metric = MeanAveragePrecision(capacity=capacity)
    start = time.monotonic()
    found = measured(metric, labels, groups, scores, random.permutation(capacity))
    assert time.monotonic() - start < 10
    assert found == pytest.approx(reference("map", labels, groups, scores), abs=1e-5)


@pytest.mark.parametrize(
    ("data", "expected"),
    [("wikiqa", (0.5004, 0.7518, 0.5027, 0.7623)), ("trecqa", (0.5405, 0.7738, 0.5908, 0.8314))],
)
@needs_shared_data
def test_figures_of_shared_words(data, expected):
    text = lzma.decompress((PATH / "raw-qa" / data / "test.tsv.xz").read_bytes()).decode()
    header, *lines = (line.split("\t") for line in text.removesuffix("\n").split("\n"))
    rows = [dict(zip(header, line, strict=True)) for line in lines]
    _, groups = np.unique([row["question_id"] for row in rows], return_inverse=True)
    labels = np.array([int(row["label"]) for row in rows])
    words = [[set(row[side].lower().split()) for side in ("question", "sentence")] for row in rows]
    scores = np.array([len(question & sentence) for question, sentence in words])
    order = np.random.default_rng(0).permutation(len(rows))
    found = [
        measured(
            metric_of(name, len(rows), questions="both", ties=ties), labels, groups, scores, order
        )
        for name in ("map", "mrr")
        for ties in ("worst", "best")
    ]
    assert found == pytest.approx(expected, abs=5e-5)


@pytest.mark.complete
def test_two_replicas_measure_what_one_device_does(tensorflow_only):
    *_, last = warm.printed([SCRIPT], warm.fresh).splitlines()
    assert last == "same; and none where two replicas met one example"


@pytest.mark.parametrize("name", NAMES)
def test_config_round_trip(name):
    metric = metric_of(name, 12, questions="both", ties="best", name="figure", dtype="float64")
    again = keras.metrics.deserialize(keras.metrics.serialize(metric))
    assert type(again) is type(metric) and again.get_config() == metric.get_config()
    assert set(inspect.signature(type(metric)).parameters) == set(metric.get_config())
    assert keras.backend.standardize_dtype(again.result().dtype) == "float64"


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (
            lambda: MeanAveragePrecision(capacity=0),
            "`capacity` must be at least 1. Received: capacity=0",
        ),
        (
            lambda: MeanReciprocalRank(capacity=1, ties="file"),
            "`ties` must be one of 'worst', 'best'. Received: ties='file'",
        ),
        (
            lambda: MeanReciprocalRank(capacity=1, questions="all"),
            "`questions` must be one of 'positive', 'both'",
        ),
        (lambda: RecallAtK(0, capacity=1), "`k` must be at least 1. Received: k=0"),
    ],
)
def test_wrong_arguments_are_named(make, complaint):
    with pytest.raises(ValueError, match=complaint):
        make()


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ((np.ones((2, 2)), np.ones(2)), r"`y_true` must have shape \(B, 3\).*2, 2"),
        ((np.ones((2, 3)), np.ones((2, 3))), r"`y_pred` must have shape .*2, 3"),
        ((np.ones((2, 3)), np.ones(2), np.ones(2)), "`sample_weight` must be None"),
    ],
)
def test_wrong_shapes_are_named(arrays, complaint):
    with pytest.raises(ValueError, match=complaint):
        MeanAveragePrecision(capacity=2).update_state(*arrays)


@pytest.mark.parametrize("label_smoothing", [-0.1, 1.0])
def test_label_smoothing_out_of_range_was_taken(label_smoothing):
    with pytest.raises(ValueError, match="`label_smoothing` must be"):
        RankingCrossentropy(label_smoothing=label_smoothing)
