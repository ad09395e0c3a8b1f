"""Run compiled loops, which release the GIL, on all cores."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

# Takes a function (number, count) → None and the most shares that it can be cut into. Calls it once
# for each of `count` shares, and returns when all are done.
Share = Callable[[int, int], None]
Spread = Callable[[Share, int], None]


def over_cores(share: Share, most: int) -> None:
    """Call `share` on this thread and on the threads of a pool, at most one per core."""
    count = max(1, min(usable_cores(), most))
    others = [_workers().submit(share, number, count) for number in range(1, count)]
    share(0, count)
    for other in others:
        other.result()


@cache
def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=usable_cores(), thread_name_prefix="quasiattn")


# A forked process has the pool, but none of its threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_workers.cache_clear)
