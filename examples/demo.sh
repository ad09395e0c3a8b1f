#!/usr/bin/env bash
# From a clone to a verdict and a served model: installs the package, compares three attentions with
# softmax on generated texts (how often is a text's most frequent letter in it?), exports the best
# model, checks it as a model server would load it, and asks it in a process that cannot import the
# package. QUASIATTN_VENV is the virtual environment (default .venv), QUASIATTN_DEMO the folder of
# the runs (default runs/demo), QUASIATTN_SEED the first seed (default 0). An interrupted demo
# resumes where it stopped when it is started again.
set -euo pipefail
cd "$(dirname "$0")/.."
environment=${QUASIATTN_VENV:-.venv}
runs=${QUASIATTN_DEMO:-runs/demo}
[ -x "$environment/bin/python" ] || "${PYTHON:-python3}" -m venv "$environment"
"$environment/bin/python" -m pip install --quiet --upgrade pip
"$environment/bin/python" -m pip install --quiet ".[tasks,report]"

SECONDS=0
quasiattn="$environment/bin/quasiattn"
"$quasiattn" compare classify --preset letters --attention coda sigmoid sparsemax \
    --seed "${QUASIATTN_SEED:-0}" --to "$runs/letters" --data-dir "$runs/data"
saved_model=$("$quasiattn" export "$runs/letters/best" --to "$runs/saved_models" --name letters)
"$quasiattn" serve-check "$saved_model" --repetitions 20
question='b a f b c b'
answer=$("$environment/bin/python" examples/ask.py "$saved_model" "$question" 2>"$runs/ask.log") ||
    { cat "$runs/ask.log" >&2; exit 1; }
echo "Question:   how often is the most frequent letter in '$question'?"
echo "Answer:     ${answer%%$'\n'*}"
echo "SavedModel: $saved_model"
echo "Page:       $runs/letters/comparison.html"
echo "$SECONDS seconds after the installation"
