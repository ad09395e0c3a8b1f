"""Text classification: question types, review sentiment, news topics."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn.lab.data import (
    AgNewsPart,
    LabelledTexts,
    StanfordSentiment,
    counted_letters,
    texts_from_files,
    texts_from_tfds,
)
from keras_quasiattn.lab.data.examples import classified_from_file
from keras_quasiattn.lab.tasks.attention_options import attention_of
from keras_quasiattn.lab.tasks.batches import as_texts
from keras_quasiattn.lab.tasks.classify_presets import TEXT_CLASSIFIERS
from keras_quasiattn.lab.tasks.encoder_place import ENCODER
from keras_quasiattn.lab.tasks.encoder_reading import EncoderReading
from keras_quasiattn.lab.tasks.measured import Measured
from keras_quasiattn.lab.tasks.preset import SPLITS
from keras_quasiattn.lab.tasks.sources import Source, own_source
from keras_quasiattn.lab.tasks.vocabulary_task import ClassTask
from keras_quasiattn.metrics import attention_flops
from keras_quasiattn.metrics.attention_flops import POOLINGS
from keras_quasiattn.models import TextClassifier, TransformerClassifier

_TEXTS, _BATCH = 1000, 100
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


def _texts(
    builder: Any,
    example: str,
    keys: tuple[str, ...] = ("text",),
    label: str = "label",
    splits: tuple[str, ...] = ("train", "test"),
    **more: Any,
) -> Source:
    """Return the source of a data set whose features `keys` together are the text."""

    def read(made: Any, _: Any) -> Any:
        return texts_from_tfds(made, keys, label, splits)

    return Source(builder=builder, example=example, read=read, **more)


_REVIEW = "a gorgeous, witty, seductive movie ."
_NEWS = "Stocks fall as oil prices rise - Shares fell on Wall Street after oil reached a new high."


class Classify(ClassTask):
    """Text classification: Tables 2 and 3 of GA-Net, Table 5 of CoDA.

    The `bilstm_*` models differ in the layer between the LSTM states and the classes, and
    `words_gated` has gates over the words themselves, so only the open words decide; see
    `models.TextClassifier`. `transformer` and `transformer_coda` differ in their attention; see
    `models.TransformerClassifier`. Texts of more than `data.max_length` tokens are truncated, in
    training and in prediction.

    Source: Xue et al. 2019, "Not All Attention Is Needed"; Tay et al. 2019, §3.5.
    """

    name: ClassVar[str] = "classify"
    input_columns = ("text",)
    readings: ClassVar[Mapping[str, type]] = {ENCODER: EncoderReading}
    sources: ClassVar[Mapping[str, Source]] = {
        "trec": _texts("trec", "What is the capital of Yugoslavia ?", label="label-coarse"),
        "sst1": _texts(StanfordSentiment, _REVIEW, splits=SPLITS, config="fine"),
        "sst2": _texts(StanfordSentiment, _REVIEW, splits=SPLITS, config="binary"),
        "imdb": _texts("imdb_reviews", "A gorgeous, witty film.<br />See it twice!"),
        "ag_news": _texts("ag_news_subset", _NEWS, ("title", "description")),
        "ag_news_part": _texts(AgNewsPart, _NEWS, published_rows=120_000),
        "letters": Source(example="b a f b c b", read=lambda _: counted_letters()),
        "own": own_source("any text", texts_from_files),
    }

    def _read_file(self, file: str, columns: Mapping[str, str] | None) -> LabelledTexts:
        return classified_from_file(LabelledTexts, file, ("text",), self._classes, columns)

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

    def _measure(self, model: keras.Model, chosen: Any) -> Measured:
        """Return `classification_figures`, attention FLOPs and, with gates, `faithfulness`."""
        answer_ids = self._once(self._ids_function, model)
        answers = self._answers(answer_ids, [chosen.texts])
        probabilities = np.array([answer["probabilities"] for answer in answers])
        measured = self._classified(chosen, as_texts(chosen.texts), probabilities, "texts")
        figures = dict(measured.figures)
        _, attention = TEXT_CLASSIFIERS.get(self.model, ("", ""))
        if attention in POOLINGS:
            lengths = [len(answer["tokens"]) for answer in answers]
            gates = [answer["gates"] for answer in answers if "gates" in answer]
            opened = [int(np.sum(one)) for one in gates] or None
            options = self.options.model
            width = options["units"] * (2 if options.get("merge_mode") == "concat" else 1)
            figures["attention_flops"] = attention_flops(
                attention, lengths, width, open_counts=opened, window=options.get("window")
            )
            if opened is not None:
                figures["density"] = sum(opened) / max(sum(lengths), 1)

                def probabilities_of(texts: list[list[str]]) -> np.ndarray:
                    tokens = tf.ragged.constant(texts, tf.string, ragged_rank=1)
                    return answer_ids(self.tokenizer.pad(tokens)[1])["probabilities"].numpy()

                figures |= faithfulness(answers, probabilities_of)
        return measured._replace(figures=figures)


def faithfulness(
    answers: Sequence[Mapping[str, Any]], probabilities_of: Callable[[list[list[str]]], np.ndarray]
) -> dict[str, float]:
    """Return how much probability answers lose without their open words, and with only those.

    Each is the mean over the first 1,000 texts of p − p', where p is the probability of the
    predicted label for the whole text and p' its probability for the shortened text.

    Source: DeYoung et al. 2020, "ERASER", who call them comprehensiveness and sufficiency.
    """
    answers = answers[:_TEXTS]
    whole = np.array([answer["probabilities"] for answer in answers])
    labels = whole.argmax(axis=1)
    figures = {}
    for name, kept in (("drop_without_open", False), ("drop_with_open_only", True)):
        pairs = [zip(one["tokens"], one["gates"], strict=True) for one in answers]
        texts = [[token for token, gate in both if bool(gate) is kept] for both in pairs]
        order = np.argsort([len(text) for text in texts], kind="stable")
        rest = np.empty_like(whole)
        for start in range(0, len(texts), _BATCH):
            rows = order[start : start + _BATCH]
            rest[rows] = probabilities_of([texts[row] for row in rows])
        of_label = (np.arange(len(texts)), labels)
        figures[name] = float(np.mean(whole[of_label] - rest[of_label]))
    return figures
