"""`runs_op_by_op` for TensorFlow."""

import tensorflow as tf


def runs_op_by_op() -> bool:
    """True in eager mode and in graphs that nothing says XLA will compile.

    `tf.function(jit_compile=True)` marks the graph around the one it traces with an XLA context. TensorFlow has no
    public name for that mark. It is read as a hint for the shape of tiles alone: without it, or where a graph is
    compiled in some other way, results are the same and take longer.
    """
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    while graph is not None:
        context = getattr(graph, "_get_control_flow_context", lambda: None)()
        if context is not None and getattr(context, "IsXLAContext", lambda: False)():
            return False
        graph = getattr(graph, "outer_graph", None)
    return True
