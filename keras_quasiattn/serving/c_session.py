"""A program that runs a SavedModel with only TensorFlow's C library.

It is started by its path, so that no Python code of TensorFlow (which imports Keras),
tensorflow-text or this package affects the answers; the result lists any that were imported. The
program reads its job as JSON from standard input and writes its result as JSON to the file
descriptor given as the first argument. Whatever the model prints thus cannot corrupt the result.
Other modules import only `packed` and `unpacked`.
"""

import base64
import ctypes
import json
import os
import resource
import sys
import time
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p
from typing import Any

import numpy as np

# Values of TF_DataType; a string tensor holds one TF_TString of 24 bytes per element.
_STRING, _STRING_SIZE = 7, 24
_DTYPES = {1: "float32", 2: "float64", 3: "int32", 4: "uint8", 6: "int8", 9: "int64"}
_DTYPES |= {10: "bool", 19: "float16"}
_CODES = {name: code for code, name in _DTYPES.items()}
_PYTHON = ("tensorflow", "keras", "tensorflow_text", "keras_quasiattn")


class _Buffer(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("length", c_size_t), ("deallocator", c_void_p)]


class _Output(ctypes.Structure):
    _fields_ = [("operation", c_void_p), ("index", c_int)]


_POINTERS = (
    "TF_NewStatus TF_NewGraph TF_NewSessionOptions TF_GraphOperationByName "
    "TF_AllocateTensor TF_TensorData "
    "TF_StringGetDataPointer TF_LoadSessionFromSavedModel TF_LoadLibrary"
)


class Session:
    """A SavedModel, loaded by the C library.

    Args:
        libraries: TensorFlow's framework library, then its C library.
        kernels: libraries with further kernels.
        path: the SavedModel's folder; None only loads the libraries.
    """

    def __init__(self, libraries: Sequence[str], kernels: Sequence[str], path: str | None) -> None:
        *_, self._c = (ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL) for library in libraries)
        for name in _POINTERS.split():
            getattr(self._c, name).restype = c_void_p
        for name in ("TF_GetAllOpList", "TF_GetAllRegisteredKernels"):
            getattr(self._c, name).restype = POINTER(_Buffer)
        self._c.TF_Message.restype = c_char_p
        self._c.TF_Dim.restype = c_int64
        self._c.TF_StringGetSize.restype = c_size_t
        self._status = c_void_p(self._c.TF_NewStatus())
        for kernel in kernels:
            self._c.TF_LoadLibrary(kernel.encode(), self._status)
            self._check()
        if path is not None:
            self._graph = c_void_p(self._c.TF_NewGraph())
            options = c_void_p(self._c.TF_NewSessionOptions())
            tags = (c_char_p * 1)(b"serve")
            self._session = c_void_p(
                self._c.TF_LoadSessionFromSavedModel(
                    options, None, path.encode(), tags, c_int(1), self._graph, None, self._status
                )
            )
            self._check()

    def run(
        self, inputs: dict[str, np.ndarray], outputs: Sequence[str]
    ) -> tuple[list[np.ndarray], float]:
        """Compute outputs; return their values and the seconds that the C library took.

        Args:
            inputs: arrays by tensor name, such as "serving_default_text:0"; strings as object
                arrays of bytes.
            outputs: names of tensors.
        """
        fed = [self._tensor(array) for array in inputs.values()]
        feeds, fetches = (self._places(names) for names in (list(inputs), outputs))
        values = (c_void_p * len(fed))(*fed)
        results = (c_void_p * len(outputs))()
        begun = time.perf_counter()
        self._c.TF_SessionRun(
            self._session, None, feeds, values, c_int(len(fed)), fetches, results,
            c_int(len(outputs)), None, c_int(0), None, self._status,
        )  # fmt: skip
        seconds = time.perf_counter() - begun
        try:
            self._check()
            return [self._array(c_void_p(result)) for result in results], seconds
        finally:
            for result in filter(None, results):
                self._c.TF_DeleteTensor(c_void_p(result))
            for tensor, array in zip(fed, inputs.values(), strict=True):
                if array.dtype == object:
                    for place in self._strings(tensor, array.size):
                        self._c.TF_StringDealloc(place)
                self._c.TF_DeleteTensor(tensor)

    def registered(self) -> tuple[bytes, bytes]:
        """Return the ops and kernels of the libraries: serialized `OpList` and `KernelList`."""
        ops = self._c.TF_GetAllOpList()
        kernels = self._c.TF_GetAllRegisteredKernels(self._status)
        self._check()
        return _bytes_of(ops), _bytes_of(kernels)

    def _check(self) -> None:
        if self._c.TF_GetCode(self._status):
            raise RuntimeError(self._c.TF_Message(self._status).decode("utf-8", "replace"))

    def _places(self, names: Sequence[str]) -> Any:
        places = (_Output * len(names))()
        for place, name in zip(places, names, strict=True):
            operation, _, index = name.rpartition(":")
            place.operation = self._c.TF_GraphOperationByName(self._graph, operation.encode())
            place.index = int(index)
            if not place.operation:
                raise RuntimeError(f"the graph has no operation {operation!r}")
        return places

    def _tensor(self, array: np.ndarray) -> c_void_p:
        if array.dtype != object:
            tensor = self._allocated(_CODES[array.dtype.name], array, array.nbytes)
            data = np.ascontiguousarray(array)
            ctypes.memmove(self._c.TF_TensorData(tensor), data.ctypes.data, array.nbytes)
            return tensor
        tensor = self._allocated(_STRING, array, array.size * _STRING_SIZE)
        for place, text in zip(self._strings(tensor, array.size), array.flat, strict=True):
            self._c.TF_StringInit(place)
            self._c.TF_StringCopy(place, c_char_p(text), c_size_t(len(text)))
        return tensor

    def _allocated(self, code: int, array: np.ndarray, size: int) -> c_void_p:
        shape = (c_int64 * array.ndim)(*array.shape)
        rank, size_in_bytes = c_int(array.ndim), c_size_t(size)
        return c_void_p(self._c.TF_AllocateTensor(c_int(code), shape, rank, size_in_bytes))

    def _array(self, tensor: c_void_p) -> np.ndarray:
        shape = [self._c.TF_Dim(tensor, c_int(axis)) for axis in range(self._c.TF_NumDims(tensor))]
        count, code = int(np.prod(shape)), self._c.TF_TensorType(tensor)
        if code == _STRING:
            array = np.empty(count, object)
            for number, place in enumerate(self._strings(tensor, count)):
                pointer = self._c.TF_StringGetDataPointer(place)
                array[number] = ctypes.string_at(pointer, self._c.TF_StringGetSize(place))
            return array.reshape(shape)
        if code not in _DTYPES:
            raise RuntimeError(
                f"an output has TensorFlow's type {code}, which this check cannot read"
            )
        dtype = np.dtype(_DTYPES[code])
        size = count * dtype.itemsize
        raw = ctypes.string_at(self._c.TF_TensorData(tensor), size) if count else b""
        return np.frombuffer(raw, dtype).reshape(shape).copy()

    def _strings(self, tensor: c_void_p, count: int) -> list[c_void_p]:
        data = self._c.TF_TensorData(tensor) if count else 0
        return [c_void_p(data + number * _STRING_SIZE) for number in range(count)]


