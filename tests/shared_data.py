"""Real data, if they are present next to the project."""

import os
from pathlib import Path

import pytest

_DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data"
PATH = Path(os.environ.get("QUASIATTN_SHARED_DATA", _DEFAULT))

needs_shared_data = pytest.mark.skipif(not PATH.is_dir(), reason=f"{PATH} is not there")
