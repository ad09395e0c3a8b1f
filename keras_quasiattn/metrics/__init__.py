"""Keras metrics, scores of decoded texts, and the cost of attention in operations."""

from keras_quasiattn.metrics.answers import (
    answer_exact_match,
    answer_f1,
    answer_scores,
    normalized_answer,
    scores_by_question,
)
from keras_quasiattn.metrics.attention_flops import attention_flops, auxiliary_flops
from keras_quasiattn.metrics.bleu import bleu
from keras_quasiattn.metrics.classification import classification_figures
from keras_quasiattn.metrics.mean_average_precision import (
    MeanAveragePrecision,
    average_precisions,
)
from keras_quasiattn.metrics.mean_reciprocal_rank import MeanReciprocalRank
from keras_quasiattn.metrics.perplexity import perplexity
from keras_quasiattn.metrics.program_accuracy import program_accuracy
from keras_quasiattn.metrics.ranking_metric import RankingMetric
from keras_quasiattn.metrics.recall_at_k import RecallAtK
from keras_quasiattn.metrics.sequence_accuracy import SequenceAccuracy, exact_match
from keras_quasiattn.metrics.sequence_perplexity import SequencePerplexity
from keras_quasiattn.metrics.span_metrics import SpanAccuracy, SpanF1

__all__ = [
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
