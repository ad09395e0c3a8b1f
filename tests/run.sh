#!/usr/bin/env bash
# Installs the package with what its tests need into a virtual environment, and passes the checks and tests.
# QUASIATTN_VENV names the environment (default .venv); further arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
environment=${QUASIATTN_VENV:-.venv}
[ -x "$environment/bin/python" ] || "${PYTHON:-python3}" -m venv "$environment"
python="$environment/bin/python"
"$python" -m pip install --quiet --upgrade pip
"$python" -m pip install --quiet --editable ".[test]"
"$python" -m ruff check .
"$python" -m ruff format --check .
"$python" -m mypy
"$environment/bin/lint-imports"
# Work is stolen at the ends, so that most modules stay in one process, with the models and runs they share.
"$python" -m pytest -n 2 --dist worksteal "$@"
