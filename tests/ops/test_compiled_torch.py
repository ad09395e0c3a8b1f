"""CoDA's compiled loops as PyTorch operators: compilation, export and missing gradients."""

import io

import keras
import numpy as np
import pytest
from checks import recorded_passes
from tools import CODA_IMPLEMENTATIONS

from keras_quasiattn import ops
from keras_quasiattn.attention.coda.blockwise import blockwise_sums
from keras_quasiattn.attention.coda.composition import Composition, Pairs

if keras.backend.backend() != "torch" or "compiled" not in CODA_IMPLEMENTATIONS:
    pytest.skip("needs PyTorch and the extra `compiled`", allow_module_level=True)
torch = pytest.importorskip("torch")


def normals(*shape):
    return torch.from_numpy(np.random.default_rng(0).normal(size=shape).astype("float32"))


def attend(*tensors, implementation="compiled"):
    return ops.coda_attention(*tensors, implementation=implementation)


@pytest.fixture
def passes(monkeypatch):
    """Record the operators in the order in which they run."""
    from keras_quasiattn.attention.coda.compiled.call import CodaCall

    return recorded_passes(monkeypatch, CodaCall)


def test_torch_compile_keeps_the_operators_in_one_graph():
    def sums(query, key, value):
        pairs = Pairs(query, key, query, key, Composition(), is_causal=True)
        return blockwise_sums(pairs, value, compiled=True)[0]

    tensors = [normals(2, *shape) for shape in ((33, 8), (50, 8), (50, 5))]
    results = []
    for run in (sums, torch.compile(sums, backend="aot_eager", fullgraph=True)):
        leaves = [x.clone().requires_grad_() for x in tensors]
        output = run(*leaves)
        results.append([output, *torch.autograd.grad(output.square().sum(), leaves)])
    torch._dynamo.reset()
    for got, right in zip(*results, strict=True):
        torch.testing.assert_close(got, right)


def test_the_operators_keep_the_rules_of_pytorch():
    from keras_quasiattn.attention.coda.compiled.call import CodaCall
    from keras_quasiattn.core.compiled import torch as operators
    from keras_quasiattn.core.compiled.call import written

    query, key = normals(2, 9, 4), normals(2, 11, 4)
    alpha = torch.ones(2, 9, 1)
    names = ("query", "key", "value", "alpha", "beta")
    call = written(CodaCall(names, "tanh", "sigmoid", 2, False, 0.0, True))
    tensors = [query, key, key + 1, alpha, alpha]
    torch.library.opcheck(operators._forward, (tensors, call))
    torch.library.opcheck(operators._backward, ([normals(2, 9, 4)], tensors, call))


@pytest.mark.parametrize("layout", ["transposed", "strided", "expanded"])
def test_tensors_of_any_layout(layout):
    x = {
        "transposed": normals(3, 8, 40).transpose(1, 2),
        "strided": normals(3, 80, 16)[:, ::2, ::2],
        "expanded": normals(1, 40, 8).expand(3, 40, 8),
    }[layout].requires_grad_()
    results = []
    for implementation in ("compiled", "reference"):
        output = attend(x, x, x, implementation=implementation)
        # The gradient of the sum is one number, expanded.
        results.append((output, *torch.autograd.grad(output.sum(), x)))
    for got, right in zip(*results, strict=True):
        torch.testing.assert_close(got, right, rtol=1e-4, atol=1e-4)


def test_a_result_is_no_view_of_an_input_or_of_another_result():
    x = normals(2, 40, 8).requires_grad_()
    a, b = ops.coda_pair(x, x, implementation="compiled")
    assert len({one.untyped_storage().data_ptr() for one in (x, a, b)}) == 3


@pytest.mark.parametrize("threads", [1, 2])
def test_the_loops_run_on_the_threads_of_pytorch(threads):
    x, before = normals(4, 64, 8), torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        got = attend(x, x, x)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(
        got, attend(x, x, x, implementation="reference"), rtol=1e-4, atol=1e-4
    )


def test_a_smaller_team_than_asked_for_does_all_the_work():
    from keras_quasiattn.core.compiled.torch import _over_team

    shares = []

    def within(number, count):
        if number == 0:  # a nested team has one thread
            _over_team(lambda *share: shares.append(share), 5)

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        _over_team(within, 5)
    finally:
        torch.set_num_threads(before)
    assert sorted(shares) == [(number, len(shares)) for number in range(len(shares))]


def test_an_error_on_a_thread_is_raised():
    from keras_quasiattn.core.compiled.torch import _over_team

    def share(number, count):
        raise ArithmeticError(f"{number} of {count}")

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with pytest.raises(ArithmeticError, match="of 2"):
            _over_team(share, 5)
    finally:
        torch.set_num_threads(before)


def test_what_cannot_be_vectorized_says_so():
    x = normals(2, 40, 8)
    with pytest.raises(RuntimeError, match="vmap"):
        torch.func.vmap(lambda x: attend(x, x, x))(x)


class Attention(torch.nn.Module):
    def __init__(self, implementation):
        super().__init__()
        self.implementation = implementation

    def forward(self, x):
        return attend(x, x, x, implementation=self.implementation)


def _export(module, x):
    program = torch.export.export(module, (x,), strict=False)
    targets = {str(node.target) for node in program.graph.nodes}
    return program.module()(x), targets


def _trace(module, x):
    stream = io.BytesIO()
    torch.jit.save(torch.jit.trace(module, (x,), check_trace=False), stream)
    stream.seek(0)
    loaded = torch.jit.load(stream)
    return loaded(x), {node.kind() for node in loaded.inlined_graph.nodes()}


@pytest.mark.filterwarnings("ignore:Converting a tensor to a Python", "ignore:.*torch.jit")
@pytest.mark.parametrize("export", [_export, _trace])
def test_no_export_holds_compiled_loops(export, passes):
    x = normals(2, 70, 4)
    expected = Attention("auto")(x)
    assert passes == ["forward"]
    got, targets = export(Attention("auto"), x)
    assert passes == ["forward"]
    assert not any("keras_quasiattn" in name for name in targets)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="implementation='compiled'` cannot be exported"):
        export(Attention("compiled"), x)


def test_tensors_elsewhere_are_an_error_that_names_the_place(monkeypatch):
    from keras_quasiattn.core.backend import obstacle_to_loops

    class Elsewhere:
        device = torch.device("mps:0")

    assert "Received: a tensor on 'mps:0'" in obstacle_to_loops(Elsewhere(), 8)


@pytest.mark.parametrize(
    ("capability", "cuda", "dtype", "features", "said"),
    [
        ((9, 0), "13.0", torch.float32, 512, None),
        (
            (9, 0),
            "13.0",
            torch.float32,
            513,
            "at most 512 features together on a GPU. Received: 513",
        ),
        ((9, 0), "13.0", torch.float64, 8, "computes in float32 on a GPU"),
        ((8, 6), "13.0", torch.float32, 8, "compute capability 9 only. Received: some GPU, 8.6"),
        ((9, 4), None, torch.float32, 8, "GPUs of NVIDIA"),
    ],
)
def test_on_a_gpu_only_what_fits_it_is_computed(
    capability, cuda, dtype, features, said, monkeypatch
):
    """The kernels need more shared memory than most GPUs have, and NVIDIA's instructions."""
    from keras_quasiattn.core.backend import obstacle_to_loops

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "some GPU")
    monkeypatch.setattr(torch.version, "cuda", cuda)

    class Elsewhere:
        device = torch.device("cuda:0")

    Elsewhere.dtype = dtype
    found = obstacle_to_loops(Elsewhere(), features)
    assert found is None if said is None else said in found
