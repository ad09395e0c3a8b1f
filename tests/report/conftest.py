"""The browser for the page tests, started once."""

import os

import pytest


@pytest.fixture(scope="session")
def browser():
    from in_browser import CHROMIUM, playwright

    with playwright.sync_playwright() as driver:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        started = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield started
        started.close()
