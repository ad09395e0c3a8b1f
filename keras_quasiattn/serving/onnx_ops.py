"""Ops of Keras' activations that tf2onnx lacks; importing this file adds them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, defs
from tf2onnx import utils
from tf2onnx.handler import tf_op


class _Formula:
    """Replace a TensorFlow node by ONNX nodes; tf2onnx calls `version_9`.

    tf2onnx keeps the name of an op that it does not know, and the file does not load.
    """

    @classmethod
    def version_9(cls, graph: Any, node: Any, **_: Any) -> None:
        """Put the nodes of the formula in place of a node."""
        (x,), outputs = node.input, node.output
        dtype = utils.map_onnx_to_numpy_type(graph.get_dtype(x))
        one = graph.make_const(utils.make_name(node.name), np.array(1, dtype)).output[0]

        def add(kind: str, *inputs: str, **last: Any) -> str:
            name: str = graph.make_node(kind, list(inputs), **last).output[0]
            return name

        known = {"shapes": node.output_shapes, "dtypes": node.output_dtypes}
        graph.remove_node(node.name)
        kind, *inputs = cls.formula(add, x, one)
        add(kind, *inputs, outputs=outputs, name=node.name, **known)

    @staticmethod
    def formula(add: Any, x: str, one: str) -> tuple[str, ...]:
        """Add the nodes of the formula but the last one, which is returned with its inputs.

        Args:
            add: adds a node of a kind with inputs, and returns the name of its output.
            x: name of the input.
            one: name of the number 1.
        """
        raise NotImplementedError


@tf_op("Erfc")
class Erfc(_Formula):
    """1 − erf(x), which Keras' exact GELU uses."""

    @staticmethod
    def formula(add: Any, x: str, one: str) -> tuple[str, ...]:
        """Add the nodes."""
        return "Sub", one, add("Erf", x)


@tf_op("Expm1")
class Expm1(_Formula):
    """exp(x) − 1 = tanh(x/2) · (exp(x) + 1), exact near 0 too."""

    @staticmethod
    def formula(add: Any, x: str, one: str) -> tuple[str, ...]:
        """Add the nodes."""
        half = add("Div", x, add("Add", one, one))
        return "Mul", add("Tanh", half), add("Add", add("Exp", x), one)


@tf_op("Log1p")
class Log1p(_Formula):
    """log(1 + x) = x · log(y) / (y − 1) with y = 1 + x as rounded, and x where y is 1."""

    @staticmethod
    def formula(add: Any, x: str, one: str) -> tuple[str, ...]:
        """Add the nodes."""
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
