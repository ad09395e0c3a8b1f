"""The foreign function of XLA that runs a call of the compiled loops.

XLA calls it on a thread of its own with the C structures of `xla/ffi/api/c_api.h`.
"""

import atexit
import ctypes
import time
from ctypes import POINTER, Structure, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_void_p
from typing import Any

import numpy as np
from llvmlite import ir
from numba import cfunc, types
from numba.extending import intrinsic

from keras_quasiattn.core.compiled.call import read

_VERSION = (0, 3)  # of the interface
_METADATA = 1  # the type of extension by which XLA asks for the version
_EXECUTE = 3  # the stage in which there are arguments
_INTERNAL = 13  # code of an error
_DTYPES = {1: "bool", 4: "int32", 5: "int64", 11: "float32", 12: "float64"}


def _structure(*fields: tuple[str, Any]) -> Any:
    """Return a C structure that begins with its size, up to the last field that is read here."""
    return type("Structure_", (Structure,), {"_fields_": [("size", c_size_t), *fields]})


_NEXT = ("extension", c_void_p)
_Extension = _structure(("type", c_int), ("next", c_void_p))
_Version = _structure(_NEXT, ("major", c_int), ("minor", c_int))
_Metadata = _structure(("version", _Version), ("traits", c_uint32))
_ErrorArguments = _structure(_NEXT, ("message", c_char_p), ("code", c_int))
_Api = _structure(
    _NEXT,
    ("version", _Version),
    ("internal", c_void_p),
    ("create_error", ctypes.CFUNCTYPE(c_void_p, POINTER(_ErrorArguments))),
)
_Buffer = _structure(
    _NEXT, ("dtype", c_int), ("data", c_void_p), ("rank", c_int64), ("shape", POINTER(c_int64))
)
_Buffers = _structure(
    _NEXT, ("count", c_int64), ("types", c_void_p), ("buffers", POINTER(POINTER(_Buffer)))
)


class _MetadataExtension(Structure):
    _fields_ = [("base", _Extension), ("metadata", POINTER(_Metadata))]


class _Text(Structure):
    _fields_ = [("start", c_void_p), ("length", c_size_t)]


_Attributes = _structure(
    _NEXT,
    ("count", c_int64),
    ("types", c_void_p),
    ("names", c_void_p),
    ("values", POINTER(POINTER(_Text))),
)
_Frame = _structure(
    ("extension", POINTER(_MetadataExtension)),
    ("api", POINTER(_Api)),
    ("context", c_void_p),
    ("stage", c_int),
    ("arguments", _Buffers),
    ("results", _Buffers),
    ("attributes", _Attributes),
)


_view = ctypes.pythonapi.PyMemoryView_FromMemory
_view.restype, _view.argtypes = ctypes.py_object, [c_void_p, ctypes.c_ssize_t, c_int]
_WRITE = 0x200


def _array(buffer: Any) -> Any:
    """Return the memory of a buffer as an array."""
    shape, dtype = buffer.shape[: buffer.rank], np.dtype(_DTYPES[buffer.dtype])
    size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    if not size:  # the address may be null
        return np.empty(shape, dtype)
    return np.frombuffer(_view(buffer.data, size, _WRITE), dtype).reshape(shape)


def _arrays(buffers: Any) -> list[Any]:
    return [_array(buffers.buffers[number].contents) for number in range(buffers.count)]


@ctypes.CFUNCTYPE(c_void_p, POINTER(_Frame))
def _handler(pointer: Any) -> Any:
    frame = pointer.contents
    try:
        if frame.extension and frame.extension.contents.base.type == _METADATA:
            version = frame.extension.contents.metadata.contents.version
            version.major, version.minor = _VERSION
        elif frame.stage == _EXECUTE:
            text = frame.attributes.values[0].contents
            _run(ctypes.string_at(text.start, text.length).decode(), frame)
    except BaseException as error:  # C code would only print it
        arguments = _ErrorArguments(
            ctypes.sizeof(_ErrorArguments), None, repr(error).encode(), _INTERNAL
        )
        return frame.api.contents.create_error(arguments)
    return None


def _run(text: str, frame: Any) -> None:
    call = read(text)
    arrays, out = _arrays(frame.arguments), _arrays(frame.results)
    upstreams = len(arrays) - len(call.names) - len(call.masks)
    call.run(arrays[upstreams:], arrays[:upstreams], out)


# When Python exits, JAX waits for its programs while it holds the GIL, so no call may enter Python
# any more. XLA therefore calls machine code, which checks this and counts calls in Python.
_calls, _ended = np.zeros(1, np.int64), np.zeros(1, np.int64)


def _added(typing_context: Any, address: Any, number: Any) -> Any:
    """Add to the integer at an address atomically; return its previous value."""

    def add(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", place, arguments[1], "seq_cst")

    return types.int64(types.int64, types.int64), add


def _invoked(typing_context: Any, address: Any, argument: Any) -> Any:
    """Call the C function at an address."""

    def invoke(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)])
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), [arguments[1]])

    return types.int64(types.int64, types.int64), invoke


_add: Any = intrinsic(_added)
_invoke: Any = intrinsic(_invoked)
_CALLS, _ENDED = int(_calls.ctypes.data), int(_ended.ctypes.data)
_HANDLER = ctypes.cast(_handler, c_void_p).value


@cfunc("int64(int64)")
def _enter(frame: Any) -> Any:
    error = 0
    _add(_CALLS, 1)
    if _add(_ENDED, 0) == 0:
        error = _invoke(_HANDLER, frame)
    _add(_CALLS, -1)
    return error


@atexit.register
def _end() -> None:
    _ended[0] = 1
    while _calls[0]:
        time.sleep(1e-3)


FUNCTION = _enter.ctypes  # what XLA calls
