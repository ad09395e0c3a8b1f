"""Whether a model uses the weights with which its attention subtracts."""

import keras
import numpy as np
import pytest
import tiny_encoder
import tiny_pairs
import tiny_sequences
import tiny_texts
from tiny import built

from keras_quasiattn.attention.probe import probe
from keras_quasiattn.core.recording import editing
from keras_quasiattn.lab.tasks.subtraction import subtraction


def _measured(folder, model, **changed):
    task, made = built(tiny_pairs.make(folder, "pairs", model, **changed))
    random = np.random.default_rng(0)
    made.set_weights([random.normal(size=w.shape, scale=0.7) for w in made.get_weights()])
    return task, made, task.measure(made, "test")


def test_what_negative_weights_add(pairs_data):
    """The metric without them equals the metric with weights cut by hand."""
    options = {"last_activation": "linear", "attention_options": {"scaling": "mean"}}
    changed = {f"model__{name}": value for name, value in options.items()}
    task, made, measured = _measured(pairs_data, "decomposable_coda", **changed)
    found = subtraction(task, made, "test", None, measured)
    seen = []

    def cut(weights, visible):
        seen.append(visible)
        return keras.ops.where(weights < -0.1, 0.0, weights)

    with editing(cut):
        rest = task.measure(made, "test").figures["accuracy"]
    assert seen
    assert found["drop_without_negative"] == measured.figures["accuracy"] - rest
    assert 0 < found["negative_share"] < 0.9


def test_weights_that_are_never_negative(pairs_data):
    """F ends in a ReLU: E ≥ 0, and CoDA's tanh(E) too."""
    found = subtraction(*_measured(pairs_data, "decomposable_coda")[:2], "test", 5, None)
    assert found == {"negative_share": 0.0, "drop_without_negative": 0.0}


@pytest.mark.parametrize("start", [None, "unchanged"])
def test_weights_of_padding_and_of_softmax_were_counted(start, request):
    """The share is that of all the texts, each without padding: of CoDA's weights alone."""
    changed = {"model__attention": "coda", "data__length_multiple": 8}
    if start is None:
        texts = request.getfixturevalue("few_texts")
        task, model = built(tiny_texts.make(texts, "transformer", **changed))
    else:
        texts, encoder = map(request.getfixturevalue, ("few_texts", "encoder_folder"))
        changed["model__attention_start"] = start
        task, model = built(tiny_encoder.make(texts, "classify", encoder, **changed))
    random = np.random.default_rng(0)
    model.set_weights([random.normal(size=w.shape, scale=0.7) for w in model.get_weights()])
    found = subtraction(task, model, "test", None, task.measure(model, "test"))
    below, count = 0, 0
    for text in task.texts("test", 100):
        (ids,) = task.tokenize([text]).inputs.values()
        ids = ids[:, : np.count_nonzero(ids)]
        for one in probe(model, ids)[1]:
            weights = one.matrices["weights_own" if start == "unchanged" else "weights"].values
            below, count = below + np.sum(weights < -0.1), count + np.size(weights)
    assert found["negative_share"] == below / count > 0


def test_a_model_without_attention_has_no_such_figures(pairs_data):
    assert subtraction(*_measured(pairs_data, "siamese_none")[:2], "test", 5, None) == {}


@pytest.mark.long
def test_a_model_that_decodes_kept_its_graph_without_the_edit(sequences_data):
    task, made = built(tiny_sequences.make(sequences_data, "translate", "transformer_coda"))
    measured = task.measure(made, "test", 3)
    assert "negative_share" in subtraction(task, made, "test", 3, measured)
    assert task.measure(made, "test", 3).figures == measured.figures
