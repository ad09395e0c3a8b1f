"""Pretrained encoders: how they are loaded, read texts, and are trained."""

import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_quasiattn.attention import MultiHeadQuasiAttention
from keras_quasiattn.attention.start import Start
from keras_quasiattn.attention.swapped_layer import STARTS
from keras_quasiattn.errors import UserError
from keras_quasiattn.extras import require
from keras_quasiattn.files import hashes
from keras_quasiattn.lab.tasks.attention_options import BASELINE
from keras_quasiattn.lab.tasks.encoder_place import ENCODER_FILE, check_place
from keras_quasiattn.lab.tasks.measured import regression
from keras_quasiattn.lab.tasks.task import TokenizedTexts
from keras_quasiattn.lab.tasks.vocabulary_task import VOCABULARY_FILE, VocabularyTask
from keras_quasiattn.lab.text.encoder_tokenizers import (
    BytePairTokenizer,
    EncoderTokenizer,
    read_byte_pairs,
)
from keras_quasiattn.layers import MaskedPooling
from keras_quasiattn.models import swap_attention
from keras_quasiattn.models.blend_attention import BlendAttention, blends
from keras_quasiattn.models.functional_model import FunctionalModel, is_real

_FORMAT = 1
# The possible files of a preset's weights: in other libraries' format, and in KerasHub's.
_WEIGHTS = ("model.safetensors", "model.weights.h5")
_BYTE_PAIRS = "RobertaBackbone"  # the family whose tokenizer is `BytePairTokenizer`
_INPUTS = {"token_ids", "padding_mask", "segment_ids"}
Tokenizer = EncoderTokenizer | BytePairTokenizer
Tensor = Any
# Inverse regularization strength of the regression that the dense layer starts from. Of 1e-4, 1e-3
# and 1e-2, it was the best on validation data for four of six parts of TrecQA and Quora.
_C = 1e-3
_ADAPTED = ("query", "value")  # sublayers of an attention that get LoRA, as in KerasHub
_ATTENTION = (
    keras.layers.MultiHeadAttention,
    keras.layers.GroupQueryAttention,
    MultiHeadQuasiAttention,
)
_MERGES = "merges.txt"
_FITTED = 5_000  # training texts that the dense layer's start is fitted to, to take only seconds
_BLENDED = 0.5  # the share of the updates in which a blend moves


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
        load = _hub().models.Backbone.from_preset
        return states_of(_loaded(self.place, lambda: load(self.place, dropout=dropout)))


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

    def encoder(**of_tokenizer: Any) -> Encoder:
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
        return encoder(**of_bytes, padding_id=padding), pieces, merges
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
    return encoder(**of_words), vocabulary, []


def states_of(backbone: keras.Model) -> keras.Model:
    """Return the part of a KerasHub model that leads to the states of all positions."""
    output = backbone.output
    states = output["sequence_output"] if isinstance(output, dict) else output
    return keras.Model(backbone.input, states, name="encoder")


