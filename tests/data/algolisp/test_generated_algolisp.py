import pytest
import tensorflow_datasets as tfds

from keras_quasiattn.data import GeneratedAlgoLisp, GeneratedAlgoLispConfig, ProgramTests
from keras_quasiattn.data.algolisp.generator import generate_problems

SMALL = GeneratedAlgoLispConfig(train=25, validation=10, test=12, seed=4)


def examples_of(builder, split):
    examples = tfds.as_numpy(builder.as_dataset(split=split))
    return [
        (e["text"].decode(), e["program"].decode(), ProgramTests.from_json(e["tests"]))
        for e in examples
    ]


def test_prepares_and_loads_with_tfds(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_quasiattn.data.algolisp.generator._EXAMPLES_PER_SHARD", 10)
    builder = GeneratedAlgoLisp(config=SMALL, data_dir=tmp_path)
    builder.download_and_prepare()
    assert {split: info.num_shards for split, info in builder.info.splits.items()} == {
        "train": 3,
        "validation": 1,
        "test": 2,
    }
    for split, size in SMALL.sizes.items():
        expected = [(p.text, p.program, p.tests) for p in generate_problems(split, size, seed=4)]
        assert examples_of(builder, split) == expected
        assert builder.info.splits[split].num_examples == size == len(expected)


def test_settings_make_the_name():
    settings = [{}, {"train": 9}, {"validation": 9}, {"test": 9}, {"seed": 9}]
    names = {GeneratedAlgoLispConfig(**setting).name for setting in settings}
    assert len(names) == len(settings)


def test_the_papers_sizes():
    (paper,) = GeneratedAlgoLisp.BUILDER_CONFIGS
    assert paper.sizes == {"train": 79_214, "validation": 9_352, "test": 10_940}


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_empty_splits_are_refused(split):
    with pytest.raises(ValueError, match=f"'{split}': 0"):
        GeneratedAlgoLispConfig(**{split: 0})
