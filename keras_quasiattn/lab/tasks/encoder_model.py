"""The model around a pretrained encoder: means of its states and a dense layer."""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_quasiattn.attention import MultiHeadQuasiAttention
from keras_quasiattn.attention.start import Start
from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks.measured import regression
from keras_quasiattn.layers import MaskedPooling
from keras_quasiattn.models.functional_model import FunctionalModel, is_real

Tensor = Any
# Inverse regularization strength of the regression that the dense layer starts from. Of 1e-4, 1e-3
# and 1e-2, it was the best on validation data for four of six parts of TrecQA and Quora.
_C = 1e-3
_ADAPTED = ("query", "value")  # sublayers of an attention that get LoRA, as in KerasHub
_ATTENTION = (
    keras.layers.MultiHeadAttention,
    keras.layers.GroupQueryAttention,
    MultiHeadQuasiAttention,
)


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class EncoderClassifier(FunctionalModel):
    """Classify a sequence by the mean of a pretrained encoder's states and a dense layer.

    x = encoder(ids, segments);  m = mean_t x_t;  logits = W·m + b
    segments[t] = 1 after the first separator, for the second text of a pair

    With `compares`, the dense layer also reads how the means of both texts differ:

    logits = W·[m'; |m₀' − m₁'|; m₀' ⊙ m₁'] + b;  m' = √width·m/‖m‖
    m₀ and m₁ are the means over the positions of segment 0 and 1

    Padding is id 0 and changes nothing. The mean of a text without positions is 0.

    Args:
        encoder: a functional model from `token_ids`, and from `padding_mask` and `segment_ids`
            where it has them, to states (B, L, width).
        num_classes: number of classes.
        separator_id: the id that ends a text.
        dropout: rate in [0, 1) of the dropout before the dense layer. Defaults to 0.1.
        padding_id: the encoder's own padding id, which the inputs swap with 0: there padding is 0,
            and this id stands for the encoder's 0. Defaults to 0.
        compares: whether a sequence is two texts, and their means are compared. Defaults to False.
        **kwargs: `name`, `trainable` and `dtype` (a policy).

    It takes ids (B, L), integers, and returns logits (B, num_classes), float32.
    """

    def __init__(
        self,
        encoder: Any,
        num_classes: int,
        separator_id: int,
        dropout: float = 0.1,
        padding_id: int = 0,
        compares: bool = False,
        **kwargs: Any,
    ) -> None:
        make = self._begin(locals(), positive=("num_classes",), rates=("dropout",))
        if isinstance(encoder, dict):
            encoder = keras.saving.deserialize_keras_object(encoder)
        self._arguments["encoder"] = encoder
        ids = keras.Input((None,), dtype="int32", name="ids")
        mask, own = is_real(ids), ids  # (B, L)
        if padding_id:  # it and 0 change places
            own = ops.where(mask, ops.where(ops.equal(ids, padding_id), 0, ids), padding_id)
        ends = ops.cast(ops.equal(ids, separator_id), "int32")
        inputs = {
            "token_ids": own,
            "padding_mask": ops.cast(mask, "int32"),
            # Also 1 at padding, which follows the last separator and is masked.
            "segment_ids": ops.minimum(ops.cumsum(ends, axis=1) - ends, 1),
        }
        states = encoder({name: inputs[name] for name in encoder.input})  # (B, L, width)
        pooling = make(MaskedPooling, "pooling")
        x = pooling(states, mask=mask)  # (B, width)
        if compares:
            is_second = ops.equal(inputs["segment_ids"], 1)
            first, second = (
                _scaled(pooling(states, mask=ops.logical_and(mask, of_text)))
                for of_text in (ops.logical_not(is_second), is_second)
            )
            parts = [_scaled(x), ops.abs(first - second), first * second]
            x = ops.concatenate(parts, axis=-1)  # (B, 3·width)
        x = make(keras.layers.Dropout, "dropout", dropout)(x)
        logits = make(keras.layers.Dense, "logits", num_classes, dtype="float32")(x)
        self._end(ids, logits, kwargs)

    @property
    def encoder(self) -> keras.Model:
        """The encoder."""
        return self.get_layer("encoder")

    def explain(self, ids: Tensor) -> dict[str, Tensor]:
        """Return the logits (B, num_classes) of ids (B, L)."""
        return {"logits": self(ops.cast(ids, "int32"), training=False)}


