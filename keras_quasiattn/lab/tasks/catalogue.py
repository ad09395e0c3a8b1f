"""The tasks with their models, presets and options, and a sentence of help on each of them.

Nothing here imports Keras, so help, completion and errors are fast.
"""

import dataclasses
import inspect
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks import (
    classify_presets,
    mlu_presets,
    pair_presets,
    read_presets,
    sequence_presets,
)
from keras_quasiattn.lab.tasks.preset import Preset, TrainingSettings

if TYPE_CHECKING:
    from keras_quasiattn.lab.tasks.task import Task


@dataclasses.dataclass(frozen=True)
class Entry:
    """The description of a task that is available without importing its class, which takes seconds.

    `location` is the class, as "module:class"; `shows_tokens` says whether `predict` answers with
    the tokens of the one text. `Task` documents the other attributes.
    """

    location: str
    summary: str
    models: tuple[str, ...]
    presets: Mapping[str, Preset]
    own_data: tuple[str, str] | None = ("own", "data.train")
    shows_tokens: bool = False


CATALOGUE: Mapping[str, Entry] = {
    "classify": Entry(
        "keras_quasiattn.lab.tasks.classify:Classify",
        "texts to classes: questions, reviews, news, or your own file",
        classify_presets.MODELS,
        classify_presets.PRESETS,
        shows_tokens=True,
    ),
    "mlu": Entry(
        "keras_quasiattn.lab.tasks.mlu:Mlu",
        "arithmetic in characters: two variables and an operation in, a number out",
        mlu_presets.MODELS,
        mlu_presets.PRESETS,
        own_data=None,
    ),
    "pairs": Entry(
        "keras_quasiattn.lab.tasks.pairs:Pairs",
        "two texts to a class: inference, paraphrase, or your own file",
        pair_presets.MODELS,
        pair_presets.PRESETS,
    ),
    "programs": Entry(
        "keras_quasiattn.lab.tasks.sequence_task:Programs",
        "a text to the AlgoLisp program that it asks for, which is run on tests",
        sequence_presets.PROGRAM_MODELS,
        sequence_presets.PROGRAM_PRESETS,
    ),
    "rank": Entry(
        "keras_quasiattn.lab.tasks.rank:Rank",
        "a question and its candidates to their order: answers, replies, or your own file",
        pair_presets.RANK_MODELS,
        pair_presets.RANK_PRESETS,
    ),
    "read": Entry(
        "keras_quasiattn.lab.tasks.read:Read",
        "a question and passages to the answer in them: SQuAD, Quasar-T, SearchQA, own files",
        read_presets.MODELS,
        read_presets.PRESETS,
    ),
    "translate": Entry(
        "keras_quasiattn.lab.tasks.sequence_task:Translate",
        "a sentence to its translation: published corpora, or two files of your own",
        sequence_presets.MODELS,
        sequence_presets.PRESETS,
    ),
}


def usual_model(task: "Entry | type[Task] | Task", preset: str) -> str:
    """Return the default model: the preset's, or else the task's first."""
    usual = task.presets[preset].usual_model if preset in task.presets else ""
    return usual or task.models[0]


def chosen_options(
    name: str,
    task: "Entry | type[Task] | Task",
    *,
    preset: str,
    model: str,
    seed: int,
    overrides: Mapping[str, Any],
) -> Preset:
    """Return the options of a task for this preset and model, with the overrides applied."""
    if preset not in task.presets:
        raise UserError.unknown(f"preset of task {name}", preset, task.presets)
    if model not in task.models:
        raise UserError.unknown(f"model of task {name}", model, task.models)
    if not 0 <= seed < 2**32:
        raise UserError(f"seed is {seed}: it must be at least 0 and below 2**32")
    usual = task.presets[preset].for_model(model)
    vectors = overrides.get("data.vectors")
    if vectors and not usual.takes_vectors:
        able = [one for one in task.models if task.presets[preset].for_model(one).takes_vectors]
        raise UserError(
            f"data.vectors is {str(vectors)!r}: the model {model!r} of task {name} cannot start "
            f"with word vectors; models that can: {', '.join(able) or 'none'}"
        )
    return usual.with_overrides(overrides)


