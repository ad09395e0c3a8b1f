import concurrent.futures
import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_quasiattn.lab.data import prepare
from keras_quasiattn.lab.data.arithmetic import ArithmeticMlu, ArithmeticMluConfig
from keras_quasiattn.lab.data.batches import (
    evaluation_batches,
    sequence_pair_encoder,
    split_reader,
    training_batches,
)
from keras_quasiattn.lab.text import ByteTokenizer

NUM_EXAMPLES, BATCH = 53, 7  # 7 batches a pass, 4 examples left over


def stream(first_step=0, steps=30, examples=None, **changes):
    settings = {
        "batch_size": BATCH,
        "seed": 11,
        "encode": lambda batch: batch,
        "shuffle_buffer": 16,
    } | changes
    examples = tf.data.Dataset.range(NUM_EXAMPLES) if examples is None else examples
    batches = training_batches(examples.skip, first_step=first_step, **settings).take(steps)
    return [batch.tolist() for batch in batches.as_numpy_iterator()]


@pytest.mark.parametrize("shuffle_buffer", [5, 1000])
def test_resuming_gives_the_undisturbed_stream(shuffle_buffer):
    whole = stream(shuffle_buffer=shuffle_buffer)
    for first_step in (4, 7, 23):  # within a pass, at its end, and in a later one
        rest = stream(first_step, 6, shuffle_buffer=shuffle_buffer)
        assert rest == whole[first_step : first_step + 6]


def test_global_seed_does_not_move_the_stream():
    tf.random.set_seed(1)
    one = stream()
    tf.random.set_seed(2)
    assert stream() == one


def test_seed_and_pass_reshuffle():
    passes = [
        list(itertools.chain.from_iterable(stream()[start : start + 7])) for start in (0, 7, 14)
    ]
    other = list(itertools.chain.from_iterable(stream(seed=12)[:7]))
    assert len({tuple(one) for one in [*passes, other]}) == 4


@pytest.mark.parametrize("shuffle_buffer", [16, 1000])
def test_a_pass_uses_every_example_at_most_once_and_drops_less_than_a_batch(shuffle_buffer):
    batches = stream(shuffle_buffer=shuffle_buffer)
    for start in (0, 7, 14):
        used = list(itertools.chain.from_iterable(batches[start : start + 7]))
        assert len(used) == len(set(used)) == 49
        assert set(used) <= set(range(NUM_EXAMPLES))
        assert used != sorted(used)


def lengths_stream(first_step=0, steps=30, shuffle_buffer=1000, seed=11):
    """Batches of (number, length); the examples' lengths come in no order."""
    numbers = np.arange(NUM_EXAMPLES)
    examples = tf.data.Dataset.from_tensor_slices(
        {"number": numbers, "length": numbers * 17 % NUM_EXAMPLES}
    )
    batches = training_batches(
        examples.skip,
        batch_size=BATCH,
        seed=seed,
        first_step=first_step,
        encode=lambda batch: tf.stack([batch["number"], batch["length"]], axis=1),
        shuffle_buffer=shuffle_buffer,
        length_key="length",
    )
    return [batch.tolist() for batch in batches.take(steps).as_numpy_iterator()]


@pytest.mark.parametrize(("shuffle_buffer", "first_steps"), [(14, (3, 16)), (1000, (7,))])
def test_like_lengths_share_a_batch_and_any_step_can_be_resumed(shuffle_buffer, first_steps):
    whole = lengths_stream(shuffle_buffer=shuffle_buffer)
    for first_step in first_steps:
        assert lengths_stream(first_step, 6, shuffle_buffer) == whole[first_step : first_step + 6]
    for start in (0, 7, 14):
        used = [number for batch in whole[start : start + 7] for number, _ in batch]
        assert len(set(used)) == 49
    if shuffle_buffer >= NUM_EXAMPLES:  # the whole pass is one pool
        spans = [
            (min(lengths), max(lengths))
            for batch in whole[:7]
            for lengths in [[row[1] for row in batch]]
        ]
        assert spans != sorted(spans)
        assert all(high < low for (_, high), (low, _) in itertools.pairwise(sorted(spans)))
    assert lengths_stream(seed=12) != lengths_stream()


def test_window_must_hold_whole_batches_of_like_lengths():
    with pytest.raises(
        ValueError, match="shuffle_buffer must be a multiple of batch_size \\(7\\) or at least .*53"
    ):
        lengths_stream(shuffle_buffer=16)


def test_only_what_is_still_to_come_is_read_and_encoded():
    starts, encoded = [], []
    examples = tf.data.Dataset.range(NUM_EXAMPLES)

    def examples_from(start):
        starts.append(start)
        return examples.skip(start)

    def encode(batch):
        return tf.numpy_function(
            lambda ids: (encoded.append(tuple(ids)), ids)[1], [batch], tf.int64
        )

    settings = {"batch_size": BATCH, "seed": 11, "shuffle_buffer": 10}
    batches = training_batches(examples_from, first_step=7 * 1000 + 4, encode=encode, **settings)
    assert len(list(batches.take(3))) == 3
    assert starts == [0, 20]  # for the cardinality and later passes; 28 examples into this one
    used = {tuple(batch) for batch in stream(7 * 1000, 4, shuffle_buffer=10)}
    assert len(used) == 4 and not used & set(encoded)


