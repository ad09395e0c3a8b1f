"""Laws 4 and 5: configurations survive, `build` makes every weight, symbolic shapes are true."""

import inspect
import re
import warnings

import keras
import numpy as np
import pytest
from cases import ONE_OF_EACH, one_of_each_by_default, one_of_each_call, one_of_each_first
from layer_case import BATCH, FEATURES, LayerCase, constructor_parameters, randomize
from non_default import NON_DEFAULT, TOGETHER
from running import model_of, outputs, plain_outputs, shared_layer, weights
from tools import only_on, reloaded, to_numpy

from keras_quasiattn.layers import (
    AdaptiveHalting,
    DecomposableAttention,
    FeedForward,
    MultiHeadContextGuided,
    MultiHeadSoftmax,
    RelativePositionBias,
    SoftAttention,
    StepSignal,
    TimingSignal,
    TokenEmbedding,
    TransformerEncoder,
)

every_class = pytest.mark.parametrize("case", ONE_OF_EACH, ids=lambda case: case.layer.__name__)
every_argument = pytest.mark.parametrize(
    "case,argument",
    [
        pytest.param(case, argument, id=f"{case.layer.__name__}-{argument}")
        for case in ONE_OF_EACH
        for argument in sorted(case.parameters)
    ],
)


def with_non_default(case: LayerCase):
    return LayerCase(
        case.name, case.layer, case.style, NON_DEFAULT[case.layer], has_scores=case.has_scores
    )


def answers(model, inputs):
    """Return the model's outputs, without the graph that `predict` would trace."""
    return to_numpy(keras.tree.flatten(model(inputs, training=False)))


def assert_same_numbers(got, expected):
    for one, other in zip(keras.tree.flatten(got), keras.tree.flatten(expected), strict=True):
        np.testing.assert_array_equal(one, other)


@every_class
def test_every_argument_has_a_non_default_value(case):
    assert set(NON_DEFAULT[case.layer]) == constructor_parameters(case.layer)


@only_on("tensorflow", "compares dictionaries, which are the same on every backend")
@every_argument
def test_an_argument_alone_reaches_the_config_and_comes_back(case, argument):
    value = NON_DEFAULT[case.layer][argument]
    arguments = {**case.arguments, **TOGETHER.get((case.layer, argument), {})}
    default = case.layer(**arguments).get_config()
    config = case.layer(**{**arguments, argument: value}).get_config()
    assert config[argument] != default.get(argument), "not a non-default value, or lost"
    assert case.layer.from_config(config).get_config() == config


# Layers whose output the laws do not describe, with values other than the defaults.
OTHERS = {
    AdaptiveHalting: {"threshold": 0.5, "initial_bias": 2.0, "ponder_weight": 0.25},
    FeedForward: {
        **{"intermediate_dim": 17, "dropout": 0.25, "activation": "gelu"},
        **{"layer_norm_epsilon": 1e-3, "normalize_first": False},
    },
    RelativePositionBias: {
        **{"num_heads": 3, "num_buckets": 8, "max_distance": 20, "bidirectional": False}
    },
    StepSignal: {"num_steps": 7},
    TimingSignal: {"max_timescale": 77.0},
    TokenEmbedding: {"input_dim": 7, "output_dim": 4, "mask_zero": True},
}


@pytest.mark.parametrize("layer", OTHERS)
def test_arguments_of_other_layers_reach_the_config_and_come_back(layer):
    given = {**OTHERS[layer], "name": "renamed"}
    more = {name: "he_normal" for name in constructor_parameters(layer) if "initializer" in name}
    config = layer(**given, **more, dtype="mixed_bfloat16").get_config()
    assert {name: config[name] for name in given} == given
    assert all(config[name]["class_name"] == "HeNormal" for name in more)
    assert layer.from_config(config).get_config() == config
    own = inspect.signature(layer.__init__).parameters.keys() - {"self", "kwargs"}
    assert own <= {*given, *more}


@pytest.mark.parametrize("kind,given", [(SoftAttention, ()), (TransformerEncoder, (8, 2))])
def test_a_subclass_with_positional_arguments_was_not_saved_or_lost_its_own(kind, given):
    class Mine(kind):
        def __init__(self, *args, mine=1, **kwargs):
            super().__init__(*args, **kwargs)
            self.mine = mine

    config = Mine(*given, mine=3).get_config()
    assert Mine.from_config(config).mine == 3
    assert config == {**kind(*given).get_config(), "mine": 3, "name": config["name"]}


WRONG = {bool: "yes", int: 0, float: -1.0, str: "nope"}
# Arguments that Keras checks or accepts as they are, and numbers that may be 0 or below.
UNCHECKED = re.compile(
    "name|dtype|trainable|seed|use_bias|use_gate|.*initializer|.*regularizer|"
    ".*constraint|layer_norm_epsilon|flash_attention|share_projections|null_score|score_bias|"
    "max_distance"
)


