import gzip
import re
import warnings

import numpy as np
import pytest

from keras_quasiattn.errors import DataWarning, UserError
from keras_quasiattn.lab.text import embedding_matrix, read_word_vectors

GLOVE = "the 0.1 -0.2 3e-1\n. . . 1 2 3\nfilm 4 5 6\nrest of it 7 8 9\n"


def write_arrays(file, words, vectors):
    np.savez(file, words=np.frombuffer("\n".join(words).encode(), np.uint8), vectors=vectors)
    return file


def test_text_form(tmp_path):
    for file, opener in ((tmp_path / "glove.txt", open), (tmp_path / "glove.txt.gz", gzip.open)):
        with opener(file, "wt", encoding="utf-8") as stream:
            stream.write(GLOVE)
        vectors = read_word_vectors(file, 3, ["film", "the", ". . .", "none"])
        assert {word: vector.tolist() for word, vector in vectors.items()} == {
            "the": pytest.approx([0.1, -0.2, 0.3]),
            ". . .": [1, 2, 3],
            "film": [4, 5, 6],
        }


def test_arrays(tmp_path):
    file = write_arrays(
        tmp_path / "glove.npz", ["the", "film"], np.array([[1, 2], [3, 4]], np.float16)
    )
    (vector,) = read_word_vectors(file, 2, ["film"]).values()
    assert vector.dtype == np.float32 and vector.tolist() == [3, 4]


@pytest.mark.parametrize("form", ["glove.txt", "glove.npz", "GLOVE.NPZ"])
def test_wrong_width_names_file_and_both_widths(form, tmp_path):
    if form.lower().endswith("npz"):
        write_arrays(tmp_path / "made.npz", ["the"], np.ones((1, 3), np.float16))
        (tmp_path / "made.npz").rename(tmp_path / form)
    else:
        (tmp_path / form).write_text(GLOVE)
    for width in (2, 4):
        with pytest.raises(
            UserError,
            match=rf"{form}: the vectors have 3 numbers, .* {width}: add --set model.*_dim=3",
        ):
            read_word_vectors(tmp_path / form, width, ["the"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.txt", None, "cannot read .*none.txt: No such file"),
        ("none.npz", None, "cannot read .*none.npz: No such file"),
        ("v.npz", b"junk", "v.npz is not an .npz with the arrays"),
        ("v.txt.xz", b"junk", "v.txt.xz is damaged"),
        ("v.txt", b"the 1 2 \xff\n", "v.txt, line 1: expected only numbers after 'the'"),
        ("v.txt", b"der 1 2 3\n", "v.txt has no vector for any of the 1 requested words"),
        ("v.txt", b"", "v.txt has no vector for any of the 1 requested words"),
    ],
)
def test_file_that_is_no_vectors(name, content, message, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_word_vectors(tmp_path / name, 3, ["the"])


def test_unknown_words_vary_as_known_ones():
    known = {
        f"w{number}": vector
        for number, vector in enumerate(np.random.default_rng(0).normal(0, 0.4, (300, 20)))
    }
    vocabulary = ["[PAD]", "[UNK]", *known, *(f"u{number}" for number in range(300))]
    matrix = embedding_matrix(vocabulary, known, 20, seed=5)
    assert matrix.shape == (602, 20) and not matrix[0].any()
    np.testing.assert_allclose(matrix[2:302], np.stack(list(known.values())), rtol=1e-6)
    assert np.std(matrix[302:]) == pytest.approx(np.std(matrix[2:302]), rel=0.05)
    np.testing.assert_array_equal(matrix, embedding_matrix(vocabulary, known, 20, seed=5))
    assert (matrix[302:] != embedding_matrix(vocabulary, known, 20, seed=6)[302:]).all()


@pytest.mark.parametrize("number", ["nan", "inf", "-1e999"])
def test_vectors_that_are_no_numbers_were_taken(number, tmp_path):
    (tmp_path / "v.txt").write_text(f"who 1 2\nwhere 0.5 {number}\n")
    with pytest.raises(UserError, match="v.txt: the vector of 'where' contains NaN or infinity"):
        read_word_vectors(tmp_path / "v.txt", 2)
    assert list(read_word_vectors(tmp_path / "v.txt", 2, ["who"])) == ["who"]


# Each of these made the reader reject the whole file with misleading advice, or read another word.
@pytest.mark.parametrize(
    ("content", "skipped"),
    [
        (b"2 3\r\nthe 1 2 3\r\nfilm 4 5 6\r\n", None),
        (b"2\t3\nthe\t1\t2\t3\nfilm\t4\t5\t6\n", None),
        (b"2 3 \nthe\t1 2 3 \nfilm\t4 5 6 \n", None),
        (b"the  1  2  3\n  film  4  5  6\t \n", None),
        (b"the 1 2 3\nfilm 4 5 6\n\n", None),
        (b"\n \nthe 1 2 3\n\t\n\nfilm 4 5 6\n\r\n", None),
        (b"2 3\rthe 1 2 3\rfilm 4 5 6\r", None),
        (b"\xef\xbb\xbf2 3\r\nthe 1 2 3\nfilm 4 5 6", None),
        (b"\xef\xbb\xbfthe 1 2 3\nfilm 4 5 6", None),
        ("\ufeff2 3\nthe 1 2 3\nfilm 4 5 6\n".encode("utf-16-le"), None),
        (b". . . 9 9 9\nthe 1 2 3\nfilm 4 5 6\n", None),
        (b"\xc2\xa0 9 9 9\nthe 1 2 3\nfilm 4 5 6\n", None),
        (b"the 1 2 3\nn\xe9 7 8 9\n\xff\xfe 7 8 9\nfilm 4 5 6\n", "2 whose .* UTF-8 .*line 2"),
        (b"the 1 2 3\n 7 8 9\nfilm 4 5 6\n", "1 without a word .*line 2"),
        (b"the 1 2 3\nfilm 4 5 6\nfilm 7 8 9 10\n", "1 with more than 3 numbers .*line 3"),
        (b"film 7 8 9 10\nthe 1 2 3\nfilm 4 5 6\n", "1 with more than 3 numbers .*line 1"),
        (b"the 1 2 3\nfilm 4 5 6\nfilm 7 8 9\nthe 0 0 0\n", "2 with a word .* before .*line 3"),
    ],
    ids=repr,
)
def test_files_of_other_programs_were_refused(content, skipped, tmp_path):
    (tmp_path / "v.vec").write_bytes(content)
    for wanted in (["the", "film"], None):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            vectors = read_word_vectors(tmp_path / "v.vec", 3, wanted)
        assert vectors["the"].tolist() == [1, 2, 3] and vectors["film"].tolist() == [4, 5, 6]
        assert set(vectors) <= {"the", "film", ". . .", "\xa0"}
        told = [str(one.message) for one in caught if one.category is DataWarning]
        assert len(told) == (skipped is not None)
        assert skipped is None or re.search(f"v.vec: skipped lines: {skipped}", told[0])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"2 3\r\nthe 1 2 3\r\n", r"v.vec: the vectors have 3 numbers.*embedding_dim=3$"),
        (b"\nthe\t1\t2\t3\n", r"v.vec: the vectors have 3 numbers.*embedding_dim=3$"),
        (b". . . 9 9\nthe 1 2 3\na 4 5 6\n", r"the vectors have 3 numbers.*embedding_dim=3$"),
        (b"the,1,2\n", "v.vec, line 1: expected a word and its numbers, separated by spaces or"),
        (b"2 2\nthe \x00\x01\x9a\xff\n\x03film\n", "v.vec, line 2: expected a word and its"),
        (b"the 1 2\na 3 4\nfilm 5\n", "v.vec, line 3: the vector has 1 numbers, expected 2"),
        (b"the 1 2\r\nfilm 3 4\r\na", "v.vec, line 3: the vector has 0 numbers, expected 2"),
        (b"the 1 2\nfilm 1 2,5\n", "v.vec, line 2: expected only numbers after 'film'"),
    ],
    ids=repr,
)
def test_what_is_wrong_has_a_line_and_true_advice(content, message, tmp_path):
    (tmp_path / "v.vec").write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        read_word_vectors(tmp_path / "v.vec", 2, ["the", "film"])
    assert "\n" not in str(caught.value)


