"""Law: a layer makes what it needs on the device of its inputs, with PyTorch.

The device "meta" stands for a GPU: PyTorch refuses to mix its tensors with those of the CPU.
"""

import keras
import numpy as np
import pytest
from cases import CASES
from tools import only_on

pytestmark = only_on("torch", "only PyTorch asks where a tensor is made")


# Only dropout and noise differ in training.
@pytest.mark.parametrize(
    ("case", "training"),
    [
        pytest.param(case, training, id=f"{case}-{training}")
        for case in CASES
        for training in (True, False)
        if not training or case.random_arguments or case.noisy
    ],
)
def test_nothing_is_made_on_the_cpu(case, training, monkeypatch):
    import torch

    # Only on this device, Keras' own layer returns a symbolic tensor.
    monkeypatch.setattr(
        keras.ops, "repeat", lambda x, times, axis: torch.repeat_interleave(x, times, dim=axis)
    )
    with keras.device("meta"):
        layer = case.make(**(case.random_arguments if training else {}))
        sequences = [torch.from_numpy(np.asarray(x)).to("meta") for x in case.sequences()]
        masks = [
            None if mask is None else torch.from_numpy(np.asarray(mask)).to("meta")
            for mask in case.masks()
        ]
        try:
            found = case.run(layer, sequences, masks, training=training)
        except NotImplementedError:
            pytest.skip("what it computes depends on the content, which this device does not have")
    assert {x.device.type for x in keras.tree.flatten(found)} == {"meta"}
