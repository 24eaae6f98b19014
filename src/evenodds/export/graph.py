"""Write an ONNX graph as one writes arithmetic: a method an operator, a constant where a number is meant."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from evenodds.errors import MissingExtraError

Array = npt.NDArray[Any]

# Old enough for runtimes of 2022 on, new enough for 64-bit arithmetic in all operators that are used.
OPSET, IR_VERSION = 17, 8


def onnx_library() -> Any:
    """Import onnx, or say in one line what is missing."""
    try:
        return import_module("onnx")
    except ImportError:
        raise MissingExtraError(
            "ONNX files need the package onnx", hint="pip install 'evenodds[export]'"
        ) from None


class Graph:
    """Nodes and constants; names are numbered in the order in which they are made.

    What is made of constants only is computed once, when a runtime opens the file: so files stay small.
    """

    def __init__(self) -> None:
        self._onnx = onnx_library()
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._known: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def constant(self, value: Array | list[int] | float, kind: type[np.generic] = np.float64) -> str:
        """Return the name of a constant; equal ones are stored once."""
        array = np.ascontiguousarray(np.asarray(value, dtype=kind))
        if np.ndim(value) == 0:
            array = array.reshape(())
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._known:
            self._known[key] = f"c{len(self._constants)}"
            self._constants.append(self._onnx.numpy_helper.from_array(array, self._known[key]))
        return self._known[key]

    def whole(self, value: Array | list[int] | int) -> str:
        """Return the name of a constant of 64-bit whole numbers."""
        return self.constant(value, np.int64)

    def __call__(
        self, operator: str, *inputs: str | Array | float, output: str | None = None, **settings: Any
    ) -> str:
        """Add a node; numbers among its inputs become constants."""
        names = [given if isinstance(given, str) else self.constant(given) for given in inputs]
        name = output or f"{operator.lower()}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(operator, names, [name], **settings))
        return name

    def cast(self, name: str, kind: type[np.generic]) -> str:
        """Cast to another type."""
        return self("Cast", name, to=int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))))

    def gather(self, table: str, places: str) -> str:
        """Look numbers up by place."""
        return self("Gather", table, places, axis=0)

    def floor_to_whole(self, name: str) -> str:
        """Return the whole part of numbers that are not negative."""
        return self.cast(name, np.int64)

    def model(
        self, name: str, inputs: list[Any], output: Any, described: str, metadata: dict[str, str]
    ) -> Any:
        """Return the whole model, checked."""
        from evenodds._version import __version__

        helper = self._onnx.helper
        graph = helper.make_graph(
            self._nodes, name, inputs, [output], initializer=self._constants, doc_string=described
        )
        model = helper.make_model(
            graph,
            producer_name="evenodds",
            producer_version=__version__,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            doc_string=described,
        )
        helper.set_model_props(model, metadata)
        self._onnx.checker.check_model(model, full_check=True)
        return model

    def value(self, name: str, kind: type[np.generic], described: str) -> Any:
        """Describe an input or an output: one number an item."""
        kind_number = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        return self._onnx.helper.make_tensor_value_info(name, kind_number, ["items"], doc_string=described)
