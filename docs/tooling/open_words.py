r"""Draws texts with the words that a gated run opens: the picture in the README.

python examples/own_tables.py classify sst2 own    # writes own/sst2_all_train.tsv
quasiattn train classify --data own/sst2_all_train.tsv --model words_gated --vectors FILE \
    --run runs/sst2
python docs/tooling/open_words.py runs/sst2 'a moving and important film' \
    'the plot is thin and the jokes are tired' "it 's a charming and often affecting journey" \
    'the acting is superb , but the story falls flat'
"""

import html
import sys
from pathlib import Path
from typing import Any

from keras_quasiattn.lab.training import RunFolder

IMAGE = Path(__file__).parents[1] / "images" / "open_words.svg"
SIZE, LINE, CHARACTER, LEFT, RIGHT = 17, 40, 10.3, 150, 20
_NAMES = {"0": "negative", "1": "positive"}


def main() -> None:
    """Run the command line."""
    run, *texts = sys.argv[1:]
    folder = RunFolder.open(run, finished=True)
    answers = folder.task("").predict(folder.load_model(), texts)
    IMAGE.write_text(svg(answers), encoding="utf-8")


def svg(answers: list[dict[str, Any]]) -> str:
    """One line for each answer: its label, then its words, closed ones in grey."""
    longest = max(sum(len(token) + 1 for token in answer["tokens"]) for answer in answers)
    width, height = LEFT + RIGHT + CHARACTER * longest, LINE * len(answers) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'font-family="monospace" font-size="{SIZE}">',
        f'<rect width="{width:.0f}" height="{height}" fill="#ffffff"/>',
    ]
    for number, answer in enumerate(answers):
        base = LINE * number + 34
        probability = max(answer["probabilities"])
        label = _NAMES.get(answer["label"], answer["label"])
        parts.append(
            f'<text x="16" y="{base}" font-size="{SIZE - 4}" fill="#1a1a1a">'
            f"{html.escape(label)} {probability:.2f}</text>"
        )
        place, largest = float(LEFT), max(answer["weights"]) / 0.6
        for token, gate, weight in zip(
            answer["tokens"], answer["gates"], answer["weights"], strict=True
        ):
            length = CHARACTER * len(token)
            if gate:
                parts.append(
                    f'<rect x="{place - 4:.1f}" y="{base - 20}" width="{length + 8:.1f}" '
                    f'height="28" rx="4" fill="#d64541" fill-opacity="{weight / largest:.2f}"/>'
                )
            colour = "#1a1a1a" if gate else "#767676"
            parts.append(
                f'<text x="{place:.1f}" y="{base}" textLength="{length:.1f}" fill="{colour}">'
                f"{html.escape(token)}</text>"
            )
            place += length + CHARACTER
    return "\n".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    main()
