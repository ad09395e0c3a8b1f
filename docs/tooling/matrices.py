r"""Draws the attention matrices of two `pairs` runs side by side: the picture in the README.

for model in decomposable decomposable_coda; do
    quasiattn train pairs --preset snli_part --model $model --vectors FILE \
        --set training.steps=2800 --set model.dropout=0.0 --run runs/$model
done
python docs/tooling/matrices.py runs/decomposable runs/decomposable_coda data \
    'two men are playing chess in the park' 'nobody is playing outside'
"""

import dataclasses
import sys
from pathlib import Path

from keras_quasiattn.lab.training import RunFolder
from keras_quasiattn.report.figures import heat_map
from keras_quasiattn.report.heat_maps import HeatMap, from_answer

IMAGES = Path(__file__).parents[1] / "images"


def main() -> None:
    """Run the command line."""
    *runs, data, first, second = sys.argv[1:]
    panels = []
    for title, run in zip(("softmax", "CoDA"), runs, strict=True):
        folder = RunFolder.open(run, finished=True)
        (answer,) = folder.task(Path(data)).predict(folder.load_model(), [f"{first}\t{second}"])
        panels.append(dataclasses.replace(from_answer(answer)[0].panels[0], title=title))
    heat_map("matrices", HeatMap("one pair of sentences", panels)).save(IMAGES)
    (IMAGES / "matrices.png").unlink()


if __name__ == "__main__":
    main()
