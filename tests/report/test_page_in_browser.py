"""The page in a browser: Debian's Chromium, which Playwright drives by its executable path."""

import re
from pathlib import Path

import numpy as np
import pytest
from in_browser import ANSWER, COLUMNS, EVIL, ROWS, Opened, keep, panels

from keras_quasiattn.report.attention_view import AttentionView
from keras_quasiattn.report.heat_maps import Example, HeatMap
from keras_quasiattn.report.page_writer import Section, page

figures = pytest.importorskip("keras_quasiattn.report.figures")


def made(file: Path, said: str, rows: list[str], columns: list[str]) -> Path:
    """Write a page with everything, in which every free text is `said`."""
    maps = [
        HeatMap("first <layer>", panels(rows, columns, 2)),
        HeatMap("second", panels(columns, columns, 3, 1)),
    ]
    steps = range(100, 700, 100)
    curve = [
        {"step": step, "mean": 100 / step, "least": 80 / step, "largest": 120 / step, "runs": 2}
        for step in steps
    ]
    drawn = figures.learning_curves("loss", "loss $x$", {said: curve})
    answer = {"label": said, "classes": [said], "probabilities": [1.0], "model": "<b>"}
    text = {
        **answer,
        "tokens": [said, "is", "read"],
        "gates": [True, False, True],
        "weights": [0.8, 0.0, 0.2],
    }
    html = page(
        f"Report {said}",
        facts=[(said, said)],
        notes=[said],
        examples=[Example(f"text {said}", said, maps), Example("other", "", maps[1:])],
        texts=[text],
        sections=[Section(said, [drawn], said, [[said], ["1"]])],
    )
    file.write_text(html, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return made(tmp_path_factory.mktemp("page") / "page.html", EVIL, ROWS, COLUMNS)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    rows, columns = ["a", "man", "plays", "a", "guitar"], ["nobody", "is", "making", "any", "music"]
    return made(tmp_path_factory.mktemp("page") / "plain.html", "guitar", rows, columns)


def test_pickers_and_hover(browser, small):
    opened = Opened(browser, small)
    tab = opened.page
    captions = [tab.inner_text(f"figure.panel >> nth={n} >> figcaption") for n in range(3)]
    assert captions == ["tanh(E)", "2·sigmoid(N)", "M"]
    first = opened.painted()
    largest = np.nanmax(np.abs(panels(ROWS, COLUMNS, 2)[0].values[0]))
    tab.select_option("#head", index=1)
    assert opened.painted() != first
    tab.select_option("#layer", index=1)
    assert tab.locator("#head option").count() == 3
    tab.select_option("#example", index=1)
    assert tab.locator("#layer option").count() == 1 and tab.locator("#head option").count() == 3
    tab.select_option("#example", index=0)
    tab.select_option("#layer", index=0)
    tab.select_option("#head", index=0)
    assert opened.painted() == first
    tab.check("#stretch")
    assert opened.painted(2) != first and opened.text("#most").startswith("s, ")
    assert opened.text(".scale-of >> nth=0") == f"s = {largest:.3g}"
    box = tab.locator(".panel canvas").nth(0).bounding_box()
    tab.mouse.move(box["x"] + box["width"] - 5, box["y"] + 0.99 * box["height"] - 30)
    values = panels(ROWS, COLUMNS, 2)
    row = next(
        row for row, token in enumerate(ROWS) if opened.text("#reading").startswith(f"{token} → ")
    )
    told = re.findall(r"(−?\d\.\d{3})", opened.text("#reading"))
    expected = [panel.values[0, row, len(COLUMNS) - 1] for panel in values]
    np.testing.assert_allclose(
        [float(number.replace("−", "-")) for number in told], expected, atol=6e-4
    )
    keep(opened, "heat_maps")
    opened.check_quiet()


def test_keyboard(browser, small):
    opened = Opened(browser, small)
    tab = opened.page
    visited = []
    for _ in range(9):
        tab.keyboard.press("Tab")
        visited.append(
            tab.evaluate(
                "document.activeElement.id || document.activeElement.className "
                "|| document.activeElement.tagName"
            )
        )
    assert visited[:5] == ["tokens", "example", "layer", "head", "stretch"]
    assert visited[5:] == ["CANVAS", "CANVAS", "CANVAS", "SUMMARY"]
    tab.locator(".panel canvas").nth(2).focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "Home"):
        tab.keyboard.press(key)
    assert opened.text("#reading").startswith("näher → &amp;: tanh(E) masked")
    tab.keyboard.press("End")
    assert opened.text("#reading").startswith(f"näher → {COLUMNS[-1]}: tanh(E) ")
    tab.locator(".tokens").focus()
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowRight")
    assert opened.text(".texts output") == "is: closed, weight 0.0000"
    tab.focus("#head")
    tab.keyboard.press("ArrowDown")
    assert tab.evaluate("document.querySelector('#head').selectedIndex") == 1
    opened.check_quiet()


