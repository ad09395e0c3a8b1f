"""The searches inside one TensorFlow graph: `tf.function`, XLA, and a SavedModel in a process of its own."""

import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_quasiattn.models import Seq2Seq, Transformer, beam_search, greedy_search

pytestmark = pytest.mark.usefixtures("tensorflow_only")

LENGTH = 6
ANSWER = """
import sys
import numpy as np
import tensorflow as tf
assert not any(name.startswith(("keras_quasiattn", "tf_keras")) for name in sys.modules)
served = tf.saved_model.load(sys.argv[1])
source = np.load(sys.argv[2])
for name in ("greedy", "beam"):
    for rows, columns in ((slice(None), slice(None)), (slice(1, 2), slice(0, 3))):
        tokens, total = served.signatures[name](source=tf.constant(source[rows, columns])).values()
        if tokens.dtype.is_floating:
            tokens, total = total, tokens
        assert np.isfinite(total).all()
        print(tokens.numpy().tolist())
"""


def make(attention, **options):
    keras.utils.set_random_seed(3)
    if attention.startswith("recurrent"):
        model = Seq2Seq(9, attention.removeprefix("recurrent_") or None, embedding_dim=6, units=5, **options)
        # Spread the logits, or an untrained model says one thing to every source.
        model.set_weights([8 * w for w in model.get_weights()])
    else:
        model = Transformer(9, 2, 12, 20, 2, attention=attention, **options)
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


@pytest.mark.parametrize(
    ("attention", "options"),
    [
        ("softmax", {}),
        pytest.param(
            "coda",
            {"attention_options": {"gate_range": "centered", "center_similarity": True}},
            marks=pytest.mark.long,
        ),
        ("coda", {"universal": True, "dtype": "mixed_bfloat16"}),
        pytest.param("softmax", {"universal": True, "adaptive": True}, marks=pytest.mark.long),
        pytest.param("recurrent_", {}, marks=pytest.mark.long),
        pytest.param("recurrent_softmax", {"num_layers": 2}, marks=pytest.mark.long),
        pytest.param("recurrent_coda", {"dtype": "mixed_bfloat16"}, marks=pytest.mark.long),
    ],
)
def test_a_saved_model_decodes_any_batch_and_length_without_this_package(tmp_path, attention, options):
    import tensorflow as tf

    model, source = make(attention, **options)
    archive = keras.export.ExportArchive()
    archive.track(model)
    signature = [tf.TensorSpec((None, None), tf.int32, name="source")]
    for name, function in searches(model).items():
        archive.add_endpoint(name, function, input_signature=signature)
    archive.write_out(tmp_path / "saved", verbose=False)
    np.save(tmp_path / "source.npy", source)
    (tmp_path / "answer.py").write_text(ANSWER)
    command = [sys.executable, "answer.py", "saved", "source.npy"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    want = []
    for function in searches(model).values():
        want += [
            function(source)["tokens"].numpy().tolist(),
            function(source[1:2, :3])["tokens"].numpy().tolist(),
        ]
    assert done.stdout.splitlines() == [str(row) for row in want]


def test_no_operation_outside_core_tensorflow_is_used():
    import tensorflow as tf

    model, _ = make("coda")
    for function in searches(model).values():
        graph = (
            tf.function(function)
            .get_concrete_function(tf.TensorSpec((None, None), tf.int32))
            .graph.as_graph_def()
        )
        nodes = [*graph.node, *(node for each in graph.library.function for node in each.node_def)]
        assert "While" in {node.op for node in nodes}
        assert not {node.op for node in nodes if node.op.startswith(("Xla", "PyFunc", "EagerPyFunc"))}


@pytest.mark.parametrize("attention", ["softmax", "coda"])
def test_xla_decodes_alike(attention):
    import tensorflow as tf

    model, source = make(attention)

    def beam(source):
        return beam_search(model.step, model.start_cache(source, LENGTH), LENGTH, beam_width=3)

    tokens, total = tf.function(beam, jit_compile=True)(tf.constant(source))
    want, want_total = beam(source)
    np.testing.assert_array_equal(tokens.numpy(), want.numpy())
    np.testing.assert_allclose(total.numpy(), want_total.numpy(), atol=1e-4)
