"""Another attention that a multi-head layer computes until training brings in its own."""

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras import ops

from keras_quasiattn.attention.base import ATTENTIONS, Attention
from keras_quasiattn.core import recording
from keras_quasiattn.core.configured import QuantizedParts
from keras_quasiattn.core.masks import Mask
from keras_quasiattn.core.tensors import check_choice, compute_dtype

Tensor = Any
FORMS = ("added", "blended")
# Arguments that the other attention shares, because it works on the same heads.
_SHARED = (
    "num_heads",
    "key_dim",
    "value_dim",
    "kernel_initializer",
    "kernel_regularizer",
    "kernel_constraint",
    "attention_axes",
    "seed",
)


class Heads(QuantizedParts, keras.layers.Layer):
    """Own the weights of a multi-head layer that has no projections.

    That layer cannot be called, and code that searches a model for attention does not find it.
    `layer` is an unbuilt multi-head layer of this package, of which `attend`, `compute`
    (`_compute_attention` in Keras), `options` and the class, `kind`, are kept.
    """

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        super().__init__(dtype=layer.dtype_policy, autocast=False, **kwargs)
        # Keras would track the layer, but looks into no method.
        self.attend: Callable[..., Any] = layer.attend
        self.compute: Callable[..., Any] = layer._compute_attention
        self.options = layer.options
        self.kind = type(layer)

    def build_for(self, rank: int) -> None:
        """Create the weights; `rank` is that of the projected tensors."""
        layer = self.attend.__self__  # type: ignore[attr-defined]
        layer.build_without_projections(rank)
        # Keras has no public way to list the weights that are not those of sublayers
        weights = (*layer._trainable_variables, *layer._non_trainable_variables)
        self.owned = [*weights, *layer._seed_generators, *layer._layers]
        self.built = True


class Share(keras.Variable):
    """Hold s of a blend, and call `changed` with each new value, whether moved, loaded or set."""

    def __init__(self, changed: Callable[[float], None], **options: Any) -> None:
        super().__init__("zeros", (), trainable=False, autocast=False, name="share", **options)
        self._changed = changed

    def assign(self, value: Any) -> Any:
        """Set s."""
        assigned = super().assign(value)
        self._changed(float(ops.convert_to_numpy(assigned)))
        return assigned


class Start(QuantizedParts, keras.layers.Layer):
    """The attention that a multi-head layer starts from, on the layer's own projections.

    "added":    start(q, k, v) + f · own(q, k, v), where f is learned for each head, from 0
    "blended":  (1 − s) · start(q, k, v) + s · own(q, k, v), where a callback moves s from 0 to 1;
    at 1 only own(q, k, v) is computed

    At first f or s is 0, so the layer computes what `start` computes. f then has a gradient, but
    weights that only `own` uses have none. f, s, the sum and the values of `own` are float32 in
    16-bit layers. If weights are dropped, both attentions drop the same pairs. The weights of a
    call are those of the sum.

    `own` is the multi-head layer; the other attention has the name `attention`, with `options`. An
    unknown attention or `form` is a `ValueError`. `amount` is f (N, 1, 1), or s; `is_finished` says
    whether the layer's own attention has replaced the other one. It is read when a function is
    traced; so when it changes, the functions of `models` are traced again. These are the models
    that a callback trains, and those that called the layer once it was True.
    """

    def __init__(
        self, own: Any, attention: str, options: dict[str, Any] | None = None, form: str = "added"
    ) -> None:
        super().__init__(name="start", dtype=own.dtype_policy, autocast=False)
        check_choice(attention, sorted(ATTENTIONS), "attention")
        check_choice(form, FORMS, "form")
        config = keras.layers.MultiHeadAttention.get_config(own)
        shared = {name: config[name] for name in _SHARED}
        layer = ATTENTIONS[attention](
            **shared, **(options or {}), dtype=own.dtype_policy, name=f"{own.name}_start"
        )
        self.heads = Heads(layer, name=attention)
        self.num_heads = own.num_heads
        self._attention, self._given_options, self.form = attention, options, form
        self.is_finished = False
        self.models: Any = weakref.WeakSet()

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments with which a layer recreates this."""
        options = None if self._given_options is None else dict(self._given_options)
        return {"attention": self._attention, "options": options, "form": self.form}

    @property
    def options(self) -> Attention:
        """Return the options of the other attention."""
        return self.heads.options

    @property
    def cross_attention_arguments(self) -> dict[str, Any]:
        """Return the constructor arguments to change if queries must not affect each other."""
        changes = self.options.cross_attention_options
        start = self.arguments
        return {"start": {**start, "options": {**(start["options"] or {}), **changes}}}

    @property
    def is_blend(self) -> bool:
        """Return whether a callback must move the share of the layer's own attention."""
        return self.form == "blended"

    def _changed(self, share: float) -> None:
        """Stop computing the other attention if the share is 1; otherwise compute it again."""
        if self.is_finished == (share == 1):
            return
        self.is_finished = not self.is_finished
        for model in self.models:
            if model.train_function is not None:
                model.make_train_function(force=True)
            model.test_function = model.predict_function = None

    def build_for(self, rank: int) -> None:
        """Create the factors or the share, and the other attention's weights, as in `Heads`."""
        self.heads.build_for(rank)
        if self.is_blend:
            with keras.name_scope(self.name):
                self.amount = Share(self._changed, dtype=self.variable_dtype)
        else:  # (N, 1, 1), to be multiplied by (B, ..., N, T, V)
            shape = (self.num_heads, 1, 1)
            self.amount = self.add_weight(shape, "zeros", autocast=False, name="factor")
        self.built = True

    def beside(self, own: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method `attend` that combines both attentions, or `own` once finished."""
        if self.is_finished:
            self._note_the_called_model()
            return own

        def attend(query: Tensor, key: Tensor, value: Tensor, mask: Mask, **options: Any) -> Any:
            # Not in 16 bits, where sums of unlimited weights may be infinite: 0 · ∞ is NaN
            wide = ops.cast(value, compute_dtype(value))
            with _recorded("start") as of_start, recording.unedited():
                first = self.heads.attend(query, key, value, mask, **options)
            with _recorded("own") as of_own:
                second = own(query, key, wide, mask, **options)
            if "weights" in of_start and "weights" in of_own:
                one, other = of_start["weights"], of_own["weights"]
                weights = self._sum(one.values, other.values)
                recording.record("weights", weights, one.visible, "weights of the sum")
            if not options["return_scores"]:
                return self._sum(first, second)
            return tuple(map(self._sum, first, second))

        return attend

    def _note_the_called_model(self) -> None:
        # Keras has no public way to find the outermost layer of a call
        context = self._get_call_context()
        if context.entry_layer is self:  # no call is running, so this began one
            self._maybe_reset_call_context()
        elif isinstance(context.entry_layer, keras.Model):
            self.models.add(context.entry_layer)

    def _sum(self, first: Tensor, second: Tensor) -> Tensor:
        amount = ops.cast(self.amount, second.dtype)
        start = ops.cast(first, second.dtype)
        if self.is_blend:
            start = (1.0 - amount) * start
        return ops.cast(start + amount * second, first.dtype)


@contextlib.contextmanager
def _recorded(name: str) -> Iterator[recording.Recording]:
    """Rename recordings in the `with` block by `name`; collect them under their own names."""
    found: recording.Recording = {}
    with recording.recording_of(name):
        yield found
        found |= recording.active.get() or {}
