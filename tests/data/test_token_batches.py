import numpy as np
import pytest
import tensorflow as tf

from keras_quasiattn.lab.data import evaluation_token_batches, sequence_pair_encoder, token_batches
from keras_quasiattn.lab.text import ByteTokenizer

# 40 short examples, 9 longer ones, 2 of 17 and 19, and one that fills more than a batch alone.
LENGTHS = np.array([*(n % 4 + 1 for n in range(40)), *range(5, 14), 17, 19, 70])
SETTINGS = {"batch_tokens": 32, "length_multiple": 4}


def stream(first_step=0, steps=40, lengths=LENGTHS, seed=5, **changes):
    """Rows and length of each batch."""
    batches = token_batches(
        {"row": np.arange(len(lengths))},
        lengths,
        seed=seed,
        first_step=first_step,
        encode=lambda batch, length: (batch["row"], length),
        **(SETTINGS | changes),
    )
    return [
        (rows.tolist(), int(length)) for rows, length in batches.take(steps).as_numpy_iterator()
    ]


def passes(batches):
    """Cut the batches into passes, each of which uses every example once."""
    cut, seen = [[]], 0
    for batch in batches:
        cut[-1].append(batch)
        seen += len(batch[0])
        if seen == len(LENGTHS):
            cut.append([])
            seen = 0
    return cut[:-1]


def test_every_pass_uses_every_example_once_in_the_same_shapes():
    first, second, *_ = passes(stream())
    for one in (first, second):
        assert sorted(row for rows, _ in one for row in rows) == list(range(len(LENGTHS)))
    shapes = [sorted((len(rows), length) for rows, length in one) for one in (first, second)]
    assert shapes[0] == shapes[1] and first != second
    assert [length for _, length in first] != sorted(length for _, length in first)


def test_batches_have_about_as_many_tokens():
    for rows, length in passes(stream())[0]:
        assert length % 4 == 0 and max(LENGTHS[rows]) <= length
        assert len(rows) * length <= 32 or len(rows) == 1
    full = [rows for rows, length in passes(stream())[0] if length < 72]
    assert sum(len(rows) == 8 for rows in full) == 5


def test_no_length_is_left_out_though_it_fills_no_batch():
    used = {row: length for rows, length in passes(stream())[0] for row in rows}
    assert used[51] == 72 and used[50] in (20, 72) and used[49] in (20, 72)


@pytest.mark.parametrize("row_multiple", [1, 2])
def test_resuming_anywhere_gives_the_undisturbed_stream(row_multiple):
    whole = stream(row_multiple=row_multiple)
    for first_step in (5, 12, 26):
        rest = stream(first_step, 6, row_multiple=row_multiple)
        assert rest == whole[first_step : first_step + 6]


def test_seed_alone_moves_the_stream():
    tf.random.set_seed(1)
    one = stream()
    tf.random.set_seed(2)
    assert stream() == one != stream(seed=6)


def test_replicas_share_every_batch_evenly():
    batches = stream(row_multiple=3, steps=200)
    assert all(len(rows) % 3 == 0 for rows, _ in batches)
    # 52 examples: one is left over, never the same.
    assert {row for rows, _ in batches for row in rows} == set(range(52))


def test_examples_of_a_batch_are_shuffled():
    together = {tuple(sorted(rows)) for rows, length in stream(steps=60) if length == 4}
    assert len(together) > 15


def test_encoder_pads_both_sides_to_the_length_of_the_batch():
    tokenizer = ByteTokenizer()
    encode = sequence_pair_encoder(
        tokenizer.tokenize, source_key="q", target_key="a", start_id=tokenizer.eos_id
    )
    columns = {
        "q": np.array([b"abc", b"a", b"abcdef"], object),
        "a": np.array([b"", b"wx", b"1"], object),
    }
    settings = {"batch_tokens": 8, "length_multiple": 4, "seed": 0, "first_step": 0}
    batches = token_batches(columns, np.array([4, 3, 7]), encode=encode, **settings)
    shapes = set()
    for x, y, weight in batches.take(4):
        assert x["source"].shape == x["target"].shape == y.shape == weight.shape
        assert (y.numpy() == 1).sum() == (x["source"].numpy() == 1).sum() == len(y)
        shapes.add(tuple(y.shape))
    assert shapes == {(2, 4), (1, 8)}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"batch_tokens": 0}, "batch_tokens must be at least 1; got 0"),
        ({"length_multiple": 0}, "length_multiple must be at least 1; got 0"),
        ({"first_step": -1}, "first_step must be at least 0; got -1"),
        ({"row_multiple": 53}, "the number of examples must be at least 53; got 52"),
        ({"lengths": np.array([3, 0])}, "every length must be at least 1; got 0"),
    ],
)
def test_impossible_settings_are_refused(changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        stream(**changes)


def test_unequal_columns_are_refused():
    settings = {"seed": 0, "first_step": 0, "encode": lambda batch, length: batch, **SETTINGS}
    with pytest.raises(
        ValueError, match="lengths must have one entry for each of the 3 examples in 'row'; got 52"
    ):
        token_batches({"row": np.arange(3)}, LENGTHS, **settings)


@pytest.mark.parametrize("row_multiple", [1, 2])
def test_a_set_to_measure_on_is_cut_alike_and_read_once(row_multiple):
    batches = evaluation_token_batches(
        {"row": np.arange(len(LENGTHS))},
        LENGTHS,
        encode=lambda batch, length: (batch["row"], length),
        row_multiple=row_multiple,
        **SETTINGS,
    )
    read = [(rows.tolist(), int(length)) for rows, length in batches.as_numpy_iterator()]
    left_out = len(LENGTHS) % row_multiple
    rows = [row for batch, _ in read for row in batch]
    assert len(set(rows)) == len(rows) == len(LENGTHS) - left_out
    assert [length for _, length in read] == sorted(length for _, length in read)
    shapes = sorted((len(batch), length) for batch, length in read)
    trained = stream(steps=len(read), row_multiple=row_multiple)
    assert shapes == sorted((len(batch), length) for batch, length in trained)
