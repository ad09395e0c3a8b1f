"""What Keras exports on JAX and PyTorch answers as the layer does, at other lengths, too."""

import keras
import pytest
from cases import CASES
from running import assert_close, model_of, outputs
from tools import to_numpy

BY_NAME = {case.name: case for case in CASES}
SOME = ("multi_head_coda_cross", "multi_head_gated_cross", "gated_feed_forward", "coda")


def on(backend):
    return pytest.mark.skipif(
        keras.backend.backend() != backend, reason=f"the export is that of {backend}"
    )


def called(case, layer, given):
    """Return a model that was called, without which Keras does not export it."""
    model = model_of(case, layer)
    model(given)
    return model


@on("jax")
@pytest.mark.parametrize("name", SOME)
def test_a_saved_model_from_jax_answers_at_every_length(name, tmp_path):
    tf = pytest.importorskip("tensorflow")
    case = BY_NAME[name]
    layer, given = case.make(), [*case.sequences(), *case.masks()]
    # A sequence and its mask have one length, which JAX has to know.
    count = len(case.style.lengths)
    names = [f"length_{number}" for number in range(count)]
    shapes = [f"(batch, {name}, _)" for name in names] + [f"(batch, {name})" for name in names]
    model = called(case, layer, given)
    options = {"polymorphic_shapes": [shapes]}
    model.export(tmp_path / "model", verbose=False, jax2tf_kwargs=options)
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    answer = loaded.serve([tf.constant(x) for x in given])
    expected = outputs(case, layer, given[:count], given[count:])
    assert_close([x.numpy() for x in keras.tree.flatten(answer)], expected)


@on("torch")
@pytest.mark.parametrize("name", SOME)
def test_a_program_of_pytorch_answers_at_every_length(name, tmp_path):
    import torch

    case = BY_NAME[name]
    layer, given = case.make(), [*case.sequences(), *case.masks()]
    count, path = len(case.style.lengths), tmp_path / "model.pt2"
    any_size = torch.export.Dim.AUTO
    axes = [dict.fromkeys((0, 1), any_size) for _ in given]
    model = called(case, layer, given)
    model.export(path, format="torch", verbose=False, dynamic_shapes=[(axes,)])
    program = torch.export.load(path).module()
    answer = program([torch.tensor(x) for x in given])
    expected = outputs(case, layer, given[:count], given[count:])
    assert_close(to_numpy(keras.tree.flatten(answer)), expected)


@on("torch")
@pytest.mark.filterwarnings("ignore")  # from PyTorch's and Keras' exporters
@pytest.mark.parametrize(
    "name",
    [
        # A softmax over one key is 1: the graph gave every key the weight 1.
        *("multi_head_softmax_cross", "soft_attention", "alignment"),
        # ONNX Runtime has no `Where` of booleans, such as gates.
        "multi_head_gated_cross",
        # Both heads score by conflict; ONNX Runtime divides by zero in a product of no heads.
        "multi_head_conflict_signed",
    ],
)
def test_an_onnx_file_answers_for_all_lengths_though_traced_at_length_1(name, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    case, path = BY_NAME[name], str(tmp_path / "model.onnx")
    layer, given = case.make(), [*case.sequences(), *case.masks()]
    model = called(case, layer, given)
    model.export(path, format="onnx", verbose=False)
    session = runtime.InferenceSession(path)
    by_name = dict(zip([one.name for one in model.inputs], given, strict=True))
    taken = {one.name: by_name[one.name] for one in session.get_inputs()}
    count = len(case.style.lengths)
    assert_close(session.run(None, taken), outputs(case, layer, given[:count], given[count:]))
