"""BLEU scores of translations."""

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
    """Computes BLEU of a whole set of translations, with one reference each, in percent.

    The texts are compared as given. For the first two scores pass them detokenized; for the last
    two, tokenized like the references.

    Args:
        hypotheses: the translations, which may be empty. Bytes are decoded as UTF-8; invalid ones
            become U+FFFD.
        references: the right translations, in the same order.

    Returns:
        `bleu` (cased) and `bleu_uncased`, both on the tokens of mteval-v13a; `bleu_tokens` and
        `bleu_tokens_uncased`, on words separated by blanks; and sacrebleu's `signature` of the
        first. The signatures of the others differ from it only in `case` and `tok`.

    Raises:
        ValueError: if the two differ in number, or are empty.

    >>> figures = bleu(["the dog runs on the grass"], [b"The dog runs on the grass."])
    >>> (
    ...     round(figures["bleu"], 1),
    ...     round(figures["bleu_uncased"], 1),
    ...     figures["signature"].split("|")[3],
    ... )
    (64.3, 84.6, 'tok:13a')

    Source: Papineni et al. 2002; Post 2018, "A Call for Clarity in Reporting BLEU Scores".
    """
    if len(hypotheses) != len(references) or len(references) == 0:
        raise ValueError(
            "hypotheses and references must have the same length, at least 1; "
            f"got {len(hypotheses)} and {len(references)}"
        )
    import sacrebleu  # part of the `tasks` extra and needed only here

    written, wanted = ([_as_text(text) for text in texts] for texts in (hypotheses, references))
    figures: dict[str, float | str] = {}
    for name, settings in _FIGURES.items():
        # `force` turns off the warning about tokenized text, which some scores take on purpose.
        metric = sacrebleu.BLEU(force=True, **settings)
        figures[name] = metric.corpus_score(written, [wanted]).score
        figures.setdefault("signature", str(metric.get_signature()))
    return figures


def _as_text(text: str | bytes) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text
