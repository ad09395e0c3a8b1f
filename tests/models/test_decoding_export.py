"""The searches inside one TensorFlow graph: `tf.function`, XLA, and a SavedModel in a process of its own."""

import functools
import json
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_quasiattn.models import Seq2Seq, Transformer, beam_search, greedy_search

pytestmark = pytest.mark.usefixtures("tensorflow_only")

LENGTH = 6
SMALL = {"vocabulary_size": 9, "num_layers": 2, "hidden_dim": 12, "intermediate_dim": 20, "num_heads": 2}
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
# The ring of each; every part of those that are left to the last is in another.
RINGS = {
    "softmax_adaptive": pytest.mark.long,
    "recurrent_softmax": pytest.mark.long,
    "recurrent_coda": pytest.mark.long,
    "coda_centered": pytest.mark.complete,
    "recurrent": pytest.mark.complete,
}
every_model = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[RINGS[name]] if name in RINGS else []) for name in MODELS]
)
ANSWER = """
import json
import sys
import numpy as np
import tensorflow as tf
assert not any(name.startswith(("keras_quasiattn", "tf_keras")) for name in sys.modules)
source = np.load("source.npy")
answers = {}
for model in sys.argv[1:]:
    served = tf.saved_model.load(model)
    answers[model] = []
    for name in ("greedy", "beam"):
        for rows, columns in ((slice(None), slice(None)), (slice(1, 2), slice(0, 3))):
            tokens, total = served.signatures[name](source=tf.constant(source[rows, columns])).values()
            if tokens.dtype.is_floating:
                tokens, total = total, tokens
            assert np.isfinite(total).all()
            answers[model].append(tokens.numpy().tolist())
print(json.dumps(answers))
"""


def make(attention, **options):
    keras.utils.set_random_seed(3)
    if attention.startswith("recurrent"):
        model = Seq2Seq(9, attention.removeprefix("recurrent_") or None, embedding_dim=6, units=5, **options)
        # Spread the logits, or an untrained model says one thing to every source.
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
        tokens, total = beam_search(model.step, model.start_cache(source, length), length, beam_width=3)
        return {"tokens": tokens, "total": total}

    return {"greedy": greedy, "beam": beam}


def tokens_of(model, source):
    """By both searches: of all sources, and of one that is shorter."""
    texts = (source, source[1:2, :3])
    return [search(text)["tokens"].numpy().tolist() for search in searches(model).values() for text in texts]


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
    """Of a model's name, the SavedModel's folder, and its answers here and there; one process answers for many."""

    @functools.cache
    def run(names):
        folder, expected = tmp_path_factory.mktemp("exported"), {}
        for name in names:
            attention, options = MODELS[name]
            model, source = make(attention, **options)
            expected[name] = tokens_of(model, source)
            export(model, folder / name)
        np.save(folder / "source.npy", source)
        command = [sys.executable, "-c", ANSWER, *names]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return folder, expected, json.loads(done.stdout)

    def chosen(name):
        folder, here, there = run(tuple(one for one in MODELS if RINGS.get(one) == RINGS.get(name)))
        return folder / name, here[name], there[name]

    return chosen


@every_model
def test_a_saved_model_decodes_any_batch_and_length_without_this_package(name, exported):
    _, here, there = exported(name)
    assert there == here


@every_model
def test_no_operation_outside_core_tensorflow_is_used(name, exported):
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    saved = SavedModel.FromString((exported(name)[0] / "saved_model.pb").read_bytes())
    (graph,) = (meta.graph_def for meta in saved.meta_graphs)
    nodes = [*graph.node, *(node for each in graph.library.function for node in each.node_def)]
    assert sum(node.op == "While" for node in nodes) >= 2  # one a search
    assert not {node.op for node in nodes if node.op.startswith(("Xla", "PyFunc", "EagerPyFunc"))}


@pytest.mark.parametrize("attention", [pytest.param("softmax", marks=pytest.mark.long), "coda"])
def test_xla_decodes_alike(attention):
    import tensorflow as tf

    model, source = make(attention, num_layers=1)

    def beam(source):
        return beam_search(model.step, model.start_cache(source, LENGTH), LENGTH, beam_width=3)

    tokens, total = tf.function(beam, jit_compile=True)(tf.constant(source))
    want, want_total = beam(source)
    np.testing.assert_array_equal(tokens.numpy(), want.numpy())
    np.testing.assert_allclose(total.numpy(), want_total.numpy(), atol=1e-4)
