"""CoDA's Triton kernels against the compiled CPU loops in float64: on a GPU, or interpreted."""

import importlib.util
import itertools

import keras
import numpy as np
import pytest
import warm
from tools import sampled

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "torch"
    or any(importlib.util.find_spec(name) is None for name in ("triton", "numba")),
    reason="needs PyTorch, Triton and Numba",
)
PLAIN = ("tanh", "sigmoid", 2)
ROWS = ("alpha", "beta", "similarity_offset", "distance_offset")


@pytest.fixture(scope="module")
def device():
    """Return where the kernels run; without a GPU, conftest.py makes Triton interpret them."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def arrays(batch, target, source, width=6, features=5, values=3, others=0):
    """Return inputs of the passes, with words in both sequences and differences of exactly 0."""
    random = np.random.default_rng(0)
    shapes = {"query": (target, width), "key": (source, width)}
    shapes |= {"distance_query": (target, features), "distance_key": (source, features)}
    shapes |= {"value": (source, values), **dict.fromkeys(ROWS, (target, 1))}
    shapes |= {"other_value": (target, others)} if others else {}
    found = {name: random.normal(size=(batch, *shape)).round(1) for name, shape in shapes.items()}
    found["beta"] = abs(found["beta"]) / 3
    shared = min(target, source)
    found["distance_key"][:, :shared] = found["distance_query"][:, :shared]
    return found


def masks(kind, batch, target, source):
    random = np.random.default_rng(1)
    found = {}
    if kind in ("padding", "everything"):
        found["key_mask"] = np.arange(source) < random.integers(0, source + 1, (batch, 1, 1))
        found["row_mask"] = random.random((batch, target, 1)) < 0.8
    if kind in ("pairs", "everything"):
        found["full_mask"] = random.random((2, target, source)) < 0.6
        found["full_mask"][:, :1], found["full_mask"][:, :, -1:] = False, False
        found["full_index"] = np.arange(batch) % 2
    return found


def check(device, options, given, hidden):
    """Compare outputs and gradients with those of the loops."""
    import torch

    from keras_quasiattn.attention.coda.compiled import torch_gpu
    from keras_quasiattn.attention.coda.compiled.call import CodaCall

    names = tuple(given)
    exact = CodaCall(names, *options, masks=tuple(hidden))
    every = [*given.values(), *hidden.values()]
    outputs = exact.run(every)
    random = np.random.default_rng(2)
    upstreams = [random.normal(size=output.shape) for output in outputs]
    expected = [*outputs, *exact.run(every, upstreams)]

    def tensor(x):
        low = x.astype("float32") if x.dtype == np.float64 else x
        return torch.from_numpy(np.ascontiguousarray(low)).to(device)

    tensors = {name: tensor(x) for name, x in {**given, **hidden}.items()}
    found = torch_gpu.forward(exact, tensors)
    gradients = torch_gpu.backward(exact, [tensor(x) for x in upstreams], tensors)
    assert gradients.keys() == set(names)
    for name, x, y in zip(
        ("output", "other output")[: len(outputs)] + names,
        [*found, *(gradients[name] for name in names)],
        expected,
        strict=True,
    ):
        assert x.shape == y.shape, name
        largest = 2e-6 * max(1.0, float(np.abs(y).max(initial=0)))
        np.testing.assert_allclose(
            x.double().cpu().numpy(), y, rtol=2e-5, atol=largest, err_msg=name
        )


# `test_sizes` has calls that hide nothing, `test_functions` and others have padding alone.
@pytest.mark.parametrize(
    ("hidden", "is_causal"),
    [
        *(("nothing", True), ("pairs", False), ("everything", False), ("everything", True)),
        pytest.param("pairs", True, marks=pytest.mark.complete),
    ],
)
def test_masks(device, hidden, is_causal):
    check(device, (*PLAIN, is_causal, 0.0), arrays(3, 5, 7), masks(hidden, 3, 5, 7))


@pytest.mark.parametrize(
    "size", [(2, 129, 33), (1, 33, 130), (1, 1, 1), (1, 1, 7), (2, 0, 3), (2, 3, 0)], ids=str
)
def test_sizes(device, size):
    check(device, (*PLAIN, False, 0.0), arrays(*size, others=4), {})


@pytest.mark.parametrize(("width", "values", "own"), [(100, 120, 64), (200, 150, 32)])
def test_many_features_take_smaller_programs(device, width, values, own):
    from keras_quasiattn.attention.coda.compiled import torch_gpu

    sizes = torch_gpu._power(width), torch_gpu._power(values + 60)
    assert torch_gpu.own_size(*sizes) == own
    given = arrays(1, 40, 35, width=width, values=values, others=60)
    for name in ("query", "key"):
        given[name] /= 4
    check(device, (*PLAIN, True, 0.0), given, masks("padding", 1, 40, 35))


def test_causal_over_several_programs(device):
    check(device, (*PLAIN, True, 0.0), arrays(1, 140, 140, others=2), {})
    check(device, (*PLAIN, True, 0.0), arrays(1, 140, 20), {})


@pytest.mark.parametrize(
    ("similarity", "gate"),
    sampled(
        [
            *itertools.product(("tanh", "sigmoid"), ("tanh", "arctan", "algebraic")),
            ("sigmoid", "sigmoid"),
            ("identity", None),
            (None, "identity"),
        ],
        count=6,
    ),
)
def test_functions(device, similarity, gate):
    given = arrays(2, 7, 9)
    names = [] if similarity else ["query", "key"]
    names += [] if gate else ["distance_query", "distance_key"]
    given = {name: x for name, x in given.items() if name not in names}
    check(device, (similarity, gate, 1, False, 0.0), given, masks("padding", 2, 7, 9))


def test_dropout_is_that_of_every_path(device):
    keys = {"dropout_keys": np.array([7, -(2**31) + 5], dtype=np.int32)}
    check(device, (*PLAIN, False, 0.4), arrays(2, 37, 41, others=3), keys)


def test_one_tensor_for_both_comparisons(device):
    given = {n: x for n, x in arrays(2, 5, 7).items() if not n.startswith("distance_q")}
    del given["distance_key"]
    given["key"][:, :3] = given["query"][:, :3]
    check(device, (*PLAIN, False, 0.0, True), given, {})


def test_what_is_hidden_has_no_effect(device):
    given, hidden = arrays(2, 5, 7), masks("padding", 2, 5, 7)
    for name in ("key", "distance_key", "value"):
        given[name][~hidden["key_mask"][:, 0]] = np.nan
    clean = {name: np.nan_to_num(x) for name, x in given.items()}
    import torch

    from keras_quasiattn.attention.coda.compiled import torch_gpu
    from keras_quasiattn.attention.coda.compiled.call import CodaCall

    results = []
    for one in (given, clean):
        tensors = {
            name: torch.from_numpy(x.astype("float32") if x.dtype == float else x).to(device)
            for name, x in {**one, **hidden}.items()
        }
        call = CodaCall(tuple(one), *PLAIN, False, 0.0)
        outputs = torch_gpu.forward(call, tensors)
        found = torch_gpu.backward(call, outputs, tensors)
        results.append([x.cpu().numpy() for x in (*outputs, *found.values())])
    for left, right in zip(*results, strict=True):
        np.testing.assert_array_equal(left, right)


def test_operators_have_the_same_results_on_both_devices(device):
    import torch

    from keras_quasiattn.attention.coda.compiled.call import CodaCall
    from keras_quasiattn.core.compiled import torch as operators
    from keras_quasiattn.core.compiled.call import written

    given, hidden = arrays(2, 5, 7, others=3), masks("padding", 2, 5, 7)
    call = written(CodaCall(tuple(given), *PLAIN, False, 0.0, masks=tuple(hidden)))
    low = [torch.from_numpy(x.astype("float32")) for x in given.values()]
    low += [torch.from_numpy(np.broadcast_to(x, x.shape).copy()) for x in hidden.values()]
    there = [x.to(device) for x in low]
    outputs = operators._forward(low, call)
    results = [*outputs, *operators._backward(outputs, low, call)]
    found = operators._forward_on_gpu(there, call)
    found += operators._backward_on_gpu([x.to(device) for x in outputs], there, call)
    for x, y in zip(found, results, strict=True):
        assert x.is_contiguous()
        np.testing.assert_allclose(x.cpu().numpy(), y.numpy(), rtol=2e-5, atol=2e-5)


COMPILE = """
import itertools
import sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from keras_quasiattn.attention.coda.compiled import torch_gpu
from keras_quasiattn.attention.coda.compiled import triton_kernels as kernels

