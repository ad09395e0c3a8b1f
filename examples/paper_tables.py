"""Every table of the papers, row by row, as listed on the results page, measured or not.

Rows that a script can run come from that script, such as `ganet_tables.py`. The others are here,
with the reason why no script runs them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import ganet_tables
import mlu_tables
import pair_tables
import program_tables
import rank_tables
import reader_tables
import translate_tables
from tables import Row

SCRIPTS: dict[str, tuple[str, Callable[[], Iterator[Row]]]] = {
    "classify": ("ganet_tables.py", ganet_tables.rows),
    "mlu": ("mlu_tables.py", mlu_tables.rows),
    "pairs": ("pair_tables.py", pair_tables.rows),
    "programs": ("program_tables.py", program_tables.rows),
    "rank": ("rank_tables.py", rank_tables.rows),
    "read": ("reader_tables.py", reader_tables.rows),
    "translate": ("translate_tables.py", translate_tables.rows),
}
# The data of each preset, and whether they are the paper's, whole or in part.
DATA = {
    ("classify", "trec"): "TREC, whole",
    ("classify", "sst1"): "SST-1, whole",
    ("classify", "sst2"): "SST-2, whole",
    ("classify", "imdb"): "IMDB, whole",
    ("classify", "ag_news"): "AG's News, whole",
    ("classify", "ag_news_part"): "AG's News, part: 46,248 of 120,000 training texts",
    ("mlu", "demo"): "smaller questions: sums and differences of numbers in [−100, 100)",
    ("mlu", "paper"): "MLU by its rule, numbers in [−1000, 1000)",
    ("pairs", "quora_part"): "Quora, part: 18,991 of about 384,000 training pairs",
    ("pairs", "snli_part"): "SNLI, part: 18,000 of 549,367 training pairs",
    ("pairs", "multi_nli"): "MultiNLI, whole",
    ("pairs", "scitail"): "SciTail, whole",
    ("pairs", "dialogue_nli"): "Dialogue NLI, whole",
    ("programs", "generated"): "problems by rule, 20,000; other ones than the paper's",
    (
        "programs",
        "paper",
    ): "problems by rule, as many as were published; other ones than the paper's",
    ("rank", "wikiqa"): "WikiQA, whole",
    ("rank", "trecqa"): "TrecQA, whole",
    ("rank", "trecqa_train"): "TrecQA, without the training pairs judged by patterns",
    ("rank", "ubuntu_irc"): "replies in #ubuntu, a stand-in for the Ubuntu Dialogue Corpus",
    ("read", "squad_part"): "SQuAD v1.1, part: a fifth of its training passages",
    ("read", "own"): "SQuAD v1.1's questions, a fifth of those for training, and found paragraphs",
    ("read", "quasar_t"): "Quasar-T, short passages, whole",
    ("read", "search_qa"): "SearchQA, whole",
    ("translate", "multi30k"): "Multi30k English to German, whole; other data than the paper's",
    (
        "translate",
        "iwslt15_envi_part",
    ): "IWSLT'15 English to Vietnamese, part: 10,000 of 133,317 training pairs",
    ("translate", "iwslt15_envi"): "IWSLT'15 English to Vietnamese, whole",
}
NOT_RUN = "not run yet"
# Presets whose data were not available when the runs were made.
UNAVAILABLE = {
    ("classify", "ag_news"): "the whole training data were not available",
    ("pairs", "multi_nli"): "the data were not available",
    ("pairs", "scitail"): "the training data were not available",
    ("pairs", "dialogue_nli"): "the data were not available",
    ("read", "quasar_t"): "the data were not available",
    ("read", "search_qa"): "the data were not available",
    ("translate", "iwslt15_envi"): "the whole training data were not available",
}
_QUOTED = "quoted by the paper from others, not built here"
_NOT_DESCRIBED = "not described in the write-up"


class Entry(NamedTuple):
    """A row of the page.

    Args:
        model: the model, in the paper's words if no script runs it.
        data: the data, in the same form.
        paper: what the paper prints.
        row: the runs that measure it, if a command can.
        reason: why no command can.
    """

    model: str
    data: str
    paper: str
    row: Row | None = None
    reason: str = ""


class PaperTable(NamedTuple):
    """A table of a paper.

    Args:
        title: paper and number.
        task: the task whose runs measure it; empty if there is no such task.
        paper_figures: what the paper's figures are; empty if it prints none.
        entries: its rows.
        note: what to know before comparing.
    """

    title: str
    task: str
    paper_figures: str
    entries: list[Entry]
    note: str = ""


def rows_of(task: str, table: str, **wanted: str) -> list[Entry]:
    """The rows that a script has under a table's name and whose fields are as wanted."""
    return [
        _entry(task, row)
        for row in SCRIPTS[task][1]()
        if row.table == table and all(getattr(row, name) == value for name, value in wanted.items())
    ]


