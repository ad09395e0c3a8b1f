"""The HTML page of a report, a self-contained file."""

import base64
import dataclasses
import hashlib
import importlib.resources
from collections.abc import Mapping, Sequence
from typing import Any

from keras_quasiattn.extras import require
from keras_quasiattn.report.figures import Drawing, line_of
from keras_quasiattn.report.heat_maps import Example, block_size, encoded, pooled
from keras_quasiattn.report.token_table import shares_of_largest

_VERDICTS = {None: "", True: "Right answers", False: "Mistakes, the surest first"}


@dataclasses.dataclass(frozen=True)
class Cell:
    """A table cell with more than text."""

    text: str
    heading: bool = False
    shade: float | None = None  # strength of its colour, from 0 to 1
    right: bool = False  # whether the colour marks something right
    bar: tuple[float, ...] | None = None  # a value and the bounds of its interval, in [0, 1]


@dataclasses.dataclass(frozen=True)
class Section:
    """A title with figures, and optionally a line of text and a table (first row: header)."""

    title: str
    figures: Sequence[Drawing] = ()
    text: str = ""
    table: Sequence[Sequence[str | Cell]] = ()
    legend: Sequence[str] = ()  # names of the lines in all figures, which are small multiples
    saved: Sequence[Drawing] = ()  # the figures to save with the page, if not `figures`
    parts: "Sequence[Section]" = ()


def page(
    title: str,
    *,
    facts: Sequence[tuple[str, str]] = (),
    notes: Sequence[str] = (),
    lead: Sequence[Section] = (),
    examples: Sequence[Example] = (),
    texts: Sequence[Mapping[str, Any]] = (),
    sections: Sequence[Section] = (),
) -> str:
    """Render the HTML of a report; its security policy forbids requests and all foreign scripts."""
    jinja2 = require("jinja2", "report")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("keras_quasiattn.report", "page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    script = _resource("page.js")
    block = block_size(examples)
    maps, matrices = _payload([one for one in examples if one.maps], block)
    groups = _groups(texts, [one["name"] for one in maps["examples"]] if maps else [])
    columns = [one for group in groups for one in group["columns"]]
    return environment.get_template("page.html.jinja").render(
        title=title,
        facts=facts,
        notes=notes,
        maps=maps,
        matrices=matrices,
        block=block,
        groups=groups,
        weighed=any(text["tokens"] for one in columns for text in one["texts"]),
        lead=lead,
        sections=sections,
        image=_image,
        line_of=line_of,
        style=_resource("page.css"),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _resource(name: str) -> str:
    folder = importlib.resources.files("keras_quasiattn.report") / "page"
    return (folder / name).read_text(encoding="utf-8")


def _payload(examples: Sequence[Example], block: int) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the data of the script: names, tokens and one encoded matrix per head."""
    matrices: list[str] = []
    listed = []
    for example in examples:
        maps = []
        for one in example.maps:
            panels = []
            for panel in one.panels:
                heads = []
                for values in panel.values:
                    data, factor = encoded(pooled(values, block))
                    heads.append((len(matrices), factor))
                    matrices.append(data)
                names = {"title": panel.title, "rows": panel.rows, "columns": panel.columns}
                panels.append({**names, "heads": heads, "limit": panel.limit})
            maps.append({"name": one.name, "panels": panels})
        listed.append({"name": example.name, "answer": example.answer, "maps": maps})
    return ({"block": block, "examples": listed} if listed else None), matrices


def _groups(answers: Sequence[Mapping[str, Any]], maps: Sequence[str]) -> list[dict[str, Any]]:
    """Group the answers by model and, if judged, into right answers and mistakes."""
    groups = []
    for model in dict.fromkeys(answer["model"] for answer in answers):
        own = [answer for answer in answers if answer["model"] == model]
        columns = {
            title: [_text(answer, maps) for answer in own if _verdict(answer) == verdict]
            for verdict, title in _VERDICTS.items()
        }
        kept = [{"title": title, "texts": texts} for title, texts in columns.items() if texts]
        groups.append({"model": model, "columns": kept})
    return groups


def _verdict(answer: Mapping[str, Any]) -> bool | None:
    return getattr(answer.get("judged"), "right", None)


def _text(answer: Mapping[str, Any], maps: Sequence[str]) -> dict[str, Any]:
    judged, given = answer.get("judged"), summary(answer)
    if judged is not None:
        given = f"{judged.given} {judged.confidence:.3f}"
    weights, tokens = answer.get("weights", []), answer.get("tokens", [])
    weighed = bool(tokens) and len(weights) == len(tokens)
    gates = answer.get("gates") or [True] * len(tokens)
    shares = shares_of_largest(weights) if weighed else []
    name = f"{answer['model']}: {answer.get('input', '')}"
    return {
        "given": given,
        "expected": "" if judged is None or judged.right else judged.expected,
        "opened": f"{sum(map(bool, gates))} of {len(tokens)} open" if "gates" in answer else "",
        "map": maps.index(name) if name in maps else None,
        "plain": [] if weighed else str(answer.get("input", "")).split("\t"),
        "tokens": list(zip(tokens, gates, weights, shares, strict=True)) if weighed else [],
    }


def summary(answer: Mapping[str, Any]) -> str:
    """Return an answer as one line."""
    if "label" in answer:
        probability = answer["probabilities"][answer["classes"].index(answer["label"])]
        return f"{answer['label']} {probability:.3f}"
    if "ranked" in answer:
        best = zip(answer["ranked"], answer["scores"], strict=True)
        return "; ".join(f"{score:.3f} {text}" for text, score in best)
    if "scores" in answer:
        return "scores " + ", ".join(f"{score:.3f}" for score in answer["scores"])
    return str(answer.get("answer", ""))


def _image(svg: bytes) -> str:
    # Inside an <img>, an SVG can neither run scripts nor load anything.
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()
