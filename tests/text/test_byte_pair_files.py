import json

import pytest
import tiny_encoder

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.text.encoder_tokenizers import read_byte_pairs


def written(folder):
    ids, merges = tiny_encoder.byte_pairs()
    vocabulary, file = folder / "vocab.json", folder / "merges.txt"
    vocabulary.write_text(json.dumps(ids, indent=0), encoding="utf-8")
    file.write_text("#version: 0.2\n" + "".join(f"{one}\n" for one in merges), encoding="utf-8")
    return vocabulary, file


def test_padding_comes_first_and_the_version_is_no_merge(tmp_path):
    ids, merges = tiny_encoder.byte_pairs()
    pieces, found, padding = read_byte_pairs(*written(tmp_path))
    assert found == merges and padding == ids["<pad>"] == 1
    assert pieces[:2] == ["<pad>", "<s>"] and pieces[2:] == list(ids)[2:]


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("vocab.json", '"</s>": 2,', '"</s>": 2', r"vocab.json, line 5, column 1: Expecting ','"),
        ("vocab.json", '"</s>": 2', '"</s>": "2"', "line 4: .*'</s>' is '2': expected an integer"),
        ("vocab.json", '"</s>": 2', '"</s>": 0', "vocab.json, line 4: .*no piece has the id 1"),
        ("vocab.json", '"</s>"', '"</x>"', "vocab.json: vocabulary must have </s>"),
        ("merges.txt", "\u0120 w\n", "\u0120w\n", r"merges.txt, line \d+: .*must be two pieces"),
        ("merges.txt", "\u0120 w\n", "\u0120 w h\n", r"merges.txt, line \d+: .*must be two pieces"),
        ("merges.txt", "\u0120 w\n", "\u0120 ww\n", r"merges.txt, line \d+: .*needs 'ww', which"),
    ],
)
def test_what_is_damaged_is_named_with_its_line(name, old, new, said, tmp_path):
    files = written(tmp_path)
    file = tmp_path / name
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1
    file.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(UserError, match=said):
        read_byte_pairs(*files)


def test_bytes_that_are_not_utf_8_are_named_with_their_line(tmp_path):
    vocabulary, merges = written(tmp_path)
    lines = merges.read_bytes().split(b"\n")
    merges.write_bytes(b"\n".join([*lines[:2], b"\xff x", *lines[2:]]))
    with pytest.raises(UserError, match="merges.txt, line 3: it is not UTF-8"):
        read_byte_pairs(vocabulary, merges)
    vocabulary.write_text("[]", encoding="utf-8")
    with pytest.raises(UserError, match="vocab.json, line 1: it must be a JSON object"):
        read_byte_pairs(vocabulary, merges)
