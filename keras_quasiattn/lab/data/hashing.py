"""Counter-based randomness in NumPy: values depend only on key and index, not on a state."""

import hashlib
from collections.abc import Iterable

import numpy as np

_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_PERMUTATION_ROUNDS = 4


def _mix(values: np.ndarray) -> np.ndarray:
    """Apply SplitMix64's finalizer, a bijection on 64 bits (Steele et al. 2014, figure 16)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def keyed_hash(key: int, *words: np.ndarray) -> np.ndarray:
    """Hash rows of integers to uniform 64-bit numbers.

    h ← mix((h ⊕ word) + increment) for each word in turn, starting with h = key. The words are
    integer arrays that broadcast together; the result has their shape, at least one dimension.
    """
    # At least 1-d: NumPy warns when a scalar overflows, but not when an array does.
    state = np.array([key & (2**64 - 1)], np.uint64)
    for word in words:
        state = _mix((state ^ np.atleast_1d(word).astype(np.int64).view(np.uint64)) + _INCREMENT)
    return state


def hash_to_unit_interval(key: int, texts: Iterable[bytes]) -> np.ndarray:
    """Hash each text to a uniform number in [0, 1): a share `s` of all texts is below `s`.

    Equal texts get equal numbers; another key gives unrelated ones.

    >>> bool(hash_to_unit_interval(1, [b"a", b"b"])[1] == hash_to_unit_interval(1, [b"b"])[0])
    True
    """
    digests = [hashlib.blake2b(text, digest_size=8).digest() for text in texts]
    words = np.array(
        [int.from_bytes(digest, "little", signed=True) for digest in digests], np.int64
    )
    return keyed_hash(key, words) / 2.0**64


def permute(indices: np.ndarray, bits: int, key: int) -> np.ndarray:
    """Map indices by a keyed pseudo-random bijection of [0, 2^bits), each independently.

    Each round is i ← (i·m + c) mod 2^bits with odd m, then i ← i ⊕ (i >> ⌈bits/2⌉). Both are
    invertible, so no two indices collide. An index has 1 to 63 bits.
    """
    mask = np.uint64((1 << bits) - 1)
    shift = np.uint64((bits + 1) // 2)
    values = indices.astype(np.uint64)
    for step in range(_PERMUTATION_ROUNDS):
        multiplier, constant = keyed_hash(key, np.array([2 * step, 2 * step + 1]))
        values = (values * (multiplier | np.uint64(1)) + constant) & mask
        values ^= values >> shift
    return values.astype(np.int64)
