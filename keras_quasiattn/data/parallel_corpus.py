"""Published texts in two languages as TFDS data sets."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from keras_quasiattn.data.manual_files import manual_file
from keras_quasiattn.data.table_files import read_parallel, read_table


@dataclasses.dataclass
class ParallelCorpusConfig(tfds.core.BuilderConfig):
    """The settings of one corpus.

    Args:
        name: the config's name.
        languages: the two languages, as files or columns are named after them.
        folder: the folder of the files in the manual folder.
        splits: by split, the name of its files without the extension.
        table: whether a split is one .tsv with a column for each language; otherwise it is one file
            for each language.
    """

    name: str = ""
    languages: tuple[str, str] = ("", "")
    folder: str = ""
    splits: Mapping[str, str] = dataclasses.field(default_factory=dict)
    table: bool = False

    def files(self, split: str) -> dict[str, str]:
        """The path of each language's file in the manual folder."""
        path = f"{self.folder}/{self.splits[split]}"
        return {
            language: f"{path}.{'tsv' if self.table else language}" for language in self.languages
        }


def _vietnamese(name: str, train: str, table: bool) -> ParallelCorpusConfig:
    splits = {"train": train, "validation": "tst2012", "test": "tst2013"}
    return ParallelCorpusConfig(
        name=name, languages=("en", "vi"), folder="iwslt15-envi", splits=splits, table=table
    )


class ParallelCorpus(tfds.core.GeneratorBasedBuilder):
    """Sentences in two languages, by config.

    | config | files in the manual folder | pairs: train, validation, test |
    |---|---|---|
    | `iwslt15_envi` | iwslt15-envi/{train,tst2012,tst2013}.{en,vi} | 133,317, 1,553, 1,268 |
    | `iwslt15_envi_part` | iwslt15-envi/{train10k,tst2012,tst2013}.tsv | 10,000, 1,553, 1,268 |
    | `multi30k` | multi30k/{train,val,test_2016_flickr}.{en,de} | 29,000, 1,014, 1,000 |

    The .tsv files have the columns en and vi. An example holds one text of each language, such as
    {en, vi}; the reader of the data chooses which one to translate. Lines are as published, in
    their order, including empty ones; those of IWSLT'15 are tokenized and keep entities such as
    `&apos;`.

    Sources: Cettolo et al. 2015, in the form of Stanford's `iwslt15.en-vi`; Elliott et al. 2016
    (task 1, test 2016).

    ```python
    builder = ParallelCorpus(config="multi30k", data_dir="data")
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(manual_dir="files"))
    splits = {split: split for split in ("train", "validation", "test")}
    parallel_from_tfds(builder, splits, "en", "de").splits["test"].source
    ```
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}
    BUILDER_CONFIGS = [
        _vietnamese("iwslt15_envi", "train", table=False),
        _vietnamese("iwslt15_envi_part", "train10k", table=True),
        ParallelCorpusConfig(
            name="multi30k",
            languages=("en", "de"),
            folder="multi30k",
            splits={"train": "train", "validation": "val", "test": "test_2016_flickr"},
        ),
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "put the corpus's files, plain or .xz or .gz, into a folder of the manual folder; the "
        "documentation of ParallelCorpus lists their names and columns"
    )

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description="Sentences in two languages.",
            features=tfds.features.Translation(self.builder_config.languages),
            disable_shuffling=True,  # keeps the published order of a test set
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        config = self.builder_config
        files = {
            split: {
                language: manual_file(dl_manager, name, self)
                for language, name in config.files(split).items()
            }
            for split in config.splits
        }
        return {split: self._generate_examples(by_language) for split, by_language in files.items()}

    def _generate_examples(self, files: Mapping[str, Path]) -> Iterator[tuple[int, dict[str, str]]]:
        table = self.builder_config.table
        yield from (
            read_table(next(iter(files.values())), tuple(files)) if table else read_parallel(files)
        )
