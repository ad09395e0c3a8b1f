"""Compare attentions in any Keras model, on any backend."""

import dataclasses
import functools
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import numpy as np

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.core.tensors import check_choice
from keras_quasiattn.lab.comparison.compared import Comparison, Entry
from keras_quasiattn.models import swap_attention
from keras_quasiattn.models.swap_attention import copy_state

_NAN = "the model answers NaN: its training diverged, or the data hold NaN"
_INFINITE = "the metric is NaN or infinite: the training diverged, or the data hold NaN"
_TIMED = 8  # calls to time
_DEFAULT_BATCH = 32
_SMALLEST = ("loss", "error", "perplexity", "crossentropy", "divergence")
_ROUNDING = 1e-3  # between the accuracies of `predict` and `evaluate`, as in 16 bits
_ACCURACY = ("accuracy", "acc")  # Keras chooses an accuracy for these
Metric = str | Callable[[Any, Any], Any]


def compare(
    build: keras.Model | Callable[[str], keras.Model],
    fit_data: Any,
    test_data: Any,
    attentions: str | Sequence[str] = ("softmax", "coda", "sigmoid"),
    *,
    seeds: int = 3,
    baseline: str = "softmax",
    rates: Sequence[float] = (),
    validation_data: Any = None,
    metric: Metric | None = None,
    larger_is_better: bool | None = None,
    progress: Callable[[str], None] | None = print,
    **fit_options: Any,
) -> Comparison:
    """Train a model with each attention and several seeds, and report which is ahead.

    For every attention and seed s: `keras.utils.set_random_seed(s)`, a new model, `fit`, and the
    metric on the test data. All attentions thus see the same data in the same order. Differences
    from the baseline are paired by seed and, if the metric is the mean of scores of single
    examples, by example; see `comparison.difference`. A failed run does not stop the others. Masks,
    precision and losses follow the model.

    Args:
        build: a function that takes an attention's name and returns a compiled model, or a built
            and compiled functional model, which `swap_attention` copies with its weights; the
            copies then have the same optimizer, loss and metrics.
        fit_data: data for `fit`: a tuple of arrays (x, y) or (x, y, sample_weight), or a data set
            that can be iterated over repeatedly.
        test_data: data to measure on, in the same form.
        attentions: one or more names, as for `layers.TransformerEncoder`. The baseline is added if
            it is not among them.
        seeds: number of seeds, 0, 1, …; a single seed gives no verdict. Defaults to 3.
        baseline: the attention with which the others are compared. Defaults to "softmax".
        rates: learning rates. With several, each attention is trained once at each with seed 0, and
            keeps the best by the metric on `validation_data`. Defaults to the model's own rate.
        validation_data: as `test_data`; required for `rates`. It is also passed to `fit`.
        metric: a function of (y_true, y_pred) that scores single examples, such as
            `keras.metrics.sparse_categorical_accuracy` or `keras.losses.mean_squared_error`; or the
            name of a value that the compiled model's `evaluate` returns, such as "auc". Defaults to
            "accuracy" or "acc" if the model is compiled with it, otherwise to "loss".
            `evaluate` leaves out positions that the output's mask hides, and weights the examples;
            a function counts all alike.
        larger_is_better: whether larger values are better. Defaults to False for a loss of Keras,
            for a compiled metric that Keras takes for an error, such as "mae", and for any name
            that contains "loss", "error", "crossentropy", "divergence" or "perplexity"; otherwise
            to True.
        progress: called with a line after every run; None for no output.
        **fit_options: further arguments of `fit`, such as `epochs` and `batch_size`.

    Returns:
        The comparison; use `print(comparison.table())` or `comparison.to_html()`, or display it in
        a notebook. Its costs are the median time of an update and of an answer to a batch of the
        test data, both in milliseconds, and the number of weights, but not memory, because all
        models share one process.

    Raises:
        ValueError: `build` cannot be called, an attention is unknown, a number is out of range,
            arrays have no examples or differ in their number, `rates` has no `validation_data`, or
            the model is not compiled.

    Example:
    >>> from keras_quasiattn.layers import MaskedPooling, TransformerEncoder
    >>> def build(attention):
    ...     x = keras.Input((None, 4))
    ...     h = TransformerEncoder(8, num_heads=2, attention=attention)(x)
    ...     model = keras.Model(x, keras.layers.Dense(2)(MaskedPooling()(h)))
    ...     loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    ...     model.compile("adam", loss, metrics=["accuracy"])
    ...     return model
    >>> x, y = np.ones((8, 3, 4), "float32"), np.array([0, 1] * 4)
    >>> found = compare(build, (x, y), (x, y), ["sigmoid"], seeds=2, progress=None, verbose=0)
    >>> [entry.name for entry in found.entries], found.figure
    (['softmax', 'sigmoid'], 'accuracy')

    Source: the paired design follows Dror et al. 2018, "The Hitchhiker's Guide to Testing
    Statistical Significance in NLP", extended to several seeds.
    """
    if not isinstance(build, keras.Model) and not callable(build):
        raise ValueError(
            "`build` must be a Keras model, or a function from the name of an attention to a "
            f"compiled model. Received: {build!r}"
        )
    given = [attentions] if isinstance(attentions, str) else attentions
    names = list(dict.fromkeys([baseline, *given]))
    for name in names:
        check_choice(name, sorted(ATTENTIONS), "attentions")
    if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 1:
        raise ValueError(f"`seeds` must be an integer of at least 1. Received: {seeds!r}")
    if len(rates) > 1 and validation_data is None:
        raise ValueError("`rates` needs `validation_data`, which chooses from them. Received: None")
    for argument, data in (("fit_data", fit_data), ("test_data", test_data)):
        _check_data(data, argument)
    if validation_data is not None:
        _check_data(validation_data, "validation_data")
    say = progress or (lambda line: None)
    trial = _Trial(build, fit_data, metric, larger_is_better, validation_data, fit_options, say)
    entries = [Entry(name) for name in names]
    for name, entry in zip(names, entries, strict=True):
        costs: dict[str, list[float]] = {"step": [], "answer": [], "weights": []}
        try:
            rate = trial.best_rate(name, rates)
        except Exception as error:  # any model may fail in any way
            entry.errors[0] = _said(error)
            say(f"{name}: failed: {entry.errors[0]}")
            continue
        entry.rate = "" if rate is None else f"{rate:g}"
        for seed in range(seeds):
            try:
                model = trial.fitted(name, seed, rate)
                figure, items = trial.measured(model, test_data)
                costs["answer"].append(_time(model.predict_on_batch, _one_batch(test_data)[0]))
                # Do this last, because it changes the weights.
                batch = _one_batch(fit_data, fit_options.get("batch_size") or _DEFAULT_BATCH)
                costs["step"].append(_time(model.train_on_batch, *batch))
                costs["weights"].append(model.count_params())
            except Exception as error:
                entry.errors[seed] = _said(error)
                say(f"{name}, seed {seed}: failed: {entry.errors[seed]}")
                continue
            entry.figures[seed] = figure
            if items is not None:
                entry.items[seed] = items
            say(f"{name}, seed {seed}: {trial.figure} {figure:.4f}")
        entry.costs = {cost: statistics.median(found) for cost, found in costs.items() if found}
    title = f"{', '.join(names)}: {trial.figure or 'no figure'}"
    return Comparison(title, trial.figure, entries, baseline, trial.sign)