def _scaled(x: Tensor) -> Tensor:
    """Return √width·x/‖x‖, (B, width), in float32; 0 stays 0."""
    x = ops.cast(x, "float32")
    square = ops.mean(ops.square(x), axis=-1, keepdims=True)
    return x * ops.rsqrt(ops.maximum(square, 1e-12))  # at 0 the gradient of Keras' layer is 1e12


def limit_training(model: EncoderClassifier, frozen_layers: int, lora_rank: int) -> None:
    """Freeze the lowest layers of the encoder, embeddings first, or train low-rank changes (LoRA).

    LoRA is on the queries and values of every attention that is not frozen; their biases train,
    too, and so do the attention's own weights.
    """
    levels = list(_levels(model.encoder))
    if not 0 <= frozen_layers <= len(levels):
        raise UserError(
            f"model.frozen_layers is {frozen_layers}: it must be from 0 to {len(levels)}, the "
            f"embeddings and {len(levels) - 1} layers"
        )
    width = model.encoder.output_shape[-1]
    if not 0 <= lora_rank <= width:
        raise UserError(
            f"model.lora_rank is {lora_rank}: it must be from 0 to {width}, the width of the "
            "encoder"
        )
    if lora_rank and frozen_layers == len(levels):
        raise UserError(
            f"model.lora_rank is {lora_rank}, but model.frozen_layers is {frozen_layers}, which "
            "leaves no layer to train: set one of them to 0"
        )
    for number, layers in enumerate(levels):
        for layer in layers:
            layer.trainable = number >= frozen_layers and not lora_rank
            if not lora_rank or number < frozen_layers:
                continue
            for inner in layer._flatten_layers():  # Keras has no public way to list these
                if isinstance(inner, Start):
                    inner.trainable = True  # or its factors stay 0, and so does the new attention
                elif isinstance(inner, MultiHeadQuasiAttention):
                    for weight in inner._trainable_variables:  # its own, such as a learned alpha
                        weight.trainable = True
                elif inner.name in _ADAPTED and hasattr(inner, "enable_lora"):
                    inner.trainable = True
                    inner.enable_lora(lora_rank)


def rates_by_depth(model: EncoderClassifier, decay: float) -> dict[str, float]:
    """Return the factor of each weight's rate, by path: 1, and times `decay` per layer below."""
    levels = list(_levels(model.encoder))
    return {
        weight.path: decay ** (len(levels) - number)
        for number, layers in enumerate(levels)
        for layer in layers
        for weight in layer.weights  # not its trainable ones: LoRA trains parts of frozen layers
        if weight.trainable
    }


def start_logits(
    model: EncoderClassifier, x: np.ndarray, labels: np.ndarray, *, balanced: bool
) -> None:
    """Start the dense layer as a logistic regression from its inputs x (examples, features).

    Otherwise the first updates would change the encoder to suit random weights. If `balanced`, all
    classes count the same.
    """
    if len(np.unique(labels)) == 1 or not np.isfinite(x).all():
        return
    scale = max(float(np.sqrt(np.mean(np.square(x, dtype="float64")))), 1e-6)
    fitted = regression(x / scale, labels, _C, class_weight="balanced" if balanced else None)
    kernel, bias = fitted.coef_.T / scale, fitted.intercept_
    if len(fitted.classes_) == 2:  # scikit-learn has one column for both
        kernel, bias = np.hstack([-kernel, kernel]) / 2, np.concatenate([-bias, bias]) / 2
    layer = model.get_layer("logits")
    kernels, biases = np.zeros(layer.kernel.shape), np.full(layer.units, bias.min())
    kernels[:, fitted.classes_], biases[fitted.classes_] = kernel, bias
    layer.set_weights([kernels, biases])


def _levels(encoder: keras.Model) -> Iterator[list[keras.Layer]]:
    """Yield the layers of the embeddings together, then each layer with an attention alone."""
    embeddings: list[keras.Layer] = []
    blocks: list[list[keras.Layer]] = []
    for layer in encoder.layers:
        if any(isinstance(one, _ATTENTION) for one in layer._flatten_layers()):
            blocks.append([layer])
        elif not blocks:
            embeddings.append(layer)
        else:
            blocks[-1].append(layer)
    yield embeddings
    yield from blocks
