"""Baselines of an evaluation: the most frequent class, and a model without attention.

The second is a logistic regression on bags of words, which trains in seconds.
"""

import itertools
import re
import warnings
from typing import Any

import numpy as np

from keras_quasiattn.extras import require
from keras_quasiattn.lab.tasks.measured import Measured
from keras_quasiattn.metrics import classification_figures

_WORD = r"\w+|[^\w\s]"
_MOST = 30_000  # training examples, to take only seconds
_FINDER = re.compile(_WORD).findall
# The inverse strength of the regularization: the best of 1 and 10 on validation data of TREC, SST-2
# and a part of IMDB, and of parts of Quora, SNLI and SciTail.
_C_OF_TEXTS, _C_OF_PAIRS = 10.0, 1.0


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
