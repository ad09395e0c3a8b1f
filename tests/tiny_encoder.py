"""A pretrained encoder with random weights, as a folder that KerasHub loads."""

import inspect
import json
import shutil
import string
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tiny
import tiny_pairs
import tiny_texts

from keras_quasiattn.lab.text.encoder_tokenizers import byte_characters

SPECIAL = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [
    *tiny_texts.WORDS.values(),
    *tiny_texts.FILLERS,
    *tiny_pairs.ANIMALS,
    *(word for word in tiny_pairs.FILLERS if word not in tiny_texts.FILLERS),
]
LETTERS = [*string.ascii_lowercase, *string.digits]
VOCABULARY = list(
    dict.fromkeys(
        [*SPECIAL, *WORDS, *LETTERS, *(f"##{one}" for one in LETTERS), *string.punctuation]
    )
)
SIZES: dict[str, Any] = {
    "vocabulary_size": len(VOCABULARY),
    "num_layers": 2,
    "num_heads": 2,
    "hidden_dim": 16,
    "intermediate_dim": 32,
    "max_sequence_length": 40,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "BertBackbone": {},
    "DistilBertBackbone": {},
    "RobertaBackbone": {},
    "ElectraBackbone": {"vocab_size": len(VOCABULARY), "embedding_dim": 8},
}
# For a run of `tiny_texts` or `tiny_pairs`.
SETTINGS = {
    "data.max_length": 24,
    "model.dropout": 0.0,
    "model.factor_rate": 3e-3,
    "training.learning_rate": 3e-3,
    "training.warmup_steps": 0,
    "training.schedule": "constant",
    "training.batch_size": 8,
    "training.steps": 120,
    "training.checkpoint_every": 40,
}
CARD = "---\nlicense: apache-2.0\ntags: [tiny]\n---\n# Tiny\n"


def byte_pairs() -> tuple[dict[str, int], list[str]]:
    """Return ids and merges of a RoBERTa that knows `WORDS` with a space before them."""
    merges = dict[str, None]()
    for word in WORDS:
        letters = [byte_characters()[byte] for byte in f" {word}".encode()]
        for end in range(1, len(letters)):
            merges[f"{''.join(letters[:end])} {letters[end]}"] = None
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *byte_characters().values()]
    pieces += [merge.replace(" ", "") for merge in merges]
    return {piece: number for number, piece in enumerate([*pieces, "<mask>"])}, list(merges)


def write(folder: Path, family: str = "BertBackbone", **sizes: Any) -> Path:
    """Write an encoder of this family in KerasHub's format to the folder; return the folder."""
    import keras_hub

    keras.utils.set_random_seed(5)
    kind = getattr(keras_hub.models, family)
    known = inspect.signature(kind).parameters
    given = {name: one for name, one in {**SIZES, **FAMILIES[family]}.items() if name in known}
    files: dict[str, Any] = {"vocabulary": VOCABULARY, "lowercase": True}
    if family == "RobertaBackbone":
        ids, merges = byte_pairs()
        files = {"vocabulary": ids, "merges": merges}
        given["vocabulary_size"] = len(ids)
    kind(**{**given, **sizes}).save_to_preset(str(folder))
    tokenizer = getattr(keras_hub.models, family.replace("Backbone", "Tokenizer"))
    tokenizer(**files).save_to_preset(str(folder))
    (folder / "README.md").write_text(CARD, encoding="utf-8")
    return folder


def write_transformers_form(place: Path, folder: Path, with_prefix: bool = True) -> Path:
    """Write the RoBERTa or DistilBERT of `write` in the format of Hugging Face's transformers.

    Without the prefix, the weights' names do not begin with that of the model.
    """
    import keras_hub
    import safetensors.numpy
    from keras_hub.src.utils.transformers import convert_distilbert, convert_roberta

    backbone = keras_hub.models.Backbone.from_preset(str(place))
    if type(backbone).__name__ == "RobertaBackbone":
        kind, converter, at, positions = "roberta", convert_roberta, 0, 2
    else:
        kind, converter, at, positions = "distilbert", convert_distilbert, 1, 0
    arrays = _Arrays(backbone.hidden_dim, with_prefix)
    converter.convert_weights(backbone, arrays, {})
    folder.mkdir()
    safetensors.numpy.save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})
    config = {"model_type": kind, "vocab_size": backbone.vocabulary_size}
    sizes = {
        "num_layers": ("num_hidden_layers", "n_layers"),
        "num_heads": ("num_attention_heads", "n_heads"),
        "hidden_dim": ("hidden_size", "dim"),
        "intermediate_dim": ("intermediate_size", "hidden_dim"),
        "dropout": ("hidden_dropout_prob", "dropout"),
    }
    config |= {names[at]: getattr(backbone, name) for name, names in sizes.items()}
    config["max_position_embeddings"] = backbone.max_sequence_length + positions
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}', encoding="utf-8")
    new = {"vocabulary.json": "vocab.json", "vocabulary.txt": "vocab.txt"}
    for file in (place / "assets" / "tokenizer").iterdir():
        shutil.copy(file, folder / new.get(file.name, file.name))
    return folder


class _Arrays(dict[str, np.ndarray]):
    """Take the weights that a converter of KerasHub asks for, as transformers would hold them."""

    def __init__(self, width: int, with_prefix: bool) -> None:
        super().__init__()
        self.width, self.with_prefix = width, with_prefix

    def port_weight(self, keras_variable: Any, hf_weight_key: str, hook_fn: Any = None) -> None:
        value = np.array(keras_variable)
        if hf_weight_key.endswith(".bias"):
            value = value.reshape(-1)
        elif hf_weight_key.startswith("roberta.embeddings.position") and hook_fn:
            value = np.pad(value, ((2, 0), (0, 0)))  # two positions that are never read
        elif hook_fn:
            value = (value if value.ndim == 2 else value.reshape(self.width, self.width)).T
        name = hf_weight_key if self.with_prefix else hf_weight_key.partition(".")[2]
        self[name] = np.ascontiguousarray(value)


def make(data: Path, task: str, encoder: Path | str, seed: int = 3, **changed: Any) -> Any:
    """Return the task with an encoder, on the files of `tiny_texts` or `tiny_pairs` in a folder."""
    files = {name: file for name, file in tiny.splits(data).items() if Path(file).exists()}
    settings = {**SETTINGS, "model.encoder": str(encoder), **files, **tiny.dotted(changed)}
    return tiny.make(task, "encoder", data, settings, seed)


def started(data: Path, task: str, encoder: Path, **changed: Any) -> tuple[Any, Any]:
    """Return that task with its data, and its model with the weights of the encoder."""
    made, model = tiny.built(make(data, task, encoder, **changed))
    made.initialize(model)
    return made, model
