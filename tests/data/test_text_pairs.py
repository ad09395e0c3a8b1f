import numpy as np
import pytest
import tensorflow_datasets as tfds
import tiny

from keras_quasiattn.errors import DataWarning, UserError
from keras_quasiattn.lab.data import (
    TextPairs,
    pairs_from_click_log,
    pairs_from_files,
    pairs_from_tfds,
    prepare,
    ranked_pairs_from_files,
)
from keras_quasiattn.lab.data.examples import classified_from_file

RANKED = "question\tcandidate\tlabel\n"


def put(folder, name, content):
    (folder / name).write_bytes(content.encode())
    return folder / name


def rows(pairs):
    return list(
        zip(pairs.first.tolist(), pairs.second.tolist(), pairs.labels.tolist(), strict=True)
    )


def questions(pairs):
    """The candidates of each question with their labels, whatever the order of the rows."""
    assert pairs.groups is not None
    found: dict[bytes, list[tuple[bytes, int]]] = {}
    for group in np.unique(pairs.groups):
        part = pairs.where(pairs.groups == group)
        found[part.first[0]] = sorted(zip(part.second.tolist(), part.labels.tolist(), strict=True))
    assert len(found) == pairs.groups.max() + 1
    return found


def test_pairs_of_a_table(tmp_path):
    train = put(
        tmp_path,
        "train.csv",
        'label,first,second\nyes,a,b\n-,c,d\n no,"",e\n-,f,g\nyes,"h,""i""",\n',
    )
    test = put(
        tmp_path,
        "test.jsonl",
        '{"first": "x", "second": "y", "label": "no", "gold": ["no", "yes"]}\n',
    )
    read = pairs_from_files({"train": train, "test": test})
    assert read.classes == ("no", "yes")
    assert rows(read.splits["train"]) == [(b"a", b"b", 1), (b"", b"e", 0), (b'h,"i"', b"", 1)]
    assert rows(read.splits["test"]) == [(b"x", b"y", 0)]
    assert read.dropped == {"train": 2, "test": 0} and read.splits["train"].groups is None
    assert read.version.startswith("train.csv sha256:")
    put(tmp_path, "test.jsonl", '{"first": "x", "second": "z", "label": "no"}\n')
    assert pairs_from_files({"train": train, "test": test}).version != read.version


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("first\tsecond\tlabel\na\tb\t \n", "train.tsv, line 2: the label is empty"),
        ("first\tsecond\tlabel\na\tb\tx\n", "train.tsv has only the label 'x'"),
        ("first\tsecond\tlabel\na\tb\t-\n", "train.tsv has no labels: every row has '-'"),
    ],
)
def test_pairs_that_cannot_be(content, message, tmp_path):
    with pytest.raises(UserError, match=message):
        pairs_from_files({"train": put(tmp_path, "train.tsv", content)})


def test_order_of_the_rows_moves_no_candidate(tmp_path):
    lines = [
        *("q\ta\t1\n", "q\tb\t0\n", "q\tc\t0\n", "one candidate\td\t1\n"),
        *("no positive\te\t0\n", "no positive\t\t0\n"),
    ]
    expected = {
        b"q": [(b"a", 1), (b"b", 0), (b"c", 0)],
        b"one candidate": [(b"d", 1)],
        b"no positive": [(b"", 0), (b"e", 0)],
    }
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(lines))
        file = put(tmp_path, "a.tsv", RANKED + "".join(lines[number] for number in order))
        read = ranked_pairs_from_files({"test": file})
        assert questions(read.splits["test"]) == expected and read.classes == ("0", "1")


def test_questions_by_their_name(tmp_path):
    lines = ["question_id\tquestion\tcandidate\tlabel", "1\tq\ta\t1", "2\tq\tb\t0", "1\tq\tc\t0"]
    read = ranked_pairs_from_files({"train": put(tmp_path, "a.tsv", "\n".join(lines) + "\n")})
    assert read.splits["train"].groups.tolist() == [0, 1, 0]
    put(tmp_path, "a.tsv", "\n".join([*lines, "2\tother\td\t0"]) + "\n")
    with pytest.raises(
        UserError,
        match="a.tsv, line 5: question_id '2' has two different questions: 'other' here, 'q' above",
    ):
        ranked_pairs_from_files({"train": tmp_path / "a.tsv"})


def test_a_column_of_the_questions_names_that_is_not_there_was_ignored(tmp_path):
    file = put(tmp_path, "a.tsv", "qid\tquestion\tcandidate\tlabel\n1\tq\ta\t1\n2\tq\tb\t0\n")
    read = ranked_pairs_from_files({"train": file}, {"question_id": "qid"})
    assert read.splits["train"].groups.tolist() == [0, 1]
    with pytest.raises(UserError, match="'quid' must be among them, .* --columns question_id=NAME"):
        ranked_pairs_from_files({"train": file}, {"question_id": "quid"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (RANKED + "q\ta\t1\nq\tb\t2\n", "a.tsv, line 3: the label is '2': expected 0 or 1"),
        (RANKED + "q\ta\t\n", "a.tsv, line 2: the label is ''"),
    ],
)
def test_rankings_that_cannot_be(content, message, tmp_path):
    with pytest.raises(UserError, match=message):
        ranked_pairs_from_files({"test": put(tmp_path, "a.tsv", content)})


