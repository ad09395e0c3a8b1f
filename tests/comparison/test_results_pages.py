"""The results pages match the TOML files and the records, and stay readable."""

import importlib
import re
import warnings
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted((DOCS / "results").glob("*.md"))


@pytest.fixture(autouse=True)
def tooling(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "tooling")


@pytest.fixture
def results():
    return importlib.import_module("results")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_the_tables_that_the_records_make(page, results):
    written = page.read_text(encoding="utf-8")
    assert written == results.page(page.stem), "run python docs/tooling/results.py"
    # Every table of the file is on its page.
    named = re.findall(r"<!-- table: (\S+) -->", written)
    assert sorted(named) == sorted(results.tables(page.stem))


def test_every_paper_has_a_page(results):
    files = {file.stem for file in results.PAPERS.glob("*.toml")}
    assert {page.stem for page in PAGES} == files


def test_the_summary_is_what_the_records_make_and_short(results):
    written = (DOCS / "results.md").read_text(encoding="utf-8")
    assert written == results.overview(), "run python docs/tooling/results.py"
    assert len(written.splitlines()) <= 150
    assert 20 <= len(list(results.compared())) <= 30


def test_the_pages_say_no_commands_and_no_options(results):
    for page in [DOCS / "results.md", *PAGES]:
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r"```|--set|--seed|quasiattn train|python ", text), page.name
        assert not re.findall(r"\b(?:model|training|data)\.[a-z_]+=", text), page.name


def test_no_page_takes_generated_problems_for_algolisps():
    for page in [DOCS / "results.md", *PAGES, DOCS / "mechanisms" / "coda.md"]:
        for line in page.read_text(encoding="utf-8").splitlines():
            if "AlgoLisp" in line and not line.startswith("#"):
                assert re.search(r"generated|not AlgoLisp|published|could not be had", line), line


@pytest.mark.parametrize("name", ["differences", "encoder_differences"])
def test_a_chart_has_the_rows_of_its_tables(name, results):
    svg = (DOCS / "images" / f"{name}.svg").read_text(encoding="utf-8")
    shown = re.findall(r"<text[^>]*>(.*?)</text>", svg)
    wanted = [results.label(row) for row in results.compared(results.CHARTS[name])]
    first = shown.index(wanted[0])
    assert shown[first : first + len(wanted)] == wanted, "run python docs/tooling/results.py"


@pytest.mark.parametrize("name", ["differences", "encoder_differences"])
def test_the_names_of_the_rows_leave_room_for_the_chart(name, results):
    """Matplotlib only warns, and cuts off the names, where a row's name is too long."""
    pytest.importorskip("matplotlib")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert results.drawing(name).png


def test_which_layer_has_every_attention_as_measured():
    attentions = importlib.import_module("attentions")
    written = attentions.PAGE.read_text(encoding="utf-8")
    assert written == attentions.page(), "run python docs/tooling/attentions.py"
    assert written.count("**0.712") == 1  # CoDA on SNLI is ahead of softmax


def test_a_page_includes_a_table_by_its_name():
    included = importlib.import_module("included")
    for page in DOCS.rglob("*.md"):
        raw = page.read_text(encoding="utf-8")
        assert "<!-- measured" not in included.on_page_markdown(raw)
        # In raw Markdown, a comment alone left a gap, so there is a link in it.
        for line in raw.splitlines():
            if "<!-- measured" in line:
                assert (page.parent / line.split("](")[1].split(")")[0]).is_file()
    assert included.table("coda", "2-wikiqa").startswith("| model | paper")
