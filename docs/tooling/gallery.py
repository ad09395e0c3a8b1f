r"""Photographs report pages of real runs: the pictures in the guide on reports.

Needs Chromium (Debian: apt-get install chromium) and playwright.

python examples/own_tables.py pairs quora_part own --rows 4000
python examples/own_tables.py classify sst2 own
quasiattn train pairs --data own/quora_part_4000_train.tsv --vectors FILE --run runs/pairs
quasiattn train classify --data own/sst2_all_train.tsv --model words_gated --vectors FILE \
    --run runs/words
quasiattn report runs/pairs --to pairs.html \
    --input $'How do I learn French quickly?\tWhat is the best way to learn French?'
quasiattn report runs/words --to words.html \
    --input 'the acting is superb , but the story falls flat'
python docs/tooling/gallery.py pairs.html words.html
"""

import os
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parents[1] / "images"
PAGES = ("light", "dark")


def main() -> None:
    """Run the command line."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        for scheme, page in zip(PAGES, sys.argv[1:], strict=True):
            context = browser.new_context(
                color_scheme=scheme, viewport={"width": 1300, "height": 1250}
            )
            opened = context.new_page()
            opened.goto(Path(page).resolve().as_uri())
            opened.screenshot(path=str(IMAGES / f"page_{scheme}.png"))
        browser.close()


if __name__ == "__main__":
    main()