def _hub() -> Any:
    return require("keras_hub", "pretrained")


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
        # A colon at the end of the first line announces a list.
        reason = " ".join(lines) if lines[0].endswith(":") else lines[0]
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


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class EncoderClassifier(FunctionalModel):
    """Classify a sequence by the mean of a pretrained encoder's states and a dense layer.

    x = encoder(ids, segments);  m = mean_t x_t;  logits = W·m + b
    segments[t] = 1 after the first separator, for the second text of a pair

    With `compares`, the dense layer also reads how the means of both texts differ:

    logits = W·[m'; |m₀' − m₁'|; m₀' ⊙ m₁'] + b;  m' = √width·m/‖m‖
    m₀ and m₁ are the means over the positions of segment 0 and 1

    Padding is id 0 and changes nothing. The mean of a text without positions is 0.

    Args:
        encoder: a functional model from `token_ids`, and from `padding_mask` and `segment_ids`
            where it has them, to states (B, L, width).
        num_classes: number of classes.
        separator_id: the id that ends a text.
        dropout: rate in [0, 1) of the dropout before the dense layer. Defaults to 0.1.
        padding_id: the encoder's own padding id, which the inputs swap with 0: there padding is 0,
            and this id stands for the encoder's 0. Defaults to 0.
        compares: whether a sequence is two texts, and their means are compared. Defaults to False.
        **kwargs: `name`, `trainable` and `dtype` (a policy).

    It takes ids (B, L), integers, and returns logits (B, num_classes), float32.
    """

    def __init__(
        self,
        encoder: Any,
        num_classes: int,
        separator_id: int,
        dropout: float = 0.1,
        padding_id: int = 0,
        compares: bool = False,
        **kwargs: Any,
    ) -> None:
        make = self._begin(locals(), positive=("num_classes",), rates=("dropout",))
        if isinstance(encoder, dict):
            encoder = keras.saving.deserialize_keras_object(encoder)
        self._arguments["encoder"] = encoder
        ids = keras.Input((None,), dtype="int32", name="ids")
        mask, own = is_real(ids), ids  # (B, L)
        if padding_id:  # it and 0 change places
            own = ops.where(mask, ops.where(ops.equal(ids, padding_id), 0, ids), padding_id)
        ends = ops.cast(ops.equal(ids, separator_id), "int32")
        inputs = {
            "token_ids": own,
            "padding_mask": ops.cast(mask, "int32"),
            # Also 1 at padding, which follows the last separator and is masked.
            "segment_ids": ops.minimum(ops.cumsum(ends, axis=1) - ends, 1),
        }
        states = encoder({name: inputs[name] for name in encoder.input})  # (B, L, width)
        pooling = make(MaskedPooling, "pooling")
        x = pooling(states, mask=mask)  # (B, width)
        if compares:
            is_second = ops.equal(inputs["segment_ids"], 1)
            first, second = (
                _scaled(pooling(states, mask=ops.logical_and(mask, of_text)))
                for of_text in (ops.logical_not(is_second), is_second)
            )
            parts = [_scaled(x), ops.abs(first - second), first * second]
            x = ops.concatenate(parts, axis=-1)  # (B, 3·width)
        x = make(keras.layers.Dropout, "dropout", dropout)(x)
        logits = make(keras.layers.Dense, "logits", num_classes, dtype="float32")(x)
        self._end(ids, logits, kwargs)

    @property
    def encoder(self) -> keras.Model:
        """The encoder."""
        return self.get_layer("encoder")

    def explain(self, ids: Tensor) -> dict[str, Tensor]:
        """Return the logits (B, num_classes) of ids (B, L)."""
        return {"logits": self(ops.cast(ids, "int32"), training=False)}


def _scaled(x: Tensor) -> Tensor:
    """Return √width·x/‖x‖, (B, width), in float32; 0 stays 0."""
    x = ops.cast(x, "float32")
    square = ops.mean(ops.square(x), axis=-1, keepdims=True)
    return x * ops.rsqrt(ops.maximum(square, 1e-12))  # at 0 the gradient of Keras' layer is 1e12


def limit_training(model: EncoderClassifier, frozen_layers: int, lora_rank: int) -> None:
    """Freeze the lowest layers of the encoder, embeddings first, or train low-rank changes (LoRA).

    LoRA is on the queries and values of every attention that is not frozen; their biases train,
    too.
    """
    levels = list(_levels(model.encoder))
    if not 0 <= frozen_layers <= len(levels):
        raise UserError(
            f"model.frozen_layers is {frozen_layers}: it must be from 0 to {len(levels)}, the "
            f"embeddings and {len(levels) - 1} layers"
        )
    width = model.encoder.output_shape[-1]
    if not 0 <= lora_rank <= width:
        raise UserError(
            f"model.lora_rank is {lora_rank}: it must be from 0 to {width}, the width of the "
            "encoder"
        )
    for number, layers in enumerate(levels):
        for layer in layers:
            layer.trainable = number >= frozen_layers and not lora_rank
            if not lora_rank or number < frozen_layers:
                continue
            for inner in layer._flatten_layers():  # Keras has no public way to list these
                if isinstance(inner, Start):
                    inner.trainable = True  # or its factors stay 0, and so does the new attention
                elif inner.name in _ADAPTED and hasattr(inner, "enable_lora"):
                    inner.trainable = True
                    inner.enable_lora(lora_rank)


