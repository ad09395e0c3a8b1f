"""Tokenizers that a SavedModel can contain, vocabularies and word vectors."""

from keras_quasiattn.extras import needs

with needs("tasks"):
    from keras_quasiattn.lab.text.encoder_tokenizers import BytePairTokenizer, EncoderTokenizer
    from keras_quasiattn.lab.text.open_text import open_text
    from keras_quasiattn.lab.text.sequence_tokenizers import (
        ByteTokenizer,
        SentencePieceTokenizer,
        learn_sentence_pieces,
    )
    from keras_quasiattn.lab.text.vocabulary_tokenizers import (
        CLEANINGS,
        SPAN_CLEANINGS,
        TEXT_VERSION,
        SpanTokenizer,
        SubwordTokenizer,
        VocabularyTokenizer,
        WordTokenizer,
        count_words,
        learn_subwords,
        ranked_words,
        read_vocabulary,
        vocabulary_text,
    )
    from keras_quasiattn.lab.text.word_vectors import covered, embedding_matrix, read_word_vectors

__all__ = [
    "CLEANINGS",
    "SPAN_CLEANINGS",
    "TEXT_VERSION",
    "BytePairTokenizer",
    "ByteTokenizer",
    "EncoderTokenizer",
    "SentencePieceTokenizer",
    "SpanTokenizer",
    "SubwordTokenizer",
    "VocabularyTokenizer",
    "WordTokenizer",
    "count_words",
    "covered",
    "embedding_matrix",
    "learn_sentence_pieces",
    "learn_subwords",
    "open_text",
    "ranked_words",
    "read_vocabulary",
    "read_word_vectors",
    "vocabulary_text",
]