def _check_data(data: Any, argument: str) -> None:
    """Check the arrays of a tuple; errors in a data set appear when it is read."""
    if data is None or hasattr(data, "shape") or (isinstance(data, tuple) and len(data) < 2):
        raise ValueError(
            f"`{argument}` must be a tuple (inputs, targets) or a data set of such batches. "
            f"Received: {type(data).__name__}"
        )
    if isinstance(data, tuple):
        sizes = {len(one) for one in keras.tree.flatten(data) if getattr(one, "shape", ())}
        if len(sizes) > 1 or 0 in sizes:
            raise ValueError(
                f"`{argument}` must have as many targets as inputs, and at least one. Received: "
                f"arrays of {' and '.join(map(str, sorted(sizes)))} examples"
            )


def _named(data: Any) -> dict[str, Any]:
    """Return data as arguments of `fit` and `evaluate`."""
    parts = data if isinstance(data, tuple) else (data,)
    return dict(zip(("x", "y", "sample_weight"), parts, strict=False))


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


@dataclasses.dataclass
class _Trial:
    """Build, fit and measure one model after another."""

    build: Any
    fit_data: Any
    metric: Any
    larger_is_better: bool | None
    validation_data: Any
    fit_options: Any
    say: Callable[[str], None]
    figure: str = ""
    is_error: bool = False  # by what Keras knows of the metric, not by its name

    @property
    def sign(self) -> int:
        """1 if larger values are better, −1 if smaller ones are."""
        larger = self.larger_is_better
        if larger is None:
            larger = not self.is_error and not any(word in self.figure for word in _SMALLEST)
        return 1 if larger else -1

    def best_rate(self, name: str, rates: Sequence[float]) -> float | None:
        """Return the best rate on the validation data; None for the model's own."""
        if len(rates) < 2:
            return rates[0] if rates else None
        figures: dict[float, float] = {}
        diverged = None
        for rate in rates:
            model = self.fitted(name, 0, rate)
            try:
                figure, _ = self.measured(model, self.validation_data)
            except FloatingPointError as error:
                self.say(f"{name} at the rate {rate:g}: {error}")
                diverged = error
                continue
            figures[rate] = self.sign * figure
            self.say(f"{name} at the rate {rate:g}: validation {self.figure} {figure:.4f}")
        if diverged is not None and not figures:
            raise diverged
        return max(figures, key=figures.__getitem__)

    def fitted(self, name: str, seed: int, rate: float | None) -> keras.Model:
        """Return a trained model."""
        keras.utils.set_random_seed(seed)
        model = self._made(name)
        if not getattr(model, "compiled", False):
            raise ValueError("`build` must return a compiled model. Received: an uncompiled model")
        if rate is not None:
            model.optimizer.learning_rate = rate
        options = {"verbose": 0, **self.fit_options}
        if self.validation_data is not None:
            options.setdefault("validation_data", self.validation_data)
        model.fit(**_named(self.fit_data), **options)
        return model

    def _made(self, name: str) -> keras.Model:
        if not isinstance(self.build, keras.Model):
            return self.build(name)
        model = _copy(self.build, name)
        config = self.build.get_compile_config()
        if config is None:
            raise ValueError("`build` must be a compiled model. Received: an uncompiled model")
        model.compile_from_config(config)
        return model

    def measured(self, model: keras.Model, data: Any) -> tuple[float, np.ndarray | None]:
        """Return the metric on some data, and the scores of single examples if there are any."""
        metric = self.metric
        # Keras creates the metrics in training.
        known = [part for one in model.metrics for part in (one, *getattr(one, "metrics", ()))]
        if metric is None:
            names = [one.name for one in known if one.name in _ACCURACY]
            metric = names[0] if names else "loss"
        self.is_error = _is_error(metric, known)
        if isinstance(metric, str):
            self.figure, figure = metric, self._evaluated(model, data, metric)
            compiled: Any = next((one for one in known if one.name == metric), None)
            score = _by_example(compiled)
            if score is None:
                return figure, None
            items = _items(score, model, data)
            # By a mask or by weights, Keras counts fewer or others.
            count = float(keras.ops.convert_to_numpy(compiled.count))
            same = count == len(items) and abs(figure - items.mean()) < _ROUNDING
            return figure, items if same else None
        name = getattr(metric, "__name__", None) or getattr(metric, "name", "metric")
        self.figure = str(name)
        items = _items(metric, model, data)
        if not np.isfinite(items).all():
            raise FloatingPointError(_INFINITE)
        return float(items.mean()), items

    def _evaluated(self, model: keras.Model, data: Any, metric: str) -> float:
        """Return the value of this name from `evaluate`."""
        figures = model.evaluate(**_named(data), return_dict=True, verbose=0)
        if metric not in figures:
            listed = ", ".join(sorted(figures))
            raise ValueError(
                f"`metric` must be one of {listed}, or a function. Received: {metric!r}"
            )
        # Of NaN, an accuracy is that of some class.
        if np.isnan(figures.get("loss", 0.0)):
            raise FloatingPointError(_NAN)
        if not np.isfinite(figures[metric]):
            raise FloatingPointError(_INFINITE)
        return float(figures[metric])


