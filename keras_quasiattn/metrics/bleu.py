"""How near translations are to their references."""

from collections.abc import Sequence
from typing import Any

_FIGURES: dict[str, dict[str, Any]] = {
    "bleu": {},
    "bleu_uncased": {"lowercase": True},
    "bleu_tokens": {"tokenize": "none"},
    "bleu_tokens_uncased": {"tokenize": "none", "lowercase": True},
}


def bleu(
    hypotheses: Sequence[str | bytes], references: Sequence[str | bytes]
) -> dict[str, float | str]:
    """BLEU of a whole set of translations, one reference each, in percent.

    Texts are compared as they are written: those that were tokenized should be detokenized for the first two
    figures, and tokenized as the reference is for the last two.

    Args:
        hypotheses: the translations; they may be empty. Bytes are UTF-8, whatever is not replaced by U+FFFD.
        references: what would be right, in the same order.

    Returns:
        `bleu` (cased) and `bleu_uncased`, both on the tokens of mteval-v13a; `bleu_tokens` and
        `bleu_tokens_uncased`, on the words between blanks; and sacrebleu's `signature` of the first. The signatures
        of the others differ from it in `case` and `tok` alone.

    Raises:
        ValueError: If the two differ in number, or there are none.

    >>> figures = bleu(["the dog runs on the grass"], [b"The dog runs on the grass."])
    >>> round(figures["bleu"], 1), round(figures["bleu_uncased"], 1), figures["signature"].split("|")[3]
    (64.3, 84.6, 'tok:13a')

    Source: Papineni et al. 2002; Post 2018, "A Call for Clarity in Reporting BLEU Scores".
    """
    if len(hypotheses) != len(references) or len(references) == 0:
        raise ValueError(
            "hypotheses and references must be as many, and at least one; "
            f"got {len(hypotheses)} and {len(references)}"
        )
    import sacrebleu  # of the tasks' extra, and needed here alone

    written, wanted = ([_as_text(text) for text in texts] for texts in (hypotheses, references))
    figures: dict[str, float | str] = {}
    for name, settings in _FIGURES.items():
        # Forced, since tokenized text is measured knowingly.
        metric = sacrebleu.BLEU(force=True, **settings)
        figures[name] = metric.corpus_score(written, [wanted]).score
        figures.setdefault("signature", str(metric.get_signature()))
    return figures


def _as_text(text: str | bytes) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text
