"""Every model rejects a wrong value with a line that names the argument."""

import inspect
import re
from typing import Any

import pytest

from keras_quasiattn import models

BLOCKS = {"num_layers": 1, "hidden_dim": 8, "intermediate_dim": 8, "num_heads": 2}
UNITS = {"embedding_dim": 4, "units": 3}
MODELS: dict[type, dict[str, Any]] = {
    models.TextClassifier: {"num_classes": 3, "attention": "gated", **UNITS},
    models.TransformerClassifier: {"num_classes": 3, **BLOCKS},
    models.CausalTransformer: BLOCKS,
    models.Transformer: BLOCKS,
    models.PairClassifier: {"num_classes": 3, **UNITS},
    models.SiameseClassifier: {"num_classes": 3, **UNITS},
    models.MixtureClassifier: {"num_classes": 3, "components": [{}, {}], "common": {"units": 3}},
    models.Seq2Seq: {"attention": "coda", **UNITS},
    models.AttentionFlowReader: UNITS,
    models.DecaProp: UNITS,
}
WRONG = {bool: "yes", int: 0, float: -1.0, str: "nope"}
# Arguments that Keras or a sublayer checks under another name, or that accept anything.
UNCHECKED = re.compile(
    "train_embedding|.*initializer|.*activation|character_.*|"
    "exact_match|frequency|connectors|final_connectors|universal|adaptive|intra_attention"
)


@pytest.mark.parametrize("kind", MODELS)
def test_a_wrong_value_is_named_with_its_argument(kind):
    given = {"vocabulary_size": 9, **MODELS[kind]}
    for name, parameter in inspect.signature(kind).parameters.items():
        value = given.get(name, parameter.default)
        if type(value) in WRONG and not UNCHECKED.fullmatch(name):
            wrong = WRONG[type(value)]
            with pytest.raises(ValueError, match=f"`{name}` must .*{name}={wrong!r}"):
                kind(**{**given, name: wrong})
