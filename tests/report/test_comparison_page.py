"""The page of a comparison in the browser: verdicts, both charts, matrices side by side."""

from typing import Any

import numpy as np
from in_browser import EVIL, Opened, keep

from keras_quasiattn.lab.comparison import Comparison, Entry
from keras_quasiattn.lab.comparison.compared import side_by_side
from keras_quasiattn.report.heat_maps import Example, HeatMap, Panel


def entry(name: str, share: float, **others: Any) -> Entry:
    rng = np.random.default_rng(len(name))
    items = {seed: (rng.random(400) < share).astype(float) for seed in range(3)}
    figures = {seed: float(one.mean()) for seed, one in items.items()}
    costs = {"step": 3.0 + len(name), "answer": 1.0, "memory": 900.0, "weights": 9093.0}
    return Entry(name, figures, items, rate="0.003", costs=costs, **others)


def example(name: str) -> Example:
    tokens = ["a", "b", EVIL]
    values = np.random.default_rng(len(name)).random((2, 3, 3)).astype("float32")
    panels = [Panel("E", values, tokens, tokens), Panel("weights", values, tokens, tokens)]
    return Example("text", f"{name} says 3", [HeatMap("block/attention (Layer)", panels)])


def comparison() -> Comparison:
    names = ["softmax", "coda", EVIL]
    entries = [entry("softmax", 0.5), entry("coda", 0.9), entry(EVIL, 0.5)]
    entries.append(Entry("bag of words", {0: 0.3}, simple=True))
    entries.append(Entry("broken", errors={0: "no memory"}))
    shown = side_by_side("a b c", {name: example(name) for name in names})
    return Comparison("classify on letters", "accuracy", entries, examples=[shown])


def test_verdicts_charts_and_matrices(browser, tmp_path):
    made = comparison()
    file = tmp_path / "comparison.html"
    file.write_text(made.to_html(), encoding="utf-8")
    opened = Opened(browser, file)
    tab = opened.page
    rows = tab.locator("table >> nth=0").locator("tbody tr")
    assert rows.count() == 5
    cells = [rows.nth(row).inner_text() for row in range(5)]
    assert "ahead" in cells[1] and "behind" in cells[3] and "1 failed: no memory" in cells[4]
    widths = tab.evaluate("[...document.images].map((one) => one.naturalWidth)")
    assert len(widths) == 2 and all(widths)
    titles = [tab.inner_text(f"figure.panel >> nth={n} >> figcaption") for n in range(3)]
    assert titles == ["softmax", "coda", EVIL]
    assert "coda says 3" in tab.inner_text("#answer")
    keep(opened, "comparison")
    opened.check_quiet()


def test_side_by_side_takes_the_weights_of_each_attention():
    shown = side_by_side("a b c", {name: example(name) for name in ("softmax", "coda")})
    (only,) = shown.maps
    assert only.name == "block/attention" and [p.title for p in only.panels] == ["softmax", "coda"]
    np.testing.assert_array_equal(only.panels[1].values, example("coda").maps[0].panels[-1].values)
