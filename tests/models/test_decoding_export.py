"""The searches in one TensorFlow graph: `tf.function`, XLA, a SavedModel in its own process."""

import functools

import keras
import numpy as np
import pytest
import without_keras

from keras_quasiattn.models import Seq2Seq, Transformer, beam_search, greedy_search

pytestmark = pytest.mark.usefixtures("tensorflow_only")

SMALL = {
    "vocabulary_size": 9,
    "num_layers": 2,
    "hidden_dim": 12,
    "intermediate_dim": 20,
    "num_heads": 2,
}
CENTERED = {"gate_range": "centered", "center_similarity": True}
MODELS = {
    "softmax": ("softmax", {}),
    "coda_universal": ("coda", {"num_layers": 1, "universal": True, "dtype": "mixed_bfloat16"}),
    "coda_centered": ("coda", {"attention_options": CENTERED}),
    "softmax_adaptive": ("softmax", {"universal": True, "adaptive": True}),
    "recurrent": ("recurrent_", {}),
    "recurrent_softmax": ("recurrent_softmax", {"num_layers": 2}),
    "recurrent_coda": ("recurrent_coda", {"dtype": "mixed_bfloat16"}),
}
# The other cases cover every part of these.
COMPLETE = ("softmax", "coda_centered", "recurrent", "recurrent_softmax")
every_model = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.complete if name in COMPLETE else pytest.mark.long)
        for name in MODELS
    ],
)


def make(attention, **options):
    keras.utils.set_random_seed(3)
    if attention.startswith("recurrent"):
        model = Seq2Seq(
            9, attention.removeprefix("recurrent_") or None, embedding_dim=6, units=5, **options
        )
        # Spread the logits, or an untrained model gives every source the same answer.
        model.set_weights([8 * w for w in model.get_weights()])
    else:
        model = Transformer(**{**SMALL, "attention": attention, **options})
        model.token_embedding.set_weights([3 * w for w in model.token_embedding.get_weights()])
    source = np.random.default_rng(0).integers(2, 9, (4, 5)).astype("int32")
    source[1, 3:], source[2] = 0, 0
    return model, source


def searches(model):
    import tensorflow as tf

    def greedy(source):
        length = tf.shape(source)[1] + 1
        tokens, total = greedy_search(model.step, model.start_cache(source, length), length)
        return {"tokens": tokens, "total": total}

    def beam(source):
        length = tf.shape(source)[1] + 1
        tokens, total = beam_search(
            model.step, model.start_cache(source, length), length, beam_width=3
        )
        return {"tokens": tokens, "total": total}

    return {"greedy": greedy, "beam": beam}


def tokens_of(model, source):
    """Return the tokens of both searches, for all sources and for a shorter one."""
    texts = (source, source[1:2, :3])
    return [
        search(text)["tokens"].numpy().tolist()
        for search in searches(model).values()
        for text in texts
    ]


def export(model, folder):
    import tensorflow as tf

    archive = keras.export.ExportArchive()
    archive.track(model)
    signature = [tf.TensorSpec((None, None), tf.int32, name="source")]
    for name, function in searches(model).items():
        archive.add_endpoint(name, function, input_signature=signature)
    archive.write_out(folder, verbose=False)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Return a function from a model's name to the SavedModel, the model and the sources."""

    @functools.cache
    def make_and_export(name):
        attention, options = MODELS[name]
        model, source = make(attention, **options)
        folder = tmp_path_factory.mktemp("exported") / name
        export(model, folder)
        return folder, model, source

    return make_and_export


def answers_of(folder, source):
    """Return the SavedModel's answers by both searches, for all sources and for a shorter one."""
    for search in ("greedy", "beam"):
        for text in (source, source[1:2, :3]):
            answer = without_keras.ask(folder, {"source": text}, search)
            assert np.isfinite(answer["total"]).all()
            yield answer["tokens"].tolist()


@every_model
def test_a_saved_model_decodes_any_batch_and_length_without_this_package(name, exported):
    folder, model, source = exported(name)
    assert list(answers_of(folder, source)) == tokens_of(model, source)


@every_model
def test_no_operation_outside_core_tensorflow_is_used(name, exported):
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    saved = SavedModel.FromString((exported(name)[0] / "saved_model.pb").read_bytes())
    (graph,) = (meta.graph_def for meta in saved.meta_graphs)
    nodes = [*graph.node, *(node for each in graph.library.function for node in each.node_def)]
    assert sum(node.op == "While" for node in nodes) >= 2  # one per search
    assert not {node.op for node in nodes if node.op.startswith(("Xla", "PyFunc", "EagerPyFunc"))}
