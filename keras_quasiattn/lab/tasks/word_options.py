"""Options of a vocabulary of words, shared by the presets of all tasks that have one."""

from collections.abc import Mapping
from typing import Any

WORD_OPTIONS: Mapping[str, Any] = {"min_count": 2, "vectors": "", "unknown_ids": 1}
