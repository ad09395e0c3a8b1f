"""The ops that a stock TensorFlow Serving binary links, according to its sources."""

from importlib import resources
from typing import Final

from keras_quasiattn.serving.c_library import run_c_session

STOCK_OPS: Final = "stock_ops.txt"
_SOURCES = """\
# Ops that the stock tensorflow_model_server links, separated by what brings them.
# tensorflow_serving/model_servers/BUILD (tensorflow/serving 9d981c5, release 2.20) links
# @org_tensorflow//tensorflow/core:tensorflow, which has all of its ops and kernels, and
# @org_tensorflow_text//tensorflow_text:ops_lib, \
which has the kernels of every library in its wheel.
# The names are those that the libraries of the wheels tensorflow 2.21.0 \
and tensorflow-text 2.21.1 register with a
# kernel for CPUs; this is what keras_quasiattn.serving.stock_ops.stock_ops_text() returns.
"""


def stock_ops() -> dict[str, str]:
    """Return the origin of each op, "tensorflow" or "tensorflow-text", by the op's name."""
    text = resources.files(__package__).joinpath(STOCK_OPS).read_text(encoding="utf-8")
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {name: origin for origin, name in rows}


def stock_ops_text() -> str:
    """Generate the text of `stock_ops.txt` from the installed libraries."""
    tensorflow = _ops_with_cpu_kernel(with_text=False)
    text = _ops_with_cpu_kernel(with_text=True) - tensorflow
    rows = [f"tensorflow {name}\n" for name in sorted(tensorflow)]
    return _SOURCES + "".join([*rows, *(f"tensorflow-text {name}\n" for name in sorted(text))])


def _ops_with_cpu_kernel(*, with_text: bool) -> frozenset[str]:
    from tensorflow.core.framework import kernel_def_pb2, op_def_pb2

    ops, kernels = run_c_session(None, with_text=with_text)["registered"]
    known = kernel_def_pb2.KernelList.FromString(kernels).kernel
    runnable = {kernel.op for kernel in known if kernel.device_type in ("CPU", "DEFAULT")}
    return frozenset(op.name for op in op_def_pb2.OpList.FromString(ops).op if op.name in runnable)
