"""Tests specific to GatedAttention: draws, cost, metrics, networks and equality."""

import keras
import numpy as np
import pytest
from layer_case import randomize
from tools import normal, reloaded, to_numpy

from keras_quasiattn.layers import (
    DecomposableAttention,
    GatedAttention,
    LocalAttention,
    SoftAttention,
)

B, T, D, E = 3, 7, 5, 2
MASK = np.arange(T) < np.array([[7], [4], [0]])


def arrays(structure):
    return to_numpy(keras.tree.flatten(structure))


def make(*args, shapes=((None, None, D),), **options):
    layer = GatedAttention(*args, **{"seed": 3, **options})
    layer.build(*shapes)
    randomize(layer)
    return layer


def convolution(window=3, activation="relu", **options):
    return keras.layers.Conv1D(6, window, activation=activation, **options)


def test_in_float64_gathered_windows_were_rounded_to_float32():
    found = []
    for implementation in ("reference", "gathered"):
        options = {"convolution": convolution(dtype="float64"), "implementation": implementation}
        layer = make("feed_forward", 4, dtype="float64", **options)
        found.append(to_numpy(layer(normal(B, T, D).astype("float64"))))
    np.testing.assert_allclose(*found, rtol=1e-12)


@pytest.mark.parametrize("window", [None, 1, 3])
@pytest.mark.parametrize("options", [{}, {"activation": None, "use_bias": False}], ids=len)
@pytest.mark.parametrize("mask", [None, MASK], ids=["plain", "masked"])
@pytest.mark.parametrize("implementation", ["reference", "gathered"])
def test_all_gates_open_is_soft_attention(window, options, mask, implementation):
    """With a convolution, to its states over zeros as padding."""
    given = {} if window is None else {"convolution": convolution(window, **options)}
    gated = make("feed_forward", 4, threshold=0.0, implementation=implementation, **given)
    words = normal(B, T, D)
    if mask is not None:
        words[~mask] = np.nan
    output, gates, weights = arrays(gated(words, mask=mask, return_attention_scores=True))
    np.testing.assert_array_equal(gates, np.ones((B, T)) if mask is None else mask)
    states = words if mask is None else np.where(mask[..., None], words, 0)
    if given:
        before = convolution(window, padding="same", **options)
        before.build((None, None, D))
        before.set_weights(arrays([variable.value for variable in gated.convolution.variables]))
        states = before(states)
    soft = SoftAttention()
    soft.build(states.shape)
    soft.set_weights(arrays([gated.kernel.value]))
    expected = arrays(soft(states, mask=mask, return_attention_scores=True))
    np.testing.assert_allclose(output, expected[0], atol=1e-6)
    np.testing.assert_allclose(weights, expected[1], atol=1e-6)


def test_a_convolution_computes_the_states_of_open_positions_alone(monkeypatch):
    layer = make("feed_forward", 4, convolution=convolution(), implementation="gathered")
    seen, original = [], GatedAttention._encode
    monkeypatch.setattr(
        GatedAttention,
        "_encode",
        lambda self, x: (seen.append(tuple(x.shape)), original(self, x))[1],
    )
    _, gates, _ = arrays(layer(normal(B, T, D), mask=MASK, return_attention_scores=True))
    assert 0 < gates.sum() < MASK.sum()
    assert seen == [(gates.sum(), 3, D)]


def test_all_gates_closed_opens_the_likeliest_real_position():
    layer = make("feed_forward", 4, threshold=1.0)
    states = normal(B, T, D)
    logits = arrays(layer.gate_network(states))[0][..., 0]
    output, gates, weights = arrays(layer(states, mask=MASK, return_attention_scores=True))
    for row in range(2):
        best = np.argmax(np.where(MASK[row], logits[row], -np.inf))
        np.testing.assert_array_equal(gates[row], np.arange(T) == best)
        np.testing.assert_allclose(output[row], states[row, best], atol=1e-6)
    np.testing.assert_array_equal(gates, weights)
    assert not output[2].any() and not gates[2].any()


