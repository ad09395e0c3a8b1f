import functools
import inspect
import itertools
import re

import keras
import numpy as np
import pytest
from keras import ops
from tools import sampled

from keras_quasiattn.models import TRANSFORMER_SIZES, TRANSFORMER_TRAINING, Transformer

CENTERED = {"gate_range": "centered", "center_similarity": True}
ATTENTIONS = {
    "softmax": {"attention": "softmax"},
    "coda": {"attention": "coda"},
    "coda_centered": {"attention": "coda", "attention_options": CENTERED},
    "coda_sigmoid": {"attention": "coda", "attention_options": {"similarity": "sigmoid"}},
}
V, B, S, T = 11, 3, 7, 5
# Three steps, so that a position may halt before the last two; with these options some do at each.
ADAPTIVE = {
    "num_layers": 3,
    "universal": True,
    "adaptive": True,
    "halting_options": {"initial_bias": -0.5, "threshold": 0.6},
}
FORMS = {"stack": {}, "universal": {"universal": True}, "adaptive": ADAPTIVE}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
# What is adaptive is universal too.
two_forms = pytest.mark.parametrize(
    "form",
    [
        pytest.param(form, id=name, marks=[pytest.mark.complete] if name == "universal" else [])
        for name, form in FORMS.items()
    ],
)
some_models = pytest.mark.parametrize(
    "attention,form", sampled(itertools.product(ATTENTIONS, FORMS), 4)
)
SMALL = {
    "vocabulary_size": V,
    "num_layers": 2,
    "hidden_dim": 12,
    "intermediate_dim": 20,
    "num_heads": 2,
}


def ids(seed=0):
    generator = np.random.default_rng(seed)
    source, target = generator.integers(2, V, (B, S)), generator.integers(2, V, (B, T))
    source[1, 4:] = 0  # a padded row
    source[2] = 0  # a row of nothing but padding
    target[:, 0] = 1
    target[1, 3:] = 0
    return {"source": source.astype("int32"), "target": target.astype("int32")}


def numpy(x):
    return ops.convert_to_numpy(x)


@functools.cache
def made(attention, form):
    """A model that no test changes, and its logits."""
    keras.utils.set_random_seed(7)
    model = Transformer(**{**SMALL, **ATTENTIONS[attention], **FORMS[form]})
    return model, numpy(model(ids()))


@some_models
def test_steps_from_the_cache_give_the_full_pass(attention, form):
    (model, want), inputs = made(attention, form), ids()
    cache = model.start_cache(inputs["source"], T + 2)
    assert all(leaf.shape[0] == B for leaf in keras.tree.flatten(cache))
    for index in range(T):
        logits, cache = model.step(inputs["target"][:, index], index, cache)
        real = inputs["target"][:, index] != 0
        np.testing.assert_allclose(numpy(logits)[real], want[real, index], atol=1e-5)


@two_forms
def test_explained_logits_are_the_models_and_padding_weighs_nothing(form):
    attention = "coda" if form else "softmax"
    model, inputs = Transformer(**{**SMALL, **form}, attention=attention), ids()
    explained = {name: numpy(value) for name, value in model.explain(**inputs).items()}
    real = inputs["target"] != 0
    np.testing.assert_allclose(explained["logits"][real], numpy(model(inputs))[real], atol=1e-5)
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
        **{**SMALL, "num_heads": None},
        attention=keras.layers.MultiHeadAttention(2, 5, sliding_window=3),
    )
    inputs = ids()
    inputs["source"][2] = 3
    want = numpy(model(inputs))
    cache = model.start_cache(inputs["source"], T)
    for index in range(T):
        logits, cache = model.step(inputs["target"][:, index], index, cache)
        real = inputs["target"][:, index] != 0
        np.testing.assert_allclose(numpy(logits)[real], want[real, index], atol=1e-5)


