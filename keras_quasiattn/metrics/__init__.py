"""Keras metrics, scores of decoded texts, and counts of the operations of attention."""

from keras_quasiattn.metrics.attention_flops import attention_flops, auxiliary_flops
from keras_quasiattn.metrics.classification import MacroF1, classification_figures
from keras_quasiattn.metrics.decoded_texts import (
    answer_exact_match,
    answer_f1,
    answer_scores,
    bleu,
    exact_match,
    normalized_answer,
    program_accuracy,
    scores_by_question,
)
from keras_quasiattn.metrics.ranking import (
    MeanAveragePrecision,
    MeanReciprocalRank,
    RankingMetric,
    RecallAtK,
    average_precisions,
)
from keras_quasiattn.metrics.sequence_metrics import (
    SequenceAccuracy,
    SequencePerplexity,
    perplexity,
)
from keras_quasiattn.metrics.span_metrics import SpanAccuracy, SpanF1

__all__ = [
    "MacroF1",
    "MeanAveragePrecision",
    "MeanReciprocalRank",
    "RankingMetric",
    "RecallAtK",
    "SequenceAccuracy",
    "SequencePerplexity",
    "SpanAccuracy",
    "SpanF1",
    "answer_exact_match",
    "answer_f1",
    "answer_scores",
    "attention_flops",
    "auxiliary_flops",
    "average_precisions",
    "bleu",
    "classification_figures",
    "exact_match",
    "normalized_answer",
    "perplexity",
    "program_accuracy",
    "scores_by_question",
]
