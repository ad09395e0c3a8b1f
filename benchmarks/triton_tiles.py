"""CoDA's Triton kernels on a GPU: milliseconds by the sizes of programs and tiles.

    KERAS_BACKEND=torch python -m benchmarks.triton_tiles --output triton_tiles.json

32 heads of 2048 positions with 64 features: the sums, the gradients of queries and of keys, and
both passes. "tf32x3" is how products of float32 are computed unless PyTorch is told otherwise.
"""

import argparse
import datetime
import itertools
from pathlib import Path
from typing import Any

import torch

from benchmarks import report
from benchmarks.measure import machine, write_json
from keras_quasiattn.attention.coda.compiled import torch_gpu
from keras_quasiattn.attention.coda.compiled.call import CodaCall

HEADS, LENGTH, FEATURES = 32, 2048, 64
CALL = CodaCall((), "tanh", "sigmoid", 2, False, 0.0, True)


def milliseconds(call: Any, repeats: int = 7) -> float:
    """Return the median by the device's own clock, after a first call."""
    call()
    found = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        found.append(start.elapsed_time(end))
    return sorted(found)[repeats // 2]


def measured(own: int, tile: int, precision: str) -> dict[str, Any]:
    """Return the times of one choice."""
    torch_gpu.own_size = lambda *features: own
    torch_gpu.SUMS_TILE = torch_gpu.GRADIENTS_TILE = tile
    torch.set_float32_matmul_precision("highest" if precision == "tf32x3" else "high")
    torch.manual_seed(0)
    query, key, value, slopes = torch.randn(4, HEADS, LENGTH, FEATURES, device="cuda")
    factor = torch.full((HEADS, LENGTH, 1), 1 / FEATURES, device="cuda")
    tensors = {"query": query, "key": key, "value": value, "alpha": factor, "beta": factor}
    row = {"own": own, "tile": tile, "precision": precision}
    try:
        problem = torch_gpu.Problem(CALL, tensors)
        calls = {
            "forward": lambda: torch_gpu.forward(CALL, tensors),
            "query": lambda: problem.gradients("query", slopes, value, None),
            "key": lambda: problem.gradients("key", value, slopes, slopes),
            "both": lambda: torch_gpu.backward(CALL, torch_gpu.forward(CALL, tensors), tensors),
        }
        return row | {name: milliseconds(call) for name, call in calls.items()}
    except Exception as error:  # too much shared memory, say: another choice may do
        return row | {"error": str(error)[:200]}


def main() -> None:
    """Time every choice."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, help="a .json")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("this needs a GPU of NVIDIA")
    rows = [
        measured(*one)
        for one in itertools.product((64, 128, 256), (16, 32, 64), ("tf32", "tf32x3"))
    ]
    about = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "gpu": torch.cuda.get_device_name(),
        "machine": machine(),
        "size": {"heads": HEADS, "length": LENGTH, "features": FEATURES},
    }
    write_json({**about, "rows": rows}, given.output)
    print(report.table(rows))


if __name__ == "__main__":
    main()
