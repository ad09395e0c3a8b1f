"""The task options that choose an attention, and old runs with separate names for CoDA's."""

import json

import pytest

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab import tasks
from keras_quasiattn.lab.tasks.attention_options import with_todays_names
from keras_quasiattn.lab.training.config import read_config

OLD = {
    "alpha": 1.0,
    "beta": 1.0,
    "learned": True,
    "scaling": "mean",
    "gate_range": "scaled",
    "similarity": "tanh",
    "gate": "tanh",
    "center_similarity": False,
}


def test_a_run_of_before_has_the_options_of_today(tmp_path):
    """Old runs named CoDA's options `model.coda_gate` and so on, and recorded all of them."""
    old = {f"model.coda_{name}": value for name, value in OLD.items()}
    config = {
        "format": 1,
        "versions": {},
        "command": "",
        "task": "mlu",
        "task_config": {"preset": "demo", "model": "coda", "seed": 0, "options": old},
        "options": {},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    options = read_config(tmp_path)["task_config"]["options"]
    chosen = {"alpha": "learned", "beta": "learned", "gate": "tanh"}
    assert options == {"model.attention": "coda", "model.attention_options": chosen}
    task = tasks.get("mlu").from_config(
        {"preset": "demo", "model": "coda", "seed": 0, "options": options}, "data"
    )
    assert task.options.model["attention_options"] == chosen


def test_an_unknown_attention_is_an_error_that_lists_them():
    task = tasks.get("mlu")(
        preset="demo",
        model="softmax",
        seed=0,
        data_dir="data",
        overrides={"model.attention": "none"},
    )
    with pytest.raises(UserError, match="`attention` must be one of .*'conflict'.* or a layer"):
        task.build_model()


def test_factors_of_runs_from_before_had_the_rate_of_all_weights():
    old = {"model.attention": "coda", "model.attention_start": "unchanged"}
    old["training.learning_rate"] = 1e-4
    assert with_todays_names(old)["model.factor_rate"] == 1e-4
    learned = {"model.attention": "softmax", "model.attention_options": {"alpha": "learned"}}
    assert with_todays_names({**old, **learned})["model.factor_rate"] == 1e-4
    for other in ({"model.attention": "softmax"}, {"model.attention_start": "blend"}):
        assert "model.factor_rate" not in with_todays_names({**old, **other})


def test_runs_from_before_exact_matches_mark_no_words():
    """The preset `own` marks them now; a reader's option of that name stays as recorded."""
    assert with_todays_names({"model.intra_attention": False})["model.exact_match"] is False
    for options in (
        {"model.intra_attention": False, "model.exact_match": True},
        {"model.units": 8},
    ):
        assert with_todays_names(options) == options