def _is_error(metric: Metric, known: Sequence[keras.metrics.Metric]) -> bool:
    """Return whether smaller values are better, by what Keras knows of it; `known` are compiled."""
    if callable(metric):
        function = getattr(metric, "func", metric)  # `functools.partial` has one
        return isinstance(function, keras.losses.Loss) or any(
            function is one for one in vars(keras.losses).values()
        )
    # Of several outputs, a name begins with that of the output.
    named = [one for one in known if f"_{metric}".endswith(f"_{one.name}")]
    return any(
        isinstance(one, (keras.metrics.FalseNegatives, keras.metrics.FalsePositives))
        or getattr(one, "_direction", None) == "down"  # Keras has no public way to read it
        for one in named
    )


def _copy(model: keras.Model, attention: str) -> keras.Model:
    """Return a copy of the model with this attention and the model's weights."""
    kinds = {
        type(one)
        for one in model._flatten_layers()  # Keras has no public way to list layers in layers
        if isinstance(one, keras.layers.MultiHeadAttention)
    }
    if kinds != {ATTENTIONS[attention]}:
        return swap_attention(model, attention)
    copy = keras.models.clone_model(model)
    copy_state(model, copy)
    return copy


def _by_example(compiled: Any) -> Callable[[Any, Any], Any] | None:
    """Return the function whose mean is this metric, if it is one of Keras' accuracies."""
    if type(compiled) is keras.metrics.BinaryAccuracy:
        return functools.partial(keras.metrics.binary_accuracy, threshold=compiled.threshold)
    if type(compiled) is keras.metrics.CategoricalAccuracy:
        return keras.metrics.categorical_accuracy
    if type(compiled) is keras.metrics.SparseCategoricalAccuracy:
        return keras.metrics.sparse_categorical_accuracy
    return None