def _entry(task: str, row: Row) -> Entry:
    settings = [f"{name.split('.', 1)[1]}={value}" for name, value in row.settings.items()]
    return Entry(
        ", ".join([row.model, *settings]), DATA.get((task, row.preset), row.preset), row.paper, row
    )


def _runs(task: str, preset: str, figures: Mapping[str, str]) -> list[Entry]:
    return [_entry(task, Row("", preset, model, {}, paper)) for model, paper in figures.items()]


def _absent(data: str, reason: str, figures: Mapping[str, str]) -> list[Entry]:
    return [Entry(model, data, paper, None, reason) for model, paper in figures.items()]


def paper_tables() -> list[PaperTable]:
    """All tables, paper by paper."""
    return [*_coda(), *_gated(), *_conflict(), *_decomposable()]


# Laid out by hand: one line a row where the formatter would take five.
# fmt: off
def _coda() -> Iterator[PaperTable]:
    both = "Quasar-T and SearchQA"
    yield PaperTable(
        "CoDA, table 1: open-domain question answering",
        "read",
        "exact match and F1; of those quoted on Quasar-T, then on SearchQA",
        [
            *_absent(both, _QUOTED, {
                "GA": ".264, .264; –, –",
                "BiDAF": ".259, .285; .286, .346",
                "AQA": "–, –; .387, .456",
                "R³": ".342, .409; .490, .553",
                "Multi-step reasoner": ".406, .470; .563, .614",
            }),
            *rows_of("read", "1"),
        ],
    )
    yield PaperTable(
        "A stand-in for CoDA's table 1: SQuAD's questions over paragraphs that a search found",
        "read", "", rows_of("read", "retrieved"),
        "`examples/retrieved_paragraphs.py` makes the data. "
        "The search finds an answer for 87.4% of the test questions.",
    )
    yield PaperTable("Readers on SQuAD v1.1", "read", "", rows_of("read", "squad"))
    yield PaperTable(
        "CoDA, table 2: ranking", "rank",
        "MAP and MRR; on Ubuntu the share of first places", rows_of("rank", "2"),
    )
    yield PaperTable(
        "CoDA, table 3: inference",
        "pairs",
        "accuracy; on MultiNLI matched and mismatched",
        [
            *_runs("pairs", "snli_part", {"decomposable": ".8461"}),
            *rows_of("pairs", "snli", model="decomposable_coda"),
            *_runs("pairs", "multi_nli",
                   {"decomposable": ".7134 .7197", "decomposable_coda": ".7219 .7245"}),
            *_runs("pairs", "scitail", {"decomposable": ".820", "decomposable_coda": ".836"}),
            *_runs("pairs", "dialogue_nli", {"decomposable": ".882", "decomposable_coda": ".888"}),
        ],
    )
    yield PaperTable(
        "CoDA, table 4: translation",
        "translate",
        "BLEU on IWSLT'15 English to Vietnamese",
        [
            *_absent("IWSLT'15 English to Vietnamese, whole", _QUOTED, {
                "Luong & Manning": "23.30",
                "Seq2Seq with attention": "26.10",
                "Neural Phrase-based MT": "27.69",
                "Neural Phrase-based MT + LM": "28.07",
            }),
            *rows_of("translate", "4"),
        ],
        "The paper's figures are for the whole of IWSLT'15 only; "
        "those of other data have none beside them.",
    )
    yield PaperTable(
        "CoDA, table 5: sentiment",
        "classify", "accuracy", rows_of("classify", "coda5"),
        "The paper does not say which SST it means; here it is SST-2.",
    )
    yield PaperTable(
        "CoDA, table 6: arithmetic (MLU)",
        "mlu",
        "share of right answers",
        [*rows_of("mlu", "6"), *rows_of("mlu", "two-cores"), *rows_of("mlu", "demo")],
        "Models `softmax` and `universal` are quoted by the paper from Wangperawong 2018, "
        "after 100,000 updates.",
    )
    yield PaperTable(
        "CoDA, table 7: programs (AlgoLisp)",
        "programs",
        "share of exact programs",
        [
            *_absent("AlgoLisp, whole", _QUOTED,
                     {"Attention Seq2Seq": ".544", "Seq2Tree + Search": ".861"}),
            *rows_of("programs", "7"),
        ],
        "The published problems were not available. Ours are made by rule, "
        "so the paper's figures are of others.",
    )
    centred = ("tanh(E) ⊙ sigmoid(N)", "tanh(E′) ⊙ sigmoid(N)", "tanh(E′) ⊙ sigmoid(N′)")
    yield PaperTable(
        "CoDA, table 8: centring, development scores",
        "rank",
        "BLEU; MAP and MRR; accuracy",
        [
            *_absent("IWSLT'15 English to Vietnamese, whole",
                     UNAVAILABLE["translate", "iwslt15_envi"],
                     dict(zip(centred, ("27.8", "26.9", "27.3"), strict=True))),
            *rows_of("rank", "8"),
            *_absent("SciTail, whole", UNAVAILABLE["pairs", "scitail"],
                     dict(zip(centred, (".853", ".845", ".850"), strict=True))),
            *_absent("Dialogue NLI, whole", UNAVAILABLE["pairs", "dialogue_nli"],
                     dict(zip(centred, (".865", ".868", ".867"), strict=True))),
        ],
    )
    yield PaperTable(
        "CoDA's table 8 on Multi30k instead, development scores", "translate", "",
        rows_of("translate", "8"),
    )
    yield PaperTable(
        "CoDA, table 9: composition functions, development scores",
        "translate",
        "BLEU on IWSLT'15 English to Vietnamese",
        rows_of("translate", "9"),
    )
    yield PaperTable(
        "CoDA's table 9 on WikiQA instead, development scores", "rank", "", rows_of("rank", "9")
    )
