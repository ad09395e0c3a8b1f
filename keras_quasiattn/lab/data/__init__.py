"""Readers of tables and corpora, TFDS builders and `tf.data` pipelines."""

from keras_quasiattn.extras import needs

with needs("tasks"):
    from keras_quasiattn.lab.data.algolisp.generator import (
        GeneratedAlgoLisp,
        GeneratedAlgoLispConfig,
    )
    from keras_quasiattn.lab.data.algolisp.language import Program, ProgramError
    from keras_quasiattn.lab.data.algolisp.problems import (
        ProgramTests,
        ProgramTexts,
        programs_from_files,
        programs_from_tfds,
        read_problems,
    )
    from keras_quasiattn.lab.data.arithmetic import (
        SPLITS,
        ArithmeticGrammar,
        ArithmeticMlu,
        ArithmeticMluConfig,
        Expression,
        split_of,
    )
    from keras_quasiattn.lab.data.batches import (
        evaluation_batches,
        evaluation_token_batches,
        fill_last_batch,
        sequence_pair_encoder,
        split_reader,
        token_batches,
        training_batches,
    )
    from keras_quasiattn.lab.data.corpora import (
        AgNewsPart,
        CorpusConfig,
        PairCorpus,
        ParallelCorpus,
        QuestionCorpus,
        StanfordSentiment,
    )
    from keras_quasiattn.lab.data.examples import (
        LabelledTexts,
        LabelledTextSet,
        ParallelTexts,
        ParallelTextSet,
        TextPairs,
        counted_letters,
        pairs_from_click_log,
        pairs_from_files,
        pairs_from_tfds,
        parallel_from_files,
        parallel_from_tfds,
        ranked_pairs_from_files,
        texts_from_files,
        texts_from_tfds,
        without_long_pairs,
    )
    from keras_quasiattn.lab.data.preparation import pending_download, prepare
    from keras_quasiattn.lab.data.questions import (
        Question,
        ReadingTexts,
        questions_from_files,
        questions_from_tfds,
        reading_texts,
    )
    from keras_quasiattn.lab.data.table_files import (
        read_inputs,
        read_parallel,
        read_table,
        write_table,
    )

__all__ = [
    "SPLITS",
    "AgNewsPart",
    "ArithmeticGrammar",
    "ArithmeticMlu",
    "ArithmeticMluConfig",
    "CorpusConfig",
    "Expression",
    "GeneratedAlgoLisp",
    "GeneratedAlgoLispConfig",
    "LabelledTextSet",
    "LabelledTexts",
    "PairCorpus",
    "ParallelCorpus",
    "ParallelTextSet",
    "ParallelTexts",
    "Program",
    "ProgramError",
    "ProgramTests",
    "ProgramTexts",
    "Question",
    "QuestionCorpus",
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