def _items(metric: Callable[[Any, Any], Any], model: keras.Model, data: Any) -> np.ndarray:
    return np.concatenate([_scores(metric, *both) for both in _predicted(model, data)])


def _scores(metric: Callable[[Any, Any], Any], y: Any, output: Any) -> np.ndarray:
    """Return the score of each example, the mean over the metric's other axes."""
    tensors = (keras.ops.convert_to_tensor(one) for one in (y, output))
    found = keras.ops.convert_to_numpy(metric(*tensors))
    if found.ndim == 0 or len(found) != len(output):
        raise ValueError(
            "`metric` must score every example, (batch,) or more. Received: a function that "
            f"returns {found.shape} for a batch of {len(output)}"
        )
    return found.reshape(len(found), -1).mean(axis=1).astype(np.float64)


def _predicted(model: keras.Model, data: Any) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """Yield targets and outputs by batch; NaN, which an accuracy takes for class 0, is an error."""
    found: Iterable[Any]
    if isinstance(data, tuple):
        found = [(np.asarray(data[1]), model.predict(data[0], verbose=0))]
    else:
        found = (
            (keras.ops.convert_to_numpy(batch[1]), model.predict_on_batch(batch[0]))
            for batch in _batches(data)
        )
    for y, output in found:
        numbers = np.asarray(output)
        if numbers.dtype.kind != "O" and np.isnan(numbers.astype(np.float32)).any():
            raise FloatingPointError(_NAN)
        yield y, output


def _batches(data: Any) -> Iterable[Any]:
    if isinstance(data, keras.utils.PyDataset):
        return (data[number] for number in range(data.num_batches or 0))
    return iter(data)


def _one_batch(data: Any, size: int = _DEFAULT_BATCH) -> Any:
    if isinstance(data, tuple):
        return keras.tree.map_structure(lambda one: np.asarray(one)[:size], data)
    return next(iter(_batches(data)))


def _time(call: Callable[..., Any], *arguments: Any) -> float:
    """Return the median time of a call in milliseconds, except the first, which may compile."""
    times = []
    for _ in range(_TIMED):
        began = time.perf_counter()
        call(*arguments)
        times.append(time.perf_counter() - began)
    return 1e3 * statistics.median(times[1:])