def test_prepared_split_is_read_from_any_index_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_quasiattn.lab.data.arithmetic._EXAMPLES_PER_SHARD", 400)
    builder = ArithmeticMlu(config=ArithmeticMluConfig(low=0, high=20), data_dir=tmp_path)
    builder.download_and_prepare()
    read = split_reader(builder, "train")
    assert builder.info.splits["train"].num_shards == 3
    whole = [example["expression"] for example in read(0).as_numpy_iterator()]
    assert len(whole) == builder.info.splits["train"].num_examples
    for start in (1, 800, len(whole) - 1):
        assert [example["expression"] for example in read(start).as_numpy_iterator()] == whole[
            start:
        ]

    def batches(first_step):
        settings = {"batch_size": 100, "seed": 0, "shuffle_buffer": 300}
        return training_batches(
            read, first_step=first_step, encode=lambda batch: batch["expression"], **settings
        )

    undisturbed = list(batches(0).take(18).as_numpy_iterator())
    for first_step in (4, 11):
        resumed = list(batches(first_step).take(3).as_numpy_iterator())
        np.testing.assert_array_equal(resumed, undisturbed[first_step : first_step + 3])


def test_structures_and_static_batch_size_survive():
    examples = tf.data.Dataset.from_tensor_slices(
        {"a": tf.range(9), "b": tf.strings.as_string(tf.range(9))}
    )
    batches = training_batches(
        examples.skip,
        batch_size=4,
        seed=0,
        first_step=0,
        encode=lambda batch: batch,
        shuffle_buffer=9,
    )
    assert batches.element_spec["b"] == tf.TensorSpec([4], tf.string)
    for batch in batches.take(5).as_numpy_iterator():
        assert [int(text) for text in batch["b"]] == batch["a"].tolist()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1; got 0"),
        ({"batch_size": 54}, "batch of 54; got 53"),
        ({"first_step": -1}, "first_step must be at least 0; got -1"),
        ({"shuffle_buffer": 0}, "shuffle_buffer must be at least 1; got 0"),
        ({"examples": tf.data.Dataset.range(9).repeat()}, "cardinality .* got -1"),
        (
            {"examples": tf.data.Dataset.range(9).filter(lambda value: value > 1)},
            "cardinality .* got -2",
        ),
    ],
)
def test_impossible_settings_are_refused(changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        stream(**changes)


def test_evaluation_is_finite_in_order_and_keeps_the_last_short_batch():
    batches = evaluation_batches(
        tf.data.Dataset.range(10), batch_size=4, encode=lambda batch: batch * 2
    )
    assert int(batches.cardinality()) == 3
    assert [b.tolist() for b in batches.as_numpy_iterator()] == [
        [0, 2, 4, 6],
        [8, 10, 12, 14],
        [16, 18],
    ]


def encoder(**lengths):
    tokenizer = ByteTokenizer()
    return sequence_pair_encoder(
        tokenizer.tokenize, source_key="q", target_key="a", start_id=tokenizer.eos_id, **lengths
    )


def test_decoder_sees_the_target_shifted_and_masks_what_the_loss_masks():
    x, y, weight = encoder()({"q": tf.constant(["ab", ""]), "a": tf.constant(["cd", ""])})
    assert x["source"].numpy().tolist() == [[99, 100, 1], [1, 0, 0]]
    assert y.numpy().tolist() == [[101, 102, 1], [1, 0, 0]]
    assert x["target"].numpy().tolist() == [[1, 101, 102], [1, 0, 0]]
    assert weight.numpy().tolist() == [[1, 1, 1], [1, 0, 0]] and weight.dtype == tf.float32
    np.testing.assert_array_equal(x["target"] != 0, y != 0)


def test_fixed_lengths_give_one_static_shape_for_any_batch():
    examples = tf.data.Dataset.from_tensor_slices({"q": ["a", "bcdefgh"], "a": ["", "1"]})
    batches = evaluation_batches(
        examples, batch_size=1, encode=encoder(source_length=5, target_length=4)
    )
    (x, y, weight) = batches.element_spec
    assert x["source"].shape.as_list() == [None, 5] and x["target"].shape.as_list() == [None, 4]
    assert y.shape.as_list() == weight.shape.as_list() == [None, 4]
    sources = [x["source"].numpy()[0].tolist() for x, _, _ in batches]
    assert sources == [[99, 1, 0, 0, 0], [100, 101, 102, 103, 1]]


def test_start_symbol_may_not_be_padding():
    with pytest.raises(ValueError, match=r"start_id must differ from pad_id.*got 0"):
        sequence_pair_encoder(ByteTokenizer().tokenize, source_key="q", target_key="a", start_id=0)


def test_processes_that_need_the_same_data_write_them_once(tmp_path):
    config = ArithmeticMluConfig(low=-20, high=20, operators="+-")
    made = []

    def make_builder():
        made.append(ArithmeticMlu(config=config, data_dir=tmp_path))
        return made[-1]

    with concurrent.futures.ThreadPoolExecutor() as threads:
        builders = [threads.submit(prepare, make_builder, tmp_path) for _ in range(3)]
        sizes = {
            sum(split.num_examples for split in b.result().info.splits.values()) for b in builders
        }
    assert sizes == {config.num_expressions}
    again = len(made)
    assert prepare(make_builder, tmp_path).is_prepared()
    assert len(made) == again + 1
