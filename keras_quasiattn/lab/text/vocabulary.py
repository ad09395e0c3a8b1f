"""Vocabularies: learned from texts, stored in a file with one token per line."""

import collections
from collections.abc import Collection, Mapping, Sequence

import tensorflow as tf
from tensorflow_text.tools.wordpiece_vocab import bert_vocab_from_dataset

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.text.cleaning import TEXT_VERSION, apostrophes
from keras_quasiattn.lab.text.vocabulary_tokenizers import VocabularyTokenizer, WordTokenizer

_SPECIAL = [VocabularyTokenizer.PADDING, VocabularyTokenizer.UNKNOWN]
_BATCH = 1000


def count_words(
    texts: Sequence[str | bytes], cleaning: str, text_version: int = TEXT_VERSION
) -> Mapping[str, int]:
    """Count the words of some texts; the other arguments are as for `WordTokenizer`."""
    tokenizer = WordTokenizer(_SPECIAL, cleaning, text_version=text_version)
    split = tf.function(tokenizer.split, input_signature=[tf.TensorSpec((None,), tf.string)])
    counts: collections.Counter[str] = collections.Counter()
    for start in range(0, len(texts), _BATCH):
        words = split(tf.constant(list(texts[start : start + _BATCH]), tf.string)).flat_values
        counts.update(word.decode("utf-8", "replace") for word in words.numpy())
    return counts


def ranked_words(
    counts: Mapping[str, int], *, size: int, min_count: int = 1, known: Collection[str] = ()
) -> list[str]:
    """Return a vocabulary for `WordTokenizer`: the most frequent of the counted words.

    Args:
        counts: how often each word occurs, as from `count_words`.
        size: maximum size of the vocabulary, including the two special tokens.
        min_count: rarer words are left out, unless they are in `known`.
        known: words that may be rare, for example because they have a word vector.

    Returns:
        The special tokens, then words by falling count; words of equal count in alphabetical order.

    >>> counts = count_words(["a b a", "c b a"], "words")
    >>> ranked_words(counts, size=10, min_count=2, known={"c"})
    ['[PAD]', '[UNK]', 'a', 'b', 'c']
    """
    kept = [word for word, count in counts.items() if count >= min_count or word in known]
    ranked = sorted(set(kept) - set(_SPECIAL), key=lambda word: (-counts[word], word))
    return [*_SPECIAL, *ranked[: size - len(_SPECIAL)]]


def learn_subwords(
    texts: Sequence[str | bytes], *, size: int, text_version: int = TEXT_VERSION
) -> list[str]:
    """Learn a vocabulary for `SubwordTokenizer`: pieces of the words of some texts.

    Args:
        texts: the training texts.
        size: approximate size of the vocabulary.
        text_version: as for `SubwordTokenizer`.

    Source: tensorflow-text's `bert_vocab_from_dataset`.
    """
    pieces = bert_vocab_from_dataset.bert_vocab_from_dataset(
        tf.data.Dataset.from_tensor_slices(list(texts))
        .batch(_BATCH)
        .map(lambda some: apostrophes(some, text_version)),
        vocab_size=size,
        reserved_tokens=_SPECIAL,
        bert_tokenizer_params={"lower_case": True},
    )
    return list(dict.fromkeys(pieces))


def vocabulary_text(vocabulary: Sequence[str]) -> str:
    """Return the content of a vocabulary file: one token per line, in order of the ids."""
    return "".join(f"{token}\n" for token in vocabulary)


def read_vocabulary(text: str, source: str) -> list[str]:
    """Read a vocabulary from the content of its file.

    Args:
        text: content of the file.
        source: name of the file, for the error message.

    Raises:
        UserError: the text is not a vocabulary.
    """
    vocabulary = text.removesuffix("\n").split("\n")
    if vocabulary[:2] != _SPECIAL or len(set(vocabulary)) != len(vocabulary):
        raise UserError(
            f"{source} is damaged: it must begin with {' and '.join(_SPECIAL)}, one per line, "
            "and have no token twice"
        )
    return vocabulary
