"""Reports of runs and of exported models, from the command line."""

import json
import re
import shutil
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import tiny_mlu
import tiny_texts

from keras_quasiattn.errors import UserError
from keras_quasiattn.files import write_json_lines
from keras_quasiattn.lab import tasks
from keras_quasiattn.lab.report import write_report as module
from keras_quasiattn.lab.report.measured import Reached, chosen_answers, confusion_section
from keras_quasiattn.lab.report.write_report import view_of_run, write_report
from keras_quasiattn.lab.tasks.measured import Judged, Measured
from keras_quasiattn.lab.training import RunFolder, train
from keras_quasiattn.report.figures import Drawing

for package in ("jinja2", "matplotlib"):
    pytest.importorskip(package, reason="extra report is not installed")

SAVED = Path(__file__).resolve().parents[3] / "saved_models"


@pytest.fixture
def report(cli_prints, tmp_path):
    """Return a function that returns a page, the data of its script, and its figures' names."""

    def make(*arguments):
        target = tmp_path / "page.html"
        out = cli_prints("report", "--to", str(target), *map(str, arguments))
        html = target.read_text(encoding="utf-8")
        files = list((tmp_path / "page_figures").glob("*"))
        assert json.loads(out) == {"page": str(target), "figures": len(files)}
        names, drawn = (
            {one.stem for one in files if one.suffix == end} for end in (".svg", ".png")
        )
        assert names == drawn
        found = re.search(r'<script type="application/json" id="maps">(.*)</script>', html)
        return html, json.loads(found[1]) if found else {}, names

    return make