# fmt: on


def _gated() -> Iterator[PaperTable]:
    yield PaperTable(
        "GA-Net, tables 2 and 3: accuracy, density, and what the attention computes",
        "classify",
        "accuracy, density, FLOPs",
        rows_of("classify", "2"),
        "FLOPs are counted as in the paper's table 3, over the whole test set; "
        "the BiLSTMs are not in them.",
    )
    yield PaperTable(
        "GA-Net, table 5: auxiliary networks",
        "classify",
        "accuracy, density",
        rows_of("classify", "5"),
        "The last row's network is a BiLSTM, as in table 2.",
    )
    yield PaperTable(
        "GA-Net, figure 5: units of the auxiliary BiLSTM",
        "classify",
        "",
        rows_of("classify", "figure5"),
        "The paper has a plot without numbers. Its table 1 has the sizes of the data and its "
        "table 4 two texts, which are no measurements.",
    )

    title = "Gates over words instead of a BiLSTM's states, not in the paper"
    yield PaperTable(title, "classify", "", rows_of("classify", "words"))


def _conflict() -> Iterator[PaperTable]:
    yield PaperTable(
        "Conflict, table 1: Quora question pairs",
        "pairs",
        "accuracy, cross-entropy",
        rows_of("pairs", "conflict1"),
        "The paper's data are 20 times as many, and its embedding is ELMo.",
    )
    yield PaperTable(
        "Conflict, table 2: People Also Ask",
        "",
        "accuracy, cross-entropy",
        _absent(
            "clicks in Bing's People Also Ask",
            "the data are not public; preset `click_log` reads a log of your own",
            {
                "only attention": ".85, .28",
                "only conflict": ".8502, .276",
                "attention and conflict": ".88, .25",
            },
        ),
    )
    title = "Conflict's models on TrecQA, beside its table 2"
    yield PaperTable(title, "rank", "", rows_of("rank", "conflict"))


def _decomposable() -> Iterator[PaperTable]:
    yield PaperTable(
        "Decomposable attention: SNLI",
        "pairs",
        "accuracy",
        rows_of("pairs", "snli"),
        "The figures of Parikh et al. 2016, and for CoDA of its table 3, "
        "are of the whole training split.",
    )
    yield PaperTable(
        "HW4 write-up (Chen, Ling and Rivera 2019), table 2: recurrent models",
        "translate",
        "BLEU and perplexity, on data that it does not name",
        [
            *rows_of("translate", "write-up"),
            *_absent(
                "not named",
                _NOT_DESCRIBED,
                {"Megatron": "9.68, 15", "Soundwave": "7.08, 16"},
            ),
        ],
    )


def unclaimed(tables: Iterable[PaperTable]) -> Iterator[PaperTable]:
    """The tables of the scripts that are not tables of the papers."""
    taken = {
        (table.task, entry.row.table)
        for table in tables
        for entry in table.entries
        if entry.row is not None
    }
    for task, (_, rows) in SCRIPTS.items():
        for name in dict.fromkeys(row.table for row in rows()):
            if (task, name) not in taken:
                yield PaperTable(f"`{name}` of task `{task}`", task, "", rows_of(task, name))
