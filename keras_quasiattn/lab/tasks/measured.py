"""Results of models and of simple baselines on some examples, and warnings about them."""

import itertools
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_quasiattn.extras import require
from keras_quasiattn.metrics import classification_figures

# GA-Net's own densities are at most 0.61 (its Table 3).
_OPEN = 0.75
_WORD = r"\w+|[^\w\s]"
_MOST = 30_000  # training examples, to take only seconds
_FINDER = re.compile(_WORD).findall
# The inverse strength of the regularization: the best of 1 and 10 on validation data of TREC, SST-2
# and a part of IMDB, and of parts of Quora, SNLI and SciTail.
_C_OF_TEXTS, _C_OF_PAIRS = 10.0, 1.0


class Judged(NamedTuple):
    """One example with its right answer and a model's, of probability `confidence`, as texts."""

    input: str
    expected: str
    given: str
    right: bool
    confidence: float


class Measured(NamedTuple):
    """The results of a model on some examples: metrics by name, and single examples.

    A string among the figures describes how a metric was measured, and a dictionary has metrics of
    one kind by name, such as by class; all are JSON-serializable. `items` (examples,) are the
    scores of single examples (in `rank`, of questions) whose mean is the task's main metric; None
    if it is not a mean over examples. `judged`, in their order, is empty for baselines.
    """

    figures: Mapping[str, Any]
    items: np.ndarray | None = None
    judged: Sequence[Judged] = ()

    @property
    def examples(self) -> int:
        """The number of examples that were measured; 0 if unknown."""
        return len(self.judged) if self.items is None else len(self.items)


def flat_figures(baselines: Mapping[str, Measured]) -> dict[str, float]:
    """Return the baselines' metrics in one dictionary, by names like `bag_of_words_accuracy`."""
    return {
        f"{name}_{figure}": value
        for name, measured in baselines.items()
        for figure, value in measured.figures.items()
    }


def judge(*columns: Iterable[Any]) -> list[Judged]:
    """Judge one example per value of the columns, which are the fields of `Judged`."""
    rows = zip(*columns, strict=True)
    return [Judged._make((*texts, bool(right), float(sure))) for *texts, right, sure in rows]


def judge_texts(
    inputs: Iterable[bytes],
    expected: Iterable[bytes],
    answers: Sequence[Mapping[str, Any]],
    right: Iterable[Any],
) -> list[Judged]:
    """Judge decoded texts: `answers` have an `answer` and its `log_probability`."""
    from keras_quasiattn.lab.tasks.batches import as_texts  # needs the extra `tasks`

    given = as_texts(answer["answer"] for answer in answers)
    confidence = (np.exp(answer["log_probability"]) for answer in answers)
    return judge(as_texts(inputs), as_texts(expected), given, right, confidence)


def behind_simple_methods(
    figures: Mapping[str, Any],
    baselines: Mapping[str, Measured],
    figure: str,
    measured_on: str,
    remedies: str,
) -> list[str]:
    """Return a warning for every baseline that the model does not beat on some examples."""
    lines = []
    for name, measured in baselines.items():
        if figure not in measured.figures or figure not in figures:
            continue
        ours, theirs = figures[figure], measured.figures[figure]
        said = f"warning: the {figure} on {measured_on} is {ours:.3f}, and"
        if name == "majority" and ours <= theirs:
            lines.append(
                f"{said} always answering with the most frequent class gives {theirs:.3f}: the "
                "model has learned nothing from the texts"
            )
        elif name != "majority" and ours < theirs:
            lines.append(
                f"{said} a {name.replace('_', ' ')} has {theirs:.3f}: {remedies} may help, or the "
                f"{name.replace('_', ' ')} is the better model"
            )
    return lines


