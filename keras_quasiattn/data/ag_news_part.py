"""Part of AG's News as a TFDS data set."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from keras_quasiattn.data.manual_files import manual_file
from keras_quasiattn.data.table_files import read_table

_CLASSES = ["World", "Sports", "Business", "Sci/Tech"]


class AgNewsPart(tfds.core.GeneratorBasedBuilder):
    """News texts with their topics: the whole test set and part of the training set.

    The training split holds those of the 120,000 training rows that were available. TFDS's
    `ag_news_subset` is the whole set. A text is the title, a space and the description.

    Source: Zhang, Zhao and LeCun 2015, "Character-level Convolutional Networks for Text
    Classification".
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "put train_subset.tsv (columns label, text) and test.tsv (columns label, title, "
        "description), label from 1, plain or .xz or .gz, into a folder 'ag_news' of the manual "
        "folder"
    )

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description="A part of AG's News.",
            features=tfds.features.FeaturesDict(
                {"text": tfds.features.Text(), "label": tfds.features.ClassLabel(names=_CLASSES)}
            ),
            supervised_keys=("text", "label"),
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        train = manual_file(dl_manager, "ag_news/train_subset.tsv", self)
        test = manual_file(dl_manager, "ag_news/test.tsv", self)
        return {
            "train": self._generate_examples(train, ["text"]),
            "test": self._generate_examples(test, ["title", "description"]),
        }

    def _generate_examples(
        self, file: Path, parts: Sequence[str]
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, row in read_table(file, ("label", *parts)):
            yield (
                number,
                {"text": " ".join(row[part] for part in parts), "label": int(row["label"]) - 1},
            )
