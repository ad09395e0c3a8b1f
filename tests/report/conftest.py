"""The browser for the page tests, started once."""

import os
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from in_browser import CHROMIUM, playwright

    with playwright.sync_playwright() as driver:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        started = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield started
        started.close()
