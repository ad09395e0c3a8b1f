"""The order of `one_at_a_time` in graphs of TensorFlow: a token goes from call to call, and its gradient goes back."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

Tensor = Any
Call = Callable[..., tuple[Tensor, ...]]
WithGradient = tuple[tuple[Tensor, ...], Callable[..., tuple[Tensor, ...]]]


def in_turn(calls: Sequence[Call], inputs: Sequence[Sequence[Tensor]]) -> list[tuple[Tensor, ...]]:
    """What each call says of its inputs; each begins when the one before has ended, and so do their gradients."""
    token, results = tf.zeros(()), []
    for call, given in zip(calls, inputs, strict=True):
        token, *ready = _begin(token, *given)
        token, *result = _end(token, *call(*ready))
        results.append(tuple(result))
    return results


@tf.custom_gradient
def _begin(token: Tensor, *inputs: Tensor) -> WithGradient:
    """The inputs once the token is there; the token's gradient once theirs are."""

    def gradient(upstream: Tensor, *upstreams: Tensor) -> tuple[Tensor, ...]:
        return (*_after(upstreams, upstream), *upstreams)

    return (token, *_after([token], *inputs)), gradient


@tf.custom_gradient
def _end(token: Tensor, *outputs: Tensor) -> WithGradient:
    """The token once the outputs are there; the outputs' gradients once the token's is."""

    def gradient(upstream: Tensor, *upstreams: Tensor) -> tuple[Tensor, ...]:
        return (upstream, *_after([upstream], *upstreams))

    return (*_after(outputs, token), *outputs), gradient


def _after(first: Sequence[Tensor], *then: Tensor) -> tuple[Tensor, ...]:
    with tf.control_dependencies(list(first)):
        return tuple(tf.identity(one) for one in then)