MODELS: Mapping[str, str] = {
    "attention_flow": "GRUs, and one attention between passage and question",
    "bilstm_coda": "LSTMs in both directions, pooled by multi-head CoDA",
    "bilstm_gated": "LSTMs in both directions; a gate opens or closes every token (GA-Net)",
    "bilstm_local": "LSTMs in both directions; softmax over a window around a predicted place",
    "bilstm_none": "LSTMs in both directions, without attention",
    "bilstm_soft": "LSTMs in both directions; softmax over all tokens",
    "coda": "a Transformer whose weights add, subtract or delete (CoDA)",
    "decaprop": "densely connected GRUs, with softmax",
    "decaprop_coda": "densely connected GRUs, with CoDA",
    "decomposable": "attend, compare, aggregate, without recurrence, with softmax",
    "decomposable_coda": "attend, compare, aggregate, without recurrence, with CoDA",
    "encoder": "a pretrained encoder and a dense layer on the mean of its states (--encoder)",
    "mixture": "several decomposable networks, mixed by a latent component",
    "seq2seq": "LSTMs without attention",
    "seq2seq_attention": "LSTMs with softmax attention",
    "seq2seq_coda": "LSTMs with CoDA",
    "siamese_attention": "one GRU encoder for both texts, joined by attention",
    "siamese_attentions": "one GRU encoder for both texts, joined by two heads of attention",
    "siamese_both": "one GRU encoder for both texts, joined by attention and conflict",
    "siamese_conflict": "one GRU encoder for both texts, joined by conflict",
    "siamese_none": "one GRU encoder for both texts, not joined before pooling",
    "softmax": "a Transformer with softmax",
    "transformer": "a Transformer with softmax, or any attention by model.attention",
    "transformer_coda": "a Transformer with CoDA",
    "universal": "a Transformer that applies one block several times, with softmax",
    "universal_coda": "a Transformer that applies one block several times, with CoDA",
    "words_gated": "a gate opens or closes every word by that word alone, so open words decide",
    "words_soft": "softmax over all words, each by itself",
}