def test_a_vector_of_one_number_is_not_a_header(tmp_path):
    (tmp_path / "v.txt").write_text("7 3\nthe 5\n")
    assert set(read_word_vectors(tmp_path / "v.txt", 1)) == {"7", "the"}
    (tmp_path / "v.txt").write_text("2 1\nthe 5\nfilm 6\n")
    assert set(read_word_vectors(tmp_path / "v.txt", 1)) == {"the", "film"}


@pytest.mark.parametrize(
    "words",
    [
        np.array(["the", "film", "the"]),
        np.array([b"the", b"film", b"n\xe9"]),
        np.frombuffer(b"the\r\nfilm\r\nn\xe9\r\n", np.uint8),
    ],
    ids=["texts", "bytes", "lines"],
)
def test_arrays_of_other_programs_were_refused(words, tmp_path):
    np.savez(tmp_path / "v.npz", words=words, vectors=np.array([[1, 2], [3, 4], [5, 6]]))
    with pytest.warns(DataWarning, match=r"v.npz: skipped lines: 1 wh|v.npz: skipped lines: 1 wi"):
        vectors = read_word_vectors(tmp_path / "v.npz", 2)
    assert {word: one.tolist() for word, one in vectors.items()} == {"the": [1, 2], "film": [3, 4]}


def test_arrays_that_are_none_were_a_traceback(tmp_path):
    np.savez(tmp_path / "v.npz", words=np.array(["the"]), vectors=np.array([["1", "2"]]))
    with pytest.raises(
        UserError, match="v.npz has 1 words and .* type <U1: expected one row of nu"
    ):
        read_word_vectors(tmp_path / "v.npz", 2)
    with (tmp_path / "v.npz").open("wb") as stream:
        np.save(stream, np.ones(3))
    with pytest.raises(UserError, match="v.npz is not an .npz with the arrays"):
        read_word_vectors(tmp_path / "v.npz", 2)
