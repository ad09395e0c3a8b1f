"""Read the files of a byte-level BPE vocabulary, as RoBERTa's presets have them."""

import json
from pathlib import Path
from typing import Any

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.text.byte_pair_tokenizer import BytePairTokenizer, parts_of

_VERSION = "#version:"  # may be in the first line of the merges


def read_byte_pairs(vocabulary: Path, merges: Path) -> tuple[list[str], list[str], int]:
    """Return the pieces by id, the merges in order, and the id of padding in the file.

    Among the pieces, padding has changed places with the piece whose id is 0.

    Args:
        vocabulary: a JSON object of the ids by piece.
        merges: two pieces a line, with a space between them.

    Raises:
        UserError: a file is damaged; the message names the line.
    """
    ids = _read_json(vocabulary)
    pieces = sorted(ids, key=lambda piece: ids[piece])
    for number, piece in enumerate(pieces):
        if ids[piece] != number:
            line = _line_of(vocabulary, piece)
            raise UserError(
                f"{vocabulary}, line {line}: the id of {piece!r} is {ids[piece]}, and no piece has "
                f"the id {number}: ids must be 0, 1, …, each once"
            )
    padding = ids.get(BytePairTokenizer.PADDING, 0)
    pieces[0], pieces[padding] = pieces[padding], pieces[0]
    found = []
    for number, merge in enumerate(map(str.rstrip, _text(merges).split("\n")), 1):
        if not merge or (number == 1 and merge.startswith(_VERSION)):
            continue
        try:
            parts_of(merge, ids)
        except ValueError as error:
            raise UserError(f"{merges}, line {number}: {error}") from error
        found.append(merge)
    try:
        BytePairTokenizer(pieces, [])
    except ValueError as error:
        raise UserError(f"{vocabulary}: {error}") from error
    return pieces, found, padding


def _read_json(file: Path) -> dict[str, int]:
    try:
        values: Any = json.loads(_text(file))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise UserError(f"{file}, {place}: {error.msg}") from error
    except RecursionError:
        values = None
    if not isinstance(values, dict):
        raise UserError(f"{file}, line 1: it must be a JSON object of the ids by piece")
    for piece, number in values.items():
        if type(number) is not int:
            line = _line_of(file, piece)
            raise UserError(
                f"{file}, line {line}: the id of {piece!r} is {number!r}: expected an integer"
            )
    return values


def _line_of(file: Path, piece: str) -> int:
    """Return the number of the line with a piece of a JSON object."""
    text = _text(file)
    keys = (json.dumps(piece, ensure_ascii=ascii_only) for ascii_only in (True, False))
    places = [place for key in keys if (place := text.find(key)) >= 0]
    return text.count("\n", 0, min(places, default=0)) + 1


def _text(file: Path) -> str:
    content = file.read_bytes()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{file}, line {line}: it is not UTF-8") from error
