import keras
import numpy as np
import pytest
from test_writers import ADAPTIVE, BLOCKS, B, S, T
from test_writers import ids as ids_of
from tools import to_numpy

from keras_quasiattn.models import TRANSFORMER_SIZES, TRANSFORMER_TRAINING, Transformer


def ids():
    return ids_of(Transformer)


@pytest.mark.parametrize("form", [{}, ADAPTIVE], ids=["stack", "adaptive"])
def test_explained_logits_are_the_models_and_padding_weighs_nothing(form):
    attention = "coda" if form else "softmax"
    model, inputs = Transformer(**{**BLOCKS, **form}, attention=attention), ids()
    explained = {name: to_numpy(value) for name, value in model.explain(**inputs).items()}
    real = inputs["target"] != 0
    np.testing.assert_allclose(explained["logits"][real], to_numpy(model(inputs))[real], atol=1e-5)
    weights = explained["weights"]
    assert weights.shape == (B, model.num_layers, 2, T, S)
    pairs = real[:, None, None, :, None] & (inputs["source"] != 0)[:, None, None, None, :]
    assert not weights[~np.broadcast_to(pairs, weights.shape)].any()
    if attention == "softmax":
        np.testing.assert_allclose(
            weights.sum(-1), np.broadcast_to(pairs.any(-1), weights.shape[:-1]), atol=1e-5
        )
    else:
        assert weights.min() < 0 < weights.max()


def test_steps_give_the_full_pass_for_any_attention_layer():
    model = Transformer(
        **{**BLOCKS, "num_heads": None},
        attention=keras.layers.MultiHeadAttention(2, 5, sliding_window=3),
    )
    inputs = ids()
    inputs["source"][2] = 3
    want = to_numpy(model(inputs))
    cache = model.start_cache(inputs["source"], T)
    for index in range(T):
        logits, cache = model.step(inputs["target"][:, index], index, cache)
        real = inputs["target"][:, index] != 0
        np.testing.assert_allclose(to_numpy(logits)[real], want[real, index], atol=1e-5)


def test_order_and_repetition_are_told_apart():
    model = Transformer(**BLOCKS)
    inputs = ids()
    swapped = {**inputs, "source": inputs["source"][:, ::-1]}
    assert np.abs(to_numpy(model(inputs))[0] - to_numpy(model(swapped))[0]).max() > 1e-2


def test_universal_shares_one_block_and_counts_its_steps():
    one = Transformer(**{**BLOCKS, "num_layers": 1}, universal=True)
    three = Transformer(**{**BLOCKS, "num_layers": 3}, universal=True)
    assert three.count_params() - one.count_params() == 2 * 2 * BLOCKS["hidden_dim"]
    # With equal step vectors, the block cannot distinguish its applications; otherwise it can.
    inputs = ids()
    out = to_numpy(three(inputs))
    table = three.encoder_step_signal.get_weights()[0]
    three.encoder_step_signal.set_weights([table[::-1]])
    assert np.abs(to_numpy(three(inputs)) - out).max() > 1e-3


def test_an_adaptive_model_that_never_halts_early_is_the_universal_one():
    plain = Transformer(**BLOCKS, universal=True)
    patient = Transformer(
        **BLOCKS, universal=True, adaptive=True, halting_options={"initial_bias": -40.0}
    )
    weights = {weight.path: weight for weight in plain.weights}
    for weight in patient.weights:
        if weight.path in weights:
            weight.assign(weights.pop(weight.path))
        elif weight.path.endswith("kernel"):
            weight.assign(0 * weight)
    assert not weights
    np.testing.assert_allclose(to_numpy(patient(ids())), to_numpy(plain(ids())), atol=1e-5)


def test_pondering_costs_in_training_only():
    model = Transformer(**{**BLOCKS, **ADAPTIVE}, dropout=0.0)
    inputs = ids()
    model(inputs)
    assert not model.losses
    model(inputs, training=True)
    padded = [float(loss) for loss in model.losses]
    assert len(padded) == 2 and all(0.01 < loss < 0.04 for loss in padded)
    wider = {name: np.pad(value, ((0, 0), (0, 3))) for name, value in inputs.items()}
    model(wider, training=True)
    np.testing.assert_allclose([float(loss) for loss in model.losses], padded, rtol=1e-5)


def test_named_sizes_are_tensor2tensors():
    model = Transformer(vocabulary_size=258, **TRANSFORMER_SIZES["tiny"], attention="softmax")
    block = 4 * 128 * 128 + 2 * 128 * 512 + 512 + 128  # attention without biases, feed-forward with
    norms = (2 * 2 + 2 * 3 + 2) * 2 * 128
    assert model.count_params() == 258 * 128 + 2 * block + 2 * (block + 4 * 128 * 128) + norms
    table = to_numpy(model.token_embedding.embeddings)
    assert abs(table.std() - 128**-0.5) < 0.002
    assert set(TRANSFORMER_SIZES) == {"tiny", "small", "base", "base_single_gpu"} | {
        "universal_tiny",
        "universal_small",
        "adaptive_universal_tiny",
    }
    peaks = {size: training["learning_rate"] for size, training in TRANSFORMER_TRAINING.items()}
    wanted = {"tiny": 1.98e-3, "small": 1.4e-3, "base": 9.9e-4, "base_single_gpu": 7.9e-4}
    assert peaks == pytest.approx(wanted, rel=5e-3)
    small = {
        "vocabulary_size": 5,
        "hidden_dim": 4,
        "intermediate_dim": 3,
        "num_heads": 1,
        "num_layers": 1,
    }
    for size in TRANSFORMER_SIZES.values():
        model = Transformer(**{**size, **small})
        assert (model.universal, model.adaptive) == (
            size.get("universal", False),
            size.get("adaptive", False),
        )
