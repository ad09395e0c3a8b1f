"""The names and order of weights are as the migration guide promises."""

import re
from pathlib import Path

import keras
import pytest
from cases import CASES, ONE_OF_EACH

from keras_quasiattn import layers
from keras_quasiattn.attention.base import ATTENTIONS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "migration.md"
# "`gate_kernel` and `gate_bias` of `MultiHeadGated`": what a layer learns beyond its projections.
OWN = {
    layer: re.findall(r"`(\w+)`", names)
    for names, layer in re.findall(
        r"((?:`\w+`(?:\s+and\s+|,\s+)?)+)\s+of\s+`(MultiHead\w+)`", PAGE.read_text()
    )
}

# Each network of its gates is another set of sublayers.
GATED = [case for case in CASES if case.layer is layers.GatedAttention and case not in ONE_OF_EACH]

# With these options a layer has all the weights that the guide lists.
LEARNED = {
    "coda": {"alpha": "learned", "beta": "learned"},
    "entmax": {"alpha": "learned"},
    "null_softmax": {"null_score": "learned"},
    "softmax": {"alpha": "learned"},
}


def names_of(layer):
    layer.build((None, None, 8), (None, None, 8))
    return [weight.path.split("/", 1)[1] for weight in layer.weights]


@pytest.mark.parametrize("options", [{"use_bias": False, "value_dim": 3}, {"use_gate": True}])
@pytest.mark.parametrize("name", sorted(ATTENTIONS))
def test_projections_follow_what_the_page_says_that_a_layer_learns(name, options):
    try:
        theirs = names_of(keras.layers.MultiHeadAttention(2, 4, **options))
    except (TypeError, ValueError):
        pytest.skip("this Keras has no `use_gate`")
    kind = ATTENTIONS[name]
    learned = LEARNED.get(name, {})
    own = OWN.get(kind.__name__, [])
    assert names_of(kind(2, 4, **options, **learned)) == own + theirs
    if learned:
        assert names_of(kind(2, 4, **options)) == theirs


@pytest.mark.parametrize("case", ONE_OF_EACH + GATED, ids=str)
def test_names_do_not_depend_on_layers_made_before(case):
    """Policies of parts (`DTypePolicyMap`) and optimizers' exclusions are chosen by path."""

    def names():
        layer = case.make(name="layer")
        return [one.path for one in [*layer._flatten_layers(), *layer.weights]]

    names()  # the first layers of their kinds in this process
    assert names() == names()
