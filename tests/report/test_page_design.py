"""The page in a browser: colours, labels, texts and curves."""

from typing import Any

import numpy as np
import pytest
from in_browser import ANSWER, COLUMNS, ROWS, Opened, panels

from keras_quasiattn.lab.tasks.measured import Judged
from keras_quasiattn.report.attention_view import AttentionView
from keras_quasiattn.report.heat_maps import Example, HeatMap, Panel
from keras_quasiattn.report.page_writer import Cell, Section, page

figures = pytest.importorskip("keras_quasiattn.report.figures")

PIXEL = """(place) => {
  const canvas = document.querySelectorAll(".panel canvas")[place];
  const shades = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let red = 0;
  for (let i = 0; i < shades.length; i += 4) red = Math.max(red, shades[i] - shades[i + 2]);
  return red;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("largest", [0.04, 3e-4])
def test_a_matrix_of_small_weights_looked_blank(browser, tmp_path, largest, scheme):
    values = np.array([[[largest, 0], [-largest / 2, largest / 4]]], "float32")
    ones = Panel("softmax weights", np.ones((1, 2, 2)), ["a", "b"], ["a", "b"])
    file = tmp_path / "small.html"
    shown = [Panel("M", values, ["a", "b"], ["a", "b"]), ones]
    file.write_text(AttentionView([HeatMap("layer", shown)], "small").html(), encoding="utf-8")
    opened = Opened(browser, file, scheme)
    assert opened.page.evaluate(PIXEL, 0) > 60 and opened.page.evaluate(PIXEL, 1) > 60
    # The page says what the strongest colour means, for each matrix if they differ.
    assert opened.text(".scale-of >> nth=0") == f"s = {panel_limit(largest)}"
    assert opened.text(".scale-of >> nth=1") == "s = 1" and opened.text("#least") == "−s"
    opened.check_quiet()


def panel_limit(largest: float) -> str:
    return {0.04: "0.05", 3e-4: "0.0005"}[largest]


DRAWN = """
  window.drawn = [];
  const fillText = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    const { e, f, b } = this.getTransform(), size = this.measureText(text);
    const up = b ? f - (x + size.actualBoundingBoxRight) * devicePixelRatio : f;
    window.drawn.push([text, up]);
    return fillText.call(this, text, x, y);
  };
"""
SHORT = [["i", "l"], ["a", "I", "?"], ["it", "is"], ["##h", "Wj", "."], [" ", ""], ["日", "本語"]]


@pytest.mark.parametrize(("tokens", "ratio"), [*((one, 1) for one in SHORT), (SHORT[0], 1.5)])
def test_labels_of_short_columns_were_cut_off_at_the_top(browser, tmp_path, tokens, ratio):
    file = tmp_path / "labels.html"
    weights = Panel("M", np.ones((1, len(tokens), len(tokens))), tokens, tokens)
    file.write_text(AttentionView([HeatMap("layer", [weights])], "short").html(), encoding="utf-8")
    context = browser.new_context(device_scale_factor=ratio)
    tab = context.new_page()
    tab.add_init_script(DRAWN)
    tab.goto(file.as_uri())
    drawn = tab.evaluate("window.drawn")
    shown = [f'"{token}"' if not token.strip() else token for token in tokens]
    assert [text for text, _ in drawn][: 2 * len(tokens)] == shown * 2
    assert min(up for _, up in drawn) >= 0
    context.close()


def judged(number: int, right: bool) -> dict[str, Any]:
    one = Judged(f"question {number}", "YES", "YES" if right else "NO", right, 0.9 - number / 10)
    answer = {**ANSWER, "model": "mine", "input": one.input, "judged": one}
    tokens = {"tokens": ["question", str(number)], "gates": [True, False], "weights": [1.0, 0.0]}
    return {**answer, **(tokens if number % 2 else {})}


@pytest.mark.parametrize(("width", "side_by_side"), [(1300, True), (420, False)])
def test_right_answers_and_mistakes_stand_beside_each_other_where_there_is_room(
    browser, tmp_path, width, side_by_side
):
    answers = [judged(number, number < 3) for number in range(6)]
    shown = [HeatMap("layer", panels(ROWS, COLUMNS, 1))]
    examples = [Example(f"mine: question {number}", "", shown) for number in (1, 5)]
    row = {"step": 1, "mean": 1.0, "least": 1.0, "largest": 1.0, "runs": 1}
    curves = {name: [row, {**row, "step": 2}] for name in ("a", "b")}
    drawn = [figures.learning_curves(f"c{n}", f"c{n}", curves, small=True) for n in range(5)]
    table = [["", "YES"], [Cell("YES", heading=True), Cell("7", shade=0.7, right=True)]]
    lead = [Section("What was reached", parts=[Section("Confusion", table=table)] * 2)]
    curved = Section("Learning curves", drawn, legend=["a", "b"])
    file = tmp_path / "judged.html"
    html = page("judged", lead=lead, examples=examples, texts=answers, sections=[curved])
    file.write_text(html, encoding="utf-8")
    opened = Opened(browser, file)
    tab = opened.page
    tab.set_viewport_size({"width": width, "height": 900})
    boxes = [tab.locator("ol.texts").nth(number).bounding_box() for number in (0, 1)]
    assert (boxes[0]["y"] == boxes[1]["y"]) == side_by_side
    assert tab.locator("h4").all_inner_texts() == ["Right answers", "Mistakes, the surest first"]
    cards = tab.locator("ol.texts li").all_inner_texts()
    assert len(cards) == 6 and "right: YES" in cards[3] and "right:" not in cards[0]
    assert "question 2" in cards[2] and "1 of 2 open" in cards[1]
    # The curves share one row and one legend, and nothing is wider than the page.
    tops = {box.bounding_box()["y"] for box in tab.locator(".multiples figure").all()}
    assert (len(tops) == 1) == side_by_side and tab.locator(".legend").count() == 1
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    # A text links to its matrices.
    assert tab.locator(".to-map").count() == 2
    tab.locator(".to-map").nth(1).click()
    assert tab.evaluate("document.querySelector('#example').selectedIndex") == 1
    opened.check_quiet()
