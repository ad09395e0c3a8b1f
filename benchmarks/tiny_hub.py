"""Tiny models of KerasHub with random weights, and inputs for them."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

WORDS = {"vocabulary_size": 50}
LAYERS = {"num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
ENCODER = {**WORDS, **LAYERS, "max_sequence_length": 12}
PICTURES = {"image_shape": (8, 8, 3), "num_layers": 2, "num_heads": 2, "hidden_dim": 8}
LENGTH = 12


def _of_pictures_and_words(hub: Any, kind: str, **options: Any) -> keras.Model:
    sizes = {"hidden_dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 16}
    make = {
        part: getattr(hub.models, kind + part)
        for part in ("VisionEncoder", "TextEncoder", "Backbone")
    }
    vision = make["VisionEncoder"](patch_size=4, image_shape=(8, 8, 3), **sizes)
    text = make["TextEncoder"](**WORDS, embedding_dim=8, max_sequence_length=LENGTH, **sizes)
    return make["Backbone"](vision, text, **options)


def _llama(hub: Any, kind: str, **options: Any) -> keras.Model:
    sizes = {"num_layers": 2, "num_query_heads": 4, "num_key_value_heads": 2}
    return getattr(hub.models, f"{kind}Backbone")(
        **WORDS, **sizes, hidden_dim=16, intermediate_dim=16, **options
    )


# By name, what makes the model from `keras_hub`.
SWAPPED: dict[str, Callable[[Any], keras.Model]] = {
    "BERT": lambda hub: hub.models.BertBackbone(**ENCODER),
    "DistilBERT": lambda hub: hub.models.DistilBertBackbone(**ENCODER),
    "RoBERTa": lambda hub: hub.models.RobertaBackbone(**ENCODER),
    "XLM-R": lambda hub: hub.models.XLMRobertaBackbone(**ENCODER),
    "ELECTRA": lambda hub: hub.models.ElectraBackbone(
        50, **LAYERS, embedding_dim=8, max_sequence_length=LENGTH
    ),
    "ALBERT": lambda hub: hub.models.AlbertBackbone(**ENCODER, embedding_dim=8),
    "BERT classifier": lambda hub: hub.models.BertTextClassifier(
        hub.models.BertBackbone(**ENCODER), num_classes=3
    ),
    "BERT masked words": lambda hub: hub.models.BertMaskedLM(hub.models.BertBackbone(**ENCODER)),
    "BART": lambda hub: hub.models.BartBackbone(**ENCODER),
    "GPT-2": lambda hub: hub.models.GPT2Backbone(**ENCODER),
    "OPT": lambda hub: hub.models.OPTBackbone(**ENCODER),
    "Whisper": lambda hub: hub.models.WhisperBackbone(
        **WORDS,
        **LAYERS,
        num_mels=4,
        max_encoder_sequence_length=LENGTH,
        max_decoder_sequence_length=LENGTH,
    ),
    "Llama": lambda hub: _llama(hub, "Llama"),
    "Mistral": lambda hub: _llama(hub, "Mistral"),
    "Phi-3": lambda hub: _llama(hub, "Phi3"),
    "ViT": lambda hub: hub.models.ViTBackbone(**PICTURES, patch_size=(4, 4), mlp_dim=16),
    "DeiT": lambda hub: hub.models.DeiTBackbone(**PICTURES, patch_size=(4, 4), intermediate_dim=16),
    "DINOv2": lambda hub: hub.models.DINOV2Backbone(**PICTURES, patch_size=4, intermediate_dim=16),
    "CLIP": lambda hub: _of_pictures_and_words(hub, "CLIP", projection_dim=8),
    "SigLIP": lambda hub: _of_pictures_and_words(hub, "SigLIP"),
}
REFUSED: dict[str, Callable[[Any], keras.Model]] = {
    "T5": lambda hub: hub.models.T5Backbone(**WORDS, **LAYERS),
    "DeBERTa": lambda hub: hub.models.DebertaV3Backbone(**ENCODER, bucket_size=4),
    "ESM": lambda hub: hub.models.ESMBackbone(**WORDS, **LAYERS, max_wavelength=100),
    "RoFormer": lambda hub: hub.models.RoformerV2Backbone(**WORDS, **LAYERS, head_size=4),
    "Gemma": lambda hub: _llama(hub, "Gemma", head_dim=4),
}


def inputs(model: keras.Model, batch: int = 2) -> Any:
    """Return random inputs: ids, masks with padding, pictures or sounds."""
    random = np.random.default_rng(0)
    found: dict[str, np.ndarray] = {}
    for one in model.inputs:
        name = one.name
        shape = (batch, *(LENGTH if size is None else size for size in one.shape[1:]))
        if "mask" in name and "positions" not in name:
            value = np.arange(shape[1]) < np.array([[shape[1]], [shape[1] - 4]])[:batch]
            found[name] = value.astype("int32")
        elif "positions" in name:
            found[name] = np.tile(np.arange(shape[1], dtype="int32"), (batch, 1))
        elif "segment" in name:
            found[name] = random.integers(0, 2, shape).astype("int32")
        elif "int" in keras.backend.standardize_dtype(one.dtype) or "ids" in name:
            found[name] = random.integers(1, 50, shape).astype("int32")
        else:
            found[name] = random.normal(size=shape).astype("float32")
    return found if isinstance(model.input, dict) else next(iter(found.values()))