def test_texts_never_run_as_markup(browser, small):
    opened = Opened(browser, small)
    assert opened.page.title() == f"Report {EVIL}"
    assert opened.text(".tokens span >> nth=0") == EVIL
    assert EVIL in opened.text("#answer") and EVIL in opened.text("#example option >> nth=0")
    assert opened.text("dd") == EVIL and opened.text("td") == "1"
    opened.page.locator(".panel canvas").nth(0).focus()
    opened.page.keyboard.press("ArrowRight")
    assert opened.text("#reading").startswith(f"{EVIL} → &amp;: ")
    assert opened.page.locator("script:not([type])").count() == 1
    assert opened.page.locator("main b").count() == 0
    opened.check_quiet()


def test_a_notebook_frame_draws(browser, tmp_path):
    file = tmp_path / "notebook.html"
    file.write_text(
        AttentionView([HeatMap("layer", panels(ROWS, COLUMNS, 2))], EVIL)._repr_html_(),
        encoding="utf-8",
    )
    opened = Opened(browser, file)
    frame = opened.page.frame_locator("iframe")
    frame.locator(".panel canvas").nth(2).focus()
    opened.page.keyboard.press("ArrowRight")
    assert frame.locator("#reading").inner_text().startswith(f"{EVIL} → &amp;: tanh(E) ")
    assert opened.trouble == [] and set(opened.requests) <= {file.as_uri(), "about:srcdoc"}


CONTRAST = """(selector) => {
  const channels = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((c) => c / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const paper = channels(getComputedStyle(document.body).backgroundColor);
  const own = getComputedStyle(document.querySelector(selector));
  const [r, g, b, alpha = 1] = channels(own.backgroundColor);
  const behind = [r, g, b].map((c, i) => c * alpha + paper[i] * (1 - alpha));
  const [low, high] = [light(channels(own.color)), light(behind)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_readable_in_both_schemes(browser, plain, scheme):
    opened = Opened(browser, plain, scheme)
    for selector in (
        "h1",
        "dd",
        "dt",
        ".note",
        "figcaption",
        ".tokens .closed",
        ".tokens span:not(.closed)",
        "#head",
    ):
        assert opened.page.evaluate(CONTRAST, selector) >= 4.5, selector
    # Zero has the colour of the page, and figures have separate images for the two schemes.
    middle = (
        "[...document.querySelector('#scale').getContext('2d')"
        ".getImageData(100, 6, 1, 1).data].slice(0, 3)"
    )
    paper = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    np.testing.assert_allclose(opened.page.evaluate(middle), opened.page.evaluate(paper), atol=3)
    source = opened.page.evaluate("document.querySelector('picture img').currentSrc")
    shown = opened.page.get_attribute(
        *(("picture source", "srcset") if scheme == "dark" else ("picture img", "src"))
    )
    assert source == shown
    keep(opened, f"page_{scheme}")
    opened.check_quiet()


@pytest.mark.long
def test_2000_tokens_and_16_heads(browser, tmp_path):
    tokens = [f"token{number}" for number in range(2000)]
    text = {
        **ANSWER,
        "tokens": tokens,
        "gates": [number % 3 == 0 for number in range(2000)],
        "weights": [5e-4] * 2000,
    }
    example = Example("long", "", [HeatMap("layer", panels(tokens, tokens, 16))])
    file = tmp_path / "long.html"
    file.write_text(page("long", examples=[example], texts=[text]), encoding="utf-8")
    assert file.stat().st_size < 40e6
    opened = Opened(browser, file)
    first = opened.page.evaluate(
        "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    )
    drawn = float(opened.page.get_attribute("html", "data-painted"))
    assert first < 3000 and drawn < 3000, (first, drawn)
    begun = opened.page.evaluate("performance.now()")
    opened.page.select_option("#head", index=15)
    assert opened.page.evaluate("performance.now()") - begun < 1000
    opened.page.locator(".panel canvas").nth(0).focus()
    opened.page.keyboard.press("ArrowRight")
    opened.page.keyboard.press("End")
    assert "token0 … token" in opened.text("#reading") and "token1999" in opened.text("#reading")
    opened.check_quiet()
