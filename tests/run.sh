#!/usr/bin/env bash
# Installs the package with what its tests need into a virtual environment, and passes the checks and tests.
#
#   tests/run.sh              lint, types, import contract, and the fast tests
#   tests/run.sh --long       what CI runs: the long tests too, and the fast ones again on JAX and on PyTorch
#   tests/run.sh --complete   before a release: every test there is, on all three, in random order
#
# QUASIATTN_VENV names the environment (default .venv); further arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
fast='not long and not complete' others=''
case "${1:-}" in
  --long) marks='not complete' others='jax torch' takes='35 minutes' && shift ;;
  --complete) marks='' fast='' others='jax torch' takes='an hour or two' && shift && set -- --random-order "$@" ;;
  *) marks=$fast takes='11 minutes' ;;
esac
echo "This takes about $takes on two cores, twice that on slow ones, and a few minutes more where packages are installed."
environment=${QUASIATTN_VENV:-.venv}
[ -x "$environment/bin/python" ] || "${PYTHON:-python3}" -m venv "$environment"
python="$environment/bin/python"
"$python" -m pip install --quiet --upgrade pip
# The versions that the tests were passed with: the extras of setup.cfg allow newer ones.
"$python" -m pip install --quiet --require-hashes --requirement .ci/requirements.txt
"$python" -m pip install --quiet --editable ".[test]"
"$python" -m ruff check .
"$python" -m ruff format --check .
"$python" -m mypy
"$environment/bin/lint-imports"
tests() { # backend, marks, arguments for pytest
  echo "The tests on $1:"
  # Work is stolen at the ends, so that most modules stay in one process, with the models and runs they share.
  KERAS_BACKEND=$1 "$python" -m pytest -n 2 --dist worksteal -m "$2" "${@:3}"
}
tests tensorflow "$marks" "$@"
for backend in $others; do tests "$backend" "$fast" "$@"; done