_DATA = {
    "answer_length": "most words of an answer",
    "columns": "names of the columns in your files, where they are others (--columns)",
    "forms": "order of the operands: all, or one",
    "high": "end of the range of the numbers, which leaves it out",
    "length_multiple": "batches are padded to a multiple of this many tokens",
    "low": "smallest number",
    "max_length": "most tokens of a text; what follows is cut",
    "min_count": "words that occur less often in the training texts are unknown",
    "null_token": "whether every text starts with a token to align nothing to",
    "operators": "the operations, as characters",
    "phrases": "whether to train on the labelled phrases of the sentences, too",
    "problem_seed": "fixes which problems are generated",
    "question_length": "most words of a question; what follows is cut",
    "questions": "which questions count in the figures: both, or only those with positive ones",
    "row_multiple": "batches have a multiple of this many rows, for several replicas",
    "source": "language to translate from",
    "stride": "words between the starts of two windows of a long passage",
    "target": "language to translate to",
    "test": "your file to measure on at the end (--test)",
    "test_share": "share of the training texts to hold out for the end, without a test file",
    "test_problems": "number of test problems",
    "tokenizer": "how a text becomes tokens: a cleaning of words, or pieces of words",
    "train": "your file to train on (--data)",
    "train_length": "words of a passage that a training step reads",
    "train_problems": "number of training problems",
    "train_share": "share of the training passages to train on",
    "unknown_ids": "ids of the words outside the vocabulary, chosen by a word's hash",
    "unit_norm": "whether word vectors are scaled to length 1",
    "validation": "your file to choose the checkpoint by (--validation)",
    "validation_examples": "number of questions to validate on",
    "validation_fold": "which of the parts to hold out, from 0",
    "validation_problems": "number of validation problems",
    "validation_share": "share of the training texts to hold out, without a validation file",
    "vectors": "file of word vectors to start with (--vectors)",
    "vocabulary_size": "most words or pieces of the vocabulary",
}
_MODEL = {
    "adaptive": "whether every position decides how often the block is applied to it",
    "attention": "name of the attention",
    "attention_dropout": "share of values dropped before what attention compares",
    "attention_options": "options of that attention: model.attention_options.NAME",
    "beam_width": "answers that beam search follows at once; 1 is greedy",
    "character_dim": "width of the embedding of characters",
    "character_units": "size of a recurrent state over a word's characters; 0 leaves them out",
    "comparison": "what is compared of two texts: concat, or difference too",
    "connectors": "whether every layer of one text attends to every layer of the other",
    "difference": "difference that conflict measures: absolute, squared or signed",
    "dropout": "share of values dropped in training",
    "attention_start": "how another attention in an encoder begins: unchanged, blend, projections",
    "embedding_dim": "width of the embedding, and of word vectors from a file",
    "encoder": "name, address or folder of the pretrained encoder (--encoder)",
    "embedding_dropout": "share of embedded values dropped in training",
    "estimator": "how the bound is computed: enumeration or reinforce",
    "exact_match": "whether each word is marked if it occurs in the other text",
    "extra_tokens": "an answer has at most this many tokens more than its text",
    "factors": "factors of the factorization machines",
    "final_connectors": "whether the last layers attend to every layer of the question",
    "frequency": "whether each word gets its frequency in its own text",
    "frozen_layers": "layers of the encoder that stay as they are, from the embeddings up",
    "gate_cost": "cost of an open gate in the loss",
    "gate_inference": "how gates decide after training: threshold or sample",
    "gate_network": "network that decides on the gates",
    "gate_temperature": "temperature of the gates in training",
    "gate_units": "size of the network that decides on the gates",
    "hidden_dim": "width of the Transformer",
    "intermediate_dim": "inner width of the feed-forward networks",
    "intra_attention": "whether each text attends to itself first",
    "intra_components": "components whose texts attend to themselves first",
    "kernel_size": "words that a convolution reads; 1 reads no neighbours",
    "kl_weight": "factor of the divergence in the bound",
    "last_activation": "last activation of what attention compares: relu, tanh, linear",
    "layer_decay": "factor of the learning rate from each layer of the encoder to the one below",
    "length_quantile": "share of the training texts that are read whole, up to data.max_length",
    "lora_rank": "rank of LoRA on the encoder's queries and values, instead of all its weights; "
    "0 without",
    "length_penalty": "how much longer answers are preferred",
    "merge_mode": "how the two directions are joined: concat or sum",
    "num_heads": "attention heads",
    "num_layers": "layers, or times that one block is applied",
    "objective": "what the mixture is trained on: exact, or elbo (a lower bound)",
    "plain_components": "components without attention inside a text",
    "pointer": "how the answer is pointed at: recurrent or attentive",
    "projection_dim": "width to which the embedding is projected",
    "self_attention": "attention of the passage to itself",
    "share_networks": "whether CoDA's distance compares what its similarity compares",
    "train_embedding": "whether training changes the embedding",
    "units": "size of a recurrent state or of a layer",
    "use_intra": "whether the connectors also align each text to itself",
    "window": "positions on each side that local attention sees",
}


def _documented(text: str) -> dict[str, str]:
    """Return the arguments in a docstring, each with its text up to the first period."""
    section = text.partition("\nArgs:\n")[2].partition("\n\n")[0]
    joined = re.sub(r"\n {8,}", " ", section)
    entries = re.findall(r"^ +(\w+): (.*?)\.?$", joined, re.MULTILINE)
    return {name: said.partition(". ")[0] for name, said in entries}


OPTIONS: Mapping[str, str] = {
    **{f"data.{name}": said for name, said in _DATA.items()},
    **{f"model.{name}": said for name, said in _MODEL.items()},
    **{
        f"training.{name}": said
        for name, said in _documented(inspect.getdoc(TrainingSettings) or "").items()
    },
}
