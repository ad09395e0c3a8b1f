"""CoDA's compiled loops as a JAX primitive: transformations, and exported programs."""

import functools

import keras
import numpy as np
import pytest
import warm
from tools import CODA_IMPLEMENTATIONS

from keras_quasiattn import ops

if keras.backend.backend() != "jax" or "compiled" not in CODA_IMPLEMENTATIONS:
    pytest.skip("needs JAX and the extra `compiled`", allow_module_level=True)
jax = pytest.importorskip("jax")
jnp = jax.numpy
TARGET = "keras_quasiattn_compiled"


def normals(*shape):
    return jnp.asarray(np.random.default_rng(0).normal(size=shape), "float32")


def close(*results, tolerance=1e-3):
    got, right = map(jax.tree.leaves, results)
    for x, y in zip(got, right, strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def attend(query, key, value, implementation="compiled", **options):
    return ops.coda_attention(query, key, value, implementation=implementation, **options)


def both_ways(function, *arguments):
    """Return the results of `function` with compiled loops, and by the definition."""
    return [
        function(functools.partial(attend, implementation=name), *arguments)
        for name in ("compiled", "reference")
    ]


QUERY, KEY, VALUE = normals(2, 9, 4), normals(2, 13, 4), normals(2, 13, 3)


def test_outputs_and_gradients_under_jit():
    def run(attend, *tensors):
        both = jax.value_and_grad(lambda *given: (attend(*given) ** 2).sum(), (0, 1, 2))
        return jax.jit(both)(*tensors)

    close(*both_ways(run, QUERY, KEY, VALUE))


MASKS = normals(3, 9, 13) > -0.5
SEEDS = jnp.arange(6).reshape(3, 2)


@pytest.mark.parametrize(
    "axes",
    [(0, 0, 0, 0), (0, None, None, None), (None, None, None, 0), (1, 2, 0, None)],
    ids=["all", "query", "masks", "other axes"],
)
def test_vmap_merges_the_new_axis_with_the_first(axes):
    def moved(x, axis):
        return x[0] if axis is None else jnp.moveaxis(x, 0, axis)

    given = (normals(3, 2, 9, 4), normals(3, 2, 13, 4), MASKS, SEEDS)
    arguments = [moved(*pair) for pair in zip(given, axes, strict=True)]

    def run(attend, *arguments):
        def one(query, key, mask, seed):
            def total(query, key):
                output = attend(query, key, key, mask=mask, dropout=0.3, dropout_seed=seed)
                return (output**2).sum(), output

            return jax.grad(total, (0, 1), has_aux=True)(query, key)

        return jax.vmap(one, axes)(*arguments)

    close(*both_ways(run, *arguments))


def test_derivatives_of_gradients():
    def run(attend):
        def slope(query):
            return jax.grad(lambda query: (attend(query, KEY, VALUE) ** 2).sum())(query)

        return jax.grad(lambda query: (slope(query) ** 2).sum())(QUERY)

    close(*both_ways(run), tolerance=1e-2)


def test_forward_mode_and_its_derivatives():
    def run(attend):
        def output(query):
            return attend(query, KEY, VALUE)

        def twice(query):
            return jax.jvp(output, (query,), (query,))[1].sum()

        batch = jnp.stack([QUERY, 2 * QUERY])
        along = jax.vmap(lambda moved: jax.jvp(output, (QUERY,), (moved,))[1])(batch)
        return twice(QUERY), jax.grad(twice)(QUERY), jax.jit(jax.jacfwd(output))(QUERY), along

    close(*both_ways(run), tolerance=1e-2)


def test_checkpoint_computes_the_loops_again():
    def run(attend):
        again = jax.checkpoint(lambda query: attend(query, KEY, VALUE))
        return jax.grad(lambda query: (again(query) ** 2).sum())(QUERY)

    close(*both_ways(run))


def test_shards_of_a_mesh():
    kinds = (jax.sharding.AxisType.Auto,)
    mesh = jax.make_mesh((jax.device_count(),), ("batch",), axis_types=kinds)
    spec = jax.sharding.PartitionSpec("batch")

    def run(attend):
        slope = jax.grad(lambda query: (attend(query, query, query) ** 2).sum())
        return jax.jit(jax.shard_map(slope, mesh=mesh, in_specs=spec, out_specs=spec))(QUERY)

    close(*both_ways(run))


@pytest.mark.parametrize("platforms", [("cpu",), ("cuda",), ("cpu", "cuda")])
@pytest.mark.parametrize("masked", [False, True])
def test_what_is_exported_holds_no_compiled_loops(platforms, masked):
    from jax import export

    x, y = normals(2, 70, 4), normals(2, 65, 4)
    options = {"dropout": 0.2, "dropout_seed": SEEDS[0]}
    mask = normals(2, 70, 65) > -0.5
    options |= {"mask": mask} if masked else {"is_causal": True}

    @jax.jit
    def run(x, y):
        def total(x, y):
            output = attend(x, y, y, implementation="auto", **options)
            return (output**2).sum(), output

        return jax.grad(total, (0, 1), has_aux=True)(x, y)

    assert TARGET in run.lower(x, y).as_text()
    exported = export.export(run, platforms=platforms)(x, y)
    assert TARGET not in str(exported.mlir_module())
    if "cpu" in platforms:
        close(export.deserialize(exported.serialize()).call(x, y), run(x, y))


def test_exporting_the_loops_is_an_error_that_says_so():
    from jax import export

    run = jax.jit(lambda x: attend(x, x, x))
    with pytest.raises(ValueError, match="Compiled loops cannot be exported.*use 'auto'"):
        export.export(run)(QUERY)


def test_an_error_in_the_loops_is_one_of_the_program(monkeypatch):
    from keras_quasiattn.attention.coda.compiled.call import CodaCall

    def fail(*given):
        raise ArithmeticError("what happened")

    monkeypatch.setattr(CodaCall, "forward", fail)
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match="what happened"):
        jax.block_until_ready(attend(QUERY, KEY, VALUE))


def test_another_platform_is_an_error_that_names_it(monkeypatch):
    from keras_quasiattn.core.backend import jax as backend

    monkeypatch.setattr(backend, "default_backend", lambda: "cuda")
    with pytest.raises(ValueError, match="only where JAX computes on CPUs.*'cuda'"):
        attend(QUERY, KEY, VALUE)


def test_several_devices_take_tiles(monkeypatch):
    from keras_quasiattn.core.backend import jax as backend

    x = normals(2, 70, 4)
    monkeypatch.setattr(backend, "device_count", lambda: 2)
    program = jax.jit(lambda x: attend(x, x, x, implementation="auto"))
    assert TARGET not in program.lower(x).as_text()


@pytest.mark.long
@pytest.mark.parametrize("before", [0, 20], ids=["in the loops", "before the loops"])
def test_a_program_that_still_runs_does_not_keep_the_process_from_ending(before):
    code = f"""
import jax, numpy as np
from jax import numpy as jnp
from keras_quasiattn import ops

def run(x):
    y = x @ jnp.swapaxes(x, 1, 2)
    y = jax.lax.fori_loop(0, {before}, lambda _, y: jnp.tanh(y @ y), y)
    x = x + y[:, :1, :1]
    return ops.coda_attention(x, x, x, implementation='compiled')

jax.jit(run)(np.ones((8, 1024, 64), np.float32))
"""
    warm.printed(["-c", code], warm.fresh, timeout=100)
