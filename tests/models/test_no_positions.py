"""Models with recurrent or convolution layers, whose texts and batches may be empty.

Keras' LSTM and GRU refuse both, and on PyTorch its Conv1D refuses a text of no positions.
"""

import keras
import numpy as np
import pytest
import tools

from keras_quasiattn import models

SIZES = {"embedding_dim": 4, "units": 4}
MODELS = {
    "last states": lambda: models.TextClassifier(9, 2, attention="none", **SIZES),
    "gates": lambda: models.TextClassifier(9, 2, **SIZES),
    "gates over words": lambda: models.TextClassifier(9, 2, encoder="convolution", **SIZES),
    "siamese": lambda: models.SiameseClassifier(9, 2, **SIZES),
    "sequences": lambda: models.Seq2Seq(9, **SIZES),
    "sequences, CoDA": lambda: models.Seq2Seq(9, attention="coda", **SIZES),
    "reader": lambda: models.AttentionFlowReader(9, **SIZES),
    "characters": lambda: models.DecaProp(9, num_layers=2, character_units=2, **SIZES),
}
BY_POSITION = {"sequences": 1, "sequences, CoDA": 1, "reader": 0, "characters": 0}
READ = [(name, 0) for name in MODELS] + [(name, 1) for name in list(MODELS)[3:]]


def ids(model, rows, *lengths, padded=None):
    """Return ids of the model's texts, of these lengths; the text number `padded` has none."""
    texts = [one.name for one in model.inputs if "_" not in one.name]
    given = {}
    for one in model.inputs:
        text = texts.index(one.name.partition("_")[0]) if len(texts) > 1 else 0
        shape = (rows, lengths[text], *[2] * (len(one.shape) - 2))
        given[one.name] = np.full(shape, 0 if text == padded else 3, "int32")
    return given if len(given) > 1 else given[texts[0]]


def read(model, *sizes, **padded):
    return tools.to_numpy(model(ids(model, *sizes, **padded), training=False))


@pytest.mark.parametrize(("name", "text"), READ)
def test_a_text_of_no_positions_is_one_of_padding_alone(name, text):
    model = MODELS[name]()
    lengths, padding = [3, 3], [3, 3]
    lengths[text], padding[text] = 0, 1
    found, expected = read(model, 2, *lengths), read(model, 2, *padding, padded=text)
    if BY_POSITION.get(name) == text:
        expected = expected[:, :0]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_an_empty_batch_has_an_empty_answer(name):
    model = MODELS[name]()
    assert read(model, 0, 3, 2).shape == (0, *read(model, 2, 3, 2).shape[1:])


@tools.only_on("tensorflow", "other backends trace every size")
@pytest.mark.parametrize("name", MODELS)
def test_a_graph_takes_any_sizes(name):
    import tensorflow as tf

    model = MODELS[name]()
    graph = tf.function(
        lambda given: model(given, training=False),
        input_signature=[
            keras.tree.map_structure(
                lambda x: tf.TensorSpec([None] * x.ndim, x.dtype), ids(model, 1, 1, 1)
            )
        ],
    )
    for sizes in ((2, 3, 2), (0, 3, 2), (2, 0, 0)):
        found = graph(ids(model, *sizes)).numpy()
        np.testing.assert_allclose(found, read(model, *sizes), atol=1e-6)
