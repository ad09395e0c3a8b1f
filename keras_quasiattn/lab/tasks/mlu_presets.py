"""The presets of `mlu`: a small one for two cores, and the paper's."""

from keras_quasiattn.lab.tasks.attention_options import attention
from keras_quasiattn.lab.tasks.preset import Preset, TrainingSettings
from keras_quasiattn.sizes import TRANSFORMER_SIZES

MODELS = ("coda", "softmax", "universal", "universal_coda")
_TINY = TRANSFORMER_SIZES["tiny"]
_UNIVERSAL = {"num_layers": TRANSFORMER_SIZES["universal_tiny"]["num_layers"]}
_VALIDATION = {"validation_examples": 2560}
_BY_MODEL = {
    "coda": attention("coda"),
    "softmax": attention(),
    "universal": {**_UNIVERSAL, **attention()},
    "universal_coda": {**_UNIVERSAL, **attention("coda")},
}

PRESETS: dict[str, Preset] = {
    "demo": Preset(
        summary="sums and differences of numbers in [-100, 100); minutes on two cores",
        data={"low": -100, "high": 100, "operators": "+-", "forms": "all", **_VALIDATION},
        # Half the tiny size: it learns more in the same time.
        model={**_TINY, "hidden_dim": 64, "intermediate_dim": 256, "dropout": 0.0},
        by_model=_BY_MODEL,
        training=TrainingSettings(
            steps=2800,
            batch_size=256,
            learning_rate=5e-3,
            warmup_steps=100,
            schedule="cosine",
            checkpoint_every=400,
            jit_compile=True,
        ),
    ),
    "paper": Preset(
        summary="the paper's: + - * of numbers in [-1000, 1000), Tensor2Tensor's tiny size, "
        "100,000 updates",
        data={"low": -1000, "high": 1000, "operators": "+-*", "forms": "one", **_VALIDATION},
        model=_TINY,
        by_model=_BY_MODEL,
        training=TrainingSettings(
            steps=100_000,
            # Tensor2Tensor's batch has 4096 tokens; a question has about 20 and an answer 6.
            batch_size=160,
            learning_rate=2e-3,
            warmup_steps=8000,
            schedule="inverse_square_root",
            checkpoint_every=1000,
            average_checkpoints=8,
            label_smoothing=0.1,
        ),
    ),
}
