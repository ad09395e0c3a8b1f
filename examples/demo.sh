#!/usr/bin/env bash
# From a clone to a served model: installs the package, trains a CoDA Transformer and a softmax Transformer of
# the same size on sums and differences, prints the accuracy of both on held-out questions, exports the first,
# and asks the export a held-out question in a process that does not have the package.
# QUASIATTN_VENV names the virtual environment (default .venv), QUASIATTN_DEMO the folder of the runs
# (default runs/demo). Interrupted, it goes on where it stopped.
set -euo pipefail
cd "$(dirname "$0")/.."
environment=${QUASIATTN_VENV:-.venv}
runs=${QUASIATTN_DEMO:-runs/demo}
[ -x "$environment/bin/python" ] || "${PYTHON:-python3}" -m venv "$environment"
"$environment/bin/python" -m pip install --quiet --upgrade pip
"$environment/bin/python" -m pip install --quiet ".[tasks]"

quasiattn="$environment/bin/quasiattn"
export QUASIATTN_DATA_DIR="$runs/data"
for model in coda softmax; do
    "$quasiattn" train mlu --preset demo --model "$model" --run "$runs/$model"
    "$quasiattn" evaluate "$runs/$model" --limit 10000 | tee "$runs/$model.json"
done
saved_model=$("$quasiattn" export "$runs/coda" --to "$runs/saved_models" --name arithmetic)

"$environment/bin/python" - "$runs" <<'PYTHON'
import json
import sys

for model in ("coda", "softmax"):
    with open(f"{sys.argv[1]}/{model}.json", encoding="utf-8") as file:
        figures = json.load(file)
    print(f"{model:8} {figures['sequence_accuracy']:.1%} of {figures['questions']} held-out questions right")
PYTHON
echo "SavedModel: $saved_model"
"$environment/bin/python" examples/ask.py "$saved_model" 'x=85,y=-52,y-x'
