"""Check the place of a pretrained encoder before anything slow begins, without Keras."""

import contextlib
import importlib.util
import io
import os
import socket
import threading
import urllib.parse
import urllib.request
from pathlib import Path

from keras_quasiattn.errors import UserError
from keras_quasiattn.extras import MissingPackageError
from keras_quasiattn.files import read_object, read_utf8

ENCODER_FILE = "encoder.json"  # in a run
ENCODER = "encoder"  # the model with a pretrained encoder
_SECONDS = 3.0  # seconds to wait for a server
# By scheme, the server to ask; HF_ENDPOINT names another one for "hf".
_HOSTS = {"hf": "huggingface.co", "kaggle": "api.kaggle.com"}
# The folder of its downloads: by variable, in their order, a folder in the one that it names.
_DOWNLOADS = {
    "hf": {"HF_HUB_CACHE": ".", "HF_HOME": "hub", "XDG_CACHE_HOME": "huggingface/hub"},
    "kaggle": {"KAGGLEHUB_CACHE": "."},
}
_USUAL = {"hf": "~/.cache/huggingface/hub", "kaggle": "~/.cache/kagglehub"}
_PLACES = (
    "a folder with config.json, model.safetensors and vocab.txt, or vocab.json and merges.txt, a "
    "KerasHub preset such as bert_tiny_en_uncased, kaggle://ORG/MODEL/keras/NAME, or hf://ORG/MODEL"
)


def check_place(place: str) -> None:
    """Reject a pretrained encoder that cannot be loaded from its place.

    That is a folder, or what `keras_hub.models.Backbone.from_preset` takes. A server that cannot be
    reached is needed only for what was not downloaded before.
    """
    if not place:
        raise UserError(f"model.encoder is '': name an encoder, with --encoder PLACE: {_PLACES}")
    if importlib.util.find_spec("keras_hub") is None:
        raise MissingPackageError(
            "keras_hub is not installed: pip install 'keras-quasiattn[pretrained]'",
            name="keras_hub",
        )
    scheme, has_scheme, name = place.partition("://")
    if not has_scheme and Path(place).exists():
        if not (Path(place) / "config.json").is_file():
            lacking = "is a file" if Path(place).is_file() else "has no config.json"
            raise UserError(f"the encoder {place!r} {lacking}: name {_PLACES}")
        _check_files(Path(place))
        return
    if not has_scheme:
        if Path(place).is_absolute() or place.count("/") > 0 or place.startswith("."):
            raise UserError(f"the encoder {place!r}: no such folder: name {_PLACES}")
        scheme, name = "kaggle", place
    if scheme not in _HOSTS:
        return  # KerasHub knows the scheme, or lists those it knows
    host, port = _HOSTS[scheme], 443
    if scheme == "hf" and (mirror := os.environ.get("HF_ENDPOINT")):
        parts = urllib.parse.urlsplit(mirror)
        host, port = parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)
    if _is_reachable(host, port):
        return
    places = [
        Path(os.environ[variable], below)
        for variable, below in _DOWNLOADS[scheme].items()
        if os.environ.get(variable)
    ]
    cache, last = next(iter(places), Path(_USUAL[scheme])), name.rstrip("/").split("/")[-1]
    # A download that failed leaves folders without files.
    if not any(any(one.rglob("config.json")) for one in cache.expanduser().rglob(f"*{last}")):
        raise UserError(
            f"the encoder {place!r}: {host} cannot be reached, and it was not downloaded before: "
            "name a folder, or try again with a network"
        )
    # Otherwise the client asks five times, for 23 seconds, before it looks into its folder.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")


def _check_files(folder: Path) -> None:
    """Reject files of which KerasHub's errors name neither the file nor the line."""
    for name in ("config.json", "tokenizer_config.json"):
        file = folder / name
        values = read_object(file) if file.is_file() else {}
        is_lower = values.get("do_lower_case", True)
        if not isinstance(is_lower, bool):
            raise UserError(f"{file}: do_lower_case is {is_lower!r}: it must be true or false")
    for name in ("vocab.txt", "assets/tokenizer/vocabulary.txt"):
        if (folder / name).is_file():
            _check_pieces(folder / name)


def _check_pieces(file: Path) -> None:
    """Reject a WordPiece vocabulary with an empty line, or with a piece in two lines."""
    text, lines = read_utf8(file), dict[str, int]()
    if text.startswith("\ufeff"):
        raise UserError(f"{file}, line 1: it begins with a byte-order mark: save it without one")
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        piece = line.rstrip()  # as KerasHub does
        if not piece:
            raise UserError(f"{file}, line {number}: it is empty: expected a piece in each line")
        if piece in lines:
            raise UserError(
                f"{file}, line {number}: the piece {piece!r} is in line {lines[piece]} already"
            )
        lines[piece] = number


def _is_reachable(host: str, port: int) -> bool:
    """Return whether the server answers within seconds, or a proxy is configured."""
    if {"https", "all"} & urllib.request.getproxies().keys():
        return True
    connected = threading.Event()

    def connect() -> None:
        with contextlib.suppress(OSError):
            socket.create_connection((host, port), timeout=_SECONDS).close()
            connected.set()

    # In a thread, because the timeout does not limit address lookup.
    asking = threading.Thread(target=connect, daemon=True)
    asking.start()
    asking.join(_SECONDS)
    return connected.is_set()
