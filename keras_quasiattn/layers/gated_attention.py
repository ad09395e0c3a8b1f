"""Gated attention: an auxiliary network decides which positions are attended to at all."""

import dataclasses
import inspect
from typing import Any

import keras
from keras import ops as keras_ops

from keras_quasiattn import ops
from keras_quasiattn.layers.gate_network import NETWORKS, GateNetwork
from keras_quasiattn.layers.shared.arguments import (
    check_sequence,
    check_sequence_mask,
    sequence_mask,
)
from keras_quasiattn.layers.shared.attention_pooling import AttentionPooling, Shape
from keras_quasiattn.layers.shared.gates import GateOptions, Gates
from keras_quasiattn.ops.checks import check_choice
from keras_quasiattn.ops.masking import zero_padding
from keras_quasiattn.ops.open_positions import GATED_IMPLEMENTATIONS, encode_sequence

Tensor = Any
_UNITS = 100


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class GatedAttention(AttentionPooling):
    """Soft attention to the few positions whose gates an auxiliary network opens (GA-Net).

    p_t = sigmoid(network(x)_t);  e_t = wᵀ·tanh(h_t);  α_t = g_t·exp(e_t) / Σ g·exp(e);
    r = Σ_t α_t·h_t

    In training the gates g are soft: Gumbel-softmax samples at temperature τ, in the forward and
    the backward pass. Otherwise they are binary, [p_t ≥ threshold] or seeded samples from
    Bernoulli(p_t), and scores, softmax and sum are computed for the open positions only. If all
    gates of a text are closed, the position with the highest p_t is opened. With all gates open,
    the result is that of `SoftAttention`.

    With `convolution`, the states are h = convolution(inputs), and these too are computed for the
    open positions only: the network, which reads the inputs, decides before anything else is
    computed.

    When `training` is passed, as `fit` and `evaluate` do, the layer adds λ·Σ g/T to the loss, where
    T is the real length, averaged over the texts with T > 0. It reports this cost as the metric
    "open_gate_cost", and the share of real positions whose gate is at least half open as "density".
    (Not on JAX, where Keras does not carry layer metrics through a compiled step.) An exported
    model is called without `training`, so it updates nothing.

    Masked positions have no gate and weight exactly 0, and values there, NaN included, have no
    effect. A sequence with nothing to attend to gives exactly 0. The layer consumes the mask: its
    output has none.

    Args:
        network: "bilstm", "feed_forward", "self_attention", or an unbuilt Keras layer that returns
            one logit per position, (B, T) or (B, T, 1). The layer receives the mask if its `call`
            accepts one.
        units: size of the named network's hidden states. Defaults to 100; 20 works as well on the
            paper's data.
        temperature: initial τ > 0. The paper chose among 0.5, 1, 1.5 and 2.
        final_temperature: τ after `annealing_steps`, reached exponentially; None keeps τ constant.
        annealing_steps: number of training calls until then. Defaults to 10,000; ignored without
            `final_temperature`.
        open_gate_cost: λ ≥ 0. The paper chose between 4e-6 and 1e-3.
        inference: "threshold" (deterministic) or "sample" (as in the paper).
        threshold: smallest p_t that opens a gate under "threshold". Defaults to 0.5.
        seed: seed of all random draws.
        final_tanh: whether the output is tanh(r). Defaults to False, as in `SoftAttention`.
        kernel_initializer: initializer of w. Defaults to "glorot_uniform".
        convolution: None, or an unbuilt `keras.layers.Conv1D` over an odd number of positions, with
            `padding="valid"` and without strides or dilation. Beyond the ends of the sequence and
            at masked positions it reads zeros.
        implementation: "auto", "reference" or "gathered": how `ops.open_positions_attention`
            attends to the open positions outside training; it never changes the result.
        **kwargs: arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: (B, T, D), h, the sequence that is attended to; the input of `convolution` if there
            is one, (B, T, E).
        gate_inputs: (B, T, E), x, the input of the auxiliary network, usually word embeddings.
            Defaults to `inputs`.
        mask: boolean (or 0/1 integer) (B, T), True = real. Defaults to the mask Keras attached to
            `inputs`, or else to `gate_inputs`.
        training: whether gates are soft.
        return_attention_scores: also return the gates and α.
        inputs_mask: set by Keras.
        gate_inputs_mask: set by Keras.

    Returns:
        (B, D), or that, the gates (B, T), 0 at masked positions, and α (B, T).

    Raises:
        ValueError: an option is out of range, the mask holds floats, the inputs are not (B, T, D),
            `convolution` is of another kind, the network has another output shape, or
            `implementation="gathered"` is used where shapes must be static.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import GatedAttention
    >>> states, words = np.ones((2, 5, 8), "float32"), np.ones((2, 5, 3), "float32")
    >>> layer = GatedAttention(units=4, seed=0)
    >>> output, gates, weights = layer(states, words, return_attention_scores=True)
    >>> tuple(output.shape), tuple(gates.shape), tuple(weights.shape)
    ((2, 8), (2, 5), (2, 5))

    Source: Xue et al. 2019, "Not All Attention Is Needed: Gated Attention Network for Sequence
    Data", eqs. 2–10.
    """

    def __init__(
        self,
        network: Any = "bilstm",
        units: int | None = None,
        *,
        temperature: float = 1.0,
        final_temperature: float | None = None,
        annealing_steps: int = 10_000,
        open_gate_cost: float = 1e-4,
        inference: str = "threshold",
        threshold: float = 0.5,
        seed: int | None = None,
        final_tanh: bool = False,
        kernel_initializer: Any = "glorot_uniform",
        convolution: Any = None,
        implementation: str = "auto",
        **kwargs: Any,
    ) -> None:
        super().__init__(final_tanh=final_tanh, kernel_initializer=kernel_initializer, **kwargs)
        network, convolution = (
            keras.saving.deserialize_keras_object(layer) if isinstance(layer, dict) else layer
            for layer in (network, convolution)
        )
        self.convolution = None if convolution is None else _check_convolution(convolution)
        if isinstance(network, keras.layers.Layer):
            if units is not None:
                raise ValueError(
                    "`units` must be None when `network` is a layer, because the layer defines its "
                    f"own size. Received: units={units!r}"
                )
            self._network_name = None
            self.gate_network = network
        else:
            check_choice(network, NETWORKS, "network")
            self._network_name = network
            self.gate_network = GateNetwork(
                network,
                _UNITS if units is None else units,
                dtype=self.dtype_policy,
                name="gate_network",
            )
        self.units = units
        options = GateOptions(
            temperature=temperature,
            final_temperature=final_temperature,
            annealing_steps=annealing_steps,
            open_gate_cost=open_gate_cost,
            inference=inference,
            threshold=threshold,
        )
        self.gates = Gates(options, seed=seed, dtype=self.dtype_policy)
        check_choice(implementation, GATED_IMPLEMENTATIONS, "implementation")
        self.implementation = implementation

    def build(self, inputs_shape: Shape, gate_inputs_shape: Shape | None = None) -> None:
        """Creates w and builds the auxiliary network."""
        check_sequence(inputs_shape, "inputs")
        if self.convolution is not None and not self.convolution.built:
            self.convolution.build(inputs_shape)
        super().build(self._states_shape(inputs_shape))
        shape = inputs_shape if gate_inputs_shape is None else gate_inputs_shape
        check_sequence(shape, "gate_inputs")
        if not self.gate_network.built:
            self.gate_network.build(shape)
        told = tuple(self.gate_network.compute_output_shape(shape))
        if len(told) not in (2, 3) or (len(told) == 3 and told[-1] != 1):
            raise ValueError(
                "`network` must return one logit per position, with shape (B, T) or (B, T, 1). "
                f"Received: a network with output shape {told}"
            )
        self.gates.build(told[:2])

    def call(  # type: ignore[override]  # `gate_inputs` comes before the mask
        self,
        inputs: Tensor,
        gate_inputs: Tensor | None = None,
        mask: Tensor | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        inputs_mask: Tensor | None = None,
        gate_inputs_mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor, Tensor]:
        """Pools `inputs` (B, T, D) through the gates; see the class."""
        candidates = {
            "mask": mask,
            "inputs_mask": inputs_mask,
            "gate_inputs_mask": gate_inputs_mask,
        }
        name = next((name for name, given in candidates.items() if given is not None), "mask")
        _check_masks(inputs, gate_inputs, **candidates)
        mask = sequence_mask(candidates[name], name, inputs)
        states = zero_padding(keras_ops.cast(inputs, self.compute_dtype), mask)
        window = 1 if self.convolution is None else self.convolution.kernel_size[0]
        words = states
        if gate_inputs is not None:
            words = zero_padding(keras_ops.cast(gate_inputs, self.compute_dtype), mask)
        gates = self.gates(self._logits(words, mask), mask=mask, training=training)  # (B, T)
        if training:
            if self.convolution is not None:
                states = encode_sequence(states, self._encode, window)
            context, weights = ops.soft_attention(
                states, self.score_kernel, mask, gates=gates, return_scores=True
            )
        else:
            result = ops.open_positions_attention(
                states,
                self.score_kernel,
                gates,
                encode=self.convolution and self._encode,
                window=window,
                return_scores=return_attention_scores,
                implementation=self.implementation,
            )
            context, weights = result if return_attention_scores else (result, None)
        context = self.finish(context)  # (B, D); the weights are (B, T)
        if not return_attention_scores:
            return context
        gates = keras_ops.cast(gates, self.compute_dtype)
        return (
            context,
            gates if mask is None else gates * keras_ops.cast(mask, gates.dtype),
            weights,
        )

    def _encode(self, x: Tensor) -> Tensor:
        """The convolution: (N, L, E) to (N, L − window + 1, D)."""
        layer: Any = self.convolution
        if x.shape[1] != layer.kernel_size[0]:
            return layer(x)
        # For single windows a product gives the same several times faster.
        size = layer.kernel_size[0] * x.shape[2]
        kernel = keras_ops.reshape(layer.kernel, (size, layer.filters))
        states = keras_ops.matmul(keras_ops.reshape(x, (-1, size)), kernel)
        states = states if layer.bias is None else states + layer.bias
        return keras_ops.expand_dims(layer.activation(states), 1)

    def _logits(self, words: Tensor, mask: Tensor | None) -> Tensor:
        """Returns the logits of the auxiliary network, (B, T)."""
        takes_mask = "mask" in inspect.signature(self.gate_network.call).parameters
        logits = self.gate_network(words, mask=mask) if takes_mask else self.gate_network(words)
        # (B, T, 1) or (B, T) to (B, T)
        return keras_ops.squeeze(logits, -1) if len(logits.shape) == 3 else logits

    def compute_output_shape(
        self, inputs_shape: Shape, gate_inputs_shape: Shape | None = None
    ) -> Shape:
        """(B, D)."""
        return super().compute_output_shape(self._states_shape(inputs_shape))

    def _states_shape(self, inputs_shape: Shape) -> Shape:
        if self.convolution is None:
            return inputs_shape
        return (*inputs_shape[:-1], self.convolution.filters)

    def compute_output_spec(  # type: ignore[override]
        self,
        inputs: Tensor,
        gate_inputs: Tensor | None = None,
        mask: Tensor | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        inputs_mask: Tensor | None = None,
        gate_inputs_mask: Tensor | None = None,
    ) -> Any:
        """Returns the symbolic output (B, D), gates (B, T) and weights (B, T)."""
        masks = {"inputs_mask": inputs_mask, "gate_inputs_mask": gate_inputs_mask}
        _check_masks(inputs, gate_inputs, mask=mask, **masks)
        spec = super().compute_output_spec(inputs, None, return_attention_scores)
        if not return_attention_scores:
            return spec
        output, weights = spec
        return output, keras.KerasTensor(weights.shape, dtype=self.compute_dtype), weights

    def get_config(self) -> dict[str, Any]:
        """Returns every constructor argument."""
        convolution = keras.saving.serialize_keras_object(self.convolution)
        if convolution:
            # Keras would build it before this layer, and leave this layer's name out of its path.
            convolution.pop("build_config", None)
        return {
            **super().get_config(),
            "network": self._network_name or keras.saving.serialize_keras_object(self.gate_network),
            "units": self.units,
            **dataclasses.asdict(self.gates.options),
            "seed": self.gates.seed,
            "convolution": convolution,
            "implementation": self.implementation,
        }


def _check_convolution(convolution: Any) -> keras.layers.Conv1D:
    """Returns the layer; raises a `ValueError` unless it gives a state for each odd window."""
    wanted = {"padding": "valid", "strides": (1,), "dilation_rate": (1,), "groups": 1}
    if not isinstance(convolution, keras.layers.Conv1D):
        raise ValueError(
            "`convolution` must be None or a `keras.layers.Conv1D`. "
            f"Received: convolution={convolution!r}"
        )
    found = {name: getattr(convolution, name) for name in wanted}
    if found != wanted or convolution.kernel_size[0] % 2 == 0:
        raise ValueError(
            "`convolution` must have an odd `kernel_size`, `padding='valid'`, and no strides, "
            f"dilation or groups. Received: kernel_size={convolution.kernel_size[0]}, {found}"
        )
    return convolution


def _check_masks(inputs: Tensor, gate_inputs: Tensor | None, **masks: Tensor | None) -> None:
    for name, mask in masks.items():
        of_gates = name == "gate_inputs_mask" and gate_inputs is not None
        check_sequence_mask(mask, name, gate_inputs if of_gates else inputs)
