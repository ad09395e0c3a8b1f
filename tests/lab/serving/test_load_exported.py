"""An exported model can be loaded by name or folder, and has a model card."""

import json
import shutil
from typing import Any

import pytest
import tiny_mlu

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.serving.description import model_card
from keras_quasiattn.lab.training import RunFolder
from keras_quasiattn.serving import load


@pytest.fixture(scope="module")
def models(mlu_saved_model, tmp_path_factory):
    """Return a folder with two versions of a model, and one folder that is not a version."""
    folder = tmp_path_factory.mktemp("models")
    for version in ("9", "10"):
        shutil.copytree(mlu_saved_model, folder / "mine" / version)
    (folder / "notes" / "1").mkdir(parents=True)
    return folder


def test_a_name_gives_the_highest_version_and_answers_as_the_run(models, mlu_run):
    model = load("mine", models)
    assert model.path == models / "mine" / "10"
    run = RunFolder.open(mlu_run)
    texts = [tiny_mlu.QUESTION, "y=-7,x=3,x-x"]
    for got, expected in zip(
        model(texts), run.task("data").predict(run.load_model(), texts), strict=True
    ):
        assert got["answer"] == expected["answer"] and got["input"] in texts
        assert got["log_probability"] == pytest.approx(expected["log_probability"], rel=1e-4)
    assert model([]) == [] and model.about["example"] == tiny_mlu.QUESTION


@pytest.mark.parametrize("place", ["mine", "mine/9"])
def test_a_path_is_loaded_wherever_it_is(models, place):
    model = load(models / place, "nowhere")
    assert model.path == models / ("mine/10" if place == "mine" else place)


@pytest.mark.parametrize(
    ("model", "folder", "said"),
    [
        (
            "min",
            "",
            r"unknown exported model .* 'min' \(did you mean 'mine'\?\): choose from mine$",
        ),
        ("notes", "", r"unknown exported model .* 'notes': choose from mine$"),
        ("mine", "nowhere", r"\(in the folder .*nowhere\) 'mine': choose from \(none\)$"),
    ],
)
def test_an_unknown_model_lists_those_that_there_are(models, model, folder, said):
    with pytest.raises(UserError, match=said):
        load(model, models / folder)


def test_one_string_and_a_changed_file_are_refused(models, tmp_path):
    with pytest.raises(UserError, match="inputs must be a list of strings: got the string 'x=1'"):
        load("mine", models)("x=1")
    shutil.copytree(models / "mine" / "9", tmp_path / "other")
    (tmp_path / "other" / "README.md").write_text("Mine.")  # the card is for people to change
    load(tmp_path / "other")
    (tmp_path / "other" / "saved_model.pb").write_bytes(b"")
    with pytest.raises(UserError, match="saved_model.pb is not the file that .* lists"):
        load(tmp_path / "other")


def test_every_export_has_a_card_with_its_figures_and_options(mlu_saved_model):
    about: dict[str, Any] = json.loads(
        (mlu_saved_model / "assets.extra" / "about.json").read_text()
    )
    card = (mlu_saved_model / "README.md").read_text()
    assert card == model_card(about)
    loss = about["metrics"]["validation"]["loss"]
    for part in (
        "# mlu: ",
        f'load(".")(["{tiny_mlu.QUESTION}"])',
        f"| validation | loss | {loss:.4g} |",
        "| `data.high` | `20` |",
    ):
        assert part in card
    quantized = {"mode": "int8", "split": "validation", "before": {}, "after": {"loss": 0.5}}
    card = model_card({**about, "quantization": quantized, "example_ids": {"text": [1]}})
    assert "| validation, weights int8 | loss | 0.5 |" in card and "load(" not in card