def test_gates_are_soft_in_training_and_binary_otherwise():
    layer = make("feed_forward", 4)
    for training, soft in ((True, True), (False, False), (None, False)):
        _, gates, weights = arrays(
            layer(normal(B, T, D), mask=MASK, training=training, return_attention_scores=True)
        )
        assert ((gates > 0) & (gates < 1)).any() == soft
        assert not gates[~MASK].any() and not weights[~MASK].any()
        np.testing.assert_allclose(weights.sum(-1), [1, 1, 0], atol=1e-6)


def test_sampled_gates_are_seeded_and_as_frequent_as_their_probability():
    x, runs = normal(200, 50, D), []
    for seed in (5, 5, 6):
        layer = make("feed_forward", 4, inference="sample", seed=seed)
        runs.append([arrays(layer(x, return_attention_scores=True))[1] for _ in range(2)])
    np.testing.assert_array_equal(runs[0], runs[1])
    assert (runs[0][0] != runs[0][1]).any() and (runs[0][0] != runs[2][0]).any()
    probability = 1 / (1 + np.exp(-arrays(layer.gate_network(x))[0][..., 0]))
    assert set(np.unique(runs[0][0])) == {0, 1}
    for low in np.arange(0, 1, 0.2):
        some = (probability >= low) & (probability < low + 0.2)
        if some.sum() > 500:
            assert abs(runs[0][0][some].mean() - probability[some].mean()) < 0.06


def test_the_temperature_falls_exponentially_over_training_calls_only():
    layer = GatedAttention(
        "feed_forward", 4, temperature=2.0, final_temperature=0.5, annealing_steps=4
    )
    layer.build((None, None, D))
    seen = []
    for _ in range(6):
        seen.append(float(arrays(layer.gates.current_temperature())[0]))
        layer(normal(B, T, D), training=False)
        layer(normal(B, T, D), training=True)
    np.testing.assert_allclose(seen, 2 * 0.25 ** (np.minimum(np.arange(6), 4) / 4), rtol=1e-6)
    assert GatedAttention(temperature=0.7).gates.current_temperature() == 0.7


def test_cold_gates_are_nearly_binary():
    warm, cold = (make("feed_forward", 4, temperature=t) for t in (2.0, 0.01))
    spread = [
        arrays(layer(normal(B, T, D), training=True, return_attention_scores=True))[1]
        for layer in (warm, cold)
    ]
    near = [np.minimum(gates, 1 - gates).mean() for gates in spread]
    assert near[0] > 0.1 and near[1] < 0.01


@pytest.mark.parametrize("training", [True, False])
def test_the_cost_is_the_mean_share_of_open_gates_of_texts_that_have_words(training):
    layer = make("feed_forward", 4, open_gate_cost=0.5)
    _, gates, _ = arrays(
        layer(normal(B, T, D), mask=MASK, training=training, return_attention_scores=True)
    )
    expected = 0.5 * np.mean([gates[0].sum() / 7, gates[1].sum() / 4])
    (loss,) = arrays(layer.losses)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    if keras.backend.backend() != "jax":
        density = (gates >= 0.5).sum() / MASK.sum()
        assert arrays(layer.gates.density.result())[0] == pytest.approx(density, rel=1e-5)
        assert arrays(layer.gates.cost.result())[0] == pytest.approx(expected, rel=1e-5)


def test_an_ordinary_call_adds_no_loss_and_leaves_the_metrics_alone():
    layer = make("feed_forward", 4)
    layer(normal(B, T, D))
    assert not layer.losses
    if keras.backend.backend() != "jax":
        assert arrays(layer.gates.density.result())[0] == 0
    free = make("feed_forward", 4, open_gate_cost=0.0)
    free(normal(B, T, D), training=True)
    assert not free.losses


def model_with(layer):
    inputs = [keras.Input((None, D)), keras.Input((None,), dtype="bool")]
    model = keras.Model(inputs, keras.layers.Dense(1)(layer(inputs[0], mask=inputs[1])))
    model.compile(keras.optimizers.Adam(0.05), "mse")
    return model


