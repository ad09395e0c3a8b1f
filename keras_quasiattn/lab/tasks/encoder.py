"""Load a pretrained encoder with KerasHub, and record in the run what it needs later."""

import collections
import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import keras

from keras_quasiattn.errors import UserError
from keras_quasiattn.extras import require
from keras_quasiattn.files import hashes
from keras_quasiattn.lab.tasks.encoder_place import check_place
from keras_quasiattn.lab.text.encoder_tokenizers import (
    BytePairTokenizer,
    EncoderTokenizer,
    read_byte_pairs,
)

_FORMAT = 1
_TOO_FEW = "config.json has too few layers: there is none for"
# The possible files of a preset's weights: in other libraries' format, and in KerasHub's.
_WEIGHTS = ("model.safetensors", "model.weights.h5")
_BYTE_PAIRS = "RobertaBackbone"  # the family whose tokenizer is `BytePairTokenizer`
_INPUTS = {"token_ids", "padding_mask", "segment_ids"}
Tokenizer = EncoderTokenizer | BytePairTokenizer


@dataclasses.dataclass(frozen=True)
class Encoder:
    """A pretrained encoder without its weights; a run's folder holds it as `encoder.json`."""

    place: str  # where it was loaded from
    sha256: str  # of its weights file
    licence: str  # as its card names it, or "unknown"
    family: str  # its class in KerasHub, and the arguments of that class
    config: Mapping[str, Any]
    lowercase: bool
    strip_accents: bool
    length: int  # the most ids of an input that the task's model reads
    byte_pairs: bool = False  # whether its tokenizer is RoBERTa's byte-level BPE
    # The encoder's own padding id. A run swaps it with 0: there padding is 0, and this id stands
    # for the encoder's 0.
    padding_id: int = 0
    # Whether the task's model compares the means of two texts. The first runs on pairs have no such
    # entry, and their models do not.
    compares: bool = False

    def content(self) -> bytes:
        """Return the content of `encoder.json`."""
        values = {"format": _FORMAT, **dataclasses.asdict(self)}
        return f"{json.dumps(values, indent=2)}\n".encode()

    @classmethod
    def read(cls, file: Path) -> "Encoder":
        """Read `encoder.json`."""
        try:
            values = json.loads(file.read_bytes())
            known = values.pop("format") == _FORMAT
            found = cls(**values)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            known = False
        if not known:
            raise UserError(f"{file} is damaged, or of a newer keras_quasiattn")
        return found

    def tokenizer(self, pieces: list[str], merges: list[str]) -> Tokenizer:
        """Return its tokenizer, from the pieces by id and any merges."""
        if self.byte_pairs:
            return BytePairTokenizer(pieces, merges)
        return EncoderTokenizer(pieces, self.lowercase, self.strip_accents)

    def build(self, dropout: float) -> keras.Model:
        """Return the encoder with random weights, from its inputs to its states (B, L, width)."""
        kind = getattr(_hub().models, self.family)
        return states_of(kind(**{**self.config, "dropout": dropout}))

    def pretrained(self, dropout: float) -> keras.Model:
        """Return the encoder with its pretrained weights, loaded from its place."""
        check_place(self.place)
        if (found := _weights_hash(self.place)) != self.sha256:
            raise UserError(
                f"the encoder {self.place!r} has changed since the run was started: its weights' "
                f"sha256 is {found}, not {self.sha256}"
            )
        return states_of(_loaded(self.place, lambda: _with_weights(self.place, dropout)))


def load_encoder(place: str) -> tuple[Encoder, list[str], list[str]]:
    """Load an encoder without its weights; return it with its pieces and merges."""
    check_place(place)
    models = _hub().models
    backbone = _loaded(place, lambda: models.Backbone.from_preset(place, load_weights=False))
    family = type(backbone).__name__
    inputs = getattr(backbone, "input", None)
    if not isinstance(inputs, dict) or not {"token_ids"} <= inputs.keys() <= _INPUTS:
        raise _unsuitable(place, family, "it does not read one sequence of tokens")
    kept = {"name", "trainable", "dtype", "dropout"}
    config = {name: one for name, one in backbone.get_config().items() if name not in kept}
    if "max_sequence_length" not in config:
        raise _unsuitable(place, family, "its number of positions has no limit")

    def encoder(pieces: list[str], **of_tokenizer: Any) -> Encoder:
        rows = config.get("vocabulary_size", config.get("vocab_size"))
        if rows is not None and len(pieces) > rows:
            raise UserError(
                f"the encoder {place!r} has {len(pieces):,} pieces in its vocabulary, and weights "
                f"for {rows:,}: the vocabulary must be the one that it was trained with"
            )
        # The weights may have to be downloaded, so they come after the checks.
        return Encoder(
            place=place,
            sha256=_weights_hash(place),
            licence=_licence(place),
            family=family,
            config=json.loads(json.dumps(config)),
            length=config["max_sequence_length"],
            **of_tokenizer,
        )

    if family == _BYTE_PAIRS:
        pieces, merges, padding = read_byte_pairs(*_byte_pair_files(place))
        of_bytes = {"lowercase": False, "strip_accents": False, "byte_pairs": True}
        return encoder(pieces, **of_bytes, padding_id=padding), pieces, merges
    tokenizer = _loaded(place, lambda: models.Tokenizer.from_preset(place))
    if not isinstance(tokenizer, require("keras_hub", "pretrained").tokenizers.WordPieceTokenizer):
        name = type(tokenizer).__name__
        raise _unsuitable(place, family, f"its {name} is no WordPiece tokenizer")
    vocabulary = list(tokenizer.get_vocabulary())
    try:
        EncoderTokenizer(vocabulary)
    except ValueError as error:
        raise _unsuitable(place, family, str(error)) from error
    of_words = {"lowercase": tokenizer.lowercase, "strip_accents": tokenizer.strip_accents}
    return encoder(vocabulary, **of_words), vocabulary, []


