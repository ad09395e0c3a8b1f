"""`compare` on any Keras model: metrics, failures, rates, built models, tables and pages."""

import functools
from typing import Any

import keras
import numpy as np
import pytest

from keras_quasiattn import compare
from keras_quasiattn.lab.comparison.models import _copy, _Trial
from keras_quasiattn.layers import MaskedPooling, MultiHeadSoftmax

rng = np.random.default_rng(0)
X = rng.normal(size=(24, 5, 4)).astype("float32")
Y = (X.sum((1, 2)) > 0).astype("int32")
FIT: dict[str, Any] = {"epochs": 1, "batch_size": 8, "progress": None}


def classifier(layer, **compiled):
    x = keras.Input((None, 4))
    model = keras.Model(x, keras.layers.Dense(2)(MaskedPooling()(layer(x, x))))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    options = {"metrics": ["accuracy"], "run_eagerly": True, **compiled}
    model.compile(keras.optimizers.Adam(0.01), loss, **options)
    return model


def build(attention):
    from keras_quasiattn.attention.base import ATTENTIONS

    return classifier(ATTENTIONS[attention](2, 4))


@pytest.fixture(scope="module")
def found():
    """Compare softmax, an attention whose runs fail, and a third one."""

    def fails(attention):
        if attention == "relu":
            raise RuntimeError("no memory")
        return build(attention)

    return compare(fails, (X, Y), (X, Y), ["relu", "sigmoid"], seeds=2, **FIT)


def test_the_baseline_comes_first_and_the_items_are_the_test_examples(found):
    assert [entry.name for entry in found.entries] == ["softmax", "relu", "sigmoid"]
    assert found.figure == "accuracy" and found.sign == 1
    for entry in (found["softmax"], found["sigmoid"]):
        assert set(entry.figures) == {0, 1} and set(entry.costs) == {"step", "answer", "weights"}
        for seed, figure in entry.figures.items():
            assert entry.items[seed].shape == (24,)
            assert entry.items[seed].mean() == pytest.approx(figure)
    assert found.difference(found["sigmoid"]).items == 24
    assert found.difference(found["softmax"]) is None


@pytest.mark.long
def test_the_same_seed_gives_the_same_figures(found):
    again = compare(build, (X, Y), (X, Y), ["sigmoid"], seeds=2, **FIT)
    assert again["sigmoid"].figures == found["sigmoid"].figures


def test_tables_say_the_verdict(found):
    head, *rows = found.rows()
    assert head[:4] == ["attention", "accuracy", "difference to softmax", "verdict"]
    assert rows[2][3] == found.difference(found["sigmoid"]).verdict
    assert "95% interval over seeds and test items" in found.table()
    assert found.markdown().count("|") > 10
    assert "<table>" in found._repr_html_()


def test_a_built_model_is_copied_with_its_weights_and_trained_in_graphs():
    model = classifier(keras.layers.MultiHeadAttention(2, 4), run_eagerly=False)
    before = [weight.copy() for weight in model.get_weights()]
    compared = compare(model, (X, Y), (X, Y), ["relu"], seeds=1, **FIT)
    assert all(entry.figures and not entry.errors for entry in compared.entries)
    for one, other in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert compared.rows()[2][3] == "one seed: no verdict"


def test_a_single_name_was_read_letter_by_letter():
    compared = compare(build, (X, Y), (X, Y), "sigmoid", seeds=1, **FIT)
    assert [entry.name for entry in compared.entries] == ["softmax", "sigmoid"]


@pytest.mark.long
def test_a_built_model_may_have_the_baseline_already():
    compared = compare(classifier(MultiHeadSoftmax(2, 4)), (X, Y), (X, Y), ["relu"], seeds=1, **FIT)
    assert not any(entry.errors for entry in compared.entries)


def test_a_failed_run_is_a_line_and_does_not_stop_the_others(found):
    assert found["relu"].errors == dict.fromkeys((0, 1), "RuntimeError: no memory")
    assert found["sigmoid"].figures and "2 failed: RuntimeError" in found.table()
    assert found.best is not None and found.best.name != "relu"


@pytest.mark.long
@pytest.mark.parametrize(
    ("metric", "name", "sign", "items"),
    [
        (keras.losses.sparse_categorical_crossentropy, "sparse_categorical_crossentropy", -1, 24),
        ("loss", "loss", -1, 0),
        (keras.metrics.sparse_top_k_categorical_accuracy, None, 1, 24),
    ],
)
def test_any_metric(metric, name, sign, items):
    compared = compare(build, (X, Y), (X, Y), ["relu"], seeds=2, metric=metric, **FIT)
    difference = compared.difference(compared["relu"])
    assert name in (None, compared.figure) and compared.sign == sign
    assert difference is not None and difference.items == items