def test_clicks(tmp_path):
    lines = [
        *("query\tquestion\tctr", "a\tb\t0.29", "a\tc\t0.3", "a\td\t.7", "e\tf\t0.71"),
        *("e\tg\t1", "e\th\t0"),
    ]
    file = put(tmp_path, "log.tsv", "\n".join(lines) + "\n")
    read = pairs_from_click_log({"train": file})
    expected = [(b"a", b"b", 0), (b"e", b"f", 1), (b"e", b"g", 1), (b"e", b"h", 0)]
    assert rows(read.splits["train"]) == expected and read.dropped == {"train": 2}
    assert read.classes == ("0", "1")
    for rate in ("1.01", "-0.1", "nan", "often", "", "inf"):
        put(tmp_path, "log.tsv", "\n".join([*lines, f"a\tb\t{rate}"]) + "\n")
        with pytest.raises(
            UserError, match=f"log.tsv, line 8: the ctr is '{rate}': expected a number from 0 to 1"
        ):
            pairs_from_click_log({"train": file})
    put(tmp_path, "log.tsv", "\n".join([lines[0], lines[2]]) + "\n")
    with pytest.raises(UserError, match="log.tsv has no ctr below 0.3 or above 0.7"):
        pairs_from_click_log({"train": file})


def test_rows_that_were_left_out_of_a_file_to_measure_on_were_not_mentioned(tmp_path):
    file = put(tmp_path, "a.tsv", "first\tsecond\tlabel\na\tb\t-\nc\td\tyes\ne\tf\t-\n")
    with pytest.warns(DataWarning, match="a.tsv: 2 rows without a label left out$"):
        assert len(classified_from_file(TextPairs, file, ("first", "second"), ("no", "yes"))) == 1
    log = put(tmp_path, "log.tsv", "query\tquestion\tctr\na\tb\t0\na\tc\t0.5\n")
    options = {"data.train": str(log)}
    task = tiny.make("pairs", "decomposable", tmp_path, options, preset="click_log")
    with pytest.warns(DataWarning, match="log.tsv: 1 rows without a label left out$"):
        task.use_file(str(log))
    sides = f"{put(tmp_path, 'a.en', f'a{chr(10)}b')},{put(tmp_path, 'a.de', f'c{chr(10)} ')}"
    task = tiny.make("translate", "transformer", tmp_path, {})
    with pytest.warns(DataWarning, match="a.de: 1 pairs with an empty side left out$"):
        task.use_file(sides)


def test_questions_are_held_out_whole(tmp_path):
    lines = [f"question {number % 40}\tcandidate {number}\t{number % 2}\n" for number in range(200)]
    read = ranked_pairs_from_files({"train": put(tmp_path, "a.tsv", RANKED + "".join(lines))})
    made = read.with_validation(0.3)
    train, validation = made.splits["train"], made.splits["validation"]
    assert len(train) + len(validation) == 200 and min(len(train), len(validation)) > 0
    assert not set(train.groups) & set(validation.groups)
    assert not set(train.first) & set(validation.first)


class PremisesWithGaps(tfds.core.GeneratorBasedBuilder):
    """The features of TFDS's SNLI."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        text, label = (
            tfds.features.Text(),
            tfds.features.ClassLabel(names=["entailment", "neutral"]),
        )
        features = tfds.features.FeaturesDict({"premise": text, "hypothesis": text, "label": label})
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples([0, 1, -1, 1]),
                "validation_matched": self._generate_examples([1]),
                "test": self._generate_examples([-1])}  # fmt: skip

    def _generate_examples(self, labels):
        for number, label in enumerate(labels):
            yield number, {"premise": f"p{number}", "hypothesis": f"h{number}", "label": label}


def test_pairs_of_tfds(tmp_path):
    builder = prepare(lambda: PremisesWithGaps(data_dir=tmp_path), tmp_path)
    read = pairs_from_tfds(
        builder, {"train": "train", "validation": "validation_matched"}, "premise", "hypothesis"
    )
    assert sorted(rows(read.splits["train"])) == [
        (b"p0", b"h0", 0),
        (b"p1", b"h1", 1),
        (b"p3", b"h3", 1),
    ]
    assert rows(read.splits["validation"]) == [(b"p0", b"h0", 1)]
    assert read.dropped == {"train": 1, "validation": 0}
    assert read.classes == ("entailment", "neutral") and read.version == "premises_with_gaps/1.0.0"
    with pytest.raises(
        UserError, match="the split test of premises_with_gaps/1.0.0 has no gold labels"
    ):
        pairs_from_tfds(builder, {"test": "test"}, "premise", "hypothesis")


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("snli", ("premise", "hypothesis")),
        ("multi_nli", ("premise", "hypothesis")),
        ("sci_tail", ("premise", "hypothesis")),
        ("glue/qqp", ("question1", "question2")),
    ],
)
def test_keys_of_the_sets_that_tfds_has(name, keys, tmp_path):
    features = tfds.builder(name, data_dir=tmp_path).info.features
    assert {*keys, "label"} <= set(features) and features["label"].num_classes >= 2
