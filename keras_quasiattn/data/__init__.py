"""TFDS builders and tf.data pipelines."""

from keras_quasiattn.extras import needs

with needs("tasks"):
    from keras_quasiattn.data.ag_news_part import AgNewsPart
    from keras_quasiattn.data.algolisp.builder import GeneratedAlgoLisp, GeneratedAlgoLispConfig
    from keras_quasiattn.data.algolisp.interpreter import Program
    from keras_quasiattn.data.algolisp.problems import ProgramTests, read_problems
    from keras_quasiattn.data.algolisp.program_texts import (
        ProgramTexts,
        programs_from_files,
        programs_from_tfds,
    )
    from keras_quasiattn.data.algolisp.trees import ProgramError
    from keras_quasiattn.data.arithmetic import ArithmeticGrammar, Expression
    from keras_quasiattn.data.counted_letters import counted_letters
    from keras_quasiattn.data.downloads import pending_download
    from keras_quasiattn.data.labelled_texts import (
        LabelledTexts,
        LabelledTextSet,
        texts_from_files,
        texts_from_tfds,
    )
    from keras_quasiattn.data.mlu import SPLITS, ArithmeticMlu, ArithmeticMluConfig, split_of
    from keras_quasiattn.data.own_tables import write_table
    from keras_quasiattn.data.pair_corpus import PairCorpus, PairCorpusConfig
    from keras_quasiattn.data.parallel_corpus import ParallelCorpus, ParallelCorpusConfig
    from keras_quasiattn.data.parallel_texts import (
        ParallelTexts,
        ParallelTextSet,
        parallel_from_files,
        parallel_from_tfds,
        without_long_pairs,
    )
    from keras_quasiattn.data.pipeline import (
        evaluation_batches,
        fill_last_batch,
        prepare,
        sequence_pair_encoder,
        split_reader,
        training_batches,
    )
    from keras_quasiattn.data.question_corpus import QuestionCorpus, QuestionCorpusConfig
    from keras_quasiattn.data.question_files import Question
    from keras_quasiattn.data.reading_texts import (
        ReadingTexts,
        questions_from_files,
        questions_from_tfds,
        reading_texts,
    )
    from keras_quasiattn.data.stanford_sentiment import StanfordSentiment
    from keras_quasiattn.data.table_files import read_inputs, read_parallel, read_table
    from keras_quasiattn.data.text_pairs import (
        TextPairs,
        pairs_from_click_log,
        pairs_from_files,
        pairs_from_tfds,
        ranked_pairs_from_files,
    )
    from keras_quasiattn.data.token_batches import evaluation_token_batches, token_batches

__all__ = [
    "SPLITS",
    "AgNewsPart",
    "ArithmeticGrammar",
    "ArithmeticMlu",
    "ArithmeticMluConfig",
    "Expression",
    "GeneratedAlgoLisp",
    "GeneratedAlgoLispConfig",
    "LabelledTextSet",
    "LabelledTexts",
    "PairCorpus",
    "PairCorpusConfig",
    "ParallelCorpus",
    "ParallelCorpusConfig",
    "ParallelTextSet",
    "ParallelTexts",
    "Program",
    "ProgramError",
    "ProgramTests",
    "ProgramTexts",
    "Question",
    "QuestionCorpus",
    "QuestionCorpusConfig",
    "ReadingTexts",
    "StanfordSentiment",
    "TextPairs",
    "counted_letters",
    "evaluation_batches",
    "evaluation_token_batches",
    "fill_last_batch",
    "pairs_from_click_log",
    "pairs_from_files",
    "pairs_from_tfds",
    "parallel_from_files",
    "parallel_from_tfds",
    "pending_download",
    "prepare",
    "programs_from_files",
    "programs_from_tfds",
    "questions_from_files",
    "questions_from_tfds",
    "ranked_pairs_from_files",
    "read_inputs",
    "read_parallel",
    "read_problems",
    "read_table",
    "reading_texts",
    "sequence_pair_encoder",
    "split_of",
    "split_reader",
    "texts_from_files",
    "texts_from_tfds",
    "token_batches",
    "training_batches",
    "without_long_pairs",
    "write_table",
]
