"""Every layer can load the weights of a quantized layer, and is then quantized itself."""

import keras
import numpy as np
import pytest
from cases import ONE_OF_EACH, one_of_each_first
from running import outputs
from tools import quantization_modes

from keras_quasiattn.attention.base import ATTENTIONS

X = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")


@pytest.mark.parametrize("name", ["coda", "context_guided"])
def test_a_layer_takes_the_weights_of_a_quantized_one_twice(name, tmp_path):
    def make() -> keras.Model:
        x = keras.Input((None, 8), name="x")
        return keras.Model(x, ATTENTIONS[name](2, 4, num_key_value_heads=1)(x, x))

    model, fresh = make(), make()
    model.quantize("int8")
    model.save_weights(tmp_path / "model.weights.h5")
    for _ in range(2):  # the second time into an already quantized layer
        fresh.load_weights(tmp_path / "model.weights.h5")
        assert quantization_modes(fresh) == quantization_modes(model)
        assert quantization_modes(fresh).count("int8") == 4
        answers = (keras.ops.convert_to_numpy(one(X)) for one in (model, fresh))
        np.testing.assert_array_equal(*answers)


@pytest.mark.long
@pytest.mark.parametrize("case", one_of_each_first(ONE_OF_EACH, call_alone=True))
def test_every_layer_takes_the_weights_of_a_quantized_one(case, tmp_path):
    mode = ("int8", "int4")[ONE_OF_EACH.index(case) % 2]
    holders = [keras.Model() for _ in range(2)]
    for holder in holders:
        holder.layer, holder.built = case.make(), True
    model, fresh = holders
    model.quantize(mode)
    if mode not in quantization_modes(model):
        pytest.skip("nothing in it can be quantized")
    model.save_weights(tmp_path / "model.weights.h5")
    fresh.load_weights(tmp_path / "model.weights.h5")
    assert quantization_modes(fresh) == quantization_modes(model)
    sequences = case.sequences(), case.masks()
    for pair in zip(*(outputs(case, one.layer, *sequences) for one in holders), strict=True):
        np.testing.assert_array_equal(*pair)
