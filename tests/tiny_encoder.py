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
    kind(**given, **sizes).save_to_preset(str(folder))
    tokenizer = getattr(keras_hub.models, family.replace("Backbone", "Tokenizer"))
    tokenizer(**files).save_to_preset(str(folder))
    (folder / "README.md").write_text(CARD, encoding="utf-8")
    return folder


def write_transformers_form(place: Path, folder: Path) -> Path:
    """Write the RoBERTa of `write` in the format of Hugging Face's transformers."""
    import keras_hub
    import safetensors.numpy

    backbone = keras_hub.models.Backbone.from_preset(str(place))
    width, embeddings = backbone.hidden_dim, "roberta.embeddings"
    positions = np.array(backbone.embeddings.position_embedding.position_embeddings)
    arrays = {
        f"{embeddings}.word_embeddings.weight": backbone.token_embedding.embeddings,
        # Two positions before the first are never read.
        f"{embeddings}.position_embeddings.weight": np.pad(positions, ((2, 0), (0, 0))),
        **_norm(f"{embeddings}.LayerNorm", backbone.embeddings_layer_norm),
    }
    for number, layer in enumerate(backbone.transformer_layers):
        at, attention = f"roberta.encoder.layer.{number}", layer._self_attention_layer
        for name in ("query", "key", "value"):
            dense = getattr(attention, f"{name}_dense")
            arrays |= _dense(f"{at}.attention.self.{name}", dense, (width, width))
        output = attention.output_dense
        arrays |= _dense(f"{at}.attention.output.dense", output, (width, width))
        arrays |= _norm(f"{at}.attention.output.LayerNorm", layer._self_attention_layer_norm)
        arrays |= _dense(f"{at}.intermediate.dense", layer._feedforward_intermediate_dense)
        arrays |= _dense(f"{at}.output.dense", layer._feedforward_output_dense)
        arrays |= _norm(f"{at}.output.LayerNorm", layer._feedforward_layer_norm)
    folder.mkdir()
    whole = {name: np.ascontiguousarray(one) for name, one in arrays.items()}
    safetensors.numpy.save_file(whole, folder / "model.safetensors", metadata={"format": "pt"})
    config = {
        "model_type": "roberta",
        "vocab_size": backbone.vocabulary_size,
        "num_hidden_layers": backbone.num_layers,
        "num_attention_heads": backbone.num_heads,
        "hidden_size": width,
        "intermediate_size": backbone.intermediate_dim,
        "hidden_dropout_prob": 0.1,
        "max_position_embeddings": backbone.max_sequence_length + 2,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assets = place / "assets" / "tokenizer"
    shutil.copy(assets / "vocabulary.json", folder / "vocab.json")
    shutil.copy(assets / "merges.txt", folder / "merges.txt")
    return folder


def _dense(name: str, layer: Any, shape: tuple[int, ...] | None = None) -> dict[str, Any]:
    kernel = np.array(layer.kernel)
    bias = np.array(layer.bias).reshape(-1)
    return {f"{name}.weight": kernel.reshape(shape or kernel.shape).T, f"{name}.bias": bias}


def _norm(name: str, layer: Any) -> dict[str, Any]:
    return {f"{name}.weight": layer.gamma, f"{name}.bias": layer.beta}


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