def open_gates(figures: Mapping[str, Any], cost: str) -> list[str]:
    """Return a warning if over three quarters of the gates are open; the option `cost` helps."""
    densities = {name: one for name, one in figures.items() if name.endswith("density")}
    return [
        f"warning: the gates stayed open ({name.replace('_', ' ')} {density:.2f}): this is soft "
        f"attention; a higher {cost} closes them"
        for name, density in densities.items()
        if density > _OPEN
    ]


def simple_figures(train: Any, examples: Any, probabilities: np.ndarray) -> dict[str, Measured]:
    """Return accuracy and macro-F1 of the majority class and of a regression's probabilities."""
    classes = probabilities.shape[1]
    usual = np.bincount(train.labels, minlength=classes).argmax()
    majority = np.tile(np.eye(classes)[usual], (len(examples), 1))
    found = {}
    for name, given in (("majority", majority), ("bag_of_words", probabilities)):
        figures = classification_figures(examples.labels, given, [*map(str, range(classes))])
        chosen = {figure: figures[figure] for figure in ("accuracy", "macro_f1")}
        found[name] = Measured(chosen, rights(examples, given))
    return found


def rights(examples: Any, probabilities: np.ndarray) -> np.ndarray:
    """Return 1 where the most probable class is the right one, otherwise 0: (examples,)."""
    return (probabilities.argmax(axis=1) == examples.labels).astype(np.float64)


def bag_of_words(train: Any, examples: Any, classes: int) -> np.ndarray:
    """Return the class probabilities (examples, classes) of a regression on the words of texts.

    The features of a text are the TF-IDF weights of its words; of a pair with such weights a and b,
    they are a, b, |a − b|, a·b, the cosine, and the shares of common words and neighbouring words.
    """
    train = train.sample(_MOST)
    text = require("sklearn.feature_extraction.text", "tasks")
    made = text.TfidfVectorizer(sublinear_tf=True, token_pattern=_WORD, decode_error="replace")
    # scikit-learn refuses texts without any word.
    weigh = made.fit([*itertools.chain(*train.columns.values()), b"text"]).transform

    def features(some: Any) -> Any:
        columns = list(some.columns.values())
        if len(columns) == 1:
            return weigh(columns[0])
        a, b = map(weigh, columns)
        shares = np.array(list(map(_shares, *columns)))
        cosines = np.asarray(a.multiply(b).sum(axis=1))  # (pairs, 1): the rows have length 1
        dense = np.concatenate([shares, cosines], axis=1)
        sparse = require("scipy.sparse", "tasks")
        return sparse.hstack([a, b, abs(a - b), a.multiply(b), dense], format="csr")

    probabilities = np.zeros((len(examples), classes))
    found = np.unique(train.labels)
    if len(found) == 1:
        probabilities[:, found] = 1.0
    else:
        strength = _C_OF_TEXTS if len(train.columns) == 1 else _C_OF_PAIRS
        model = regression(features(train), train.labels, strength)
        probabilities[:, model.classes_] = model.predict_proba(features(examples))
    return probabilities


def regression(features: Any, labels: np.ndarray, c: float, **options: Any) -> Any:
    """Return scikit-learn's logistic regression, fitted; `labels` has two classes or more."""
    linear_model = require("sklearn.linear_model", "tasks")
    model = linear_model.LogisticRegression(C=c, max_iter=1000, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning about many classes appears before training
        return model.fit(features, labels)


def _shares(first: bytes, second: bytes) -> list[float]:
    a, b = (_FINDER(text.decode("utf-8", "replace").lower()) for text in (first, second))
    words, neighbours = [set(a), set(b)], [set(itertools.pairwise(side)) for side in (a, b)]
    common = len(words[0] & words[1])
    return [
        *(common / max(len(side), 1) for side in words),
        common / max(len(words[0] | words[1]), 1),
        len(neighbours[0] & neighbours[1]) / max(len(neighbours[0] | neighbours[1]), 1),
        abs(len(a) - len(b)) / max(len(a), len(b), 1),
    ]
