"""emlearn: dense layers in float32, in C headers that its package on the Python index brings."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from tinyhil import files
from tinyhil.errors import ModelError
from tinyhil.harness.engines.engine import Built, Engine, Tap, Task, tree_hash
from tinyhil.harness.engines.objects import Recipe, archive, engine_folder, header_of_bench
from tinyhil.harness.engines.port import Port
from tinyhil.language.graph import Graph, Node

ACTIVATIONS = {"Relu": "Relu", "Sigmoid": "Logistic", "Tanh": "Tanh", "Softmax": "Softmax"}
WITHOUT_EFFECT = ("Flatten", "Reshape", "Identity")
GLUE = """\
#include "eml_net.h"

#include "firmware/bench/hil_bench.h"

{arrays}
static const EmlNetLayer layers[] = {{{layers}}};
static float first[{largest}], second[{largest}], input[{inputs}], output[{outputs}];
static EmlNet net = {{{count}, layers, first, second, {largest}}};
#ifdef HIL_TELLS
static float told[{count}][{largest}];
const void *hil_engine_tensor(uint16_t number) {{
    const EmlNetLayer *const layer = &layers[number];
    const float *const from = number == 0 ? input : told[number - 1];
    if (eml_net_layer_forward(layer, from, layer->n_inputs, told[number], layer->n_outputs) != EmlOk) __builtin_trap();
    return told[number];
}}
#endif
void hil_engine_init(void) {{}}
void *hil_engine_input(void) {{ return input; }}
void hil_engine_invoke(void) {{
    if (eml_net_regress(&net, input, {inputs}, output, {outputs}) != EmlOk) __builtin_trap();
}}
const void *hil_engine_output(void) {{ return output; }}
"""


@dataclass(frozen=True, slots=True)
class Layer:
    """`weights` (inputs, outputs), as emlearn stores them; `output`: the tensor of the graph that it ends with."""

    weights: np.ndarray
    bias: np.ndarray
    output: str
    activation: str = "Identity"


def build(task: Task) -> Built:
    """ModelError for anything but two dense layers or more, one behind the other."""
    layers = layers_of(task.opened.model.graph, str(task.model))
    sizes = [layers[0].weights.shape[0], *(layer.weights.shape[1] for layer in layers)]
    arrays = [_arrays(number, layer) for number, layer in enumerate(layers)]
    rows = [
        f"{{{outputs}, {inputs}, w_{number}, b_{number}, EmlNetActivation{layers[number].activation}}}"
        for number, (inputs, outputs) in enumerate(pairwise(sizes))
    ]
    text = GLUE.format(
        arrays="\n".join(arrays),
        layers=", ".join(rows),
        largest=max(sizes),
        inputs=sizes[0],
        outputs=sizes[-1],
        count=len(layers),
    )
    glue = engine_folder(task) / f"emlearn-{hashlib.sha256(text.encode()).hexdigest()[:16]}.c"
    files.write_text(glue, text)
    tells = ("-DHIL_TELLS",) if task.tells else ()
    includes = header_of_bench(task), f"-I{task.source}"
    recipe = Recipe((*includes, f"-DHIL_OF=0x{tree_hash(task.source)[:8]}", *tells))
    ends, made = Port("float32"), archive(task, [(glue, recipe)])
    taps = tuple(Tap(layer.output, ends, (layer.weights.shape[1],)) for layer in layers if task.tells)
    return Built(ends, ends, sizes[0], sizes[-1], archive=made, arena_bytes=2 * 4 * max(sizes), taps=taps)


def layers_of(graph: Graph, where: str) -> list[Layer]:
    """The dense layers of a graph, each with the activation behind it. ModelError names an operation that is none."""
    found: list[Layer] = []
    value = graph.inputs[0]
    for node in graph.nodes:
        if node.inputs[0] != value:
            raise ModelError(f"{where}: '{node.name}' does not follow the operation before it; emlearn takes a chain")
        value = node.outputs[0]
        if node.op in WITHOUT_EFFECT:
            continue
        if node.op in ACTIVATIONS and found and found[-1].activation == "Identity":
            found[-1] = replace(found[-1], output=value, activation=ACTIVATIONS[node.op])
        elif node.op in ("Gemm", "MatMul") and node.inputs[1] in graph.constants:
            found.append(_dense(graph, node))
        elif _is_bias(graph, node, found):
            bias = found[-1].bias + graph.constants[node.inputs[1]].reshape(-1).astype(np.float32)
            found[-1] = replace(found[-1], bias=bias, output=value)
        else:
            raise ModelError(f"{where}: {node.op} '{node.name}': emlearn has dense layers and activations alone")
    if len(found) < 2 or value != graph.outputs[0]:
        raise ModelError(f"{where}: emlearn takes two dense layers or more, there are {len(found)}")
    return found


def _is_bias(graph: Graph, node: Node, found: Sequence[Layer]) -> bool:
    """An addition of a number for each output, right behind a product."""
    if node.op != "Add" or not found or node.inputs[1] not in graph.constants:
        return False
    is_product = found[-1].activation == "Identity"
    return is_product and graph.constants[node.inputs[1]].size == found[-1].bias.size


def _dense(graph: Graph, node: Node) -> Layer:
    weights = graph.constants[node.inputs[1]].astype(np.float32)
    weights = weights.T if node.attrs.get("transB") else weights
    bias = graph.constants[node.inputs[2]] if len(node.inputs) > 2 else np.zeros(weights.shape[1], np.float32)
    return Layer(weights * np.float32(node.attrs.get("alpha", 1)), bias.reshape(-1).astype(np.float32), node.outputs[0])


def _arrays(number: int, layer: Layer) -> str:
    both = {f"w_{number}": layer.weights, f"b_{number}": layer.bias}
    texts = {name: ", ".join(f"{float(value)!r}f" for value in values.reshape(-1)) for name, values in both.items()}
    return "\n".join(f"static const float {name}[] = {{{text}}};" for name, text in texts.items())


EMLEARN = Engine(
    "emlearn",
    "emlearn, dense layers in float32",
    "MIT",
    (".onnx", ".dsl"),
    ("pip install emlearn",),
    "emlearn",
    "eml_net.h",
    build,
    package="emlearn",
)