@pytest.mark.long
def test_rates_are_chosen_by_validation_data_and_shown():
    compared = compare(
        build, (X, Y), (X, Y), ["relu"], seeds=1, rates=(1e-6, 0.02), validation_data=(X, Y), **FIT
    )
    assert compared["relu"].rate in ("1e-06", "0.02") and "rate" in compared.rows()[0]


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 3

    def __getitem__(self, number):
        part = slice(8 * number, 8 * number + 8)
        return X[part], Y[part]


@pytest.mark.long
def test_data_sets_are_read_batch_by_batch():
    compared = compare(build, Batches(), Batches(), ["relu"], seeds=1, epochs=1, progress=None)
    assert compared["relu"].items[0].shape == (24,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"attentions": ["sofmax"]}, "softmax"),
        ({"attentions": "sofmax"}, "'sofmax'"),
        ({"seeds": 0}, "`seeds`"),
        ({"seeds": True}, "`seeds`"),
        ({"rates": (0.1, 0.2)}, "`validation_data`"),
    ],
)
def test_wrong_arguments_fail_before_anything_is_trained(arguments, message):
    def never(attention):
        raise AssertionError("trained")

    with pytest.raises(ValueError, match=message):
        compare(never, (X, Y), (X, Y), **{**FIT, **arguments})
    with pytest.raises(ValueError, match="`build` must be a Keras model, or a function .* 5"):
        compare(5, (X, Y), (X, Y))


def test_a_model_that_is_not_compiled_is_an_error_that_says_so():
    def not_compiled(attention):
        x = keras.Input((None, 4))
        return keras.Model(x, x)

    compared = compare(not_compiled, (X, Y), (X, Y), [], seeds=1, **FIT)
    assert "compiled" in compared["softmax"].errors[0] and compared.best is None


@pytest.mark.parametrize("data", [None, X, (X,), (X[:0], Y[:0]), (X, Y[:3])])
def test_data_without_examples_are_refused(data):
    for fit_data, test_data, name in ((data, (X, Y), "fit_data"), ((X, Y), data, "test_data")):
        with pytest.raises(ValueError, match=f"`{name}` must "):
            compare(build, fit_data, test_data, ["sigmoid"], seeds=1, **FIT)


def test_nan_is_a_failure_and_no_rate_is_chosen_for_it():
    # Accuracy counts NaN as the first class, and argmax takes it for the largest number.
    lines: list[str] = []
    options = {**FIT, "progress": lines.append, "rates": [0.01, 1e30], "epochs": 2}
    entry = compare(build, (X, Y), (X, Y), ["softmax"], seeds=1, validation_data=(X, Y), **options)[
        "softmax"
    ]
    assert entry.rate == "0.01" and set(entry.figures) == {0}
    assert "softmax at the rate 1e+30: the model answers NaN" in "\n".join(lines)
    spoilt = np.full_like(X, np.nan)
    (entry,) = compare(build, (X, Y), (spoilt, Y), ["softmax"], seeds=1, **FIT).entries
    assert not entry.figures and "answers NaN" in entry.errors[0]


def test_a_copy_of_the_baseline_had_not_what_a_layer_learned_by_adapt():
    scale = keras.layers.Normalization()
    scale.adapt(3.0 * X + 5.0)
    x = keras.Input((5, 4))
    model = keras.Model(x, MultiHeadSoftmax(2, 4)(scale(x), scale(x)))
    for attention in ("softmax", "sigmoid"):
        layer = _copy(model, attention).get_layer(scale.name)
        np.testing.assert_allclose(layer(X), scale(X), atol=1e-6)


@pytest.mark.parametrize("given", [{}, {"rates": (0.01, 0.02), "validation_data": (X, Y)}])
def test_one_infinite_score_lost_the_table_of_all(given):
    def infinite(y, output):
        return keras.ops.full_like(output[:, 0], np.inf)

    compared = compare(build, (X, Y), (X, Y), [], seeds=1, metric=infinite, **given, **FIT)
    assert "1 failed: FloatingPointError: the metric is NaN or infinite" in compared.table()
    assert not compared["softmax"].figures and compared.best is None


