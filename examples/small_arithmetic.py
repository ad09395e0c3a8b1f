"""Sums and differences of numbers in [0, 100), and a Transformer that learns them in minutes."""

import os
from typing import Any

from keras_quasiattn.lab.tasks.mlu import Mlu

SETTINGS = {
    "data.low": 0,
    "model.hidden_dim": 32,
    "model.intermediate_dim": 128,
    "model.num_heads": 2,
    "model.num_layers": 2,
    "training.batch_size": 64,
}


def make(model: str, seed: int, kind: type[Mlu] = Mlu, **changed: Any) -> Any:
    """Return the task `mlu`, whose data are made in the folder that QUASIATTN_DATA_DIR names.

    Args:
        model: one of its models.
        seed: the seed.
        kind: the task's class, or one of your own.
        **changed: training options, such as `steps=400`.
    """
    options = {f"training.{name}": value for name, value in changed.items()}
    return kind(
        preset="demo",
        model=model,
        seed=seed,
        data_dir=os.environ.get("QUASIATTN_DATA_DIR", "data"),
        overrides={**SETTINGS, **options},
    )
