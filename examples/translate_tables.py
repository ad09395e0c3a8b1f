"""CoDA's tables 4, 8 and 9, the HW4 write-up's recurrent models: runs what is missing, prints it.

    python examples/translate_tables.py train --tables 4 --datasets multi30k --seeds 3
    python examples/translate_tables.py show

Tables 8 and 9, the compositions, are measured on the validation data after the first 600 updates.
The table `grid` has learning rates and label smoothing for table 4's models, by validation data
after a quarter of table 4's updates. The table `learned` has CoDA with learned α and β at the
budget and the rates of `mechanism_tables.py`, where α = β = 1. A run is one `quasiattn train` and
one `quasiattn evaluate --record`, so a row of the results file holds the command that made it. Runs
that are already in that file are skipped, and an interrupted run resumes where it stopped. Data are
read from the folder that QUASIATTN_DATA_DIR names (default `data`).
"""

from collections.abc import Iterator

from mechanism_tables import EXPERIMENTS
from rank_tables import PLAIN, TABLE_8
from tables import Row, Tables, grid

# BLEU on IWSLT'15 English to Vietnamese; not comparable with BLEU on other data.
TABLE_4 = {"transformer": "28.43", "transformer_coda": "29.84"}
DATA = {"multi30k": False, "iwslt15_envi_part": False, "iwslt15_envi": True}
TABLE_9 = {
    ("tanh", "sigmoid"): "27.8",
    ("tanh", "tanh"): "23.1",
    ("tanh", "arctan"): "21.9",
    ("tanh", "algebraic"): "26.1",
    ("sigmoid", "tanh"): "21.9",
    ("sigmoid", "sigmoid"): "27.5",
    ("sigmoid", "arctan"): "25.1",
    ("sigmoid", "algebraic"): "26.3",
}
# An hour or two on one core: half the preset's updates, with half as many tokens in each.
BUDGET = {
    "training.steps": "4000",
    "training.batch_size": "2048",
    "training.warmup_steps": "1000",
    "training.checkpoint_every": "250",
}
# A quarter of it, decoded greedily.
QUARTER = {
    **BUDGET,
    "training.steps": "1000",
    "training.warmup_steps": "250",
    "training.average_checkpoints": "1",
    "model.beam_width": "1",
}
GRID = {
    "training.learning_rate": ("0.002", "0.005"),
    "training.label_smoothing": ("0.0", "0.1"),
}
# Eight minutes on one core: the beginning of training, decoded greedily.
SMALL_BUDGET = {
    "training.steps": "600",
    "training.batch_size": "1024",
    "training.warmup_steps": "150",
    "training.checkpoint_every": "100",
    "training.average_checkpoints": "2",
    "model.beam_width": "1",
}
# BLEU and perplexity of the HW4 write-up "All about Attention" (Chen, Ling and Rivera 2019), which
# does not say on which data.
WRITE_UP = {"seq2seq": "6.32 25.4", "seq2seq_attention": "17.77 15.1", "seq2seq_coda": ""}
WRITE_UP_SIZE = {"model.embedding_dim": "100", "model.units": "100", "model.dropout": "0.0"}
COMPARED = EXPERIMENTS["multi30k"]


def rows() -> Iterator[Row]:
    """Every row of every table."""
    for dataset, is_papers in DATA.items():
        for model, paper in TABLE_4.items():
            yield Row("4", dataset, model, {} if is_papers else BUDGET, paper if is_papers else "")
    yield from grid("multi30k", TABLE_4, QUARTER, GRID)
    for model in ("universal", "universal_coda"):
        yield Row("universal", "multi30k", model, BUDGET, "")
        yield Row("universal", "multi30k", model, {"model.adaptive": "true", **BUDGET}, "")
    compositions = [
        *(("9", names, (), paper) for names, paper in TABLE_9.items()),
        *(
            ("9", (similarity, "sigmoid"), (PLAIN,), TABLE_9[similarity, "sigmoid"])
            for similarity in ("tanh", "sigmoid")
        ),
        *(("8", ("tanh", "sigmoid"), changed, "") for changed in TABLE_8),
    ]
    for table, (similarity, gate), changed, paper in compositions:
        chosen = {"model.coda_similarity": similarity, "model.coda_gate": gate, **dict(changed)}
        settings = {**chosen, **SMALL_BUDGET}
        yield Row(table, "multi30k", "transformer_coda", settings, paper, "validation")
    for model, paper in WRITE_UP.items():
        yield Row("recurrent", "multi30k", model, BUDGET, "")
        yield Row("write-up", "multi30k", model, {**WRITE_UP_SIZE, **BUDGET}, paper)
    for rate, split in (*((rate, "validation") for rate in COMPARED.rates), ("0.008", "test")):
        row = COMPARED.row("coda", rate, split)
        learned = '{"alpha": "learned", "beta": "learned"}'
        settings = {**row.settings, "model.attention_options": learned}
        yield row._replace(table="learned", settings=settings)


if __name__ == "__main__":
    figures = {
        "BLEU": ("bleu", 1.0),
        "uncased": ("bleu_uncased", 1.0),
        "on tokens": ("bleu_tokens", 1.0),
        "perplexity": ("perplexity", 1.0),
        "word perplexity": ("word_perplexity", 1.0),
    }
    Tables("translate", list(rows()), figures).main(__doc__)
