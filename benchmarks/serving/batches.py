"""Joins requests to batches for server_double.py, like the real server's `--enable-batching`."""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import numpy as np

Arrays = dict[str, np.ndarray]
_MOST = 64
_SECONDS = 0.002


class Batches:
    """Join requests that arrive within 2 ms, at most 64; an error fails all requests of a batch.

    Texts differ in length, so each request is padded with copies of its first element to the widest
    of its batch.

    Args:
        answer: answers a batch; called by one thread.
    """

    def __init__(self, answer: Callable[[Arrays], Arrays]) -> None:
        self._answer = answer
        self._waiting: queue.SimpleQueue[tuple[Arrays, Future[Arrays]]] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def __call__(self, inputs: Arrays) -> Arrays:
        """Return the rows of the batch's answer that belong to this request.

        Raises:
            ValueError: the request cannot be joined to others.
        """
        if len({len(value) for value in inputs.values()}) > 1:
            raise ValueError(
                "Batching session Run() input tensors must have equal 0th-dimension size."
            )
        if not all(value.size for value in inputs.values()):
            raise ValueError(
                "Batching session Run() input tensors must not be empty: they cannot be padded."
            )
        future: Future[Arrays] = Future()
        self._waiting.put((inputs, future))
        return future.result()

    def _work(self) -> None:
        while True:
            requests, futures = zip(*self._next_batch(), strict=True)
            try:
                together = {
                    name: _joined([request[name] for request in requests]) for name in requests[0]
                }
                answer, row = self._answer(together), 0
                for request, future in zip(requests, futures, strict=True):
                    own = slice(row, row + len(next(iter(request.values()))))
                    future.set_result({name: value[own] for name, value in answer.items()})
                    row = own.stop
            except Exception as error:
                for future in futures:
                    future.set_exception(error)

    def _next_batch(self) -> Iterator[tuple[Arrays, Future[Arrays]]]:
        yield self._waiting.get()
        until = time.monotonic() + _SECONDS
        for _ in range(_MOST - 1):
            try:
                yield self._waiting.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return


def _joined(arrays: list[np.ndarray]) -> np.ndarray:
    """Join all rows, padded to the widest."""
    widest = np.max([array.shape for array in arrays], axis=0)
    padded = [
        np.pad(
            array,
            [
                (0, 0),
                *((0, wide - own) for wide, own in zip(widest[1:], array.shape[1:], strict=True)),
            ],
            constant_values=array.flat[0],
        )
        for array in arrays
    ]
    return np.concatenate(padded)
