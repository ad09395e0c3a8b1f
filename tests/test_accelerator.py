"""`benchmarks/accelerator.py`: its plan and output; all on the CPU, without TensorFlow."""

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from benchmarks import accelerator
from benchmarks.on_device import agreement, timing
from keras_quasiattn.attention.base import ATTENTIONS

ROOT = Path(__file__).resolve().parents[1]
CASE = agreement.Case("softmax", (), "core", 5, "padding", "float32")
# Before anything else is imported: TensorFlow cannot be found.
WITHOUT_TENSORFLOW = """
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, *arguments):
        if name.partition(".")[0] in ("tensorflow", "tensorflow_text"):
            return None
        return self.finder.find_spec(name, *arguments)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""


def test_every_registered_attention_is_checked_in_every_way():
    cases = agreement.cases(agreement.FULL)
    assert len({case.unit for case in cases}) == len(cases)
    found = {(c.attention, c.part, c.length, c.mask, c.dtype) for c in cases if not c.options}
    for name, dtype in itertools.product(ATTENTIONS, agreement.DTYPES[:3]):
        assert {(name, "core", 33, mask, dtype) for mask in agreement.MASKS} <= found
        assert {(name, "core", 2048, mask, dtype) for mask in ("padding", "causal")} <= found
        assert {(name, "core", 1, "padding", dtype), (name, "layer", 33, "padding", dtype)} <= found
    assert {case.attention for case in agreement.some(cases)} == set(ATTENTIONS)
    tried = agreement.some(agreement.cases(agreement.TINY))
    assert {case.mask for case in tried} == set(agreement.MASKS)
    assert {case.dtype for case in tried} == set(agreement.DTYPES)
    assert {option for case in tried for option, _ in case.options} >= {"implementation", "alpha"}


def test_one_exact_result_is_right_for_every_dtype():
    inputs = agreement.inputs_of(CASE, agreement.TINY)
    for x in (*inputs.tensors, inputs.upstream):
        for dtype in (ml_dtypes.bfloat16, np.float16):
            np.testing.assert_array_equal(x.astype(dtype).astype("float32"), x)


@pytest.mark.parametrize(
    "fault,said",
    [
        ("none", ""),
        ("output", "output is off by"),
        ("nan", "key is off by inf"),
        ("missing", "weight 0 is off by"),
        ("empty", "a row that sees nothing is not 0"),
    ],
)
def test_a_result_that_is_off_is_named(fault, said):
    random = np.random.default_rng(0)
    output = random.normal(size=(2, 3, 4))
    output[-1] = 0
    gradients = [*(random.normal(size=(2, 3, 4)) for _ in range(3)), np.ones(2), None]
    exact = (output, gradients)
    found = (output.copy(), [None if x is None else x.copy() for x in gradients])
    if fault == "output":
        found[0][0] *= 1.001
    elif fault == "nan":
        found[1][1][0] = np.nan
    elif fault == "missing":
        found[1][3] = None
    elif fault == "empty":
        found[0][-1, 0, 0] = 1e-30
    row = agreement.compared(CASE, found, exact)
    assert row["status"] == ("wrong" if said else "ok") and said in row["message"]


def test_a_gradient_that_rounding_alone_makes_is_not_off():
    exact = [np.full(3, 1e-18), np.ones(3)]
    assert agreement.error_of(np.full(3, 1e-8), exact[0], largest=1.0) < 1e-6
    assert agreement.error_of(np.zeros(3), np.zeros(3)) == 0


def test_what_a_failure_is():
    refused = "ValueError: Exception encountered when calling. `implementation='compiled'` works"
    assert timing.state_of(refused) == "unavailable"
    assert timing.state_of("XlaRuntimeError: RESOURCE_EXHAUSTED: 3 GiB") == "out of memory"
    assert timing.state_of("RuntimeError: CUDA error: an illegal memory access") == "failed"


# Imitate a worker that dies in the second of three units and continues where told to.
WORKER = """
import json, os, sys
done = json.load(open(sys.argv[sys.argv.index("--done") + 1])) if "--done" in sys.argv else []
print(json.dumps({"about": {"device": "none"}}))
for unit in ("a", "b", "c"):
    if unit in done:
        continue
    print("what a library prints", json.dumps({"begin": unit}), sep="\\n", flush=True)
    if unit == "b":
        os._exit(9)
    print(json.dumps({"row": {"kind": "agreement", "unit": unit, "status": "ok"}}), flush=True)
print(json.dumps({"end": True}))
"""


def test_a_process_that_dies_is_a_row_and_another_goes_on(tmp_path):
    record = accelerator.Record(tmp_path / "found.json", {"commit": None})
    worker = [sys.executable, "-c", WORKER]
    accelerator.run_backend("jax", record, tmp_path, time.time() + 60, True, worker)
    rows = json.loads((tmp_path / "found.json").read_text())["rows"]
    assert [(row["unit"], row["status"]) for row in rows] == [
        ("a", "ok"),
        ("b", "failed"),
        ("c", "ok"),
    ]
    assert "ended with 9" in rows[1]["message"] and rows[1]["kind"] == "process"


def test_a_process_that_hangs_is_stopped_at_its_time():
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    ended = accelerator.listen(command, dict(os.environ), time.time() + 0.5, print)
    assert ended == accelerator.OUT_OF_TIME


@pytest.mark.long
def test_all_of_it_runs_on_the_cpu_without_tensorflow(tmp_path):
    """Minutes on a GPU must not be lost to faults that a CPU would have shown."""
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_TENSORFLOW)
    output = tmp_path / "accelerator.json"
    environment = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
    command = [sys.executable, ROOT / "benchmarks/accelerator.py", "--dry-run", "--minutes", "10"]
    ended = subprocess.run(
        [*command, "--output", output],
        env={**environment, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=700,
    )
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-3000:]
    assert "Nothing failed." in ended.stdout
    found = json.loads(output.read_text())
    assert not any(about["tensorflow imported"] for about in found["backends"].values())
    for backend in ("jax", "torch"):
        rows = [row for row in found["rows"] if row["backend"] == backend]
        assert {row["status"] for row in rows} == {"ok"}
        checked = {row["unit"] for row in rows if row["kind"] == "agreement"}
        wanted = agreement.some(agreement.cases(agreement.TINY))
        assert checked == {case.unit for case in wanted}
        timed = {row["attention"] for row in rows if row["kind"] == "layer"}
        assert set(ATTENTIONS) <= timed