@pytest.mark.complete
def test_a_run_of_a_transformer(report, run_cli, mlu_run, mlu_data, tmp_path):
    rows = [json.loads(line) for line in (mlu_run / "attention.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [0, 10, 20]
    question = tiny_mlu.QUESTION
    html, maps, figures = report(mlu_run, "--input", question)
    (example,) = maps["examples"]
    layers = {one["name"].split(" ")[0]: one["panels"] for one in example["maps"]}
    assert set(layers) == {key.rpartition("/")[0] for key in rows[-1]["matrices"]}
    (cross,) = [panels for name, panels in layers.items() if "cross" in name]
    assert [panel["title"] for panel in cross] == ["tanh(E)", "2·sigmoid(N)", "M"]
    assert "".join(cross[0]["columns"]) == f"{question}⟨end⟩"
    assert cross[0]["rows"] == ["⟨start⟩", *"-1"]
    assert {"mlu-demo-loss", "mlu-demo-val_loss"} <= figures
    assert sum("histograms" in name for name in figures) == len(layers)
    assert "near −1" in html and "://" not in html
    refused = run_cli("report", str(mlu_run), "--to", str(tmp_path / "x.html"), "--input", "what?")
    assert refused[0] == 1 and refused[2].count("\n") == 1 and not (tmp_path / "x.html").exists()


def test_an_exported_model_with_gates(report, tmp_path):
    texts = ["--input", "Who was Galileo ?", "--input", "What is the capital of Yugoslavia ?"]
    results = tmp_path / "results.jsonl"
    results.write_text('{"preset": "trec", "density": 0.3, "accuracy": 0.9}\n{"preset": "trec"}\n')
    html, maps, figures = report(SAVED / "trec" / "1", *texts, "--results", results)
    assert maps == {} and figures == {"accuracy_by_density", "trec-1-exported-density"}
    spans = re.findall(
        r'<span( class="closed")? style="--share:([\d.]+)" title="(open|closed), weight ([\d.]+)">',
        html,
    )
    assert len(spans) == 4 + 7
    for closed, share, state, weight in spans:
        assert bool(closed) == (state == "closed")
        assert (float(share) == 0) == (state == "closed" or float(weight) == 0)


@pytest.mark.long
def test_an_exported_model_without_weights_says_so(report):
    html, maps, _ = report(SAVED / "arithmetic" / "1")
    assert "returns no attention weights" in html and not maps


def test_what_is_no_run_is_named_in_one_line(run_cli, tmp_path):
    code, _, err = run_cli("report", str(tmp_path), "--to", str(tmp_path / "page.html"))
    assert code == 1 and "is not a run folder" in err and err.count("\n") == 1


@pytest.mark.long
def test_a_run_is_shown_by_its_figures_right_answers_and_mistakes(report, texts_run):
    html, _, figures = report(texts_run)
    for said in ("What was reached", "majority", "bag of words", "Confusion", "Right answers"):
        assert said in html
    assert "any text" not in html and "not at hand" not in html and "mean of the runs" not in html
    cards = re.findall(
        r'<p class="about"><strong>(\w+) [\d.]+</strong>( <span class="exp[^<]*)?', html
    )
    right, wrong = ([one for one in cards if bool(one[1]) == mistake] for mistake in (False, True))
    assert {label for label, _ in right} == {"HUM", "LOC", "NUM"}  # one of each class
    assert len(right) == 3 and len(wrong) <= 3 and html.count('class="tokens"') == len(cards)
    assert html.count('class="figures multiples"') == 1 and "classify-own-val_loss" in figures
    assert "classify-own-bilstm_gated-density" in figures


@pytest.mark.parametrize("moved", ["no file", pytest.param("other rows", marks=pytest.mark.long)])
def test_without_its_data_a_run_says_so_in_one_line(moved, report, run_cli, texts_run, tmp_path):
    run = shutil.copytree(texts_run, tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    file = tmp_path / "train.tsv"
    if moved == "other rows":
        tiny_texts.write(file, tiny_texts.rows(200, seed=9))
    config["task_config"]["options"]["data.train"] = str(file)
    (run / "config.json").write_text(json.dumps(config))
    (run / "manifest.json").unlink(missing_ok=True)
    before = {one for one in tmp_path.rglob("*") if "page" not in str(one)}
    html, _, _ = report(run)
    (note,) = re.findall(r'<p class="note">(.*)</p>', html)
    assert "the data are not at hand" in note and "the task&#39;s example is shown" in note
    assert ("No such file" if moved == "no file" else "they are now train.tsv") in note
    assert "What was reached" not in html and html.count('class="tokens"') == 1
    assert {one for one in tmp_path.rglob("*") if "page" not in str(one)} == before
    # Whoever names a split wants it.
    words = ("report", str(run), "--to", str(tmp_path / "x.html"), "--split", "test")
    code, _, err = run_cli(*words)
    assert code == 1 and err.count("\n") == 1 and not (tmp_path / "x.html").exists()


def test_six_texts_are_chosen():
    judged = [Judged(f"{n}", "ab"[n % 2], "a", not n % 2, n / 10) for n in range(10)]
    chosen = chosen_answers(judged)
    assert [one.input for one in chosen] == ["0", "2", "4", "9", "7", "5"]
    assert [one.input for one in chosen_answers(judged[:2])] == ["0", "1"]
    assert chosen_answers([]) == []
    short = chosen_answers(judged, lambda text: text in "0369")
    assert [one.input for one in short] == ["0", "6", "9", "3"]


class Cutting:
    """A task that cuts long texts to measure them, and refuses them in `predict`, as some do."""

    name, figure, example = "cutting", "accuracy", "short"
    missing_data = staticmethod(lambda: "")
    prepare = staticmethod(lambda: None)
    measure_baselines = staticmethod(lambda split, limit: {})

    def measure(self, model, split, limit):
        judged = [Judged(text, "a", "a", True, 0.9) for text in ("much too long", "brief")]
        return Measured({"accuracy": 1.0}, None, judged)

    def check_input(self, text):
        if len(text) > 5:
            raise UserError("too long")

    def predict(self, model, texts):
        for text in texts:
            self.check_input(text)
        return [{"input": text, "answer": "a"} for text in texts]

    def tokenize(self, texts):
        raise UserError("no tokens")

    explain = predict


def test_a_text_that_was_cut_to_measure_ended_the_report_as_too_long_to_predict(tmp_path):
    folder = types.SimpleNamespace(
        task=lambda _: Cutting(),
        load_model=lambda _: None,
        require_same_data=lambda _: None,
        path=tmp_path,
    )
    view = view_of_run("m", folder, tmp_path, [], "validation", 2)
    assert [text["input"] for text in view.texts] == ["brief"] and not view.notes


@pytest.mark.parametrize("count", [2, 30])
def test_confused_classes_are_a_table_and_of_many_the_most_frequent(count):
    classes = [f"c{number}" for number in range(count)]
    judged = [Judged("", name, classes[0], name == classes[0], 0.5) for name in classes * 2]
    figures = {"per_class": {name: {"recall": 0.5} for name in classes}}
    section = confusion_section(Reached("m", Any, "test", Measured(figures, None, judged), {}))
    table = [[getattr(cell, "text", cell) for cell in row] for row in section.parts[0].table]
    if count == 2:
        assert [row[1:] for row in table[1:]] == [["2", "·"], ["2", "·"]]
    else:
        assert table[1] == ["c1", "c0", "2"] and len(table) == 13
    assert section.parts[1].table[1][0] == "c0"


def test_a_missing_package_was_named_after_the_models_had_answered(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r"matplotlib is not installed: pip install 'keras-quasi"):
        write_report([tmp_path], tmp_path / "page.html")  # next, this folder would be refused


def test_what_would_have_to_be_generated_is_not_at_hand(mlu_run, tmp_path):
    task = RunFolder.open(mlu_run).task(tmp_path / "empty")
    assert "does not have the questions" in task.missing_data()
    assert not (tmp_path / "empty").exists()
    for name, preset in (("classify", "trec"), ("rank", "wikiqa"), ("programs", None)):
        kind = tasks.get(name)
        chosen = preset or next(iter(kind.presets))
        options = {"preset": chosen, "model": kind.models[0], "seed": 0}
        assert "does not have" in kind(**options, data_dir=tmp_path / "empty").missing_data()
    assert not (tmp_path / "empty").exists()


OTHERS = {
    **dict.fromkeys(("pairs", "rank"), "decomposable_coda"),
    **{"read": "attention_flow", "translate": "", "programs": ""},
}
SHORT = {"training__steps": 20, "training__checkpoint_every": 10}


@pytest.mark.complete
@pytest.mark.parametrize("name", OTHERS)
def test_a_run_of_every_task_shows_answers_with_their_matrices(name, tiny_task, report, tmp_path):
    run = train(tiny_task(name, OTHERS[name], **SHORT), tmp_path / "run", progress=False)
    html, maps, _ = report(run.path, "--limit", "20")
    cards = html.count('class="about"')
    least, most = (2, 2) if name == "programs" else (3, 6)  # its file has two problems
    assert least <= cards <= most and html.count('class="to-map"') == cards == len(maps["examples"])
    assert "What was reached" in html and "95% interval" in html


def test_accuracy_against_density_mixed_splits_and_counted_runs_twice(tmp_path):
    row = {"task": "classify", "preset": "trec", "model": "m", "density": 0.5, "accuracy": 0.9}
    rows = [
        {**row, "seed": 0, "split": "test", "accuracy": 0.1},
        {**row, "seed": 0, "split": "test"},
        {**row, "seed": 1, "split": "test"},
        {**row, "seed": 1, "split": "validation"},
    ]
    write_json_lines(tmp_path / "r.jsonl", rows)
    found = module._rows(tmp_path / "r.jsonl")
    assert found == rows[1:3]


def test_figures_of_one_name_replaced_each_other():
    drawn = [Drawing(name, "", "", lambda _: None) for name in ("a", "b", "a", "a")]
    assert [one.name for one in module._named_apart(drawn)] == ["a", "b", "a-2", "a-3"]
