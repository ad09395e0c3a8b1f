"""The description of an exported model that is written beside it."""

import json
from pathlib import Path
from typing import Any

from keras_quasiattn._version import __version__
from keras_quasiattn.serving.model_card import CARD, model_card
from keras_quasiattn.serving.quantization import Quantized
from keras_quasiattn.tasks import Task
from keras_quasiattn.training import RunFolder
from keras_quasiattn.training.manifest import MANIFEST, hashes


def write_about(
    folder: RunFolder, task: Task, root: Path, file: Path, quantized: Quantized | None, **more: Any
) -> None:
    """Write a model's description, its task's assets, the version's manifest and a model card.

    Args:
        folder: the model's run.
        task: the run's task.
        root: the version's folder, in which everything else has been written.
        file: the JSON file to write.
        quantized: the quantized model, if that was exported instead of the run's own.
        **more: further entries.
    """
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
    file.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    version = {
        str(path.relative_to(root)): path for path in sorted(root.rglob("*")) if path.is_file()
    }
    file.with_name(MANIFEST).write_text(
        json.dumps(hashes(version), indent=2) + "\n", encoding="utf-8"
    )
    # Not in the manifest, so that people may change it.
    (root / CARD).write_text(model_card(about), encoding="utf-8")
