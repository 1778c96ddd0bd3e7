"""Recurrent models for tests: every way in which a Scan body can reach its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx_models import graph, model, node

STEPS, WIDTH, HIDDEN = 6, 3, 4


def weights(*shape: int, seed: int = 1) -> np.ndarray:
    return (np.random.default_rng(seed + sum(shape)).normal(size=shape) * 0.5).astype(np.float32)


U, W, R = weights(HIDDEN, HIDDEN), weights(WIDTH, HIDDEN), weights(HIDDEN, 2, seed=5)
H0 = np.zeros((1, HIDDEN), np.float32)
CELL = [
    node("MatMul", "h U", "hu"),
    node("MatMul", "x_t W", "xw"),
    node("Add", "hu xw", "s"),
    node("Tanh", "s", "h_next"),
]


def scan(inputs: str, outputs: str, body: onnx.GraphProto, name: str = "scan", **attrs: Any) -> onnx.NodeProto:
    attrs.setdefault("num_scan_inputs", 1)
    return helper.make_node("Scan", inputs.split(), outputs.split(), name=name, body=body, **attrs)


def cell(
    nodes: Sequence[onnx.NodeProto] = tuple(CELL),
    inputs: Mapping[str, Sequence[int]] | None = None,
    outputs: str = "h_next",
    constants: Mapping[str, Any] | None = None,
) -> onnx.GraphProto:
    """A body: by default h_next = tanh(h U + x_t W), U and W found outside."""
    return graph(nodes, inputs or {"h": (1, HIDDEN), "x_t": (1, WIDTH)}, outputs, constants, "body")


def classifier(
    loop: Sequence[onnx.NodeProto],
    shape: Sequence[int] = (STEPS, 1, WIDTH),
    constants: Mapping[str, Any] | None = None,
    state: str = "h_n",
    readout: str = "R",
) -> onnx.ModelProto:
    """Nodes that end in `state`, then a linear read-out."""
    given = {"U": U, "W": W, "R": R, "h0": H0, **(constants or {})}
    return model(graph([*loop, node("MatMul", f"{state} {readout}", "y")], {"x": shape}, "y", given))


def two_states() -> onnx.ModelProto:
    """A leaky average beside the cell; both end in the result."""
    nodes = [*CELL, node("Mul", "c half", "c1"), node("Add", "c1 h_next", "c_next")]
    body = cell(nodes, {"h": (1, HIDDEN), "c": (1, HIDDEN), "x_t": (1, WIDTH)}, "h_next c_next", {"half": 0.5})
    loop = [scan("h0 c0 x", "h_n c_n", body), node("Add", "h_n c_n", "sum")]
    return classifier(loop, constants={"c0": weights(1, HIDDEN, seed=9)}, state="sum")


def two_sequences() -> onnx.ModelProto:
    """One input shown to the loop twice, once of them squared."""
    nodes = [*CELL[:2], node("MatMul", "z_t W", "zw"), node("Add", "hu xw", "s1"), node("Add", "s1 zw", "s2")]
    body = cell([*nodes, node("Tanh", "s2", "h_next")], {"h": (1, HIDDEN), "x_t": (1, WIDTH), "z_t": (1, WIDTH)})
    loop = [node("Mul", "x x", "z"), scan("h0 x z", "h_n", body, num_scan_inputs=2)]
    return classifier(loop)


def same_sequence_twice() -> onnx.ModelProto:
    nodes = [node("Mul", "x_t z_t", "p"), node("MatMul", "p W", "xw"), node("MatMul", "h U", "hu")]
    nodes += [node("Add", "hu xw", "s"), node("Tanh", "s", "h_next")]
    body = cell(nodes, {"h": (1, HIDDEN), "x_t": (1, WIDTH), "z_t": (1, WIDTH)})
    return classifier([scan("h0 x x", "h_n", body, num_scan_inputs=2)])


def body_initializers() -> onnx.ModelProto:
    return classifier([scan("h0 x", "h_n", cell(constants={"U": U.T.copy(), "W": W * 2}))])


def constants_in_body() -> onnx.ModelProto:
    tensor = onnx.numpy_helper.from_array(W * 3, "t")
    constant = helper.make_node("Constant", [], ["V"], name="const", value=tensor)
    scale = helper.make_node("Constant", [], ["k"], name="scale", value_float=0.25)
    nodes = [constant, scale, node("MatMul", "h U", "hu"), node("MatMul", "x_t V", "xv"), node("Mul", "xv k", "xw")]
    return classifier([scan("h0 x", "h_n", cell([*nodes, *CELL[2:]]))])


def captures() -> onnx.ModelProto:
    """The body reads run-time values of the level around it: a projection of the whole input, and the input itself."""
    nodes = [*CELL[:3], node("Add", "s context", "s2"), node("Tanh", "s2", "h_next")]
    loop = [
        node("Reshape", "x flat", "f"),
        node("MatMul", "f P", "context"),
        scan("h0 x", "h_n", cell(nodes)),
    ]
    return classifier(loop, constants={"flat": [1, STEPS * WIDTH], "P": weights(STEPS * WIDTH, HIDDEN)})


def captures_input() -> onnx.ModelProto:
    nodes = [*CELL[:3], node("Reshape", "x flat", "f"), node("MatMul", "f P", "c")]
    nodes += [node("Add", "s c", "s2"), node("Tanh", "s2", "h_next")]
    constants = {"flat": [1, STEPS * WIDTH], "P": weights(STEPS * WIDTH, HIDDEN)}
    return classifier([scan("h0 x", "h_n", cell(nodes))], constants=constants)


def clashes() -> onnx.ModelProto:
    """Body and outer level use the same names for different values; so do two loops."""
    body = cell(constants={"R": weights(HIDDEN, HIDDEN)}, nodes=[node("MatMul", "h R", "hu"), *CELL[1:]])
    again = graph(
        [node("MatMul", "h U", "hu"), node("Add", "hu x_t", "s"), node("Tanh", "s", "h_next")],
        {"h": (1, HIDDEN), "x_t": (1, HIDDEN)},
        "h_next",
    )
    loop = [
        scan("h0 x", "h", body),
        node("Reshape", "h two", "r"),
        scan("h r", "h_n", again, "scan2"),
    ]
    return classifier(loop, constants={"two": [1, 1, HIDDEN]})


def nested() -> onnx.ModelProto:
    """Rows of rows: the inner loop runs over each row of the outer one, from the outer state."""
    inner = graph(
        [
            node("MatMul", "g U", "gu"),
            node("MatMul", "e W", "ew"),
            node("Add", "gu ew", "q"),
            node("Tanh", "q", "g_next"),
        ],
        {"g": (1, HIDDEN), "e": (1, WIDTH)},
        "g_next",
        name="inner",
    )
    outer = cell(
        [scan("h x_t", "g_n", inner, "inner_scan"), node("Mul", "g_n decay", "h_next")],
        {"h": (1, HIDDEN), "x_t": (2, 1, WIDTH)},
        constants={"decay": 0.75},
    )
    return classifier([scan("h0 x", "h_n", outer)], (STEPS, 2, 1, WIDTH))


def nested_over_the_input() -> onnx.ModelProto:
    """The inner loop runs over the whole model input again, at each step of the outer one."""
    inner = graph(
        [node("MatMul", "e W", "ew"), node("Add", "g ew", "q"), node("Tanh", "q", "g_next")],
        {"g": (1, HIDDEN), "e": (1, WIDTH)},
        "g_next",
        name="inner",
    )
    nodes = [scan("h x", "g_n", inner, "inner_scan"), node("MatMul", "x_t W", "xw"), node("Add", "g_n xw", "s")]
    return classifier([scan("h0 x", "h_n", cell([*nodes, node("Tanh", "s", "h_next")]))])


def axis_one() -> onnx.ModelProto:
    """Batch first: the time axis lies behind an axis of 1."""
    return classifier([scan("h0 x", "h_n", cell(), scan_input_axes=[1])], (1, STEPS, WIDTH))


def negative_axis() -> onnx.ModelProto:
    return classifier([scan("h0 x", "h_n", cell(), scan_input_axes=[-2])], (1, STEPS, WIDTH))


def two_loops() -> onnx.ModelProto:
    """Both run over the model input, the second from where the first ended."""
    second = graph(
        [
            node("MatMul", "k U", "ku"),
            node("MatMul", "r W", "rw"),
            node("Sub", "ku rw", "d"),
            node("Sigmoid", "d", "k_next"),
        ],
        {"k": (1, HIDDEN), "r": (1, WIDTH)},
        "k_next",
        name="second",
    )
    return classifier([scan("h0 x", "h_m", cell()), scan("h_m x", "h_n", second, "scan2")])


def second_loop_reads_the_input() -> onnx.ModelProto:
    """One loop scans the input, the body of another reads all of it."""
    second = graph(
        [
            node("Reshape", "x flat", "f"),
            node("MatMul", "f P", "p"),
            node("Add", "k p", "d"),
            node("Tanh", "d", "k_next"),
        ],
        {"k": (1, HIDDEN), "r": (1, HIDDEN)},
        "k_next",
        name="second",
    )
    loop = [scan("h0 x", "h_m", cell()), node("Reshape", "h_m two", "s"), scan("h_m s", "h_n", second, "scan2")]
    constants = {"flat": [1, STEPS * WIDTH], "P": weights(STEPS * WIDTH, HIDDEN), "two": [1, 1, HIDDEN]}
    return classifier(loop, constants=constants)


def last_row() -> onnx.ModelProto:
    """The state is the row itself, and a second state never changes."""
    body = cell(
        [node("Identity", "x_t", "h_next"), node("Identity", "c", "c_next")],
        {"h": (1, WIDTH), "c": (1, WIDTH), "x_t": (1, WIDTH)},
        "h_next c_next",
    )
    loop = [scan("z0 c0 x", "a b", body), node("Add", "a b", "sum")]
    constants = {"z0": np.zeros((1, WIDTH)), "c0": weights(1, WIDTH), "V": weights(WIDTH, 2)}
    return classifier(loop, constants=constants, state="sum", readout="V")


def state_from_outside() -> onnx.ModelProto:
    """The next state is a value of the level around the loop, and another is constant."""
    body = cell(
        [node("Identity", "first", "h_next"), node("Add", "x_t c", "unused"), node("Identity", "fixed", "c_next")],
        {"h": (1, HIDDEN), "c": (1, WIDTH), "x_t": (1, WIDTH)},
        "h_next c_next",
    )
    loop = [
        node("Reshape", "x flat", "f"),
        node("MatMul", "f P", "first"),
        scan("h0 c0 x", "h_m c_n", body),
        node("MatMul", "c_n W", "cw"),
        node("Add", "h_m cw", "h_n"),
    ]
    constants = {"flat": [1, STEPS * WIDTH], "P": weights(STEPS * WIDTH, HIDDEN), "fixed": weights(1, WIDTH, seed=3)}
    return classifier(loop, constants={**constants, "c0": np.zeros((1, WIDTH))})


def computed_start() -> onnx.ModelProto:
    """The first state is computed from the input."""
    loop = [node("Reshape", "x flat", "f"), node("MatMul", "f P", "start"), scan("start x", "h_n", cell())]
    return classifier(loop, constants={"flat": [1, STEPS * WIDTH], "P": weights(STEPS * WIDTH, HIDDEN)})


def view_before() -> onnx.ModelProto:
    """A flat input, shown as a sequence: still streamable."""
    loop = [node("Reshape", "x rows", "r"), scan("h0 r", "h_n", cell())]
    return classifier(loop, (1, STEPS * WIDTH), constants={"rows": [STEPS, 1, WIDTH]})


def start_used_again() -> onnx.ModelProto:
    """The computed first state is read in each step of the loop, and after it."""
    nodes = [*CELL[:3], node("Sub", "s start", "s2"), node("Tanh", "s2", "h_next")]
    loop = [
        node("Reshape", "x flat", "f"),
        node("MatMul", "f P", "p"),
        node("Tanh", "p", "start"),
        scan("start x", "h_m", cell(nodes)),
        node("Add", "h_m start", "h_n"),
    ]
    return classifier(loop, constants={"flat": [1, STEPS * WIDTH], "P": weights(STEPS * WIDTH, HIDDEN)})


def start_used_after() -> onnx.ModelProto:
    loop = [
        node("Reshape", "x flat", "f"),
        node("MatMul", "f P", "start"),
        scan("start x", "h_m", cell()),
        node("Sub", "h_m start", "h_n"),
    ]
    return classifier(loop, constants={"flat": [1, STEPS * WIDTH], "P": weights(STEPS * WIDTH, HIDDEN)})


def branching_starts() -> onnx.ModelProto:
    """Two loops start from the same computed state, and the first one's end is needed after the second."""
    second = cell(
        [
            node("MatMul", "k U", "ku"),
            node("MatMul", "r W", "rw"),
            node("Sub", "ku rw", "d"),
            node("Relu", "d", "k_next"),
        ],
        {"k": (1, HIDDEN), "r": (1, WIDTH)},
        "k_next",
    )
    loop = [
        node("Reshape", "x flat", "f"),
        node("MatMul", "f P", "start"),
        scan("start x", "h_a", cell()),
        scan("start x", "h_b", second, "scan2"),
        node("Mul", "h_a h_b", "h_n"),
    ]
    return classifier(loop, constants={"flat": [1, STEPS * WIDTH], "P": weights(STEPS * WIDTH, HIDDEN)})


