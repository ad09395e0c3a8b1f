"""Open pages in Debian's Chromium, which Playwright drives by its executable path."""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keras_quasiattn.report.heat_maps import Panel

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip(
        "chromium is not installed (Debian: apt-get install chromium)", allow_module_level=True
    )
playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed (pip install playwright)"
)
pytest.importorskip("jinja2", reason="extra report is not installed")

EVIL = "<script>document.title='run'</script>"
ROWS, COLUMNS = (
    [EVIL, "</script>", "$x$", "näher"],
    ["&amp;", "日本", "<img src=x onerror=alert(1)>"],
)
ANSWER = {"label": EVIL, "classes": [EVIL], "probabilities": [1.0], "model": "<b>"}


def panels(rows: list[str], columns: list[str], heads: int, seed: int = 0) -> list[Panel]:
    """Return tanh(E), the gate and M, with the first column of the last row masked."""
    one = np.random.default_rng(seed).uniform(-1, 1, (2, len(rows), len(columns))).astype("float32")
    one[:, -1, 0] = np.nan
    similarity, gate = (np.broadcast_to(x, (heads, *x.shape)) for x in (one[0], np.abs(one[1])))
    if heads < 4:
        similarity = similarity / (1 + np.arange(heads)[:, None, None])
    titles = ("tanh(E)", "2·sigmoid(N)", "M")
    matrices = (similarity, gate, similarity * gate if heads < 4 else similarity)
    return [
        Panel(title, values, rows, columns) for title, values in zip(titles, matrices, strict=True)
    ]


class Opened:
    """A page opened from disk, with its requests, console messages and errors."""

    def __init__(self, browser: Any, file: Path, scheme: str = "light") -> None:
        context = browser.new_context(color_scheme=scheme, viewport={"width": 1300, "height": 900})
        self.page = context.new_page()
        self.requests: list[str] = []
        self.trouble: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.trouble.append(message.text))
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("dialog", lambda dialog: self.trouble.append(dialog.message))
        self.page.goto(file.as_uri())
        self.file = file

    def check_quiet(self) -> None:
        """Check that the page requested only its own file, and that the console stayed silent."""
        assert [url for url in self.requests if not url.startswith("data:")] == [self.file.as_uri()]
        assert self.trouble == []

    def text(self, selector: str) -> str:
        return self.page.inner_text(selector)

    def painted(self, number: int = 0) -> str:
        return (
            self.page.locator(".panel canvas").nth(number).evaluate("canvas => canvas.toDataURL()")
        )


def keep(opened: Opened, name: str) -> None:
    """Save a screenshot for the documentation, if QUASIATTN_SCREENSHOTS names a folder."""
    if folder := os.environ.get("QUASIATTN_SCREENSHOTS"):
        opened.page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)
