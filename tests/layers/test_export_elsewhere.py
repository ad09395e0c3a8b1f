"""What Keras exports on JAX and PyTorch answers as the layer does, at other lengths, too."""

import keras
import pytest
from cases import CASES
from running import assert_close, model_of, outputs
from tools import only_on, to_numpy

BY_NAME = {case.name: case for case in CASES}
SOME = ("multi_head_coda_cross", "multi_head_gated_cross", "gated_feed_forward", "coda")


def made(name):
    """Return a case, a model of it that was called, inputs, and its expected answers.

    Keras exports no model that was not called.
    """
    case = BY_NAME[name]
    layer, given = case.make(), [*case.sequences(), *case.masks()]
    model, count = model_of(case, layer), len(case.style.lengths)
    model(given)
    return case, model, given, outputs(case, layer, given[:count], given[count:])


@only_on("jax", "the export is of JAX")
@pytest.mark.parametrize("name", SOME)
def test_a_saved_model_from_jax_answers_at_every_length(name, tmp_path):
    tf = pytest.importorskip("tensorflow")
    case, model, given, expected = made(name)
    # A sequence and its mask have one length, which JAX has to know.
    count = len(case.style.lengths)
    names = [f"length_{number}" for number in range(count)]
    shapes = [f"(batch, {name}, _)" for name in names] + [f"(batch, {name})" for name in names]
    options = {"polymorphic_shapes": [shapes]}
    model.export(tmp_path / "model", verbose=False, jax2tf_kwargs=options)
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    answer = loaded.serve([tf.constant(x) for x in given])
    assert_close([x.numpy() for x in keras.tree.flatten(answer)], expected)


@only_on("torch", "the export is of PyTorch")
@pytest.mark.parametrize("name", SOME)
def test_a_program_of_pytorch_answers_at_every_length(name, tmp_path):
    import torch

    _, model, given, expected = made(name)
    path = tmp_path / "model.pt2"
    any_size = torch.export.Dim.AUTO
    axes = [dict.fromkeys((0, 1), any_size) for _ in given]
    model.export(path, format="torch", verbose=False, dynamic_shapes=[(axes,)])
    program = torch.export.load(path).module()
    answer = program([torch.tensor(x) for x in given])
    assert_close(to_numpy(keras.tree.flatten(answer)), expected)


@only_on("torch", "the export is of PyTorch")
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
    _, model, given, expected = made(name)
    path = str(tmp_path / "model.onnx")
    model.export(path, format="onnx", verbose=False)
    session = runtime.InferenceSession(path)
    by_name = dict(zip([one.name for one in model.inputs], given, strict=True))
    taken = {one.name: by_name[one.name] for one in session.get_inputs()}
    assert_close(session.run(None, taken), expected)