def rates_by_depth(model: EncoderClassifier, decay: float) -> dict[str, float]:
    """Return the factor of each weight's rate, by path: 1, and times `decay` per layer below."""
    levels = list(_levels(model.encoder))
    return {
        weight.path: decay ** (len(levels) - number)
        for number, layers in enumerate(levels)
        for layer in layers
        for weight in layer.weights  # not its trainable ones: LoRA trains parts of frozen layers
        if weight.trainable
    }


def start_logits(
    model: EncoderClassifier, x: np.ndarray, labels: np.ndarray, *, balanced: bool
) -> None:
    """Start the dense layer as a logistic regression from its inputs x (examples, features).

    Otherwise the first updates would change the encoder to suit random weights. If `balanced`, all
    classes count the same.
    """
    if len(np.unique(labels)) == 1 or not np.isfinite(x).all():
        return
    scale = max(float(np.sqrt(np.mean(np.square(x, dtype="float64")))), 1e-6)
    fitted = regression(x / scale, labels, _C, class_weight="balanced" if balanced else None)
    kernel, bias = fitted.coef_.T / scale, fitted.intercept_
    if len(fitted.classes_) == 2:  # scikit-learn has one column for both
        kernel, bias = np.hstack([-kernel, kernel]) / 2, np.concatenate([-bias, bias]) / 2
    layer = model.get_layer("logits")
    kernels, biases = np.zeros(layer.kernel.shape), np.full(layer.units, bias.min())
    kernels[:, fitted.classes_], biases[fitted.classes_] = kernel, bias
    layer.set_weights([kernels, biases])


def _levels(encoder: keras.Model) -> Iterator[list[keras.Layer]]:
    """Yield the layers of the embeddings together, then each layer with an attention alone."""
    embeddings: list[keras.Layer] = []
    blocks: list[list[keras.Layer]] = []
    for layer in encoder.layers:
        if any(isinstance(one, _ATTENTION) for one in layer._flatten_layers()):
            blocks.append([layer])
        elif not blocks:
            embeddings.append(layer)
        else:
            blocks[-1].append(layer)
    yield embeddings
    yield from blocks


def special_ids(tokenizer: Tokenizer, sides: int) -> int:
    """Return the number of special ids that `pack` adds for one or two texts."""
    return 2 + (sides - 1) * tokenizer.ends_between


