"""The description of an exported model: `about.json` for programs, `README.md` for people."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from keras_quasiattn._version import __version__
from keras_quasiattn.files import MANIFEST, finite, hashes, write_json
from keras_quasiattn.lab import tasks
from keras_quasiattn.lab.serving.quantize import Quantized
from keras_quasiattn.lab.tasks import Task
from keras_quasiattn.lab.training import RunFolder

CARD: Final = "README.md"


def write_description(
    folder: RunFolder, task: Task, root: Path, file: Path, quantized: Quantized | None, **more: Any
) -> None:
    """Write the description of a model: JSON, with `more`, the assets, a manifest and the card."""
    about: dict[str, Any] = {
        "keras_quasiattn": __version__,
        "task": task.name,
        "task_config": task.config(),
        **folder.noted,
        "trained_by": folder.config.get("command", ""),
        "metrics": folder.metrics(),
        **({"quantization": quantized.record()} if quantized else {}),
        "example": task.example,
        **more,
    }
    for name, content in task.assets().items():
        (file.parent / name).write_bytes(content)
    write_json(file, finite(about))
    files = {str(one.relative_to(root)): one for one in sorted(root.rglob("*")) if one.is_file()}
    write_json(file.with_name(MANIFEST), hashes(files))
    # Not in the manifest, because people may edit it.
    (root / CARD).write_text(model_card(about), encoding="utf-8")


def model_card(about: Mapping[str, Any]) -> str:
    """Return the model card as Markdown, from the contents of `about.json`."""
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
    paragraphs += [
        "## Figures",
        _table(("split", "figure", "value"), _figures(about)),
        "They hold for texts like those of the data below; another seed gives others.",
        "## Data and training",
    ]
    if about.get("data"):
        paragraphs.append("\n".join(f"- {name}: {value}" for name, value in about["data"].items()))
    if about.get("trained_by"):
        paragraphs.append(f"```text\n{about['trained_by']}\n```")
    options = [(f"`{name}`", f"`{json.dumps(one)}`") for name, one in config["options"].items()]
    paragraphs.append(_table(("option", "value"), options))
    return "\n\n".join(paragraphs) + "\n"


def _figures(about: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the rows (split, metric, value), without metrics by class."""
    measured = dict(about["metrics"])
    if quantization := about.get("quantization"):
        split = f"{quantization['split']}, weights {quantization['mode']}"
        measured[split] = quantization.get("after", {})
    return [
        (split, name, f"{value:.4g}" if isinstance(value, float) else str(value))
        for split, figures in measured.items()
        for name, value in figures.items()
        if not isinstance(value, dict)
    ]


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    cells = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(text.replace('|', '¦') for text in row)} |" for row in cells)
