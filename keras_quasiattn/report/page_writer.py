"""The HTML page of a report: one file that contains everything."""

import base64
import dataclasses
import hashlib
import importlib.resources
from collections.abc import Mapping, Sequence
from typing import Any

from keras_quasiattn.extras import require
from keras_quasiattn.report.figures import Drawing
from keras_quasiattn.report.heat_maps import Example, block_size, encoded, pooled


@dataclasses.dataclass(frozen=True)
class Section:
    """A title with figures, and optionally a line of text and a table (first row: header)."""

    title: str
    figures: Sequence[Drawing] = ()
    text: str = ""
    table: Sequence[Sequence[str]] = ()


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
    """Render the HTML of a report.

    All texts are escaped. The page's content security policy allows only its own script and
    forbids every request.

    Args:
        title: the heading.
        facts: names and values under the heading.
        notes: lines that say what is missing and why.
        lead: sections that come first.
        examples: texts or pairs with their heat maps.
        texts: answers with `tokens`, `weights` and the name of the `model` that gave them, and
            optionally `gates`.
        sections: further sections, with figures.

    Raises:
        UserError: jinja2 is not installed.
    """
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
    return environment.get_template("page.html.jinja").render(
        title=title,
        facts=facts,
        notes=notes,
        maps=maps,
        matrices=matrices,
        block=block,
        texts=[_text(answer) for answer in texts],
        lead=[_section(one) for one in lead],
        sections=[_section(one) for one in sections],
        style=_resource("page.css"),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _resource(name: str) -> str:
    return (importlib.resources.files("keras_quasiattn.report") / "page" / name).read_text(
        encoding="utf-8"
    )


def _payload(examples: Sequence[Example], block: int) -> tuple[dict[str, Any] | None, list[str]]:
    """The data of the script: one object with names and tokens, and one encoded matrix per head."""
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
                panels.append(
                    {
                        "title": panel.title,
                        "rows": panel.rows,
                        "columns": panel.columns,
                        "heads": heads,
                    }
                )
            maps.append({"name": one.name, "panels": panels})
        listed.append({"name": example.name, "answer": example.answer, "maps": maps})
    return ({"block": block, "examples": listed} if listed else None), matrices


def _text(answer: Mapping[str, Any]) -> dict[str, Any]:
    tokens, weights = answer["tokens"], answer["weights"]
    gates = answer.get("gates") or [True] * len(tokens)
    largest = max(map(abs, weights), default=0.0) or 1.0
    about = [f"{answer['model']}: {summary(answer)}"]
    if "gates" in answer:
        about.append(f"{sum(map(bool, gates))} of {len(tokens)} open")
    return {
        "about": ", ".join(about),
        "tokens": [
            {
                "text": token,
                "open": bool(gate),
                "share": f"{abs(weight) / largest if gate else 0:.3f}",
                "reading": f"{'open' if gate else 'closed'}, weight {weight:.4f}",
            }
            for token, gate, weight in zip(tokens, gates, weights, strict=True)
        ],
    }


def summary(answer: Mapping[str, Any]) -> str:
    """An answer as one line."""
    if "label" in answer:
        probability = answer["probabilities"][answer["classes"].index(answer["label"])]
        return f"{answer['label']} {probability:.3f}"
    if "scores" in answer:
        return "scores " + ", ".join(f"{score:.3f}" for score in answer["scores"])
    return str(answer.get("answer", ""))


def _section(section: Section) -> dict[str, Any]:
    figures = [
        {
            "light": _image(one.light),
            "dark": _image(one.dark),
            "alt": one.description,
            "caption": one.caption,
        }
        for one in section.figures
    ]
    return {
        "title": section.title,
        "text": section.text,
        "figures": figures,
        "table": section.table,
    }


def _image(svg: bytes) -> str:
    # Inside an <img>, an SVG can neither run scripts nor load anything.
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()