def states_of(backbone: keras.Model) -> keras.Model:
    """Return the part of a KerasHub model that leads to the states of all positions."""
    output = backbone.output
    states = output["sequence_output"] if isinstance(output, dict) else output
    return keras.Model(backbone.input, states, name="encoder")


def _hub() -> Any:
    return require("keras_hub", "pretrained")


def _with_weights(place: str, dropout: float) -> keras.Model:
    """Return KerasHub's model with its pretrained weights.

    The files of a model without a head, such as sentence-transformers', name their weights
    `embeddings…`, where KerasHub 0.32 asks for `roberta.embeddings…` or `distilbert.embeddings…`.
    """
    presets, tensors = (  # KerasHub has no public way to choose the names
        require(f"keras_hub.src.utils.{name}", "pretrained")
        for name in ("preset_utils", "transformers.safetensor_utils")
    )
    load = _hub().models.Backbone.from_preset
    converter = getattr(presets.get_preset_loader(place), "converter", None)
    if converter is None:  # KerasHub's own format
        model = load(place, dropout=dropout)
        if (file := _file(place, _WEIGHTS[1])) is not None:
            _check_all_layers_were_read(file, model)
        return model
    model = load(place, load_weights=False, dropout=dropout)
    there, read = set[str](), set[str]()
    with tensors.SafetensorLoader(place) as loader:
        with_prefix = loader.get_prefixed_key

        def name_in_file(name: str, names: Any) -> str:
            there.update(known := names.keys())
            bare, found = name.partition(".")[2], with_prefix(name, names)
            if found not in known and bare in known:
                found = bare
            read.add(found)
            return found

        loader.get_prefixed_key = name_in_file
        converter.convert_weights(model, loader, presets.load_json(place))
    # The others, such as a pooler's or a head's, are no part of the encoder.
    if unread := sorted(name for name in there - read if re.search(r"layer\.\d+\.", name)):
        raise ValueError(f"{_TOO_FEW} {unread[0]}")
    return model


def _check_all_layers_were_read(file: Path, model: keras.Model) -> None:
    """Raise a `ValueError` if a file in Keras' format has weights of more layers than the model."""
    kinds = collections.Counter(type(layer).__name__.lower() for layer in model.layers)
    with h5py.File(file) as weights:
        for name in weights.get("layers", {}):  # some_kind, some_kind_1, some_kind_2, …
            kind, _, number = name.rpartition("_")
            if number.isdecimal() and 0 < kinds[kind.replace("_", "")] <= int(number):
                raise ValueError(f"{_TOO_FEW} {name}")


def _loaded(place: str, load: Callable[[], Any]) -> Any:
    """Return what KerasHub loads; turn any of its errors into a `UserError`."""
    try:
        return load()
    except ModuleNotFoundError as error:
        raise UserError(
            f"the encoder {place!r} needs {error.name}: pip install 'keras-quasiattn[pretrained]'"
        ) from error
    # KerasHub, its clients and its file readers raise errors of a dozen classes.
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        # A colon at the end of the first line announces a list, and a status the reason.
        more = lines[0].endswith(":") or "Client Error" in lines[0]
        reason = " ".join(filter(None, lines)) if more else lines[0]
        if isinstance(error, KeyError):
            reason = f"its files have no {reason}"
        elif isinstance(error, json.JSONDecodeError):
            reason = f"a file of it is not JSON ({reason})"
        elif type(error).__name__ == "SafetensorError":
            reason = f"its weights: {reason}"
        raise UserError(f"the encoder {place!r} does not load: {reason}") from error


def _unsuitable(place: str, family: str, reason: str) -> UserError:
    return UserError(
        f"the encoder {place!r} is a {family}: {reason}; BERT, DistilBERT, ELECTRA and their like "
        "with a WordPiece vocabulary, and RoBERTa, can be used"
    )


def _file(place: str, name: str) -> Path | None:
    """Return the local path of a preset's file, downloaded if necessary; None if it has none."""
    # KerasHub has no public way to find the files of a preset.
    utilities = require("keras_hub.src.utils.preset_utils", "pretrained")
    if not _loaded(place, lambda: utilities.check_file_exists(place, name)):
        return None
    return Path(utilities.get_file(place, name))


def _byte_pair_files(place: str) -> tuple[Path, Path]:
    """Return the files of the ids and the merges; KerasHub's presets name them differently."""
    for folder, name in (("", "vocab.json"), ("assets/tokenizer/", "vocabulary.json")):
        files = [_file(place, f"{folder}{one}") for one in (name, "merges.txt")]
        if files[0] is not None and files[1] is not None:
            return files[0], files[1]
    raise UserError(f"the encoder {place!r} has no vocab.json with a merges.txt")


def _weights_hash(place: str) -> str:
    """Return the sha256 of the weights file or, if there are several, of their index."""
    for name in (*_WEIGHTS, *(f"{one}.index.json" for one in _WEIGHTS), "model.weights.json"):
        if (file := _file(place, name)) is not None:
            return hashes({name: file})[name]
    raise UserError(f"the encoder {place!r} has no weights: it needs {' or '.join(_WEIGHTS)}")


def _licence(place: str) -> str:
    """Return the licence that the card of a preset names, or "unknown" for none or several."""
    card = _file(place, "README.md")
    head = card.read_text(encoding="utf-8", errors="replace").split("---") if card else []
    named = (
        re.search(r"^license:[ \t]*['\"]?([\w.-]+)", head[1], re.MULTILINE)
        if len(head) > 2
        else None
    )
    return named[1] if named else "unknown"
