"""Attention that saves work by computing only the positions with an open gate."""

import inspect
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_quasiattn.attention.base import ShowsOptions
from keras_quasiattn.attention.gated import GateOptions, Gates
from keras_quasiattn.attention.softmax import MultiHeadSoftmax
from keras_quasiattn.core.arguments import (
    call_arguments,
    check,
    check_positive_integer,
    check_sequence,
)
from keras_quasiattn.core.backend import needs_static_shapes, segment_max, segment_sum
from keras_quasiattn.core.masks import (
    as_boolean_mask,
    check_sequence_mask,
    for_all_positions,
    sequence_mask,
    zero_masked,
    zero_padding,
)
from keras_quasiattn.core.recording import is_recording, record
from keras_quasiattn.core.tensors import check_choice, project
from keras_quasiattn.layers.base import Mask, SequenceLayer, Shape
from keras_quasiattn.layers.dense import Dense, make_dense
from keras_quasiattn.layers.pooling import (
    AttentionPooling,
    check_states,
    position_scores,
    soft_attention,
)
from keras_quasiattn.layers.recurrence import Bidirectional, OrthogonalInitializer

Tensor = Any
GATED_IMPLEMENTATIONS = ("auto", "reference", "gathered")


def open_positions_attention(
    states: Tensor,
    kernel: Tensor,
    open_positions: Tensor,
    *,
    encode: Callable[[Tensor], Tensor] | None = None,
    window: int = 1,
    return_scores: bool = False,
    implementation: str = "auto",
) -> Tensor | tuple[Tensor, Tensor]:
    """Apply soft attention, computing scores, softmax and sum for the open positions only.

    e_t = kernelᵀ·tanh(h_t);  α_t = exp(e_t) / Σ_t' exp(e_t');  r = Σ_t α_t·h_t;
    t and t' over the open positions

    The open positions of all examples are gathered into one list of rows, so the work depends on
    their total number. The content of a closed position has no effect; an example without open
    positions gives 0. Weights are float32 for 16-bit inputs. With `encode`, this function also
    computes the states of the open positions, each from the `window` inputs around it, through
    which a closed position affects its neighbours.

    Args:
        states: (B, T, D), h; with `encode`, its inputs (B, T, E).
        kernel: (D,).
        open_positions: boolean (or 0/1 integer) (B, T): gates and mask, as from `ops.hard_gates`.
        encode: a function of (N, L, E) that returns (N, L − window + 1, D), such as a convolution
            without padding. Each sequence is padded with zeros so that it has T states.
        window: odd number of inputs from which each state is computed. Defaults to 1.
        return_scores: also return α.
        implementation: "gathered" works as above. "reference" computes all positions and gives
            closed ones weight 0. "auto" is "gathered", or "reference" where sizes must not depend
            on content: under XLA, while JAX traces and under `torch.func.vmap`. All agree up to
            rounding. Defaults to "auto".

    Returns:
        r (B, D) in the dtype of `states`, or (r, α) with α (B, T).

    Raises:
        ValueError: a float mask, sizes that do not match, an even `window`, an unknown
            implementation, or "gathered" where shapes must be static.

    Example:
    >>> h = np.array([[[1.0], [3.0], [9.0]]], "float32")
    >>> gates = np.array([[True, False, True]])
    >>> np.asarray(open_positions_attention(h, np.zeros(1, "float32"), gates)).tolist()
    [[5.0]]

    Source: Xue et al. 2019, "Not All Attention Is Needed", eqs. 2 and 3.
    """
    check_choice(implementation, GATED_IMPLEMENTATIONS, "implementation")
    check(window % 2, window, "window", "odd")
    if encode is None:
        states, kernel = check_states(states, kernel)
    elif len(states.shape) != 3:
        raise ValueError(
            f"`states` must have shape (B, T, E) with `encode`. Received: {tuple(states.shape)}"
        )
    shape, of = states.shape[:2], "the positions of `states`"
    open_positions = as_boolean_mask(open_positions, "open_positions", shape, of)
    open_positions = for_all_positions(open_positions, states)
    is_static = needs_static_shapes(open_positions)
    if implementation == "gathered" and is_static:
        raise ValueError(
            "`implementation='gathered'` cannot run under XLA, in a traced JAX function or under "
            "`torch.func.vmap`, because the sizes of its tensors depend on the gates. Use 'auto' "
            "or 'reference' there."
        )
    if implementation == "reference" or is_static:
        if encode is not None:
            states = encode_sequence(states, encode, window)
        return soft_attention(states, kernel, open_positions, return_scores=return_scores)
    index = ops.nonzero(ops.reshape(open_positions, (-1,)))[0]  # (K,), ascending
    index = ops.cast(index, "int32")
    if encode is None:
        rows = ops.take(ops.reshape(states, (-1, states.shape[-1])), index, axis=0)
    else:
        rows = encode(_windows(states, index, window))[:, 0]
    return _gathered(rows, kernel, open_positions, index, return_scores)  # rows: (K, D)


