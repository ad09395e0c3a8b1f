"""Damaged files: whatever they contain, the result is right or a one-line error, never a traceback.

python -m pytest -m "" tests/test_fuzz.py                          # some hundred files of each kind
QUASIATTN_CASES=10000 python -m pytest -m "" tests/test_fuzz.py    # by hand
"""

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_texts

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data.examples import texts_from_files
from keras_quasiattn.lab.data.table_files import read_parallel, read_table
from keras_quasiattn.lab.text import read_vocabulary, read_word_vectors
from keras_quasiattn.lab.training import RunFolder
from keras_quasiattn.lab.training.checkpoints import Checkpoints

pytestmark = pytest.mark.long
CASES = int(os.environ.get("QUASIATTN_CASES", "300"))
# Content that has broken readers before, inserted anywhere.
STRANGE = [
    *(b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\r", b"\n\n", b"\t", b'"', b"\\ud800"),
    *(b"\xe2\x80\xa8", b"NaN", b"-Infinity", b"1e999", b"9" * 5000, b"null", b"true", b"{}", b"[]"),
    *(b"[" * 3000, b"-1", b"''", b"x" * 200_000, b"\x1b[2J", b'{"step": "a"}', b"0.5", b" "),
]


def mutated(content, draw):
    """Return the content with up to three changes.

    A change cuts, doubles or replaces a part, flips a bit, or inserts strange bytes.
    """
    for _ in range(draw.randint(1, 3)):
        start, end = sorted(draw.randint(0, len(content)) for _ in range(2))
        part = content[start : min(end, start + draw.choice([1, 5, 100, 10_000]))]
        stop = start + len(part)
        change = draw.randrange(6)
        if change == 0:
            content = content[:start]
        elif change == 1:
            content = content[:start] + content[stop:]
        elif change == 2:
            content = content[:stop] + part + content[stop:]
        elif change == 3 and part:
            content = (
                content[:start] + bytes([part[0] ^ 1 << draw.randrange(8)]) + content[start + 1 :]
            )
        elif change == 4:
            content = content[:start] + draw.choice(STRANGE) + content[stop:]
        else:
            content = content[:start] + draw.choice(STRANGE) + content[start:]
    return content


def outcome(read, content):
    """Return the error's line, or None without an error; fail for anything but a `UserError`."""
    try:
        read()
    except UserError as error:
        assert len(str(error).splitlines()) == 1
        return str(error)
    except Exception as error:
        raise AssertionError(f"{type(error).__name__} on {content[:2000]!r}: {error}") from error
    return None


ROWS = tiny_texts.rows(12)
TSV = "\n".join(["text\tlabel", *map("\t".join, ROWS), ""]).encode()
CSV = "\n".join(["text,label", *(f'"{text}",{label}' for text, label in ROWS), ""]).encode()
JSONL = "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in ROWS).encode()
VECTORS = "".join(f"w{number} {number}.5 -0.25 1e-3\n" for number in range(20)).encode()
VOCABULARY = b"[PAD]\n[UNK]\nwho\nwhere\n"


def quoted(file):
    return list(read_table(file, ("text",), optional=("label",), quoted=True))


READERS: dict[str, tuple[str, bytes, Callable[[Path], Any]]] = {
    **{
        kind: (f"a.{kind}", content, lambda file: texts_from_files({"train": file}))
        for kind, content in {"tsv": TSV, "csv": CSV, "jsonl": JSONL}.items()
    },
    "quoted": ("a.tsv", TSV, quoted),
    "parallel": (
        *("a.txt", b"one\ntwo\nthree\n"),
        lambda file: list(read_parallel({"source": file, "target": file})),
    ),
    "vectors": ("v.txt", VECTORS, lambda file: read_word_vectors(file, 3)),
    "vocabulary": (
        *("vocabulary.txt", VOCABULARY),
        lambda file: read_vocabulary(file.read_bytes().decode("utf-8", "replace"), "v"),
    ),
}


@pytest.mark.parametrize("kind", READERS)
def test_readers_of_files(kind, tmp_path):
    name, content, read = READERS[kind]
    file = tmp_path / name
    file.write_bytes(content)
    assert outcome(lambda: read(file), content) is None
    draw, errors = random.Random(kind), 0
    for _ in range(CASES):
        changed = mutated(content, draw)
        file.write_bytes(changed)
        errors += outcome(lambda: read(file), changed) is not None
    assert errors, "the changes are not strange enough"


def test_arrays_of_word_vectors(tmp_path):
    words = np.frombuffer(b"a\nb\nc\n", np.uint8)
    np.savez(tmp_path / "whole.npz", words=words, vectors=np.ones((3, 3), "float32"))
    content, draw = (tmp_path / "whole.npz").read_bytes(), random.Random(0)
    for _ in range(CASES):
        changed = mutated(content, draw)
        (tmp_path / "v.npz").write_bytes(changed)
        outcome(lambda: read_word_vectors(tmp_path / "v.npz", 3), changed)


def test_run_folders(texts_run, tmp_path):
    whole = [
        file.name
        for file in sorted(texts_run.iterdir())
        if file.is_file() and file.suffix != ".keras"
    ]
    run, draw = shutil.copytree(texts_run, tmp_path / "run"), random.Random(0)

    def read():
        folder = RunFolder.open(run, finished=True)
        folder.history()
        folder.metrics()
        folder.task(tmp_path)

    for _ in range(CASES):
        name = draw.choice(whole)
        changed = mutated((texts_run / name).read_bytes(), draw)
        (run / name).write_bytes(changed)
        outcome(read, changed)
        if draw.random() < 0.5:  # as a run from before manifests
            (run / "manifest.json").unlink(missing_ok=True)
            outcome(read, changed)
        for file in (name, "manifest.json"):
            shutil.copy(texts_run / file, run / file)


def test_checkpoints(texts_run, tmp_path):
    file = sorted((texts_run / "checkpoints").iterdir())[-1]
    content, draw = file.read_bytes(), random.Random(0)
    checkpoints = Checkpoints(tmp_path, keep=2)
    step = int(file.stem.partition("-")[2])
    whole = [
        checkpoint.tobytes()
        for checkpoint in _read(Checkpoints(texts_run / "checkpoints", keep=2), step)
    ]
    for _ in range(CASES):
        changed = mutated(content, draw)
        (tmp_path / file.name).write_bytes(changed)
        if outcome(lambda: _read(checkpoints, step), changed) is None:
            assert [one.tobytes() for one in _read(checkpoints, step)] == whole


def _read(checkpoints, step):
    return [
        array
        for group in ("trainable", "state", "optimizer")
        for array in checkpoints.read(step, group)
    ]
