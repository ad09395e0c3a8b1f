"""Operations that XLA fuses on JAX have the gradients of the definition."""

import concurrent.futures

import keras
import pytest

from benchmarks.on_device import agreement

if keras.backend.backend() != "jax":
    pytest.skip("XLA's fusions on JAX", allow_module_level=True)


class ThisThread:
    """A pool without threads: the tests' `jit` settings apply to one thread only."""

    def submit(self, function, *arguments, **options):
        result = concurrent.futures.Future()
        result.set_result(function(*arguments, **options))
        return result


def test_equal_features_have_no_slope_when_a_compiler_fuses_the_mean(monkeypatch):
    """XLA computed the mean of the keys once for queries and once for keys, a rounding apart.

    Their difference was then not 0 where a query and a key have an equal feature.
    """
    import jax

    from benchmarks.on_device import jax as device

    monkeypatch.setattr(device, "_POOL", ThisThread())
    # Compile as users do; the tests disable these optimizations.
    monkeypatch.setattr(
        device,
        "_QUICK",
        {
            "xla_backend_optimization_level": 3,
            "xla_llvm_disable_expensive_passes": False,
            "xla_cpu_use_fusion_emitters": True,
        },
    )
    found = {}
    for name in ("blockwise", "reference"):
        options = (("implementation", name),)
        case = agreement.Case("coda", options, "core", agreement.TINY.long, "none", "float32")
        with jax.disable_jit(False):
            found[name] = agreement.started(case, agreement.TINY, device)()
    row = agreement.compared(case, found["blockwise"], found["reference"])
    assert row["status"] == "ok", row["message"]
