"""The models that find an answer in a passage."""

import functools
import warnings
from typing import Any

import keras
import numpy as np
import pytest
import reading_reference as reference
from tools import reloaded

from keras_quasiattn.models import AttentionFlowReader, DecaProp, SpanCrossentropy, best_spans
from keras_quasiattn.models.reader import Reader, SpanNetwork

PASSAGE = np.array([[5, 4, 3, 2, 6], [7, 2, 9, 0, 0], [3, 4, 1, 1, 0], [0, 0, 0, 0, 0]])
QUESTION = np.array([[6, 5, 9, 0], [8, 1, 2, 7], [0, 0, 0, 0], [3, 0, 0, 0]])
SPANS = np.array([[1, 2, 1], [0, 2, 1], [3, 3, 1], [0, 0, 1]])

_SIZES = {"vocabulary_size": 12, "embedding_dim": 4, "units": 2, "dropout": 0.0}
_SMALL = {**_SIZES, "num_layers": 2, "factors": 2}
KINDS: dict[str, tuple[type[Reader], dict[str, Any]]] = {
    "flow": (AttentionFlowReader, {**_SIZES, "character_units": 2, "character_dim": 3}),
    "decaprop": (DecaProp, _SMALL),
    "coda": (
        DecaProp,
        {
            **_SMALL,
            "num_layers": 1,
            "use_intra": True,
            "attention": "coda",
            "attention_options": {"gate_range": "centered"},
            "self_attention": "coda",
            "pointer": "attentive",
        },
    ),
    "plain": (
        DecaProp,
        {
            **_SMALL,
            "num_layers": 1,
            "connectors": False,
            "final_connectors": False,
            "self_attention": "none",
            "exact_match": False,
            "frequency": False,
        },
    ),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def make(kind: str, **changed: Any) -> Reader:
    model, options = KINDS[kind]
    made = model(**{**options, **changed})
    random = np.random.default_rng(0)
    made.set_weights([random.normal(size=weight.shape, scale=0.4) for weight in made.get_weights()])
    return made


def inputs(
    model: Reader, passage: np.ndarray = PASSAGE, question: np.ndarray = QUESTION
) -> dict[str, Any]:
    """Return the model's inputs: word n has only the bytes n, n + 1, and the form n."""
    given = {}
    for side, ids in (("passage", passage), ("question", question)):
        given[side] = given[f"{side}_forms"] = ids.astype("int32")
        real = (ids > 0)[..., None]
        given[f"{side}_characters"] = (real * np.stack([ids, ids + 1, 0 * ids], -1)).astype("int32")
    return {name: given[name] for name in model.input}


def answer(model: Reader, *texts: np.ndarray) -> np.ndarray:
    return np.asarray(keras.ops.convert_to_numpy(model(inputs(model, *texts))))


@functools.cache
def made(kind: str) -> tuple[Reader, np.ndarray]:
    """Return a model that no test changes, and its answer."""
    model = make(kind)
    return model, answer(model)


@every_kind
def test_padding_changes_nothing_and_empty_texts_have_finite_logits(kind):
    model, whole = made(kind)
    assert whole.shape == (4, 5, 2) and whole.dtype == np.float32 and np.isfinite(whole).all()
    assert (whole[PASSAGE == 0] == -1e9).all() and (np.abs(whole[PASSAGE > 0]) < 1e3).all()
    # Longer, with the first row again and another question.
    changed = QUESTION[:1].copy()
    changed[0, 1] = 11
    passages, questions = (
        np.concatenate([PASSAGE, PASSAGE[:1]]),
        np.concatenate([QUESTION, changed]),
    )
    longer = answer(model, np.pad(passages, ((0, 0), (0, 2))), np.pad(questions, ((0, 0), (0, 3))))
    np.testing.assert_allclose(longer[:4, :5], whole, atol=1e-5)
    assert np.abs(longer[4, :5] - whole[0]).max() > 1e-4
    np.testing.assert_allclose(
        answer(model, PASSAGE[1:2, :3], QUESTION[1:2]), whole[1:2, :3], atol=1e-5
    )


@pytest.mark.parametrize(
    ("kind", "eagerly"),
    [*((kind, True) for kind in KINDS), pytest.param("coda", False, marks=pytest.mark.long)],
)
def test_a_gradient_reaches_every_weight(kind, eagerly):
    model = make(kind)
    # Above 0, so that every ReLU lets something through.
    model.set_weights([np.abs(value) for value in model.get_weights()])
    optimizer = keras.optimizers.SGD(1e6)  # a rate at which no step is rounded away
    model.compile(optimizer, SpanCrossentropy(), run_eagerly=eagerly, jit_compile=False)
    before = [value.copy() for value in model.get_weights()]
    paths = [weight.path for weight in model.weights]
    assert np.isfinite(model.train_on_batch(inputs(model), SPANS))
    same = [
        path
        for path, one, other in zip(paths, before, model.get_weights(), strict=True)
        if (one == other).all()
    ]
    assert not same


def test_everything_survives_saving(tmp_path):
    changed = {"train_embedding": False, "character_units": 2, "dropout": 0.25, "name": "mine"}
    model = make("coda", **changed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        loaded = reloaded(model, tmp_path, compile=False)
    assert loaded.get_config() == model.get_config()
    assert loaded.get_config()["character_units"] == 2 and not loaded.embedding.trainable
    np.testing.assert_array_equal(answer(loaded), answer(model))


def test_connectors_are_as_many_and_as_wide_as_specified():
    units, layers = 2, 3
    for use_intra, numbers in ((False, 27), (True, 54)):
        model = DecaProp(**{**_SIZES, "units": units}, num_layers=layers, use_intra=use_intra)
        network = model.get_layer("network")
        assert len(network.connectors) == layers**2 and len(network.final_connectors) == 2 * layers
        width = 6 * units + numbers
        context = network.attentions[0]
        for projection in (context.context_projection, context.query_projection):
            assert tuple(projection.kernel.shape) == (width, units)
        assert tuple(context.gate.kernel.shape) == (2 * width, 2 * width)
        assert tuple(network.attentions[1].gate.kernel.shape) == (4 * units, 4 * units)
        pointed = network.pointer.start_recurrent.recurrent.forward_layer.cell.kernel.shape
        assert tuple(pointed) == (2 * units + 2 * layers * 3, 3 * units)
    network = DecaProp(**KINDS["plain"][1]).get_layer("network")
    assert not network.connectors and not network.final_connectors and len(network.attentions) == 1


class Shown(SpanNetwork):
    """The last two features of the passage, as if they were logits."""

    def call(self, inputs: list[Any], mask: Any = None) -> Any:
        return inputs[0][..., -2:]


def test_words_are_told_of_matches_and_their_frequency():
    features = {
        "vocabulary_size": 12,
        "embedding_dim": 1,
        "train_embedding": True,
        "character_units": 0,
        "character_dim": 1,
        "exact_match": True,
        "frequency": True,
    }
    model = Reader(Shown, {**features, "kwargs": {"dtype": "float32"}})
    forms = np.array([[40, 41, 40, 43, 42]]), np.array([[43, 40, 42]])  # 42 is at a padded position
    ids = np.array([[1, 1, 3, 4, 0]]), np.array([[1, 5, 0]])
    given = {
        "passage": ids[0],
        "question": ids[1],
        "passage_forms": forms[0],
        "question_forms": forms[1],
    }
    shown = keras.ops.convert_to_numpy(
        model({name: x.astype("int32") for name, x in given.items()})
    )
    np.testing.assert_allclose(shown[0, :4, 0], [1, 0, 1, 1])
    np.testing.assert_allclose(shown[0, :4, 1], [0.5, 0.25, 0.5, 0.25])


def test_half_precision_is_near():
    model, (_, full) = make("decaprop", dtype="mixed_bfloat16"), made("decaprop")
    real = PASSAGE > 0
    np.testing.assert_allclose(answer(model)[real], full[real], atol=0.3)


@pytest.mark.parametrize("longest", [1, 3, 16])
@pytest.mark.parametrize("length", [1, 2, 9])
def test_best_spans_are_those_of_trying_all(length, longest):
    # Few different values, so that there are ties.
    start, end = np.random.default_rng(length).integers(-2, 3, (2, 20, length)).astype("float32")
    first, last, score = (keras.ops.convert_to_numpy(x) for x in best_spans(start, end, longest))
    for row in range(20):
        expected = reference.best_span(start[row], end[row], longest)
        assert (first[row], last[row]) == expected
        assert score[row] == start[row][expected[0]] + end[row][expected[1]]


def test_span_crossentropy_by_hand():
    logits = np.log(np.array([[[1, 2], [3, 6]], [[1, 1], [1, 3]]], "float32"))
    loss = SpanCrossentropy()(np.array([[1, 0, 1], [0, 1, 0]]), logits)
    expected = np.mean([-np.log(3 / 4) - np.log(2 / 8), -np.log(1 / 2) - np.log(3 / 4)])
    np.testing.assert_allclose(float(loss), expected, rtol=1e-6)


def test_bad_arguments():
    with pytest.raises(ValueError, match="`units` must be a positive integer"):
        DecaProp(**_SMALL, character_units=-1)
    with pytest.raises(ValueError, match="`longest` must be at least 1"):
        best_spans(np.zeros((1, 2)), np.zeros((1, 2)), 0)