def state_is_a_sequence() -> onnx.ModelProto:
    """The inner loop runs over the rows of the outer state after its next value was made."""
    inner = graph(
        [node("MatMul", "e E", "ee"), node("Add", "g ee", "q"), node("Tanh", "q", "g_next")],
        {"g": (1, HIDDEN), "e": (1, 2)},
        "g_next",
        name="inner",
    )
    body = cell(
        [
            node("MatMul", "x_t W", "xw"),
            node("Reshape", "xw pairs", "xp"),
            node("Tanh", "xp", "h_next"),
            scan("c h", "c_m", inner, "inner_scan"),
            node("Mul", "c_m decay", "c_next"),
        ],
        {"h": (2, 1, 2), "c": (1, HIDDEN), "x_t": (1, WIDTH)},
        "h_next c_next",
        {"decay": 0.9},
    )
    constants = {"E": weights(2, HIDDEN), "pairs": [2, 1, 2], "p0": weights(2, 1, 2), "row": [1, HIDDEN]}
    loop = [scan("p0 h0 x", "h_m c_n", body), node("Reshape", "h_m row", "h_r"), node("Add", "h_r c_n", "h_n")]
    return classifier(loop, constants=constants)


def work_without_effect() -> onnx.ModelProto:
    """The body's last operation reads a value from outside and leads nowhere; its saturations count all the same."""
    body = cell(
        [node("Identity", "h", "h_next"), node("Add", "context context", "unused")],
        {"h": (1, HIDDEN), "x_t": (1, WIDTH)},
    )
    loop = [
        node("Reshape", "x flat", "f"),
        node("MatMul", "f P", "p"),
        node("Tanh", "p", "context"),
        scan("p x", "h_n", body),
    ]
    return classifier(loop, constants={"flat": [1, STEPS * WIDTH], "P": weights(STEPS * WIDTH, HIDDEN)})