BYTES, LONG, INTEGER = ("own_mask", "other_mask", "full_mask"), ("full_index",), ("dropout_keys",)
NUMBERS = ("own_length", "other_length", "own_stride", "other_stride", "mask_size", "scratch_row")
SHARED = {
    "similarity": "tanh", "gate": "sigmoid", "scale": 2.0, "is_causal": True, "has_full_mask": True,
    "has_dropout": True, "feature_count": 64, "precision": "tf32x3",
}
SUMS = {"tile_size": torch_gpu.SUMS_TILE}
GRADIENTS = {"has_values": True, "on_device": True, "tile_size": torch_gpu.GRADIENTS_TILE}
numbers = map(int, sys.argv[1:])
for width, values in zip(numbers, numbers):
    own_size = torch_gpu.own_size(width, values)
    sizes = {"width": width, "value_width": values, "own_size": own_size}
    gradients = {**GRADIENTS, "slope_width": values}
    both = ((kernels.sums_kernel, SUMS), (kernels.gradients_kernel, gradients))
    for (kernel, more), own_is_query in itertools.product(both, (True, False)):
        constants = {**SHARED, **sizes, **more, "own_is_query": own_is_query}
        kinds = {}
        for name in kernel.arg_names:
            kinds[name] = (
                "constexpr" if name in constants
                else "i32" if name in (*NUMBERS, "threshold")
                else "fp32" if name == "kept_factor"
                else "*u8" if name in BYTES
                else "*i64" if name in LONG
                else "*i32" if name in INTEGER
                else "*fp32"
            )
        constants = {(kernel.arg_names.index(name),): x for name, x in constants.items()}
        made = triton.compile(
            ASTSource(kernel, kinds, constants),
            target=GPUTarget("cuda", 90, 32),
            options={"num_warps": own_size // 32},
        )
        print(made.metadata.shared)
"""


@pytest.mark.long
# The most features for each number of positions that a program owns; 512 together at most.
@pytest.mark.parametrize(
    "sizes",
    [
        (*(64, 128), *(512, 256)),
        pytest.param((*(128, 64), *(128, 256)), marks=pytest.mark.complete),
    ],
    ids=str,
)
def test_they_compile_for_a_gpu_and_fit_its_memory(sizes):
    variables = {"KERAS_BACKEND": "torch", "TRITON_INTERPRET": "0"}
    printed = warm.printed(["-c", COMPILE, *sizes], warm.fresh, variables=variables)
    shared = [int(line) for line in printed.split()]
    assert len(shared) == 4 * 2
    assert max(shared) <= 227 * 1024  # the limit per block on a GPU of capability 9.0
