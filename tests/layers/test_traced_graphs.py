"""On PyTorch, Keras traces a model for ONNX with one example of length 1, whatever its lengths."""

import keras
import pytest
from cases import CASES
from running import assert_close, model_of, outputs

pytestmark = [
    pytest.mark.skipif(keras.backend.backend() != "torch", reason="is about PyTorch"),
    pytest.mark.filterwarnings("ignore"),  # from PyTorch's and Keras' exporters
]
BY_NAME = {case.name: case for case in CASES}


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
def test_an_onnx_file_answers_for_all_lengths(name, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    case, path = BY_NAME[name], str(tmp_path / "model.onnx")
    layer, sequences, masks = case.make(), case.sequences(), case.masks()
    model = model_of(case, layer)
    names = [one.name for one in model.inputs]
    given = dict(zip(names, [*sequences, *masks], strict=True))
    model(list(given.values()))  # Keras exports only what was called
    model.export(path, format="onnx", verbose=False)
    session = runtime.InferenceSession(path)
    taken = {one.name: given[one.name] for one in session.get_inputs()}
    assert_close(session.run(None, taken), outputs(case, layer, sequences, masks))
