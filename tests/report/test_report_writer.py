"""Reports of runs and of exported models, from the command line."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import tiny_mlu
import tiny_pairs
import tiny_texts

from keras_quasiattn.training import train

pytest.importorskip(
    "jinja2", reason="jinja2 is not installed (pip install 'keras-quasiattn[report]')"
)
pytest.importorskip(
    "matplotlib", reason="matplotlib is not installed (pip install 'keras-quasiattn[report]')"
)

SAVED = Path(__file__).resolve().parents[2] / "saved_models"


def report(
    run_cli: Any, target: Path, *arguments: str | Path
) -> tuple[str, dict[str, Any], set[str]]:
    """The page, what the script reads, and the names of the figures beside it."""
    code, out, err = run_cli("report", "--to", str(target), *map(str, arguments))
    assert (code, err) == (0, "")
    html = target.read_text(encoding="utf-8")
    files = [file.name for file in target.with_name(f"{target.stem}_figures").glob("*")]
    assert json.loads(out) == {"page": str(target), "figures": len(files)}
    assert {Path(name).stem for name in files if name.endswith("svg")} == {
        Path(name).stem for name in files if name.endswith("png")
    }
    found = re.search(r'<script type="application/json" id="maps">(.*)</script>', html)
    return html, json.loads(found[1]) if found else {}, {Path(name).stem for name in files}


@pytest.mark.complete
def test_a_run_of_a_transformer(
    run_cli: Any, mlu_run: Path, mlu_data: Path, tmp_path: Path
) -> None:
    rows = [json.loads(line) for line in (mlu_run / "attention.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [0, 10, 20]
    question = tiny_mlu.QUESTION
    html, maps, figures = report(run_cli, tmp_path / "page.html", mlu_run, "--input", question)
    (example,) = maps["examples"]
    layers = {one["name"].split(" ")[0]: one["panels"] for one in example["maps"]}
    assert set(layers) == {key.rpartition("/")[0] for key in rows[-1]["matrices"]}
    (cross,) = [panels for name, panels in layers.items() if "cross" in name]
    assert [panel["title"] for panel in cross] == ["tanh(E)", "2·sigmoid(N)", "M"]
    assert "".join(cross[0]["columns"]) == f"{question}⟨end⟩" and cross[0]["rows"] == [
        "⟨start⟩",
        *"-1",
    ]
    assert {"mlu-demo-loss", "mlu-demo-val_loss"} <= figures and sum(
        "histograms" in name for name in figures
    ) == len(layers)
    assert "near −1" in html and "://" not in html
    refused = run_cli("report", str(mlu_run), "--to", str(tmp_path / "x.html"), "--input", "what?")
    assert refused[0] == 1 and refused[2].count("\n") == 1 and not (tmp_path / "x.html").exists()


def test_an_exported_model_with_gates(run_cli: Any, tmp_path: Path) -> None:
    texts = ["--input", "Who was Galileo ?", "--input", "What is the capital of Yugoslavia ?"]
    results = tmp_path / "results.jsonl"
    results.write_text('{"preset": "trec", "density": 0.3, "accuracy": 0.9}\n{"preset": "trec"}\n')
    html, maps, figures = report(
        run_cli, tmp_path / "page.html", SAVED / "trec" / "1", *texts, "--results", results
    )
    assert maps == {} and figures == {"accuracy_by_density", "trec-1-exported-density"}
    spans = re.findall(
        r'<span( class="closed")? style="--share:([\d.]+)" title="(open|closed), weight ([\d.]+)">',
        html,
    )
    assert len(spans) == 4 + 7
    for closed, share, state, weight in spans:
        assert bool(closed) == (state == "closed") and (float(share) == 0) == (
            state == "closed" or float(weight) == 0
        )


@pytest.mark.long
def test_an_exported_model_without_weights_says_so(run_cli: Any, tmp_path: Path) -> None:
    html, maps, _ = report(run_cli, tmp_path / "page.html", SAVED / "arithmetic" / "1")
    assert "returns no attention weights" in html and not maps


def test_what_is_no_run_is_named_in_one_line(run_cli: Any, tmp_path: Path) -> None:
    code, _, err = run_cli("report", str(tmp_path), "--to", str(tmp_path / "page.html"))
    assert code == 1 and "is not a run folder" in err and err.count("\n") == 1


@pytest.mark.complete
def test_runs_of_pairs_and_of_gated_texts(run_cli: Any, tmp_path: Path) -> None:
    short = {"training__steps": 20, "training__checkpoint_every": 10}
    pairs, texts = tiny_pairs.files(tmp_path, "pairs"), tmp_path / "texts"
    texts.mkdir()
    tiny_texts.files(texts)
    runs = [
        train(
            tiny_pairs.make(pairs, "pairs", "siamese_both", **short),
            tmp_path / "siamese",
            progress=False,
        ),
        train(
            tiny_pairs.make(pairs, "pairs", "decomposable_coda", **short),
            tmp_path / "coda",
            progress=False,
        ),
        train(tiny_texts.make(texts), tmp_path / "gated", progress=False),
    ]
    again = shutil.copytree(runs[-1].path, tmp_path / "gated_again")
    (
        tmp_path / "coda" / "attention.jsonl"
    ).unlink()  # a run from before: its checkpoints say something too
    html, maps, figures = report(
        run_cli,
        tmp_path / "page.html",
        *(run.path for run in runs),
        again,
        "--split",
        "test",
        "--limit",
        "40",
    )
    siamese, coda = (
        next(one for one in maps["examples"] if name in one["name"])
        for name in ("siamese", "decomposable")
    )
    first, second = siamese["maps"]
    assert [panel["title"].split("(")[1].split(")")[0] for panel in first["panels"]] == [
        "AlignmentAttention",
        "ConflictAttention",
    ]
    # The second call looks the other way.
    assert (
        first["panels"][0]["rows"]
        == second["panels"][0]["columns"]
        != first["panels"][0]["columns"]
    )
    assert coda["maps"][0]["panels"][2]["title"] == "M" and "from the saved checkpoints" in html
    curves = (tmp_path / "page_figures" / "classify-own-val_accuracy.svg").read_text()
    assert "bilstm_gated (2 runs)" in curves
    assert "classify-own-bilstm_gated-density" in figures and html.count('class="tokens"') == 5
