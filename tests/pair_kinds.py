"""Small models of every kind that takes two texts, and a pair of texts for them."""

from typing import Any

import keras
import numpy as np
from tools import to_numpy

from keras_quasiattn.models import MixtureClassifier, PairClassifier, SiameseClassifier

FIRST = np.array([[5, 4, 3, 2, 6], [7, 2, 0, 0, 0], [0, 0, 0, 0, 0], [1, 2, 3, 0, 0]])
SECOND = np.array([[6, 5, 9, 0], [8, 1, 2, 7], [3, 4, 0, 0], [0, 0, 0, 0]])
LABELS = np.array([0, 2, 1, 1])
CLASSES = 3

_SIZES = {"vocabulary_size": 20, "num_classes": CLASSES, "embedding_dim": 6}
_NETWORK = {"units": 8, "projection_dim": 4}
_PAIR = (PairClassifier, _NETWORK)
_SIAMESE = (SiameseClassifier, {"units": 4})
_MIXTURE = (
    MixtureClassifier,
    {"components": [{}, {"intra_attention": True}, {"attention": "coda"}], "common": _NETWORK},
)
KINDS: dict[str, tuple[type, dict[str, Any], dict[str, Any]]] = {
    "softmax": (*_PAIR, {}),
    "coda": (*_PAIR, {"attention": "coda", "attention_options": {"gate_range": "centered"}}),
    "intra": (*_PAIR, {"intra_attention": True, "intra_options": {"max_distance": 2}}),
    "no_projection": (*_PAIR, {"projection_dim": None}),
    **{
        name: (*_SIAMESE, {"interaction": name})
        for name in ("none", "attention", "attentions", "conflict", "both")
    },
    "mixture": (*_MIXTURE, {}),
    "elbo": (*_MIXTURE, {"objective": "elbo"}),
    "reinforce": (*_MIXTURE, {"objective": "elbo", "estimator": "reinforce", "seed": 3}),
}


def make(kind: str, **changed: Any) -> keras.Model:
    model, sizes, options = KINDS[kind]
    return model(**{**_SIZES, **sizes, **options, **changed})


def lively(model: keras.Model, seed: int = 0) -> keras.Model:
    """Return the model with weights, biases included, large enough that all affect the answer."""
    random = np.random.default_rng(seed)
    model.set_weights(
        [random.normal(size=weight.shape, scale=0.4) for weight in model.get_weights()]
    )
    return model


def pair(first: np.ndarray = FIRST, second: np.ndarray = SECOND) -> dict[str, np.ndarray]:
    return {"first": first.astype("int32"), "second": second.astype("int32")}


def answer(
    model: keras.Model, first: np.ndarray = FIRST, second: np.ndarray = SECOND
) -> np.ndarray:
    return to_numpy(model(pair(first, second)))
