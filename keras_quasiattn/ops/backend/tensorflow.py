"""How TensorFlow is going to run what is being called or traced."""

import tensorflow as tf


def runs_op_by_op() -> bool:
    """True in eager mode and in graphs that nothing says XLA will compile.

    `tf.function(jit_compile=True)` marks the graph around the one it traces with an XLA context. TensorFlow has no
    public name for that mark, so it is looked for with care; where it is missing, results are the same, or XLA names
    what it cannot compile.
    """
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    while graph is not None:
        context = getattr(graph, "_get_control_flow_context", lambda: None)()
        if context is not None and getattr(context, "IsXLAContext", lambda: False)():
            return False
        graph = getattr(graph, "outer_graph", None)
    return True


def stays_in_this_process(training: bool) -> bool:
    """True where operations may call back into this process: eagerly, and in training steps on local devices.

    A graph of a training step is neither exported nor sent away, unless the strategy has other machines; any other
    graph may be.
    """
    if tf.executing_eagerly():
        return True
    local = (tf.distribute.OneDeviceStrategy, tf.distribute.MirroredStrategy)
    near = isinstance(tf.distribute.get_strategy(), local) or not tf.distribute.has_strategy()
    return training and near


def has_accelerator() -> bool:
    """Whether TensorFlow may place operations elsewhere than on the CPU."""
    return any(tf.config.list_physical_devices(kind) for kind in ("GPU", "TPU"))