def all_states() -> onnx.ModelProto:
    """Per-step results beside the state, and both are read."""
    body = cell([*CELL[:3], node("Tanh", "s", "h_next"), node("Relu", "x_t", "o")], outputs="h_next o")
    loop = [scan("h0 x", "h_m all", body), node("Reshape", "all flat", "f"), node("MatMul", "f P", "p")]
    constants = {"flat": [1, STEPS * WIDTH], "P": weights(STEPS * WIDTH, HIDDEN)}
    return classifier([*loop, node("Add", "h_m p", "h_n")], constants=constants)


def state_stacked() -> onnx.ModelProto:
    """The state itself is a per-step result, and so is the one before."""
    body = cell([*CELL, node("Identity", "h_next", "a"), node("Identity", "h", "b")], outputs="h_next a b")
    loop = [scan("h0 x", "h_m after before", body), node("Sub", "after before", "d"), node("Reshape", "d flat", "f")]
    constants = {"flat": [1, STEPS * HIDDEN], "P": weights(STEPS * HIDDEN, HIDDEN)}
    return classifier([*loop, node("MatMul", "f P", "h_n")], constants=constants)


def backward() -> onnx.ModelProto:
    """From the last row to the first, results stacked in the order of the rows."""
    body = cell([*CELL, node("Identity", "h_next", "a")], outputs="h_next a")
    made = scan("h0 x", "h_m all", body, scan_input_directions=[1], scan_output_directions=[1])
    constants = {"flat": [1, STEPS * HIDDEN], "P": weights(STEPS * HIDDEN, HIDDEN)}
    return classifier([made, node("Reshape", "all flat", "f"), node("MatMul", "f P", "h_n")], constants=constants)


