"""The results that every task reports: metrics, scores of examples, and answers."""

from typing import Any

import numpy as np
import pytest

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab import tasks
from keras_quasiattn.lab.tasks.measured import Judged, Measured

TASKS = ("classify", "pairs", "rank", "read", "translate", "programs", "mlu")
# Tasks with a costly graph are long tests.
MODELS = ["classify", "rank", *(pytest.param(name, marks=pytest.mark.long) for name in TASKS[3:])]
MODELS.insert(1, pytest.param("pairs", marks=pytest.mark.long))
_OF_CLASSES = {
    f"{baseline}_{name}"
    for baseline in ("majority", "bag_of_words")
    for name in ("accuracy", "macro_f1")
}
OLD_NAMES = {
    "classify": _OF_CLASSES,
    "pairs": _OF_CLASSES,
    "rank": {
        f"bag_of_words_{name}"
        for name in ("map", "mrr", "recall_at_1", "recall_at_2", "recall_at_5")
    },
}


@pytest.fixture(scope="module")
def made(tiny_task, texts_data):
    """Return a tiny version of every task, by name."""
    own = {"data__validation": str(texts_data / "test.tsv")}
    return {
        "classify": tiny_task("classify", "bilstm_gated", **own),
        "pairs": tiny_task("pairs", "siamese_both"),
        "rank": tiny_task("rank", "siamese_both"),
        "read": tiny_task("read", "attention_flow"),
        **{name: tiny_task(name) for name in ("translate", "programs", "mlu")},
    }


@pytest.fixture(scope="module")
def measured(made):
    """Measure a task's untrained model on a few validation examples."""
    found: dict[str, tuple[Any, Measured]] = {}

    def of(name):
        if name not in found:
            task = made[name]
            task.prepare()
            model = task.build_model()
            found[name] = model, task.measure(model, "validation", 16)
        return found[name]

    return of


def test_every_task_is_here(made):
    assert set(made) == set(TASKS) == set(tasks.available())


@pytest.mark.parametrize("name", MODELS)
def test_the_main_figure_is_the_mean_of_its_items(name, made, measured):
    task, (_, reached) = made[name], measured(name)
    if reached.items is None:
        assert name == "translate"  # BLEU is not a mean over sentences
    else:
        assert reached.figures[task.figure] == pytest.approx(np.mean(reached.items), abs=1e-6)
        assert len(reached.items) == len(reached.judged)
    assert reached.examples == len(reached.judged) > 0
    assert set(task.shares) <= reached.figures.keys()


@pytest.mark.parametrize("name", MODELS)
def test_examples_are_judged_as_predict_answers_them(name, made, measured):
    task, (model, reached) = made[name], measured(name)
    assert all(0 <= one.confidence <= 1.0001 for one in reached.judged)
    if set(task.shares) & {"accuracy", "exact_match", "sequence_accuracy"}:
        share = reached.figures[next(iter(task.shares))]
        assert np.mean([one.right for one in reached.judged]) == pytest.approx(share)
    some = reached.judged[:3]
    for one, answer in zip(some, task.predict(model, [one.input for one in some]), strict=True):
        given = answer["label"] if "label" in answer else answer.get("answer")
        given = answer["ranked"][0] if given is None else given
        assert one.given == given.replace("\n", " ")


def test_the_best_candidate_comes_first_and_is_right_or_not(made, measured):
    _, reached = measured("rank")
    tops = [one.input.split("\t")[1] for one in reached.judged]
    assert tops == [one.given for one in reached.judged]
    assert all(one.right == (one.given in one.expected.split(" / ")) for one in reached.judged)


@pytest.mark.parametrize("name", MODELS)
def test_a_file_is_measured_like_the_split_that_has_its_rows(name, made, measured):
    task, (model, reached) = made[name], measured(name)
    if name == "mlu":
        with pytest.raises(UserError, match="task mlu makes its own data"):
            task.use_file("a.tsv")
        return
    assert task.options.data["validation"]
    if "columns" not in task.options.data:
        with pytest.raises(UserError, match="--columns: a file of task .* has no columns"):
            task.use_file(task.options.data["validation"], {"text": "review"})  # was ignored
    task.use_file(task.options.data["validation"])
    again = task.measure(model, "file", 16)
    assert again.judged == reached.judged and again.figures.keys() == reached.figures.keys()
    assert again.figures[task.figure] == pytest.approx(reached.figures[task.figure])


@pytest.mark.parametrize("name", TASKS)
def test_baselines_have_the_names_that_records_know(name, made):
    task = made[name]
    task.prepare()
    baselines, flat = task.measure_baselines("validation", 16), task.baselines("validation", 16)
    assert flat.keys() == OLD_NAMES.get(name, set())
    for reached in baselines.values():
        assert reached.items is not None
        assert reached.figures[task.figure] == pytest.approx(np.mean(reached.items), abs=1e-6)


def test_examples_without_items_are_counted_by_their_answers():
    answers = [Judged("a", "b", "b", True, 0.5)] * 3
    assert Measured({}, None, answers).examples == 3 and Measured({}).examples == 0


def test_a_model_that_answers_nan_ended_in_a_traceback(made, measured):
    model, _ = measured("classify")
    before = model.get_weights()
    model.set_weights([np.full_like(one, np.nan) for one in before])
    try:
        with pytest.raises(UserError, match="cannot be measured: `probabilities` must be finite"):
            made["classify"].measure(model, "validation", 4)
    finally:
        model.set_weights(before)