def pack(
    tokenizer: Tokenizer, sides: Sequence[tf.Tensor], length: int, multiple: int = 1
) -> tf.Tensor:
    """Join the ids (B, T) of one or two texts into one sequence (B, L) for an encoder.

    It is "[CLS] text [SEP]" or "[CLS] first [SEP] second [SEP]"; for a RoBERTa, "<s> text </s>" or
    "<s> first </s></s> second </s>". L is at most `length`, and if possible a multiple of
    `multiple`; of two texts that are too long together, the longer one is cut first, at its end.
    """
    counts = [tf.math.count_nonzero(ids, axis=1, dtype=tf.int32) for ids in sides]  # (B,) each
    room = length - special_ids(tokenizer, len(sides))
    if len(sides) == 1:
        kept = [tf.minimum(counts[0], room)]
    else:
        second = tf.minimum(counts[1], tf.maximum(room // 2, room - counts[0]))
        kept = [tf.minimum(counts[0], room - second), second]
    rows = tf.shape(sides[0])[0]
    start, end = (tf.fill((rows, 1), one) for one in (tokenizer.start_id, tokenizer.end_id))
    texts = [tf.RaggedTensor.from_tensor(x, lengths=n) for x, n in zip(sides, kept, strict=True)]
    parts = [start, texts[0]]
    for text in texts[1:]:
        parts += [*[end] * tokenizer.ends_between, text]
    parts.append(end)
    packed = tf.concat(parts, axis=1).to_tensor(tokenizer.pad_id)  # (B, L)
    longest = tf.shape(packed)[1]
    # An encoder has no positions beyond `length`.
    missing = tf.minimum(-longest % multiple, length - longest)
    return tf.pad(packed, [[0, 0], [0, missing]])


class EncoderReading(VocabularyTask):
    """A task on one or two texts that a pretrained encoder reads as one sequence.

    `preset.ENCODER_OPTIONS` has its model options. The vocabulary is the encoder's. A run stores it
    with the encoder's configuration, so only a new run loads the pretrained encoder.
    """

    # Those of a task suit its own models. Unscaled, CoDA's gates would all be closed here.
    attention_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    def _set_up(self) -> None:
        super()._set_up()
        usual, given = self._usual_data, self.options.data
        for name in self.options.unused[self.model]:
            if given[name] != usual[name]:
                raise UserError(
                    f"data.{name} is {given[name]!r}: an encoder has its own vocabulary, so it "
                    f"must stay {usual[name]!r}"
                )
        options = self.options.model
        for name, holds, right in (
            ("length_quantile", 0 < options["length_quantile"] <= 1, "above 0 and at most 1"),
            ("layer_decay", 0 < options["layer_decay"] <= 1, "above 0 and at most 1"),
            ("dropout", 0 <= options["dropout"] < 1, "at least 0 and below 1"),
            ("factor_rate", 0 < options["factor_rate"] < math.inf, "above 0 and finite"),
        ):
            if not holds:
                raise UserError(f"model.{name} is {options[name]!r}: it must be {right}")
        UserError.check("model.attention_start", options["attention_start"], STARTS)
        self._encoder: Encoder | None = None
        self._pieces: list[str] = []  # the encoder's vocabulary
        self._merges: list[str] = []  # of pieces, in the vocabulary of a RoBERTa

    @property
    def _usual_data(self) -> Mapping[str, Any]:
        """The data options of the preset."""
        return self.presets[self.preset].for_model(self.model).data

    def _learn(self, texts: list[bytes]) -> list[str]:
        if self._encoder is None:
            found = load_encoder(self.options.model["encoder"])
            encoder, self._pieces, self._merges = found
            self._encoder, self._vocabulary = encoder, self._pieces  # to count tokens with
            self._encoder = dataclasses.replace(
                encoder, length=self._length(encoder.length), compares=len(self.sides) == 2
            )
        return self._pieces

    def _length(self, positions: int) -> int:
        """Return the maximum number of ids of an input, at most the `positions` of the encoder."""
        columns = self._data.splits["train"].columns.values()
        most, special = self.options.data["max_length"], special_ids(self.tokenizer, len(columns))
        if most == self._usual_data["max_length"]:  # the user chose no other
            most = min(most, positions)
        if not special < most <= positions:
            raise UserError(
                f"data.max_length is {most}: it must be from {special + 1} to {positions}, "
                "the positions of the encoder"
            )
        counts = sum(map(self._whole_lengths, columns)) + special
        share = self.options.model["length_quantile"]
        whole = int(np.quantile(counts, share, method="higher"))
        return min(max(whole, special + 1), most)

    @property
    def encoder(self) -> Encoder:
        """The encoder without its weights; call `prepare` or `read_assets` first."""
        if self._encoder is None:
            raise ValueError("call `prepare` or `read_assets` first")
        return self._encoder

    @property
    def _most_ids(self) -> int:
        return self.encoder.length

    @property
    def _special(self) -> int:
        return special_ids(self.tokenizer, len(self.sides))

    @property
    def _most_tokens(self) -> int:
        return self.encoder.length - self._special

    def remarks(self) -> list[str]:
        """Return a summary of the user's own data, and of what limits the encoder's inputs."""
        lines, most = super().remarks(), self.options.data["max_length"]
        if "train" in self.options.data and len(self.sides) > 1:
            lines.append(self._joined_lengths())
        positions = self.encoder.config["max_sequence_length"]
        if most > positions:
            lines.append(
                f"data.max_length is {most}, and the encoder has {positions} positions: it "
                f"reads at most {positions} tokens"
            )
        return lines

    def _joined_lengths(self) -> str:
        """Return a line on the lengths of the sequences of two texts."""
        columns = self._data.splits["train"].columns.values()
        counts = np.sum([*map(self._whole_lengths, columns)], axis=0) + self._special
        option, most = self._limit()
        line = (
            f"both texts in one sequence: {int(np.median(counts)):,} tokens in the median, "
            f"{counts.max():,} at most"
        )
        if cut := int(np.sum(counts > most)):
            line += f"; cut after {most:,} ({option}): {cut:,} ({cut / len(counts):.1%})"
        return line

    def _limit(self) -> tuple[str, int]:
        """Return what limits the ids of an input, and their number."""
        option, most = "model.length_quantile", self.options.data["max_length"]
        if self.encoder.length == self.encoder.config["max_sequence_length"] < most:
            option = "the encoder's positions"
        elif self.encoder.length == most:
            option = "data.max_length"
        return option, self.encoder.length

    def _limits(self) -> dict[str, tuple[str, int]]:
        if len(self.sides) > 1:  # they are cut together
            return {}
        option, most = self._limit()
        return dict.fromkeys(super()._limits(), (option, most - self._special))

    def describe_data(self) -> dict[str, str]:
        """Return the data's version and note, and the encoder that was trained on them."""
        one = self.encoder
        named = f"{one.place}, sha256 {one.sha256}, licence {one.licence}"
        return {**super().describe_data(), "encoder": named}

    def assets(self) -> dict[str, bytes]:
        """Return the encoder's configuration and pieces, and the class names."""
        merges = "".join(f"{merge}\n" for merge in self._merges).encode()
        # The encoder's file comes last: `resume` takes it for a sign that the others are there.
        return {
            **super().assets(),
            **({_MERGES: merges} if self.encoder.byte_pairs else {}),
            ENCODER_FILE: self.encoder.content(),
        }

    def resume(self, folder: Path) -> None:
        """Use the encoder that the run recorded, if there is one."""
        super().resume(folder)
        if (folder / ENCODER_FILE).exists():
            self._encoder = Encoder.read(folder / ENCODER_FILE)
            file = folder / VOCABULARY_FILE
            try:
                self._pieces = self._parsed(file.read_bytes().decode("utf-8"), file)
            except (OSError, ValueError) as error:
                raise UserError(f"{folder} is damaged: {file.name} cannot be read") from error

    def read_assets(self, folder: Path) -> None:
        """Restore the encoder's configuration and pieces, and the class names."""
        if not (folder / ENCODER_FILE).exists():
            raise UserError(f"{folder} is damaged: {ENCODER_FILE} is missing")
        super().read_assets(folder)

    def _parsed(self, vocabulary: str, file: Path) -> list[str]:
        pieces = vocabulary.removesuffix("\n").split("\n")
        if self.encoder.byte_pairs:
            try:
                merges = (file.parent / _MERGES).read_bytes().decode("utf-8")
            except (OSError, ValueError) as error:
                raise UserError(f"{file.parent} is damaged: {_MERGES} cannot be read") from error
            self._merges = merges.split("\n")[:-1]
        try:
            self.encoder.tokenizer(pieces, self._merges)
        except ValueError as error:
            raise UserError(f"{file} is damaged: {error}") from error
        return pieces

    def _make_tokenizer(self) -> Tokenizer:
        return self.encoder.tokenizer(self._vocabulary, self._merges)

    def _inputs(self, *sides: tf.Tensor) -> dict[str, tf.Tensor]:
        multiple = self.options.data["length_multiple"]
        return {"ids": pack(self.tokenizer, sides, self._most_ids, multiple)}

    def _joined(self) -> dict[str, Any]:
        def model_ids(text: str) -> dict[str, np.ndarray]:
            return self.tokenize([text]).inputs

        return {"joined": self._special, "model_ids": model_ids}

    def _tokenized(self, columns: Mapping[str, np.ndarray]) -> TokenizedTexts:
        texts = (tf.constant(column.tolist(), tf.string) for column in columns.values())
        inputs = {name: ids.numpy() for name, ids in self._inputs(*map(self._ids, texts)).items()}
        tokens = [[self._vocabulary[one] for one in row[row != 0]] for row in inputs["ids"]]
        return TokenizedTexts(inputs, {"ids": tokens})

    def _make_model(self, vocabulary_size: int, num_classes: int) -> keras.Model:
        return self._model(num_classes, self.options.model["attention_start"])

    def _model(self, num_classes: int, start: str) -> keras.Model:
        options = self.options.model
        dropout = options["dropout"]
        model = EncoderClassifier(
            self._with_attention(self.encoder.build(dropout), start),
            num_classes,
            separator_id=self.tokenizer.end_id,
            dropout=dropout,
            padding_id=self.encoder.padding_id,
            compares=self.encoder.compares,
        )
        limit_training(model, options["frozen_layers"], options["lora_rank"])
        return model

    def _with_attention(self, encoder: keras.Model, start: str) -> keras.Model:
        """Return the encoder with the attention of the options; its own is softmax."""
        name = self.options.model["attention"]
        arguments = self.options.model["attention_options"]
        if name == BASELINE and not arguments:
            return encoder
        swapped = swap_attention(encoder, name, start=start, **arguments)
        swapped.name = encoder.name
        return swapped

    def initialize(self, model: keras.Model) -> None:
        """Give the encoder of a new run its pretrained weights, and fit the layer after it."""
        encoder = self.encoder.pretrained(self.options.model["dropout"])
        start = self.options.model["attention_start"]
        own = [one for one in model.encoder.weights if not one.name.startswith("lora_")]
        pretrained = self._with_attention(encoder, start).weights
        for weight, value in zip(own, pretrained, strict=True):
            weight.assign(value)
        train = self._data.splits["train"].sample(_FITTED)
        balanced = self.options.training.class_weights == "balanced"
        reader = keras.Model(model.inputs, model.get_layer("logits").input)
        start_logits(model, self._outputs(reader, train), train.labels, balanced=balanced)

    def callbacks(self, model: keras.Model) -> list[keras.callbacks.Callback]:
        """Return the callback that moves a blend in the first half of the updates."""
        updates = max(1, round(_BLENDED * self.training_settings.steps))
        return [BlendAttention(updates=updates)] if blends(model) else []

    def finished(self, model: keras.Model) -> keras.Model:
        """Return the model without the attention that a blend started from."""
        left = {id(weight) for start in blends(model) for weight in start.weights}
        if not left:
            return model
        alone = self._model(model.get_layer("logits").units, "projections")
        kept = (weight for weight in model.weights if id(weight) not in left)
        for weight, trained in zip(alone.weights, kept, strict=True):
            weight.assign(trained)
        return alone

    def rate_factors(self, model: keras.Model) -> dict[str, float]:
        """Return the rates that `model.layer_decay` and `model.factor_rate` set."""
        decay, usual = self.options.model["layer_decay"], self.options.training.learning_rate
        rates = {} if decay == 1 else rates_by_depth(model, decay)
        own = self.options.model["factor_rate"]
        for layer in model._flatten_layers() if own != usual else ():
            if isinstance(layer, Start) and layer.amount.trainable:
                rates[layer.amount.path] = own / usual
        return rates