def _bytes_of(buffer: Any) -> bytes:
    return ctypes.string_at(buffer.contents.data, buffer.contents.length)


def packed(value: Any) -> Any:
    """Encode an array or bytes for JSON: the `default` of `json.dump`."""
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if value.dtype == object:
        data = [packed(text) for text in value.flat]
    else:
        data = packed(np.ascontiguousarray(value).tobytes())
    return {"dtype": value.dtype.name, "shape": value.shape, "data": data}


def unpacked(value: dict[str, Any]) -> Any:
    """Decode what `packed` encoded: the `object_hook` of `json.load`.

    Raises:
        ValueError: `packed` did not encode the value.
    """
    if value.keys() == {"bytes"}:
        return base64.b64decode(value["bytes"], validate=True)
    if value.keys() != {"dtype", "shape", "data"}:
        return value
    if value["dtype"] == "object":
        array = np.empty(len(value["data"]), object)
        array[:] = value["data"]
    elif value["dtype"] in _CODES:
        array = np.frombuffer(value["data"], value["dtype"]).copy()
    else:
        raise ValueError(f"unknown array type {value['dtype']!r}")
    return array.reshape(value["shape"])


def _limit(memory: int) -> None:
    """Limit the memory and the size of files that the process may use; disable core dumps."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**30, 2**30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _work(job: dict[str, Any]) -> dict[str, Any]:
    session = Session(job["libraries"], job["kernels"], job["path"])
    if job["path"] is None:
        return {"registered": session.registered()}
    answers = [session.run(inputs, outputs)[0] for inputs, outputs in job["requests"]]
    seconds = []
    for inputs, outputs, repetitions in job["timed"]:
        session.run(inputs, outputs)  # the first run of a shape allocates memory
        seconds.append([session.run(inputs, outputs)[1] for _ in range(repetitions)])
    return {
        "answers": answers,
        "seconds": seconds,
        "imported": [name for name in _PYTHON if name in sys.modules],
    }


if __name__ == "__main__":
    given = json.load(sys.stdin, object_hook=unpacked)
    _limit(given["memory"])
    try:
        result = _work(given)
    except (MemoryError, OSError, RuntimeError) as error:
        result = {"error": str(error) or "not enough memory"}
    with os.fdopen(int(sys.argv[1]), "w") as reply:
        json.dump(result, reply, default=packed)
