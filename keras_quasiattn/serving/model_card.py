"""The model card of an exported model: what `about.json` holds, for people."""

import json
from collections.abc import Mapping
from typing import Any, Final

from keras_quasiattn import tasks

CARD: Final = "README.md"


def model_card(about: Mapping[str, Any]) -> str:
    """The model card as Markdown: what the model answers, its figures, data, options and origin.

    Args:
        about: the description that the export writes, as in `about.json`.
    """
    config, kind = about["task_config"], tasks.get(about["task"])
    preset, example = config["preset"], json.dumps(about["example"], ensure_ascii=False)
    paragraphs = [
        f"# {about['task']}: {kind.summary}",
        f"The model `{config['model']}` of keras_quasiattn {about['keras_quasiattn']}, trained "
        f"once, with seed {config['seed']} and the options of the preset `{preset}` "
        f"({kind.presets[preset].summary}) as below.",
        "## Ask it",
    ]
    if "example_ids" in about:
        paragraphs.append(
            f"The file takes ids of tokens and returns logits. The ids of {example} are in "
            "`about.json`."
        )
    else:
        paragraphs += [
            "From Python, in the folder that holds this file:",
            f'```python\nfrom keras_quasiattn.serving import load\n\nload(".")([{example}])\n```',
            "Without this package: it is a TensorFlow SavedModel, which also needs the kernels of "
            "tensorflow-text. "
            + (
                "XLA compiles it where it is loaded, once for each length and batch size in "
                "`about.json`. TensorFlow Serving on CPUs takes it if it is started with "
                "`--xla_cpu_compilation_enabled=true`; a server on GPUs does not."
                if "compiled" in about
                else "TensorFlow Serving takes it as it is."
            ),
        ]
    paragraphs += ["## Figures", _table(("split", "figure", "value"), _figures(about))]
    paragraphs.append(
        "They hold for texts like those of the data below; another seed gives others."
    )
    paragraphs.append("## Data and training")
    if about.get("data"):
        paragraphs.append("\n".join(f"- {name}: {value}" for name, value in about["data"].items()))
    if about.get("trained_by"):
        paragraphs.append(f"```text\n{about['trained_by']}\n```")
    paragraphs.append(_table(("option", "value"), _options(config["options"])))
    return "\n\n".join(paragraphs) + "\n"


def _figures(about: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    rows = [
        (split, name, _number(value))
        for split, figures in about["metrics"].items()
        for name, value in figures.items()
        if not isinstance(value, dict)  # figures by class
    ]
    quantization = about.get("quantization", {})
    for name, value in quantization.get("after", {}).items():
        if not isinstance(value, dict):
            rows.append(
                (f"{quantization['split']}, weights {quantization['mode']}", name, _number(value))
            )
    return rows


def _options(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(f"`{name}`", f"`{json.dumps(value)}`") for name, value in options.items()]


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _table(head: tuple[str, ...], rows: list[Any]) -> str:
    cells = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(text.replace('|', '¦') for text in row)} |" for row in cells)
