#!/usr/bin/env bash
# From a clone to a served model: installs the package, trains a CoDA Transformer and a softmax
# Transformer of the same size side by side on sums and differences, exports the first, prints the
# accuracy of both on held-out questions, and asks the exported model a held-out question in a
# process that cannot import the package. QUASIATTN_VENV is the virtual environment (default .venv),
# QUASIATTN_DEMO the folder of the runs (default runs/demo). An interrupted demo resumes where it
# stopped when it is started again.
set -euo pipefail
cd "$(dirname "$0")/.."
environment=${QUASIATTN_VENV:-.venv}
runs=${QUASIATTN_DEMO:-runs/demo}
[ -x "$environment/bin/python" ] || "${PYTHON:-python3}" -m venv "$environment"
"$environment/bin/python" -m pip install --quiet --upgrade pip
"$environment/bin/python" -m pip install --quiet ".[tasks]"

quasiattn="$environment/bin/quasiattn"
export QUASIATTN_DATA_DIR="$runs/data"
# Half the cores for each model: two trainings at once use the cores better than one on all of them.
cores=$(nproc)
export TF_NUM_INTRAOP_THREADS=$(((cores + 1) / 2)) TF_NUM_INTEROP_THREADS=1
mkdir -p "$runs"

train_and_measure() {
    "$quasiattn" train mlu --preset demo --model "$1" --run "$runs/$1"
    "$quasiattn" evaluate "$runs/$1" --limit 10000 --record "$runs/$1.results.jsonl" >"$runs/$1.json"
}
train_and_measure softmax >"$runs/softmax.log" 2>&1 &
softmax=$!
trap 'kill "$softmax" 2>/dev/null || true' EXIT
echo "Training CoDA; softmax trains beside it ($runs/softmax.log)"
train_and_measure coda
wait "$softmax" || { tail -n 3 "$runs/softmax.log" >&2; exit 1; }
saved_model=$("$quasiattn" export "$runs/coda" --to "$runs/saved_models" --name arithmetic)

for model in coda softmax; do
    "$environment/bin/python" -c "import json, sys
figures = json.load(open(sys.argv[1]))
print(f'{sys.argv[2]:8}{figures[\"sequence_accuracy\"]:.1%} of {figures[\"questions\"]} held-out questions right')
" "$runs/$model.json" "$model"
done
echo "SavedModel: $saved_model"
question='x=85,y=-52,y-x'
echo "Question:   $question"
echo "Answer:     $("$environment/bin/python" examples/ask.py "$saved_model" "$question" 2>"$runs/ask.log")"
