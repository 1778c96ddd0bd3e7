"""Small ONNX models for tests: written with onnx.helper, read back through the real front end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from tinyhil.compiler.calibrate import Ranges, calibrate
from tinyhil.compiler.lower import lower
from tinyhil.frontend.onnx import load_onnx
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program

OPSET = 17
Shapes = Mapping[str, Sequence[int | str] | None]


def node(op: str, inputs: str, outputs: str, **attrs: Any) -> onnx.NodeProto:
    """A node whose inputs and outputs are written as words; its name is `<op>_<first output>`."""
    names = outputs.split()
    return helper.make_node(op, inputs.split(), names, name=f"{op}_{names[0]}", **attrs)


def floats(name: str, shape: Sequence[int | str] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def tensors(values: Mapping[str, Any]) -> list[onnx.TensorProto]:
    """Initializers: float32 unless the value is an integer array or a list of ints."""
    made = []
    for name, value in values.items():
        array = np.asarray(value)
        array = array.astype(np.int64 if np.issubdtype(array.dtype, np.integer) else np.float32)
        made.append(numpy_helper.from_array(array, name))
    return made


def graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: Shapes,
    outputs: str | Shapes,
    constants: Mapping[str, Any] | None = None,
    name: str = "g",
) -> onnx.GraphProto:
    """A graph; outputs given as words have no declared shape."""
    out: Shapes = dict.fromkeys(outputs.split()) if isinstance(outputs, str) else outputs
    return helper.make_graph(
        list(nodes),
        name,
        [floats(*item) for item in inputs.items()],
        [floats(*item) for item in out.items()],
        tensors(constants or {}),
    )


def model(main: onnx.GraphProto, opset: int = OPSET) -> onnx.ModelProto:
    """A model with the shapes of its outputs inferred: the format asks for them."""
    domains = {item.domain for item in main.node if item.domain}
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in sorted(domains))]
    made = helper.make_model(main, opset_imports=opsets, ir_version=8)
    shapes = {info.name: info for info in onnx.shape_inference.infer_shapes(made).graph.output}
    for info in made.graph.output:
        info.CopyFrom(shapes[info.name])
        info.type.tensor_type.shape.SetInParent()
    return made


def simple(
    nodes: Sequence[onnx.NodeProto], inputs: Shapes, constants: Mapping[str, Any] | None = None, output: str = "y"
) -> onnx.ModelProto:
    """A model of one level with one output."""
    return model(graph(nodes, inputs, output, constants))


def load(proto: onnx.ModelProto, folder: Path, name: str = "m") -> Graph:
    """`proto` through a file and the front end."""
    path = folder / f"{name}.onnx"
    path.write_bytes(proto.SerializeToString())
    return load_onnx(path).graph


def onnxruntime_outputs(proto: onnx.ModelProto, inputs: np.ndarray, optimized: bool = True) -> np.ndarray:
    """Outputs of each sample, one after the other, (samples, elements)."""
    options = onnxruntime.SessionOptions()
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.stack([session.run(None, {name: sample})[0].reshape(-1) for sample in inputs])


def samples_for(shape: Sequence[int], count: int = 8, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=(count, *shape)) * scale).astype(np.float32)


def given_ranges(**values: float) -> Ranges:
    """Ranges by magnitude, for programs whose exponents a test chooses itself."""
    return Ranges({name: (-magnitude, magnitude) for name, magnitude in values.items()}, {"name": "test"})


def compiled(loaded: Graph, inputs: np.ndarray, default: str = "fixed16", **exceptions: str) -> Program:
    """Lowered with ranges observed on `inputs`."""
    return lower(loaded, Assignment(default, exceptions), calibrate(loaded, inputs, {"name": "test"}))
