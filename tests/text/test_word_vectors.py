import gzip
from pathlib import Path

import numpy as np
import pytest

from keras_quasiattn.errors import UserError
from keras_quasiattn.text import embedding_matrix, read_word_vectors

GLOVE = "the 0.1 -0.2 3e-1\n. . . 1 2 3\nfilm 4 5 6\nrest of it 7 8 9\n"


def write_arrays(file: Path, words: list[str], vectors: np.ndarray) -> Path:
    np.savez(file, words=np.frombuffer("\n".join(words).encode(), np.uint8), vectors=vectors)
    return file


def test_text_form(tmp_path: Path) -> None:
    for file, opener in ((tmp_path / "glove.txt", open), (tmp_path / "glove.txt.gz", gzip.open)):
        with opener(file, "wt", encoding="utf-8") as stream:
            stream.write(GLOVE)
        vectors = read_word_vectors(file, 3, ["film", "the", ". . .", "none"])
        assert {word: vector.tolist() for word, vector in vectors.items()} == {
            "the": pytest.approx([0.1, -0.2, 0.3]),
            ". . .": [1, 2, 3],
            "film": [4, 5, 6],
        }


def test_first_line_with_counts_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "w2v.txt").write_text("2 3\nthe 1 2 3\nfilm 4 5 6 \n")
    assert list(read_word_vectors(tmp_path / "w2v.txt", 3, ["film", "the", "2"])) == ["the", "film"]


def test_arrays(tmp_path: Path) -> None:
    file = write_arrays(
        tmp_path / "glove.npz", ["the", "film"], np.array([[1, 2], [3, 4]], np.float16)
    )
    (vector,) = read_word_vectors(file, 2, ["film"]).values()
    assert vector.dtype == np.float32 and vector.tolist() == [3, 4]


@pytest.mark.parametrize("form", ["glove.txt", "glove.npz"])
def test_wrong_width_names_file_and_both_widths(form: str, tmp_path: Path) -> None:
    if form.endswith("npz"):
        write_arrays(tmp_path / form, ["the"], np.ones((1, 3), np.float16))
    else:
        (tmp_path / form).write_text(GLOVE)
    for width in (2, 4):
        with pytest.raises(
            UserError,
            match=rf"{form}: the vectors have 3 numbers, .* {width}: add --set model.*_dim=3",
        ):
            read_word_vectors(tmp_path / form, width, ["the"])


def test_damage_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text("the 1 2 3\nfilm 4 x 6\n")
    with pytest.raises(UserError, match="glove.txt, line 2: expected only numbers after 'film'"):
        read_word_vectors(tmp_path / "glove.txt", 3, ["film"])
    (tmp_path / "glove.txt").write_text("the 1 2 3\nfilm 4\n")
    with pytest.raises(UserError, match="glove.txt, line 2: the vector has 1 numbers"):
        read_word_vectors(tmp_path / "glove.txt", 3, ["film"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.txt", None, "cannot read .*none.txt: No such file"),
        ("none.npz", None, "cannot read .*none.npz: No such file"),
        ("v.npz", b"junk", "v.npz is not an .npz with the arrays"),
        ("v.txt.xz", b"junk", "v.txt.xz is damaged"),
        ("v.txt", b"the 1 2 \xff\n", "v.txt is not UTF-8"),
        ("v.txt", b"der 1 2 3\n", "v.txt has no vector for any of the 1 requested words"),
        ("v.txt", b"", "v.txt has no vector for any of the 1 requested words"),
    ],
)
def test_file_that_is_no_vectors(
    name: str, content: bytes | None, message: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_word_vectors(tmp_path / name, 3, ["the"])


def test_unknown_words_vary_as_known_ones() -> None:
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
def test_vectors_that_are_no_numbers_were_taken(number: str, tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text(f"who 1 2\nwhere 0.5 {number}\n")
    with pytest.raises(UserError, match="v.txt: the vector of 'where' contains NaN or infinity"):
        read_word_vectors(tmp_path / "v.txt", 2)
    assert list(read_word_vectors(tmp_path / "v.txt", 2, ["who"])) == ["who"]