def encode_sequence(inputs: Tensor, encode: Callable[[Tensor], Tensor], window: int) -> Tensor:
    """Return the states of all positions: (B, T, E) → (B, T, D); see `open_positions_attention`."""
    beyond = window // 2
    return encode(ops.pad(inputs, ((0, 0), (beyond, beyond), (0, 0))))


def _windows(inputs: Tensor, index: Tensor, window: int) -> Tensor:
    """Return the inputs around K of the B·T positions: (B, T, E) and (K,) → (K, window, E)."""
    length, width = ops.shape(inputs)[1:]
    offsets = ops.arange(window, dtype="int32") - window // 2
    index = ops.expand_dims(index, 1)  # (K, 1)
    position = index % length + offsets  # (K, window)
    is_inside = ops.logical_and(position >= 0, position < length)
    nearby = ops.where(is_inside, index + offsets, index)
    # `take` with indices (0, window) gives one axis too few on JAX if there are no inputs.
    rows = ops.take(ops.reshape(inputs, (-1, width)), ops.reshape(nearby, (-1,)), axis=0)
    rows = ops.reshape(rows, (-1, window, width))
    return zero_masked(rows, ops.expand_dims(is_inside, -1))


def _gathered(
    rows: Tensor, kernel: Tensor, open_positions: Tensor, index: Tensor, return_scores: bool
) -> Tensor | tuple[Tensor, Tensor]:
    batch, length = ops.shape(open_positions)
    example = index // length
    scores = position_scores(rows, kernel)  # (K,)
    # A softmax per example: its maximum and sum, (B,), are copied to the rows, (K,).
    highest = ops.stop_gradient(ops.take(segment_max(scores, example, batch), example, axis=0))
    exponential = ops.exp(scores - highest)
    total = ops.take(segment_sum(exponential, example, batch), example, axis=0)
    weights = exponential / total
    products = ops.expand_dims(weights, 1) * ops.cast(rows, weights.dtype)
    output = ops.cast(segment_sum(products, example, batch), rows.dtype)  # (K, D) → (B, D)
    if not return_scores and not is_recording():
        return output
    size = batch * length
    # α as (B, T), with 0 at closed positions.
    spread = ops.scatter(ops.expand_dims(index, 1), ops.cast(weights, rows.dtype), (size,))
    spread = ops.reshape(spread, (batch, length))
    record("weights", spread, open_positions, "weights")
    return (output, spread) if return_scores else output


