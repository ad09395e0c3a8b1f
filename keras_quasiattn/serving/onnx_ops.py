"""Ops of Keras' activations that tf2onnx lacks; importing this file adds them."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, defs
from tf2onnx import utils
from tf2onnx.handler import tf_op

# A function of `add` and of the names of the formula's input and of the number 1. `add` adds a node
# of a kind with inputs, and returns the name of its output. The last node is returned, not added.
Formula = Callable[[Any, str, str], tuple[str, ...]]


def replaces(op: str) -> Callable[[Formula], Formula]:
    """Make tf2onnx replace an op by the ONNX nodes of a formula.

    tf2onnx keeps the name of an op that it does not know, and the file does not load.
    """

    def register(formula: Formula) -> Formula:
        class Handler:
            @classmethod
            def version_9(cls, graph: Any, node: Any, **_: Any) -> None:
                (x,), outputs = node.input, node.output
                dtype = utils.map_onnx_to_numpy_type(graph.get_dtype(x))
                one = graph.make_const(utils.make_name(node.name), np.array(1, dtype)).output[0]

                def add(kind: str, *inputs: str, **last: Any) -> str:
                    name: str = graph.make_node(kind, list(inputs), **last).output[0]
                    return name

                known = {"shapes": node.output_shapes, "dtypes": node.output_dtypes}
                graph.remove_node(node.name)
                kind, *inputs = formula(add, x, one)
                add(kind, *inputs, outputs=outputs, name=node.name, **known)

        tf_op(op)(Handler)
        return formula

    return register


@replaces("Erfc")
def erfc(add: Any, x: str, one: str) -> tuple[str, ...]:
    """Return 1 − erf(x), which Keras' exact GELU uses."""
    return "Sub", one, add("Erf", x)


@replaces("Expm1")
def expm1(add: Any, x: str, one: str) -> tuple[str, ...]:
    """Return exp(x) − 1 = tanh(x/2) · (exp(x) + 1), exact near 0 too."""
    half = add("Div", x, add("Add", one, one))
    return "Mul", add("Tanh", half), add("Add", add("Exp", x), one)


@replaces("Log1p")
def log1p(add: Any, x: str, one: str) -> tuple[str, ...]:
    """Return log(1 + x) = x · log(y) / (y − 1) with y = 1 + x as rounded, and x where y is 1."""
    y = add("Add", x, one)
    change, is_lost = add("Sub", y, one), add("Equal", y, one)
    divisor = add("Where", is_lost, one, change)
    return "Where", is_lost, x, add("Mul", add("Div", x, divisor), add("Log", y))


def unknown_ops(model: ModelProto) -> list[str]:
    """Return the kinds of nodes in a file that ONNX does not define."""
    nodes = [*_nodes(model.graph), *(node for one in model.functions for node in one.node)]
    own = {(one.name, one.domain) for one in model.functions}
    used = {(one.op_type, one.domain) for one in nodes} - own
    return sorted({name for name, domain in used if not defs.has(name, domain)})


def _nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """Yield the nodes of a graph, and of the graphs of its loops and branches."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes(inner)
