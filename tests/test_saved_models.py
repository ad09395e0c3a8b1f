"""The models in the repository answer, and are small."""

import json
from pathlib import Path

import pytest
import warm

ROOT = Path(__file__).resolve().parents[1]
ANSWERED = pytest.mark.parametrize(
    "model,question,answer",
    [
        ("arithmetic", "x=85,y=-52,y-x", "-137"),
        ("trec", "What is the capital of Yugoslavia ?", "LOC"),
    ],
)


@ANSWERED
def test_they_answer_without_keras_and_fit_into_five_megabytes(model, question, answer):
    folder = ROOT / "saved_models" / model / "1"
    words = [ROOT / "examples" / "ask.py", folder, question]
    assert warm.printed(words, before=warm.WITHOUT_KERAS).splitlines()[0] == answer
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < 5_000_000


@ANSWERED
def test_they_are_loaded_by_name_and_their_cards_say_what_is_in_them(
    model, question, answer, monkeypatch
):
    from keras_quasiattn.lab.serving.description import model_card
    from keras_quasiattn.serving import load

    monkeypatch.chdir(ROOT)
    loaded = load(model)
    (found,) = loaded([question])
    assert answer in (found.get("answer"), found.get("label"))
    about = json.loads((loaded.path / "assets.extra" / "about.json").read_text())
    # `load` has compared the files with it; the guide on serving says that every version has one.
    listed = json.loads((loaded.path / "assets.extra" / "manifest.json").read_text())
    files = {str(one.relative_to(loaded.path)) for one in loaded.path.rglob("*") if one.is_file()}
    assert files - {*listed} == {"README.md", "assets.extra/manifest.json"}
    assert (loaded.path / "README.md").read_text() == model_card(about), (
        "write what model_card makes of about.json"
    )