def constant_sequence() -> onnx.ModelProto:
    nodes = [*CELL[:3], node("Add", "s p_t", "s2"), node("Tanh", "s2", "h_next")]
    body = cell(nodes, {"h": (1, HIDDEN), "x_t": (1, WIDTH), "p_t": (1, HIDDEN)})
    loop = [scan("h0 x p", "h_n", body, num_scan_inputs=2)]
    return classifier(loop, constants={"p": weights(STEPS, 1, HIDDEN, seed=4)})


def exchanged_states() -> onnx.ModelProto:
    body = cell(
        [*CELL[:3], node("Tanh", "s", "t"), node("Add", "c t", "h_next"), node("Identity", "h", "c_next")],
        {"h": (1, HIDDEN), "c": (1, HIDDEN), "x_t": (1, WIDTH)},
        "h_next c_next",
    )
    loop = [scan("h0 c0 x", "h_m c_m", body), node("Sub", "h_m c_m", "h_n")]
    return classifier(loop, constants={"c0": weights(1, HIDDEN, seed=9)})


def swapped_states() -> onnx.ModelProto:
    body = cell(
        [node("Identity", "c", "h_next"), node("Identity", "h", "c_next"), node("Relu", "x_t", "unused")],
        {"h": (1, HIDDEN), "c": (1, HIDDEN), "x_t": (1, WIDTH)},
        "h_next c_next",
    )
    loop = [
        node("Reshape", "x flat", "f"),
        node("MatMul", "f P", "start"),
        scan("start c0 x", "h_m c_m", body),
        node("Sub", "h_m c_m", "h_n"),
    ]
    constants = {"flat": [1, STEPS * WIDTH], "P": weights(STEPS * WIDTH, HIDDEN), "c0": weights(1, HIDDEN, seed=9)}
    return classifier(loop, constants=constants)


SCANS = {
    made.__name__: made
    for made in (
        two_states,
        two_sequences,
        same_sequence_twice,
        body_initializers,
        constants_in_body,
        captures,
        captures_input,
        clashes,
        nested,
        nested_over_the_input,
        axis_one,
        negative_axis,
        two_loops,
        second_loop_reads_the_input,
        last_row,
        state_from_outside,
        computed_start,
        view_before,
        start_used_again,
        start_used_after,
        branching_starts,
        state_is_a_sequence,
        work_without_effect,
        all_states,
        state_stacked,
        backward,
        constant_sequence,
        exchanged_states,
        swapped_states,
    )
}
STREAMABLE = {"two_states", "body_initializers", "constants_in_body", "clashes", "nested", "axis_one", "negative_axis"}
STREAMABLE |= {"last_row", "view_before", "state_is_a_sequence", "all_states", "state_stacked", "constant_sequence"}
STREAMABLE |= {"exchanged_states"}