@every_class
def test_a_wrong_value_is_named_with_its_argument(case):
    for argument, value in NON_DEFAULT[case.layer].items():
        if UNCHECKED.fullmatch(argument) or type(value) not in WRONG:
            continue
        if (case.layer, argument) == (MultiHeadContextGuided, "alpha"):  # of either sign
            continue
        wrong = WRONG[type(value)]
        arguments = {**case.arguments, **TOGETHER.get((case.layer, argument), {}), argument: wrong}
        with pytest.raises(ValueError, match=f"`{argument}` must .*{argument}={wrong!r}"):
            case.layer(**arguments)


@pytest.mark.parametrize("case", one_of_each_first(ONE_OF_EACH, call_alone=True))
def test_keras_file_round_trip(case, tmp_path):
    case = with_non_default(case)
    layer = case.layer(**case.arguments)
    model = model_of(case, layer)
    randomize(layer)
    inputs = [*case.sequences(), *case.masks()]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        loaded = reloaded(model, tmp_path)
    restored = loaded.get_layer("renamed")
    assert type(restored) is case.layer
    assert restored.get_config() == layer.get_config()
    assert restored.dtype_policy == layer.dtype_policy and not restored.trainable
    for one, other in zip(restored.weights, layer.weights, strict=True):
        assert one.path == other.path
    assert_same_numbers(to_numpy(weights(restored)), to_numpy(weights(layer)))
    assert_same_numbers(answers(loaded, inputs), answers(model, inputs))


@one_of_each_call
def test_build_makes_every_weight(case):
    layer = case.layer(**case.arguments)
    assert not layer.built and not layer.weights
    layer.build(*case.style.build_arguments([(None, None, FEATURES)] * len(case.style.lengths)))
    assert layer.built
    names = [(variable.path, variable.shape) for variable in layer.variables]
    outputs(case, layer, case.sequences(), case.masks())
    assert [(variable.path, variable.shape) for variable in layer.variables] == names
    assert len({path for path, _ in names}) == len(names)


@pytest.mark.parametrize(
    ("known", "dtype", "with_scores"),
    [
        pytest.param(True, "mixed_bfloat16", True, id="known-bfloat16-scores"),
        pytest.param(False, "float32", False, id="unknown-float32"),
        pytest.param(True, "float32", False, id="known-float32", marks=pytest.mark.long),
        pytest.param(
            False, "mixed_bfloat16", True, id="unknown-bfloat16-scores", marks=pytest.mark.long
        ),
    ],
)
@one_of_each_call
def test_symbolic_shapes_are_the_true_ones(case, known, dtype, with_scores):
    options = {"return_attention_scores": True} if with_scores and case.has_scores else {}
    layer = shared_layer(case, dtype=dtype)
    truth = outputs(case, layer, case.sequences(), case.masks(), **options)
    symbolic = [
        keras.Input(
            batch_shape=(BATCH, length, FEATURES) if known else (None, None, FEATURES),
            dtype=layer.compute_dtype,
        )
        for length in case.style.lengths
    ]
    shapes = [(BATCH, length, FEATURES) for length in case.style.lengths]
    told = layer.compute_output_shape(*case.style.build_arguments(shapes))
    told = [told] if isinstance(told, tuple) and not isinstance(told[0], tuple) else list(told)
    assert [tuple(shape) for shape in told] == [x.shape for x in truth[: len(told)]]
    specs = case.run(layer, symbolic, **options)
    for number, (spec, array) in enumerate(zip(specs, truth, strict=True)):
        assert spec.dtype == keras.backend.standardize_dtype(array.dtype)
        given = array.shape if known else [None] * array.ndim
        # Lengths may be unknown. The features of an output are not.
        assert len(spec.shape) == array.ndim
        for one, unknown, true in zip(spec.shape, given, array.shape, strict=True):
            assert one in (unknown, true)
        assert number >= len(told) or spec.shape[-1] == array.shape[-1]


class Holder(keras.layers.Layer):
    """A user's layer that holds another and does not say which shapes it returns."""

    def __init__(self, run):
        super().__init__()
        self.run = run

    def call(self, sequences):
        return self.run(sequences)


@only_on("jax", "was an error on JAX alone")
@one_of_each_by_default
def test_within_a_users_layer_unknown_lengths_were_an_error_on_jax(case):
    layer = shared_layer(case)
    recurrent = keras.layers.LSTM, keras.layers.GRU
    if any(isinstance(inner, recurrent) for inner in layer._flatten_layers()):
        pytest.skip("Keras' own LSTM and GRU cannot infer shapes of unknown length on JAX")
    inputs = [keras.Input((None, FEATURES)) for _ in case.style.lengths]
    specs = Holder(lambda sequences: case.run(layer, sequences))(inputs)
    for spec, array in zip(specs, plain_outputs(case), strict=True):
        assert len(spec.shape) == array.ndim and spec.shape[-1] == array.shape[-1]


def test_options_and_factors_of_another_type_are_named():
    for layer, arguments in (
        (DecomposableAttention, {"units": 4}),
        (TransformerEncoder, {"intermediate_dim": 4, "num_heads": 2}),
    ):
        with pytest.raises(ValueError, match="`attention_options` must be a dictionary or None"):
            layer(**arguments, attention_options="alpha")
    with pytest.raises(ValueError, match="`alpha` must be a finite number"):
        MultiHeadSoftmax(2, 4, alpha=np.array([1.0, 2.0]))
