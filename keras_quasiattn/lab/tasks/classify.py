"""Text classification: question types, review sentiment, news topics."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn.lab.data import (
    LabelledTexts,
    LabelledTextSet,
    evaluation_batches,
    fill_last_batch,
    training_batches,
)
from keras_quasiattn.lab.data.labelled_texts import texts_from_file
from keras_quasiattn.lab.tasks.attention_options import attention_of
from keras_quasiattn.lab.tasks.baselines import bag_of_words, rights, simple_figures
from keras_quasiattn.lab.tasks.batches import as_bytes, as_texts, in_batches, plain, weights_of
from keras_quasiattn.lab.tasks.catalogue import CATALOGUE
from keras_quasiattn.lab.tasks.classify_data import OWN_EXAMPLE, SOURCES, load_texts
from keras_quasiattn.lab.tasks.classify_presets import MODELS, PRESETS, TEXT_CLASSIFIERS
from keras_quasiattn.lab.tasks.encoder_place import ENCODER
from keras_quasiattn.lab.tasks.encoder_reading import EncoderReading
from keras_quasiattn.lab.tasks.faithfulness import faithfulness
from keras_quasiattn.lab.tasks.measured import Measured, judge_classes
from keras_quasiattn.lab.tasks.preset import Preset
from keras_quasiattn.lab.tasks.sources import Source
from keras_quasiattn.lab.tasks.task import ServingSignature
from keras_quasiattn.lab.tasks.tokenized_texts import TokenizedTexts
from keras_quasiattn.lab.tasks.vocabulary_task import ANSWER_NAMES, VocabularyTask
from keras_quasiattn.metrics import attention_flops, classification_figures
from keras_quasiattn.metrics.attention_flops import POOLINGS
from keras_quasiattn.models import TextClassifier, TransformerClassifier

# Options of these models that set an argument of the attention layer, with the argument's name.
_UNIT_OPTIONS = {
    "gate_network": "network",
    "gate_units": "units",
    "gate_temperature": "temperature",
    "gate_cost": "open_gate_cost",
    "gate_inference": "inference",
    "window": "window",
    "num_heads": "num_heads",
}


class Classify(VocabularyTask):
    """Text classification: Tables 2 and 3 of GA-Net, Table 5 of CoDA.

    The `bilstm_*` models differ in the layer between the LSTM states and the classes, and
    `words_gated` has gates over the words themselves, so only the open words decide; see
    `models.TextClassifier`. `transformer` and `transformer_coda` differ in their attention; see
    `models.TransformerClassifier`. Texts of more than `data.max_length` tokens are truncated, in
    training and in prediction.

    Source: Xue et al. 2019, "Not All Attention Is Needed"; Tay et al. 2019, §3.5.
    """

    name: ClassVar[str] = "classify"
    summary: ClassVar[str] = CATALOGUE["classify"].summary
    figure: ClassVar[str] = "accuracy"
    shares: ClassVar[tuple[str, ...]] = ("accuracy",)
    has_classes: ClassVar[bool] = True
    models: ClassVar[tuple[str, ...]] = MODELS
    presets: ClassVar[dict[str, Preset]] = PRESETS
    own_data: ClassVar[tuple[str, str] | None] = CATALOGUE["classify"].own_data
    sources: ClassVar[Mapping[str, Source]] = SOURCES
    input_columns: ClassVar[tuple[str, ...]] = ("text",)
    readings: ClassVar[Mapping[str, type]] = {ENCODER: EncoderReading}
    answer_names: ClassVar[tuple[str, ...] | None] = ANSWER_NAMES

    @property
    def example(self) -> str:
        """A text like those in the preset's data."""
        return SOURCES[self.preset].example if self.preset in SOURCES else OWN_EXAMPLE

    def _load(self) -> tuple[LabelledTextSet[LabelledTexts], str]:
        return load_texts(self.preset, self.options.data, self.data_dir)

    def _read_file(self, file: str, columns: Mapping[str, str] | None) -> LabelledTexts:
        return texts_from_file(file, self._classes, columns)

    def _training_texts(self) -> list[bytes]:
        return self._data.splits["train"].texts.tolist()

    def _make_model(self, vocabulary_size: int, num_classes: int) -> keras.Model:
        options, attention = attention_of(self.options.model)
        if self.model not in TEXT_CLASSIFIERS:
            return TransformerClassifier(vocabulary_size, num_classes, **options, **attention)
        unit = (attention.get("attention_options") or {}) | {
            argument: options.pop(option)
            for option, argument in _UNIT_OPTIONS.items()
            if option in options
        }
        encoder, pooling = TEXT_CLASSIFIERS[self.model]
        return TextClassifier(
            vocabulary_size,
            num_classes,
            encoder=encoder,
            attention=attention.get("attention", pooling),
            attention_options=unit or None,
            **options,
        )

    def training_data(self, first_step: int) -> tf.data.Dataset:
        """Return the training texts, reshuffled in every pass.

        Texts of similar length share a batch.
        """
        texts = self._data.splits["train"]
        return training_batches(
            self._dataset(texts).skip,
            batch_size=self._batch_size,
            seed=self.seed,
            first_step=first_step,
            encode=self._encode,
            shuffle_buffer=len(texts),
            length_key="length",
        )

    def validation_data(self) -> tf.data.Dataset:
        """Return every validation text; repeated texts of weight 0 fill the last batch."""
        texts, size = self._data.splits["validation"], self._batch_size
        order = np.argsort(self._lengths(texts.texts), kind="stable")
        filled, weights = fill_last_batch(order, size)
        examples = self._dataset(texts.where(filled), weights)
        return evaluation_batches(examples, batch_size=size, encode=self._encode)

    def _dataset(self, texts: LabelledTexts, weights: np.ndarray | None = None) -> tf.data.Dataset:
        columns = {
            "text": tf.constant(texts.texts.tolist(), tf.string),
            "label": texts.labels,
            "length": self._lengths(texts.texts),
            **({} if weights is None else {"weight": weights}),
        }
        return tf.data.Dataset.from_tensor_slices(columns)

    def _encode(self, examples: dict[str, tf.Tensor]) -> tuple[tf.Tensor, ...]:
        target = tf.one_hot(examples["label"], len(self._classes))
        return self._argument(self._ids(examples["text"])), target, *weights_of(examples)

    def measure(
        self, model: keras.Model, split: str = "test", limit: int | None = None
    ) -> Measured:
        """Return `classification_figures` and, if they can be counted, attention FLOPs.

        With gates, also return the share of open gates and the results of `faithfulness`.
        """
        chosen, answer_ids = self._chosen(split, limit), self._ids_function(model)
        answers = self._answers(answer_ids, chosen.texts)
        probabilities = np.array([answer["probabilities"] for answer in answers])
        figures: dict[str, Any] = {
            **classification_figures(chosen.labels, probabilities, self._classes),
            "texts": len(chosen),
        }
        _, attention = TEXT_CLASSIFIERS.get(self.model, ("", ""))
        if attention in POOLINGS:
            lengths = [len(answer["tokens"]) for answer in answers]
            opened = [
                int(np.sum(answer["gates"])) for answer in answers if "gates" in answer
            ] or None
            options = self.options.model
            width = options["units"] * (2 if options.get("merge_mode") == "concat" else 1)
            figures["attention_flops"] = attention_flops(
                attention, lengths, width, open_counts=opened, window=options.get("window")
            )
            if opened is not None:
                figures["density"] = sum(opened) / max(sum(lengths), 1)
                figures |= faithfulness(answers, functools.partial(self._probabilities, answer_ids))
        inputs = as_texts(chosen.texts)
        judged = judge_classes(inputs, chosen.labels, probabilities, self._classes)
        return Measured(figures, rights(chosen, probabilities), judged)

    def _probabilities(self, answer_ids: Any, texts: list[list[str]]) -> np.ndarray:
        """Return the class probabilities of texts that are given as tokens."""
        tokens = tf.ragged.constant(texts, tf.string, ragged_rank=1)
        return answer_ids(self.tokenizer.pad(tokens)[1])["probabilities"].numpy()

    def measure_baselines(
        self, split: str = "test", limit: int | None = None
    ) -> dict[str, Measured]:
        """Measure the most frequent class and a bag-of-words regression: accuracy, macro-F1."""
        train, chosen = self._data.splits["train"], self._chosen(split, limit)
        return simple_figures(train, chosen, bag_of_words(train, chosen, len(self._classes)))

    def predict(self, model: keras.Model, inputs: Sequence[str]) -> list[dict[str, Any]]:
        """Return each text's class, class probabilities, tokens, and any weights and gates."""
        answers = self._answers(self._ids_function(model), as_bytes(inputs))
        return [{"input": text, **answer} for text, answer in zip(inputs, answers, strict=True)]

    def _answers(self, answer_ids: Any, texts: np.ndarray) -> list[dict[str, Any]]:
        answers = in_batches(self._answer_function(answer_ids), [texts], [self._lengths(texts)])
        return [_readable(answer) for answer in answers]

    def check_input(self, text: str | bytes) -> None:
        """Accept any text."""

    def texts(self, split: str, limit: int) -> list[str]:
        """Return the first `limit` texts of a split."""
        return as_texts(self._chosen(split, limit).texts)

    def tokenize(self, texts: Sequence[str]) -> TokenizedTexts:
        """Return the token ids of the texts, with the tokens."""
        return self._tokenized({"text": as_bytes(texts)})

    def serving_signature(self, model: keras.Model) -> ServingSignature:
        """Map `text` to `label`, `classes`, `probabilities`, `tokens`, any weights and gates."""
        answer_ids = self._ids_function(model)
        return ServingSignature(
            function=self._answer_function(answer_ids),
            input_signature=[tf.TensorSpec((None,), tf.string, name="text")],
            resources=self.tokenizer.resources,
            tokenize=self._token_ids,
            answer_ids=answer_ids,
            longest=self._most_ids,
            **self._joined(),
        )

    def _ids_function(self, model: keras.Model) -> Any:
        @tf.function(input_signature=[tf.TensorSpec((None, None), tf.int32, name="ids")])
        def answer(ids: tf.Tensor) -> dict[str, tf.Tensor]:
            classes = tf.constant(self._classes, tf.string)
            inputs = self._inputs(self._readable_ids(ids))
            explained = model.explain(*inputs.values())  # weights and gates: (B, T)
            logits = explained.pop("logits")  # (B, classes)
            return {
                "label": tf.gather(classes, tf.argmax(logits, axis=-1)),
                "classes": tf.tile(classes[None], (tf.shape(ids)[0], 1)),  # (B, classes)
                "probabilities": tf.nn.softmax(logits),
                **explained,
            }

        return answer

    def _answer_function(self, answer_ids: Any) -> Any:
        tokenizer = self.tokenizer  # created outside the graph

        @tf.function(input_signature=[tf.TensorSpec((None,), tf.string, name="text")])
        def answer(text: tf.Tensor) -> dict[str, tf.Tensor]:
            tokens, ids = tokenizer.pad(self._tokens(text))  # (B, T) each
            return {**answer_ids(ids), "tokens": tokens}

        return answer


def _readable(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return one text's answer as plain values, without padding."""
    length = int(np.sum(row["tokens"] != b""))
    return {
        name: plain(value[:length] if name in ("tokens", "weights", "gates") else value)
        for name, value in row.items()
    }
