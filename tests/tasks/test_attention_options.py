"""CoDA's options of a task: temperatures, and every task's CoDA model has all of them."""

import pytest

from keras_quasiattn import tasks
from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.errors import UserError
from keras_quasiattn.tasks.attention_options import CODA_OPTIONS, attention_of


def test_learned_temperatures_are_the_layers_own() -> None:
    options = {**CODA_OPTIONS, "coda_learned": True}
    arguments = attention_of(options)[1]["attention_options"]
    assert (arguments["alpha"], arguments["beta"]) == ("learned", "learned")
    assert "learned" not in arguments


def test_a_temperature_is_given_or_learned_but_not_both() -> None:
    with pytest.raises(UserError, match="model.coda_beta is 2.0: it must be 1"):
        attention_of({**CODA_OPTIONS, "coda_beta": 2.0, "coda_learned": True})


@pytest.mark.parametrize("name", tasks.available())
def test_every_coda_model_has_every_option(name: str) -> None:
    task = tasks.get(name)
    for preset in task.presets.values():
        for model in task.models:
            options = preset.for_model(model).model
            found = {option for option in options if option.startswith("coda_")}
            assert found in (set(), set(CODA_OPTIONS)), model
            if "coda" in model:
                assert found, model


@pytest.mark.parametrize("name", sorted(ATTENTIONS))
def test_a_model_of_any_attention_takes_every_mechanism_by_name(name: str) -> None:
    sizes = {
        "model.hidden_dim": 8,
        "model.intermediate_dim": 8,
        "model.num_heads": 2,
        "model.num_layers": 1,
    }
    overrides = {**sizes, "model.attention": name, "training.batch_size": 8}
    task = tasks.get("mlu")(
        preset="demo", model="softmax", seed=0, data_dir="data", overrides=overrides
    )
    attention = task.build_model().get_config()["attention"]
    assert attention == name


def test_an_unknown_attention_is_an_error_that_lists_them() -> None:
    task = tasks.get("mlu")(
        preset="demo",
        model="softmax",
        seed=0,
        data_dir="data",
        overrides={"model.attention": "none"},
    )
    with pytest.raises(UserError, match="`attention` must be one of .*'conflict'.* or a layer"):
        task.build_model()
