"""How tasks with a pretrained encoder read texts and build their model."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn.attention.coda.calibration import calibrate_attention, can_be_calibrated
from keras_quasiattn.attention.start import Start
from keras_quasiattn.attention.swapped_layer import STARTS
from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks.attention_options import BASELINE
from keras_quasiattn.lab.tasks.encoder import Encoder, Tokenizer, load_encoder
from keras_quasiattn.lab.tasks.encoder_model import (
    EncoderClassifier,
    limit_training,
    rates_by_depth,
    start_logits,
)
from keras_quasiattn.lab.tasks.encoder_place import ENCODER_FILE
from keras_quasiattn.lab.tasks.task import TokenizedTexts
from keras_quasiattn.lab.tasks.vocabulary_task import VOCABULARY_FILE, VocabularyTask
from keras_quasiattn.models import swap_attention
from keras_quasiattn.models.blend_attention import BlendAttention, blends

_MERGES = "merges.txt"
_FITTED = 5_000  # training texts that the dense layer's start is fitted to, to take only seconds
_BLENDED = 0.5  # the share of the updates in which a blend moves


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
        self._content = b""  # of its file in a run, which may be older than some of its entries
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
            try:
                length = self._length(encoder.length)
            except BaseException:  # or the next call would take it for a prepared one
                self._encoder, self._vocabulary = None, []
                raise
            self._encoder = dataclasses.replace(
                encoder, length=length, compares=len(self.sides) == 2
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
            ENCODER_FILE: self._content or self.encoder.content(),
        }

    def resume(self, folder: Path) -> None:
        """Use the encoder that the run recorded, if there is one."""
        super().resume(folder)
        if (folder / ENCODER_FILE).exists():
            self._encoder = Encoder.read(folder / ENCODER_FILE)
            self._content = (folder / ENCODER_FILE).read_bytes()
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

    def _padded_lengths(self, columns: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [np.sum(super()._padded_lengths(columns), axis=0)]

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
        if can_be_calibrated(model):  # as training will, before what the dense layer reads
            calibrate_attention(model, next(iter(self.training_data(0)))[0])
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