NETWORKS = ("bilstm", "feed_forward", "self_attention")


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class GateNetwork(SequenceLayer):
    """Read a sequence (B, T, D) and return one logit per position, (B, T, 1).

    h' = network(x);  logit_t = u·h'_t + b

    bilstm: h' concatenates the states of a forward and a backward LSTM. feed_forward:
    h'_t = tanh(W·x_t + c). self_attention: z = tanh(W·x + c), and h' = z + softmax attention of z
    to itself; without the added z, the gates of different words would differ only through the
    words' queries. Masked positions, where inputs must be 0, do not affect the others.

    Args:
        network: "bilstm", "feed_forward" or "self_attention".
        units: size of the hidden states (per direction).

    Example:
    >>> network = GateNetwork("feed_forward", units=4)
    >>> tuple(network(np.ones((2, 5, 8), "float32")).shape)
    (2, 5, 1)

    Source: Xue et al. 2019, eq. 4 and Table 5.
    """

    def __init__(self, network: str, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.network = check_choice(network, NETWORKS, "network")
        self.units = check_positive_integer(units, "units")

    def build(self, inputs_shape: Shape) -> None:
        """Create the hidden layers and the output layer."""
        check_sequence(inputs_shape, "inputs")
        dtype = self.dtype_policy
        hidden_shape: Shape = (*inputs_shape[:-1], self.units)
        if self.network == "bilstm":
            lstm = keras.layers.LSTM(
                self.units,
                recurrent_initializer=OrthogonalInitializer,
                return_sequences=True,
                dtype=dtype,
                name="lstm",
            )
            self.hidden = Bidirectional(lstm, dtype=dtype, name="hidden")
            hidden_shape = (*inputs_shape[:-1], 2 * self.units)
        else:
            self.hidden = Dense(self.units, activation="tanh", dtype=dtype, name="hidden")
        self.hidden.build(inputs_shape)
        if self.network == "self_attention":
            self.attention = MultiHeadSoftmax(1, self.units, dtype=dtype, name="attention")
            self.attention.build(hidden_shape, hidden_shape)
        self.logit = make_dense(self, "logit", 1, hidden_shape)

    def call(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return one logit per position, (B, T, 1)."""
        mask = sequence_mask(mask, "mask", inputs)
        if self.network == "bilstm":
            hidden = self.hidden(inputs, mask=mask)  # (B, T, 2·units)
            return self.logit(zero_padding(hidden, mask))
        hidden = self.hidden(inputs)  # (B, T, units)
        if self.network == "self_attention":
            hidden = hidden + self.attention(hidden, hidden, query_mask=mask, value_mask=mask)
        return self.logit(hidden)  # (B, T, 1)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        """Return (B, T, 1)."""
        return (*inputs_shape[:-1], 1)


_UNITS = 100


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class GatedAttention(ShowsOptions, AttentionPooling):
    """Apply soft attention to the few positions whose gates an auxiliary network opens (GA-Net).

    p_t = sigmoid(network(x)_t);  e_t = wᵀ·tanh(h_t);  α_t = g_t·exp(e_t) / Σ g·exp(e);
    r = Σ_t α_t·h_t

    In training the gates g are soft: Gumbel-softmax samples at temperature τ. At inference they are
    binary, [p_t ≥ threshold] or seeded samples from Bernoulli(p_t), and scores, softmax and sum are
    computed for the open positions only. If all gates of a text are closed, the position with the
    highest p_t is opened. With all gates open, the result equals `SoftAttention`. With
    `convolution`, the states are h = convolution(inputs), at inference also for the open positions
    only, because the network reads the inputs and opens the gates first.

    When `training` is passed, as `fit` and `evaluate` do, the layer adds λ·Σ g/T to the loss, where
    T is the real length, averaged over the texts with T > 0. It reports this cost as the metric
    "open_gate_cost", and the share of real positions whose gate is at least half open as "density",
    but not on JAX, where Keras does not carry metrics of layers through a compiled update. An
    exported model is called without `training`, so it updates nothing.

    Masked positions, NaN included, have no effect, no gate and weight exactly 0. A sequence with
    nothing to attend to gives 0. The layer consumes the mask: its output has none.

    Args:
        network: "bilstm", "feed_forward", "self_attention", or an unbuilt Keras layer that returns
            one logit per position, (B, T) or (B, T, 1). The layer receives the mask if its `call`
            accepts one. Defaults to "bilstm".
        units: size of the named network's hidden states. Defaults to 100.
        temperature: initial τ > 0. The paper chose among 0.5, 1, 1.5 and 2. Defaults to 1.
        final_temperature: τ after `annealing_steps`, reached exponentially; None keeps τ constant.
        annealing_steps: number of training calls until τ is final. Defaults to 10,000; ignored
            without `final_temperature`.
        open_gate_cost: λ ≥ 0. The paper chose between 4e-6 and 1e-3. Defaults to 1e-4.
        inference: "threshold" (deterministic) or "sample" (as in the paper). Defaults to
            "threshold".
        threshold: smallest p_t that opens a gate under "threshold". Defaults to 0.5.
        seed: seed of all random draws.
        final_tanh: whether the output is tanh(r). Defaults to False, as in `SoftAttention`.
        kernel_initializer: initializer of w. Defaults to "glorot_uniform".
        convolution: None, or an unbuilt `keras.layers.Conv1D` over an odd number of positions, with
            `padding="valid"` and `data_format="channels_last"`, without strides or dilation.
            Outside the real text it reads zeros.
        implementation: "auto", "reference" or "gathered": how `ops.open_positions_attention`
            attends to the open positions outside training; it never changes the result. Defaults to
            "auto".

    Call arguments:
        inputs: (B, T, D), h, what is attended to; with `convolution` its input, (B, T, E).
        gate_inputs: (B, T, E), x, what the network reads, usually embeddings. Defaults to `inputs`.
        mask: boolean (B, T), True = real. Defaults to Keras' mask of `inputs` or `gate_inputs`.
        training: whether gates are soft.
        return_attention_scores: also return the gates and α.
        inputs_mask: set by Keras.
        gate_inputs_mask: set by Keras.

    Returns:
        (B, D), or that, the gates (B, T), 0 at masked positions, and α (B, T).

    Raises:
        ValueError: an option is out of range, the mask holds floats, the inputs are not (B, T, D),
            `convolution` or the output shape of the network does not fit, or
            `implementation="gathered"` is used where shapes must be static.

    Example:
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
            why = "because the layer defines its own size"
            check(units is None, units, "units", f"None when `network` is a layer, {why}")
            self._network_name = None
            self.gate_network = network
        else:
            self._network_name = network
            size = _UNITS if units is None else units
            self.gate_network = GateNetwork(
                network, size, dtype=self.dtype_policy, name="gate_network"
            )
        self.units, self.seed = units, seed
        options = GateOptions(
            temperature=temperature,
            final_temperature=final_temperature,
            annealing_steps=annealing_steps,
            open_gate_cost=open_gate_cost,
            inference=inference,
            threshold=threshold,
        )
        self.show_options(options)
        self.gates = Gates(options, seed=seed, dtype=self.dtype_policy)
        self.implementation = check_choice(implementation, GATED_IMPLEMENTATIONS, "implementation")

    def build(self, inputs_shape: Shape, gate_inputs_shape: Shape | None = None) -> None:
        """Create w and build the auxiliary network."""
        check_sequence(inputs_shape, "inputs")
        if self.convolution is not None and not self.convolution.built:
            self.convolution.build(inputs_shape)
        super().build(self._states_shape(inputs_shape))
        shape = inputs_shape if gate_inputs_shape is None else gate_inputs_shape
        check_sequence(shape, "gate_inputs")
        if not self.gate_network.built:
            self.gate_network.build(shape)
        found = tuple(self.gate_network.compute_output_shape(shape))
        if len(found) not in (2, 3) or (len(found) == 3 and found[-1] != 1):
            raise ValueError(
                "`network` must return one logit per position, with shape (B, T) or (B, T, 1). "
                f"Received: a network with output shape {found}"
            )
        self.gates.build(found[:2])

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
        """Pool `inputs` (B, T, D) through the gates; see the class."""
        _check_masks(inputs, gate_inputs, mask, inputs_mask, gate_inputs_mask)
        mask = next((m for m in (mask, inputs_mask, gate_inputs_mask) if m is not None), None)
        states, mask = self.masked(inputs, mask)
        window = 1 if self.convolution is None else self.convolution.kernel_size[0]
        words = states
        if gate_inputs is not None:
            words = zero_padding(ops.cast(gate_inputs, self.compute_dtype), mask)
        logits = self._logits(words, mask, training)
        gates = self.gates(logits, mask=mask, training=training)  # (B, T)
        if training:
            if self.convolution is not None:
                states = encode_sequence(states, self._encode, window)
            context, weights = soft_attention(
                states, self.score_kernel, mask, gates=gates, return_scores=True
            )
        else:
            result = open_positions_attention(
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
        gates = zero_masked(ops.cast(gates, self.compute_dtype), mask)
        return context, gates, weights

    def _encode(self, x: Tensor) -> Tensor:
        """Return the convolution: (N, L, E) to (N, L − window + 1, D)."""
        layer: Any = self.convolution
        if x.shape[1] != layer.kernel_size[0]:
            return layer(x)
        # For single windows a matrix product is several times faster.
        size = layer.kernel_size[0] * x.shape[2]
        kernel = ops.reshape(layer.kernel, (size, layer.filters))
        states = project(ops.reshape(x, (-1, size)), kernel)
        states = states if layer.bias is None else states + layer.bias
        return ops.expand_dims(layer.activation(states), 1)

    def _logits(self, words: Tensor, mask: Mask, training: bool | None) -> Tensor:
        """Return the logits of the auxiliary network, (B, T)."""
        taken = inspect.signature(self.gate_network.call).parameters
        given = {"mask": mask} if training is None else {"mask": mask, "training": training}
        given = {name: one for name, one in given.items() if name in taken}
        logits = self.gate_network(words, **given)
        # (B, T, 1) or (B, T) to (B, T)
        return ops.squeeze(logits, -1) if len(logits.shape) == 3 else logits

    def compute_output_shape(
        self, inputs_shape: Shape, gate_inputs_shape: Shape | None = None
    ) -> Shape:
        """Return (B, D)."""
        return super().compute_output_shape(self._states_shape(inputs_shape))

    def _states_shape(self, inputs_shape: Shape) -> Shape:
        if self.convolution is None:
            return inputs_shape
        return (*inputs_shape[:-1], self.convolution.filters)

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """Return the symbolic output (B, D), gates (B, T) and weights (B, T)."""
        given = call_arguments(self, args, kwargs)
        names = ("inputs", "gate_inputs", "mask", "inputs_mask", "gate_inputs_mask")
        _check_masks(*(given[name] for name in names))
        spec = super().compute_output_spec(*args, **kwargs)
        if not given["return_attention_scores"]:
            return spec
        output, weights = spec
        return output, keras.KerasTensor(weights.shape, dtype=self.compute_dtype), weights

    @property
    def network(self) -> Any:
        """The auxiliary network, by its name if it was given so."""
        return self._network_name or self.gate_network

    def get_config(self) -> dict[str, Any]:
        """Return every constructor argument."""
        convolution = keras.saving.serialize_keras_object(self.convolution)
        config = {**super().get_config(), "convolution": convolution}
        for part in (convolution, config["network"]):
            if isinstance(part, dict):
                # Otherwise Keras would build the part before this layer and leave this layer's
                # name out of its path.
                part.pop("build_config", None)
        return config


def _check_convolution(convolution: Any) -> keras.layers.Conv1D:
    """Return the layer; raise a `ValueError` unless it computes one state per odd window."""
    wanted = {
        "padding": "valid",
        "strides": (1,),
        "dilation_rate": (1,),
        "groups": 1,
        "data_format": "channels_last",
    }
    fits = isinstance(convolution, keras.layers.Conv1D)
    check(fits, convolution, "convolution", "None or a `keras.layers.Conv1D`")
    found = {name: getattr(convolution, name) for name in wanted}
    if found != wanted or convolution.kernel_size[0] % 2 == 0:
        raise ValueError(
            "`convolution` must have an odd `kernel_size`, `padding='valid'`, no strides, dilation "
            "or groups, and `data_format='channels_last'`. "
            f"Received: kernel_size={convolution.kernel_size[0]}, {found}"
        )
    return convolution


def _check_masks(inputs: Tensor, gate_inputs: Tensor | None, *masks: Mask) -> None:
    x = inputs if gate_inputs is None else gate_inputs
    names = ("mask", "inputs_mask", "gate_inputs_mask")
    for name, mask, of in zip(names, masks, (inputs, inputs, x), strict=True):
        check_sequence_mask(mask, name, of)