@some_models
def test_padded_rows_give_what_short_rows_give(attention, form):
    (model, out), inputs = made(attention, form), ids()
    short = numpy(model({"source": inputs["source"][1:2, :4], "target": inputs["target"][1:2, :3]}))
    np.testing.assert_allclose(out[1:2, :3], short, atol=1e-5)
    assert np.isfinite(out).all()


@two_forms
def test_later_target_tokens_change_nothing(form):
    model = Transformer(**{**SMALL, **form}, attention_options=CENTERED)
    inputs = ids()
    changed = {**inputs, "target": inputs["target"].copy()}
    changed["target"][0, 3:] = 2
    first, second = numpy(model(inputs)), numpy(model(changed))
    np.testing.assert_allclose(first[:, :3], second[:, :3], atol=1e-5)


def test_order_and_repetition_are_told_apart():
    model = Transformer(**SMALL)
    inputs = ids()
    swapped = {**inputs, "source": inputs["source"][:, ::-1]}
    assert np.abs(numpy(model(inputs))[0] - numpy(model(swapped))[0]).max() > 1e-2


def test_universal_shares_one_block_and_counts_its_steps():
    one = Transformer(**{**SMALL, "num_layers": 1}, universal=True)
    three = Transformer(**{**SMALL, "num_layers": 3}, universal=True)
    assert three.count_params() - one.count_params() == 2 * 2 * SMALL["hidden_dim"]
    # With the step vectors alike the block cannot tell its applications apart; with them it can.
    inputs = ids()
    out = numpy(three(inputs))
    table = three.encoder_step_signal.get_weights()[0]
    three.encoder_step_signal.set_weights([table[::-1]])
    assert np.abs(numpy(three(inputs)) - out).max() > 1e-3


def test_an_adaptive_model_that_never_halts_early_is_the_universal_one():
    plain = Transformer(**SMALL, universal=True)
    patient = Transformer(
        **SMALL, universal=True, adaptive=True, halting_options={"initial_bias": -40.0}
    )
    weights = {weight.path: weight for weight in plain.weights}
    for weight in patient.weights:
        if weight.path in weights:
            weight.assign(weights.pop(weight.path))
        elif weight.path.endswith("kernel"):
            weight.assign(0 * weight)
    assert not weights
    np.testing.assert_allclose(numpy(patient(ids())), numpy(plain(ids())), atol=1e-5)


def test_pondering_costs_in_training_only():
    model = Transformer(**{**SMALL, **ADAPTIVE}, dropout=0.0)
    inputs = ids()
    model(inputs)
    assert not model.losses
    model(inputs, training=True)
    padded = [float(loss) for loss in model.losses]
    assert len(padded) == 2 and all(0.01 < loss < 0.04 for loss in padded)
    wider = {name: np.pad(value, ((0, 0), (0, 3))) for name, value in inputs.items()}
    model(wider, training=True)
    np.testing.assert_allclose([float(loss) for loss in model.losses], padded, rtol=1e-5)


def test_one_table_embeds_and_predicts():
    model = Transformer(**SMALL)
    tables = [w for w in model.trainable_weights if V in w.shape]
    assert len(tables) == 1 and tuple(tables[0].shape) == (V, SMALL["hidden_dim"])


NON_DEFAULT = {
    "vocabulary_size": 9,
    "num_layers": 3,
    "hidden_dim": 6,
    "intermediate_dim": 5,
    "num_heads": 3,
    "attention": "softmax",
    "attention_options": {"use_bias": True},
    "dropout": 0.25,
    "universal": True,
    "adaptive": True,
    "halting_options": {"threshold": 0.5},
}


