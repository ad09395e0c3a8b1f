"""Every kind of KerasHub's models is swapped, or refused in one line that says why."""

from typing import Any

import keras
import numpy as np
import pytest
import tiny_hub
from keras import ops

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.attention.start import Start
from keras_quasiattn.models import swap_attention

hub = pytest.importorskip("keras_hub", reason="keras_hub is not installed")
MODELS: dict[str, keras.Model] = {}
FAST = ("BERT", "GPT-2", "Llama")


def original(name: str) -> keras.Model:
    """The model, whose biases are not 0 either."""
    if name not in MODELS:
        model = {**tiny_hub.SWAPPED, **tiny_hub.REFUSED}[name](hub)
        random = np.random.default_rng(0)
        for weight in model.trainable_weights:
            weight.assign(0.3 * random.normal(size=weight.shape))
        MODELS[name] = model
    return MODELS[name]


def answers(model: keras.Model) -> list[np.ndarray]:
    found = keras.tree.flatten(model(tiny_hub.inputs(model), training=False))
    return [ops.convert_to_numpy(one) for one in found]


def difference(model: keras.Model, other: keras.Model) -> float:
    pairs = zip(answers(model), answers(other), strict=True)
    return max(float(np.abs(one - two).max()) for one, two in pairs)


def some(names: Any, fast: tuple[str, ...]) -> list[Any]:
    return [pytest.param(one, marks=[] if one in fast else pytest.mark.long) for one in names]


@pytest.mark.parametrize("name", some(tiny_hub.SWAPPED, FAST))
def test_a_model_is_swapped_answers_as_before_learns_and_is_saved(name: str, tmp_path: Any) -> None:
    model = original(name)
    copy = swap_attention(model, "coda", start="unchanged")
    assert isinstance(copy, type(model)) and copy.name == model.name
    assert difference(copy, model) <= 1e-6
    other = swap_attention(model, "coda")
    assert difference(other, model) > 1e-4
    learn(copy)
    assert difference(copy, model) > 0
    factors = [
        ops.max(ops.abs(one.amount)) for one in copy._flatten_layers() if isinstance(one, Start)
    ]
    assert len(factors) == attention_count(model) and any(float(one) > 0 for one in factors)
    for number, one in enumerate((copy, other)):
        one.save(tmp_path / f"{number}.keras")
        loaded = keras.saving.load_model(tmp_path / f"{number}.keras")
        assert isinstance(loaded, type(model)) and difference(one, loaded) <= 1e-6


def attention_count(model: keras.Model) -> int:
    return sum("Attention" in type(one).__name__ for one in model._flatten_layers())


def learn(model: keras.Model) -> None:
    """Update twice: the attention's own weights have no gradient before its factor has moved."""
    x = tiny_hub.inputs(model)
    targets = keras.tree.map_structure(lambda y: ops.convert_to_numpy(ops.ones_like(y)), model(x))
    model.compile("sgd", loss=keras.tree.map_structure(lambda _: "mse", targets), run_eagerly=True)
    for _ in range(2):
        model.train_on_batch(x, targets)


@pytest.mark.parametrize("name", some(tiny_hub.REFUSED, ("T5",)))
def test_a_model_whose_attention_is_another_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(ValueError, match="to swap for 'coda'. Unchanged: .*Attention") as caught:
        swap_attention(original(name))
    assert "\n" not in str(caught.value)
    assert "_compute_attention" in str(caught.value)


@pytest.mark.parametrize("name", ["BERT", "RoBERTa", "DistilBERT", "GPT-2", "Llama"])
@pytest.mark.parametrize("attention", some(sorted(ATTENTIONS), ()))
def test_every_attention_starts_unchanged(name: str, attention: str) -> None:
    copy = swap_attention(original(name), attention, start="unchanged")
    assert difference(copy, original(name)) <= 1e-6
