"""KerasTuner chooses the attention of a user's own model, without tasks."""

import keras
import keras_tuner
import numpy as np
import pytest

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.errors import UserError
from keras_quasiattn.layers import TransformerEncoder
from keras_quasiattn.models import swap_attention
from keras_quasiattn.tuning import choose_attention


def declared(attention=None, values=None, **options):
    hp = keras_tuner.HyperParameters()
    hp.values.update(values or {})
    choice = choose_attention(hp, attention, **options)
    return choice, {one.name: list(one.values) for one in hp.space}


def test_options_belong_to_the_attention_that_is_chosen():
    given = {"softmax": {}, "coda": {"alpha": [0.5, 2.0], "gate_range": ["raw"]}}
    choice, space = declared(given)
    assert choice == {"attention": "softmax", "attention_options": {}}
    assert space == {
        "attention": ["softmax", "coda"],
        "attention.coda.alpha": [0.5, 2.0],
        "attention.coda.gate_range": ["raw"],
    }
    choice, _ = declared(given, {"attention": "coda", "attention.coda.alpha": 2.0})
    assert choice == {"attention": "coda", "attention_options": {"alpha": 2.0, "gate_range": "raw"}}


@pytest.mark.parametrize("wanted", [None, sorted(ATTENTIONS), ["coda", "softmax"], "coda"])
def test_names_alone_give_every_attention_as_many_configurations(wanted):
    # CoDA had seven searched options and softmax none, so a search favoured CoDA.
    choice, space = declared(wanted)
    assert set(space) == {"attention"} and choice["attention_options"] == {}


def test_names_from_a_generator_were_an_empty_list():
    _, space = declared(name for name in ("coda", "softmax"))
    assert space == {"attention": ["coda", "softmax"]}


def test_searched_options_and_values_of_ones_own_exclude_each_other():
    with pytest.raises(UserError, match="search_options is True and attention has values by opt"):
        declared({"coda": {}}, search_options=True)


def test_every_attention_has_the_values_that_it_names_itself_if_asked():
    _, space = declared(search_options=True)
    assert space["attention"] == sorted(ATTENTIONS)
    assert space["attention.gated.temperature"] == [0.5, 1.0, 1.5, 2.0]
    assert set(space["attention.conflict.difference"]) == {"absolute", "squared", "signed"}
    assert space["attention.coda.scaling"] == ["mean", "paper", "none"]
    for name in ATTENTIONS:  # the first values of all options are accepted
        choice, _ = declared([name], search_options=True)
        ATTENTIONS[name](num_heads=2, key_dim=2, **choice["attention_options"])


@pytest.mark.parametrize("name", sorted(ATTENTIONS))
def test_the_choice_fits_a_swap_as_it_fits_a_block(name):
    x = keras.Input((3, 4))
    model = keras.Model(x, keras.layers.MultiHeadAttention(2, 2, name="attention")(x, x))
    choice, _ = declared([name], search_options=True)
    layer = swap_attention(model, **choice).get_layer("attention")
    assert type(layer) is ATTENTIONS[name]
    config = layer.get_config()
    assert {option: config[option] for option in choice["attention_options"]} == (
        choice["attention_options"]
    )


def test_a_tuner_searches_the_attention_of_a_model(tmp_path):
    x = np.random.default_rng(0).normal(size=(8, 3, 4)).astype("float32")

    def build(hp):
        states = keras.Input((3, 4))
        blocks = [
            TransformerEncoder(4, 2, **choose_attention(hp, ["softmax", "sigmoid"], name=name))
            for name in ("low", "high")
        ]
        model = keras.Model(states, blocks[1](blocks[0](states)))
        model.compile("adam", "mse", run_eagerly=True)
        return model

    tuner = keras_tuner.GridSearch(
        build, "val_loss", max_trials=2, directory=tmp_path, project_name="s"
    )
    tuner.search(x, x, validation_data=(x, x), epochs=1, verbose=0)
    tried = [trial.hyperparameters.values for trial in tuner.oracle.trials.values()]
    assert len(tried) == 2 and tried[0] != tried[1]
    assert all(set(values) == {"low", "high"} for values in tried)
    assert tuner.get_best_models()[0].layers[1].get_config()["attention"] in ("softmax", "sigmoid")


@pytest.mark.parametrize(
    ("attention", "said"),
    [
        (["code"], r"unknown attention 'code' \(did you mean 'coda'\?\): choose from coda, "),
        ("cod", r"unknown attention 'cod' "),
        ({"coda": {"alfa": [1.0]}}, r"unknown option of coda 'alfa' \(did you mean 'alpha'\?\)"),
        ({"coda": {"alpha": []}}, r"the values of coda's alpha are \[\]: give a list with at le"),
        ({"coda": {"alpha": 1.0}}, "the values of coda's alpha are 1.0: give a list"),
        ({"coda": {"alpha": [1.0, object]}}, "<class 'object'> is among the values of coda's al"),
        ({"coda": {"gate": "tanh"}}, "the values of coda's gate are 'tanh': give a list"),
        ([], r"attention is empty: name at least one of \['coda', "),
    ],
)
def test_wrong_choices_are_one_clear_line(attention, said):
    with pytest.raises(UserError, match=said) as caught:
        declared(attention)
    assert "\n" not in str(caught.value)


# KerasTuner's `Choice` ended in a TypeError on two types, and made integers of booleans.
MIXED = [
    [1.5, "learned"],
    [None, 1.0],
    [1, 0.5],
    [True, 2],
    [True, False],
    [None],
    ["1.5", 1.5, 1, "none", None, True, "true"],
    [(1, 2), "all"],
    list(np.array([0.5, 1.0], "float32")),
    np.arange(1, 3),
]


@pytest.mark.parametrize("values", MIXED, ids=str)
def test_values_of_two_types_were_a_type_error(values):
    hp = keras_tuner.HyperParameters()
    choose_attention(hp, {"entmax": {"alpha": values}})
    (_, space) = hp.space
    found = []
    for chosen in keras_tuner.HyperParameters.from_config(hp.get_config()).space[1].values:
        hp.values["attention.entmax.alpha"] = chosen
        found.append(choose_attention(hp, {"entmax": {"alpha": values}})["attention_options"])
    assert [one["alpha"] for one in found] == list(values)
    wanted = [int if isinstance(value, np.integer) else type(value) for value in values]
    wanted = [float if kind is np.float32 else kind for kind in wanted]
    assert [type(one["alpha"]) for one in found] == wanted
    assert len(set(map(type, space.values))) == 1


def test_a_value_that_was_fixed_beforehand_is_taken():
    hp = keras_tuner.HyperParameters()
    hp.Fixed("attention.entmax.alpha", 1.5)
    choice = choose_attention(hp, {"entmax": {"alpha": [1.5, "learned"]}})
    assert choice["attention_options"] == {"alpha": 1.5}
