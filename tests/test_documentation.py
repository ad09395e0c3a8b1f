"""The documentation: its code runs, and everything public is in it.

Its links work, and it builds without a warning.
"""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import warm

import keras_quasiattn
from keras_quasiattn.attention import ATTENTIONS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md"]
FOLDERS = [
    *("attention", "layers", "ops", "models", "metrics", "tuning", "serving", "report"),
    *(f"lab.{name}" for name in ("comparison", "text", "data", "tasks", "training")),
]


def blocks(page, language):
    return re.findall(
        rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def name_of(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name_of)
@pytest.mark.parametrize("traced", [False, pytest.param(True, marks=pytest.mark.complete)])
def test_python_runs(page, traced, tmp_path, monkeypatch, request):
    """Run the blocks of a page in order, in one namespace, as a reader would type them."""
    if page.name == "tuning.md":
        pytest.importorskip("keras_tuner")
    # Graphs of the models that pages train would take most of the time; other tests trace such.
    if not traced and page.name not in ("keras-limits.md", "serving.md"):
        request.getfixturevalue("eagerly")
    monkeypatch.chdir(tmp_path)
    namespace: dict = {"__name__": "__main__"}
    known = set(ATTENTIONS)
    for number, block in enumerate(blocks(page, "python")):
        exec(compile(block, f"{page.name}, block {number}", "exec"), namespace)
    for name in ATTENTIONS.keys() - known:
        del ATTENTIONS[name]


@pytest.mark.complete
def test_first_steps(tmp_path):
    """Run the five steps as printed, in a separate folder."""
    pytest.importorskip("jinja2")
    pytest.importorskip("tensorflow_serving")
    page = DOCS / "first-steps.md"
    command = f'quasiattn() {{ "{sys.executable}" -m quasiattn "$@"; }}\nset -e\n'
    (tmp_path / "table.py").write_text("\n".join(blocks(page, "python")), encoding="utf-8")
    script = f'"{sys.executable}" table.py\n' + "\n".join(blocks(page, "bash"))
    done = subprocess.run(
        ["bash", "-c", command + script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert '"label": "good"' in done.stdout
    assert (tmp_path / "mine.html").is_file()
    assert (tmp_path / "saved_models" / "mine" / "1" / "saved_model.pb").is_file()


def test_first_steps_are_five():
    headings = re.findall(
        r"^## (\d)\. ", (DOCS / "first-steps.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert headings == list("12345")


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_reference_has_everything_public(folder, monkeypatch):
    if folder == "tuning":
        pytest.importorskip("keras_tuner")
    page = (DOCS / "api" / f"{folder.split('.')[-1]}.md").read_text(encoding="utf-8")
    monkeypatch.syspath_prepend(DOCS / "tooling")
    page = importlib.import_module("public_names").on_page_markdown(page)
    named = re.findall(rf"^::: keras_quasiattn\.{folder}\.(\w+)$", page, re.MULTILINE)
    public = importlib.import_module(f"keras_quasiattn.{folder}").__all__
    assert sorted(named) == sorted(public)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_and_named_files_are_there(page):
    text = re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    for target in targets:
        if target and "://" not in target:
            assert (page.parent / target).exists(), target
    # Files of the repository that the text names in code.
    for name in re.findall(r"`((?:examples|tests|results|benchmarks|docs)/[\w./-]+)`", text):
        assert (ROOT / name).exists(), name


def test_layers_in_the_support_table_are_all_attention_layers():
    table = (DOCS / "support.md").read_text(encoding="utf-8")
    helpers = {"AdaptiveHalting", "DotAttention", "FeedForward", "RelativePositionBias"}
    helpers |= {"StepSignal", "TimingSignal", "TokenEmbedding"}
    assert "| every other `MultiHead…` layer | yes |" in table
    missing = [name for name in keras_quasiattn.layers.__all__ if f"`{name}`" not in table]
    assert {name for name in missing if not name.startswith("MultiHead")} <= helpers


def test_the_table_of_weights_is_that_of_the_layers(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "tooling")
    weights = importlib.import_module("weights")
    page = weights.TABLE.search(weights.PAGE.read_text(encoding="utf-8"))[0]
    shown, computed = (
        re.findall(r"^\| `(\w+)`(.*)\|$", text, re.MULTILINE) for text in (page, weights.table())
    )
    assert [name for name, _ in shown] == [name for name, _ in computed], (
        "run python docs/tooling/weights.py --write"
    )
    for (name, one), (_, other) in zip(shown, computed, strict=True):
        numbers = [
            [float(cell.replace("−", "-")) for cell in row.split("|")[1:]] for row in (one, other)
        ]
        assert numbers[0] == pytest.approx(numbers[1], abs=0.011), name


@pytest.mark.long
def test_the_site_builds_without_a_warning_and_makes_no_requests(tmp_path):
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings_handlers.python")
    words = ["-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path]
    warm.printed(words, warm.fresh, variables={"NO_MKDOCS_2_WARNING": "1"}, cwd=ROOT)
    for page in tmp_path.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|iframe|source)[^>]*src="(?:https?:)?//', text), (
            page.name
        )
        assert not re.findall(r'<link[^>]*href="(?:https?:)?//', text), page.name
        assert not re.search("<!-- measured", text) and 'class="arithmatex"' not in text, page.name
    reference = (tmp_path / "api" / "layers.html").read_text(encoding="utf-8")
    assert reference.count('class="language-pycon') >= 20
    assert "&gt;&gt;&gt; " not in re.sub(r"<code.*?</code>", "", reference, flags=re.DOTALL)
    assert "<math" in (tmp_path / "mechanisms" / "coda.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", ["", "attention"])
def test_the_pictures_of_imports_match_the_code(folder, monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "tooling")
    imports = importlib.import_module("imports")
    name = f"imports{'_' if folder else ''}{folder}.svg"
    drawn = (DOCS / "images" / name).read_text(encoding="utf-8")
    assert imports.picture(ROOT / "keras_quasiattn" / folder) == drawn, (
        'run python docs/tooling/imports.py "" attention'
    )
