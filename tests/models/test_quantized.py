"""Quantized models load as saved, although no layer's configuration describes its sublayers.

Keras 3.15 loads its own quantized layers, but no layer that contains them.
"""

from typing import Any

import keras
import numpy as np
import pytest
from test_swap_blocks import MASK, Block, X, model_of, of_blocks, values
from tools import quantization_modes, reloaded

from keras_quasiattn.layers import MultiHeadCoDA, TransformerEncoder
from keras_quasiattn.models import (
    AttentionFlowReader,
    CausalTransformer,
    DecaProp,
    MixtureClassifier,
    PairClassifier,
    Seq2Seq,
    SiameseClassifier,
    TextClassifier,
    Transformer,
    TransformerClassifier,
    swap_attention,
)

IDS = np.array([[3, 4, 1, 2, 5], [5, 6, 1, 0, 0]])
SIZES = {"num_layers": 1, "hidden_dim": 8, "intermediate_dim": 8, "num_heads": 2}


@keras.saving.register_keras_serializable("tests")
class Held(keras.layers.Layer):
    """A third-party layer that holds layers of this package and builds them itself."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.parts = [MultiHeadCoDA(2, 4, use_gate=True), TransformerEncoder(4, 2)]

    def build(self, shape: Any) -> None:
        self.parts[0].build(shape, shape)
        self.parts[1].build(shape)

    def call(self, x: Any) -> Any:
        return self.parts[1](self.parts[0](x, x))


def of_held(x: Any, mask: Any) -> Any:
    del mask
    return keras.layers.Dense(3)(Held()(x))


def of_block_of_keras(x: Any, mask: Any) -> Any:
    """Apply a block of this package to Keras' attention, which would not load alone."""
    layer = keras.layers.MultiHeadAttention(2, 4)
    return TransformerEncoder(4, attention=layer)(x, mask=mask)


def swapped() -> keras.Model:
    return swap_attention(model_of(lambda x, mask: Block(8, name="block")(x, padding_mask=mask)))


def with_lora() -> keras.Model:
    model = model_of(of_blocks)
    for one in model._flatten_layers():
        if hasattr(one, "enable_lora"):
            one.enable_lora(2)
            one.lora_kernel_b.assign(np.full(one.lora_kernel_b.shape, 0.1))
    return model


MODELS = {
    "blocks": lambda: model_of(of_blocks),
    "held": lambda: model_of(of_held),
    "keras": lambda: model_of(of_block_of_keras),
    "swapped": swapped,
    "text": lambda: TextClassifier(9, 3, attention="gated", embedding_dim=4, units=3),
    "classifier": lambda: TransformerClassifier(9, 3, **SIZES),
    "language": lambda: CausalTransformer(9, **SIZES),
    "sequences": lambda: Transformer(9, **SIZES),
    "pairs": lambda: PairClassifier(9, 3, embedding_dim=4, units=3),
    "siamese": lambda: SiameseClassifier(9, 3, embedding_dim=4, units=3),
    "mixture": lambda: MixtureClassifier(9, 3, [{"intra_attention": True}], common={"units": 3}),
    "recurrent": lambda: Seq2Seq(9, attention="coda", embedding_dim=4, units=3, num_layers=1),
    "flow": lambda: AttentionFlowReader(9, embedding_dim=4, units=3, character_units=0),
    "reader": lambda: DecaProp(9, embedding_dim=4, units=3, num_layers=1, character_units=0),
}
FAST = ("blocks", "held", "swapped", "classifier")
ALIKE = ("language", "pairs", "siamese", "flow")  # of the same layers as others
OTHERS = [name for name in MODELS if name not in (*FAST, *ALIKE)]


def answers(model: keras.Model) -> list[np.ndarray]:
    """Return the outputs for an input of each kind that the models take."""
    given = {2: IDS, 3: X}
    inputs = keras.tree.map_structure(
        lambda one: MASK if one.dtype == "bool" else given[len(one.shape)], model.input
    )
    return [keras.ops.convert_to_numpy(one) for one in keras.tree.flatten(model(inputs))]


def assert_same(model: keras.Model, loaded: keras.Model) -> None:
    assert quantization_modes(loaded) == quantization_modes(model)
    for one, other in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(
            *map(keras.ops.convert_to_numpy, (one, other)), err_msg=one.path
        )
    for pair in zip(*map(answers, (model, loaded)), strict=True):
        np.testing.assert_allclose(*pair, atol=1e-5)


@pytest.mark.parametrize(
    "name,mode",
    [
        *((name, "int8") for name in FAST),
        *(pytest.param(name, "int8", marks=pytest.mark.complete) for name in ALIKE),
        *(pytest.param(name, "int4", marks=pytest.mark.long) for name in (*OTHERS, "blocks")),
    ],
)
def test_a_quantized_model_is_saved_and_loads_twice(name, mode, tmp_path):
    model = MODELS[name]()
    model.quantize(mode)
    assert quantization_modes(model).count(mode) > 1
    loaded = reloaded(model, tmp_path)
    assert_same(model, loaded)
    assert_same(model, reloaded(loaded, tmp_path))


def test_lora_is_merged_before_it_is_quantized(tmp_path):
    model = with_lora()
    model.quantize("int8")
    loaded = reloaded(model, tmp_path)
    assert quantization_modes(loaded) == quantization_modes(model)
    assert not any(getattr(one, "lora_enabled", False) for one in loaded._flatten_layers())
    np.testing.assert_allclose(values(loaded, X, MASK), values(model, X, MASK), atol=0.05)


CONFIGS = {
    "blocks of four": keras.quantizers.Int4QuantizationConfig(block_size=4),
    "channels": keras.quantizers.Int4QuantizationConfig(block_size=None),
    "weights alone": keras.quantizers.Int8QuantizationConfig(activation_quantizer=None),
    "float8": keras.quantizers.Float8QuantizationConfig(),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_configuration_of_the_quantization_is_kept(name, tmp_path):
    model = model_of(lambda x, mask: MultiHeadCoDA(2, 4)(x, x, value_mask=mask))
    model.quantize(config=CONFIGS[name], filters="query|value|output")
    assert quantization_modes(model).count(CONFIGS[name].mode) == 3
    assert_same(model, reloaded(model, tmp_path))


def test_what_is_not_quantized_is_saved_as_before(tmp_path):
    class Store(dict[str, Any]):
        """Like the store that Keras gives a layer to write to."""

    store = Store()
    model = model_of(of_blocks)
    for one in model._flatten_layers():
        one.save_own_variables(store)
    assert "quantization" not in store


def test_a_mode_that_needs_data_is_refused_in_one_line(tmp_path):
    model = model_of(of_blocks)
    dense = model.get_layer("encoder").attention.query_dense
    config = keras.quantizers.GPTQConfig(dataset=["a"], tokenizer=lambda text: [1])
    dense.quantize("gptq", config=config)
    with pytest.raises(
        ValueError, match="int8, int4, float8. Received: '.*query' quantized to 'gp"
    ) as said:
        model.save(tmp_path / "model.keras")
    assert "\n" not in str(said.value)