def test_every_constructor_argument_survives_save_and_load(tmp_path):
    parameters = inspect.signature(Transformer.__init__).parameters
    assert set(parameters) - {"self", "kwargs"} == set(NON_DEFAULT)
    assert not [
        n for n, p in parameters.items() if n in NON_DEFAULT and p.default == NON_DEFAULT[n]
    ]
    model = Transformer(**NON_DEFAULT, name="reader", dtype="mixed_bfloat16")
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    config = loaded.get_config()
    for name, value in NON_DEFAULT.items():
        assert config[name] == value, name
    assert loaded.name == "reader" and loaded.dtype_policy.name == "mixed_bfloat16"
    assert loaded.encoder_blocks[0].attention.use_bias and loaded.encoder_blocks[
        0
    ].dtype_policy.name == ("mixed_bfloat16")
    inputs = {name: value % 9 for name, value in ids().items()}
    np.testing.assert_array_equal(numpy(model(inputs)), numpy(loaded(inputs)))


def test_a_template_layer_survives_save_and_load(tmp_path):
    template = keras.layers.MultiHeadAttention(num_heads=3, key_dim=2)
    model = Transformer(**{**SMALL, "num_heads": None}, attention=template)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(numpy(model(ids())), numpy(loaded(ids())))


@pytest.mark.parametrize(
    "attention,policy",
    sampled(itertools.product(["softmax", "coda"], ["mixed_float16", "mixed_bfloat16"]), 2),
)
def test_low_precision_gives_finite_float32_logits(attention, policy):
    model = Transformer(**SMALL, attention=attention, dtype=policy)
    inputs = ids()
    logits = model(inputs)
    assert keras.backend.standardize_dtype(logits.dtype) == "float32" == model.output.dtype
    assert np.isfinite(numpy(logits)).all()
    step, _ = model.step(inputs["target"][:, 0], 0, model.start_cache(inputs["source"], T))
    np.testing.assert_allclose(numpy(step), numpy(logits)[:, 0], atol=0.2)


@every_form
def test_one_training_step_moves_every_weight(form):
    model = Transformer(**{**SMALL, **form}, dropout=0.0)
    assert model.output.shape == (None, None, V)
    model.compile(
        keras.optimizers.SGD(1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        run_eagerly=True,
    )
    inputs = ids()
    labels = np.roll(inputs["target"], -1, axis=1)
    before = [numpy(w) for w in model.trainable_weights]
    model.train_on_batch(inputs, labels)
    for weight, old in zip(model.trainable_weights, before, strict=True):
        assert np.abs(numpy(weight) - old).max() > 0, weight.path
        assert np.isfinite(numpy(weight)).all(), weight.path


def test_losses_leave_target_padding_out():
    model = Transformer(**SMALL)
    model.compile(
        "sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), run_eagerly=True
    )
    inputs = ids()
    labels = np.where(inputs["target"] != 0, 4, 0)
    loss = float(np.ravel(model.test_on_batch(inputs, labels))[0])
    real = inputs["target"] != 0
    log_probability = numpy(ops.log_softmax(model(inputs), axis=-1))[..., 4]
    assert loss == pytest.approx(-log_probability[real].mean(), rel=1e-5)


def test_named_sizes_are_tensor2tensors():
    model = Transformer(vocabulary_size=258, **TRANSFORMER_SIZES["tiny"], attention="softmax")
    block = 4 * 128 * 128 + 2 * 128 * 512 + 512 + 128  # attention without biases, feed-forward with
    norms = (2 * 2 + 2 * 3 + 2) * 2 * 128
    assert model.count_params() == 258 * 128 + 2 * block + 2 * (block + 4 * 128 * 128) + norms
    table = numpy(model.token_embedding.embeddings)
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


@pytest.mark.parametrize(
    "arguments",
    [
        {"vocabulary_size": 1},
        {"num_layers": 0},
        {"hidden_dim": 0},
        {"intermediate_dim": -1},
        {"dropout": 1.5},
        {"adaptive": True},
        {"halting_options": {"threshold": 0.5}},
    ],
)
def test_bad_arguments_are_named(arguments):
    ((name, value),) = arguments.items()
    with pytest.raises(ValueError, match=re.escape(f"{name}={value}")):
        Transformer(**{**SMALL, **arguments})