def test_fit_and_evaluate_show_density_and_cost_and_the_cost_closes_gates(jitted):
    x, y = [normal(32, T, D), np.ones((32, T), "bool")], np.zeros((32, 1), "float32")
    model = model_with(GatedAttention("feed_forward", 4, open_gate_cost=3.0, seed=0))
    history = model.fit(x, y, epochs=40, batch_size=8, verbose=0).history
    assert history["loss"][-1] < 0.5 * history["loss"][0]
    results = model.evaluate(x, y, verbose=0, return_dict=True)
    gated = model.layers[2]
    if keras.backend.backend() == "jax":
        assert "density" not in history
        return
    assert history["density"][-1] < 0.3 < history["density"][0]
    assert history["open_gate_cost"][-1] < history["open_gate_cost"][0]
    _, gates, _ = arrays(gated(x[0], mask=x[1], return_attention_scores=True))
    assert results["density"] == pytest.approx(gates.mean(), rel=1e-5)
    assert results["open_gate_cost"] == pytest.approx(3 * gates.mean(), rel=1e-5)
    again = model.evaluate(x, y, verbose=0, return_dict=True)
    assert again == pytest.approx(results)


@pytest.mark.long
@pytest.mark.parametrize(
    ("network", "inference"), [("feed_forward", "sample"), ("bilstm", "threshold")]
)
def test_an_exported_model_gathers_and_updates_nothing_but_its_draws(
    tensorflow_only, tmp_path, network, inference
):
    import tensorflow as tf

    options = {"convolution": convolution()} if network == "feed_forward" else {}
    model = model_with(GatedAttention(network, 4, inference=inference, seed=0, **options))
    x = [normal(B, T, D), MASK]
    model.fit(x, np.zeros((B, 1), "float32"), verbose=0)
    model.export(tmp_path / "model", verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    if inference == "threshold":
        np.testing.assert_allclose(loaded.serve(x), model.predict(x, verbose=0), atol=1e-6)
    definition = loaded.serve.concrete_functions[0].graph.as_graph_def()
    kinds = {node.op for node in definition.node}
    kinds |= {node.op for function in definition.library.function for node in function.node_def}
    assert "Where" in kinds and "SegmentSum" in kinds
    assert any(kind.startswith("Assign") for kind in kinds) == (inference == "sample")


def test_the_gates_of_a_layer_may_read_another_sequence():
    states, words = normal(B, T, D), normal(B, T, E, seed=1)
    layer = make("bilstm", 4, shapes=((None, None, D), (None, None, E)))
    output, gates, _ = arrays(layer(states, words, mask=MASK, return_attention_scores=True))
    others = arrays(layer(states, -words, mask=MASK, return_attention_scores=True))
    assert (gates != others[1]).any()
    spoiled = np.where(MASK[..., None], words, np.nan)
    np.testing.assert_array_equal(arrays(layer(states, spoiled, mask=MASK))[0], output)
    for row, length in ((0, 7), (1, 4)):
        alone = arrays(layer(states[row : row + 1, :length], words[row : row + 1, :length]))[0]
        np.testing.assert_allclose(alone[0], output[row], atol=1e-5)


def test_attached_masks_reach_a_layer_of_two_sequences():
    ids = np.where(MASK, 1 + np.arange(T), 0)
    embed = keras.layers.Embedding(T + 1, E, mask_zero=True)
    states, layer = (
        normal(B, T, D),
        make("feed_forward", 4, shapes=((None, None, D), (None, None, E))),
    )
    words = embed(ids)
    expected = arrays(layer(states, arrays(words)[0], mask=MASK))[0]
    np.testing.assert_allclose(arrays(layer(states, words))[0], expected, atol=1e-6)
    carrying = keras.layers.Masking()(np.where(MASK[..., None], states, 0).astype("float32"))
    np.testing.assert_allclose(arrays(layer(carrying, arrays(words)[0]))[0], expected, atol=1e-6)
    np.testing.assert_allclose(
        arrays(layer(states, words, mask=np.ones_like(MASK)))[0],
        arrays(layer(states, arrays(words)[0]))[0],
        atol=1e-6,
    )


NETWORKS = {
    "masked": lambda: [keras.layers.LSTM(3, return_sequences=True), keras.layers.Dense(1)],
    "plain": lambda: [keras.layers.Dense(1)],
    "flat": lambda: [keras.layers.Dense(1), keras.layers.Reshape((-1,))],
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_of_ones_own(name, tmp_path):
    layer = GatedAttention(keras.Sequential(NETWORKS[name]()), seed=3)
    model = model_with(layer)
    x = [normal(B, T, D), MASK]
    loaded = reloaded(model, tmp_path)
    (expected,) = arrays(model(x))
    np.testing.assert_array_equal(arrays(loaded(x))[0], expected)
    (short,) = arrays(model([x[0][1:2, :4], MASK[1:2, :4]]))
    np.testing.assert_allclose(expected[1:2], short, atol=1e-5)


def test_a_network_of_ones_own_dropped_nothing_in_a_stateless_call():
    parts = [keras.layers.Dropout(0.9, seed=3), keras.layers.Dense(1, "sigmoid")]
    layer, x = GatedAttention(keras.Sequential(parts), seed=3), normal(2, 5, 8)
    layer(x)
    state = [
        [to_numpy(variable.value) for variable in variables]
        for variables in (layer.trainable_variables, layer.non_trainable_variables)
    ]
    keras.utils.set_random_seed(5)  # on PyTorch, Keras' dropout draws from it
    got = to_numpy(layer.stateless_call(*state, x, training=True)[0])
    keras.utils.set_random_seed(5)
    np.testing.assert_allclose(got, to_numpy(layer(x, training=True)), atol=1e-6)


@pytest.mark.parametrize(
    "options,message",
    [
        (
            {"network": keras.layers.Dense(1), "units": 3},
            "`units` must be None when `network` is a layer.*units=3",
        ),
        ({"convolution": keras.layers.Dense(3)}, "`convolution` must be None or a .*Conv1D.*Dense"),
        (
            {"convolution": convolution(padding="same")},
            "`convolution` must have an odd `kernel_size`.*kernel_size=3.*same",
        ),
        ({"convolution": convolution(2)}, "`convolution` must have .*kernel_size=2"),
        (  # taken before, and applied along the features
            {"convolution": convolution(data_format="channels_first")},
            "`convolution` must have .*`data_format='channels_last'`. Rec.*'channels_first'",
        ),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        GatedAttention(**options)


def test_one_feature_is_enough():
    for layer in (GatedAttention(), SoftAttention(), LocalAttention()):
        assert tuple(layer(np.ones((2, 3, 1), "float32")).shape) == (2, 1)


def test_wrong_shapes_are_named():
    with pytest.raises(
        ValueError, match=r"`network` must return one logit per position.*\(None, None, 2\)"
    ):
        GatedAttention(keras.layers.Dense(2)).build((None, None, D))
    for layer in (GatedAttention(), SoftAttention(), LocalAttention()):
        with pytest.raises(
            ValueError, match=r"`inputs` must have shape \(batch, length, width\).*\(3, 5\)"
        ):
            layer(np.ones((3, 5), "float32"))


def test_a_call_over_two_sequences_counts_once_and_has_one_temperature():
    options = {"temperature": 2.0, "final_temperature": 0.5, "annealing_steps": 4}
    layer = DecomposableAttention(8, attention="gated", attention_options=options)
    seen, drawn = [], layer.gates.current_temperature
    layer.gates.current_temperature = lambda: seen.append(drawn()) or seen[-1]
    for _ in range(2):
        layer([normal(B, T, D), normal(B, T, D)], training=True)
    expected = 2 * 0.25 ** (np.array([0, 0, 1, 1]) / 4)
    np.testing.assert_allclose(arrays(seen), expected, rtol=1e-6)


def test_the_path_of_an_own_network_is_the_same_after_loading(tmp_path):
    x = keras.Input((None, D))
    network = keras.layers.Dense(1, name="mine")
    model = keras.Model(x, GatedAttention(network)(x))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    paths = [[weight.path for weight in one.weights] for one in (model, loaded)]
    assert paths[0] == paths[1] and any("/mine/kernel" in path for path in paths[0])