def test_the_largest_of_an_error_was_its_best():
    metrics = keras.metrics
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, "softplus")])
    compiled = ["mae", "mape", "poisson", "hinge", keras.losses.huber, metrics.R2Score()]
    compiled += [metrics.RootMeanSquaredError("rmse"), metrics.FalsePositives(name="false")]
    model.compile("sgd", "mse", metrics=compiled, run_eagerly=True)
    errors = ["mae", "mape", "poisson", "hinge", "huber", "rmse", "false"]
    errors += [keras.losses.log_cosh, keras.losses.MeanSquaredError(reduction=None)]
    errors += [functools.partial(keras.losses.huber, delta=0.5)]
    data = (X[:, 0], Y[:, None].astype("float32"))
    model.train_on_batch(*data)
    for metric in [*errors, "r2_score", metrics.binary_accuracy]:
        trial = _Trial(None, None, metric, None, None, {}, print)
        trial.measured(model, data)
        assert trial.sign == (-1 if metric in errors else 1), metric


class Half(keras.metrics.SparseCategoricalAccuracy):
    def result(self):
        return super().result() / 2


@pytest.mark.parametrize(
    ("metric", "outputs", "items"),
    [
        ("accuracy", 1, True),
        ("acc", 2, True),
        (keras.metrics.BinaryAccuracy("accuracy", threshold=0.0), 1, True),
        # The accuracy that Keras chooses for such targets is another.
        (keras.metrics.BinaryAccuracy("accuracy"), 3, True),
        (keras.metrics.MeanMetricWrapper(keras.metrics.binary_accuracy, "acc"), 1, False),
        (Half("accuracy"), 2, False),
    ],
)
def test_the_metric_named_accuracy_was_another(metric, outputs, items):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(outputs)])
    y = np.tile(Y[:, None], 3) if outputs == 3 else Y[:, None]
    loss = "mse" if outputs != 2 else keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, metrics=[metric], run_eagerly=True)
    model.train_on_batch(X[:, 0], y)
    trial = _Trial(None, None, None, None, None, {}, print)
    figure, scores = trial.measured(model, (X[:, 0], y))
    measured = model.evaluate(X[:, 0], y, return_dict=True, verbose=0)
    assert trial.figure == getattr(metric, "name", metric) and (scores is not None) == items
    assert figure == pytest.approx(measured[trial.figure]) and trial.sign == 1


@pytest.mark.parametrize("metric", [None, "half"])
def test_a_metric_of_nan_was_that_of_the_first_class(metric):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    name = "accuracy" if metric is None else metric
    model.compile("sgd", loss, metrics=[Half(name)], run_eagerly=True)
    model.train_on_batch(X[:, 0], Y)
    trial = _Trial(None, None, metric, None, None, {}, print)
    with pytest.raises(FloatingPointError, match="answers NaN"):
        trial.measured(model, (np.full_like(X[:, 0], np.nan), Y))


@pytest.mark.parametrize("hides", ["nothing", "mask", "weights", "normalized weights"])
def test_accuracy_counted_hidden_positions(hides):
    x = (X[..., 0] > 0).astype("int32") + (hides != "mask")
    y = (X[..., 1] > 0).astype("int32")
    words = keras.Input((None,), dtype="int32")
    states = keras.layers.Embedding(3, 4, mask_zero=True)(words)
    model = keras.Model(words, keras.layers.Dense(2)(states))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    weighted = "weights" in hides
    which = {"weighted_metrics" if weighted else "metrics": ["accuracy"]}
    model.compile("sgd", loss, **which, run_eagerly=True)
    share = (X[..., 2] > 0).mean() if hides == "normalized weights" else 1
    data = (x, y, (X[..., 2] > 0) / np.float32(share)) if weighted else (x, y)
    compared = compare(lambda _: model, data, data, [], seeds=1, **FIT)
    # Its weights have changed since, by the time of an update.
    trial = _Trial(None, None, None, None, None, {}, print)
    figure, scores = trial.measured(model, data)
    measured = model.evaluate(x, y, None, 0, *data[2:], return_dict=True)
    assert figure == pytest.approx(measured["accuracy"]) and compared.figure == "accuracy"
    right = model.predict(x, verbose=0).argmax(-1) == y
    seen = data[-1] > 0 if weighted else x > 0
    assert figure == pytest.approx(right[seen].mean())
    for found in (scores, compared["softmax"].items.get(0)):
        assert found is None if hides != "nothing" else found.shape == (24,)
