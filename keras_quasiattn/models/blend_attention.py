"""A callback that moves a swapped model from its old attention to the new one during training."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.attention.start import Start
from keras_quasiattn.core.arguments import check, check_positive_integer, is_number


def blends(model: keras.Model) -> list[Start]:
    """Return the old attention of each layer that a `BlendAttention` moves to a new one."""
    return [
        one
        for one in model._flatten_layers()  # Keras has no public way to list these
        if isinstance(one, Start) and one.is_blend
    ]


class BlendAttention(keras.callbacks.Callback):
    """Move the attention of a model that was swapped with `start="blend"` from the old to the new.

    output = (1 − s) · old + s · new;  s = min(1, number of batches / `updates`)

    Once s is 1, the layers compute only the new attention, and `fit` traces its function again; if
    earlier weights are restored, as by `EarlyStopping`, they compute both again. Functions that you
    traced yourself must be traced again. s is saved with the weights, and training that is resumed
    with `initial_epoch` continues from there. It is in the logs of every epoch as `blend`.

    Args:
        share: the share in (0, 1] of all batches of `fit` in which s moves. Defaults to 0.5.
        updates: the number of batches in which s moves, instead of `share`. Needed where `fit` does
            not know how many batches an epoch has. Defaults to None.

    Raises:
        ValueError: a `share` or `updates` out of range, an unknown number of batches, or a model
            without attention to move.

    Example:
    >>> from keras_quasiattn.models import swap_attention
    >>> x = keras.Input((None, 8))
    >>> model = keras.Model(x, keras.layers.MultiHeadAttention(2, 4)(x, x))
    >>> copy = swap_attention(model, "coda", start="blend")
    >>> copy.compile("adam", "mse")
    >>> data = np.ones((8, 5, 8), "float32")
    >>> history = copy.fit(data, data, 4, epochs=2, verbose=0, callbacks=[BlendAttention()])
    """

    def __init__(self, share: float = 0.5, updates: int | None = None) -> None:
        super().__init__()
        fits = is_number(share) and 0 < share <= 1
        self.share = check(fits, share, "share", "a number above 0 and at most 1")
        self.updates = check_positive_integer(updates, "updates", optional=True)
        self._before = self._seen = 0  # batches before this epoch, and batches so far

    def on_train_begin(self, logs: Any = None) -> None:
        """Find the attention to move, where it is, and the batches in which it moves."""
        self._starts = blends(self.model)
        if not self._starts:
            raise ValueError(
                '`model` must be a copy of `swap_attention` with `start="blend"`. '
                f"Received: {self.model.name!r}, which has no such attention"
            )
        steps = self.params.get("steps")
        expected = "given where the number of batches of an epoch is not known"
        check(self.updates or steps is not None, self.updates, "updates", expected)
        self._total = self.updates or max(1, round(self.share * steps * self.params["epochs"]))
        self._move(min(float(ops.convert_to_numpy(one.amount)) for one in self._starts))
        self._seen = round(self._amount * self._total)  # for epochs of unknown length

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Note how many batches came before."""
        steps = self.params.get("steps")
        self._before = self._seen if steps is None else epoch * steps

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Move all shares, and recompile the step once they reach 1."""
        self._seen = self._before + batch + 1
        if not all(one.is_finished for one in self._starts):
            self._move(min(1.0, self._seen / self._total))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Add s to the logs, which all callbacks share."""
        if logs is not None:
            logs["blend"] = self._amount

    def _move(self, amount: float) -> None:
        model = self.model  # on JAX, this gives the weights their values
        for start in self._starts:
            start.models.add(model)
            start.amount.assign(amount)
        self._amount = amount
