"""RNN, GRU and LSTM as a Scan over plain operators, one per direction. Source: the ONNX operator specifications.

Gates have matrices of their own instead of one wide product, so no gate is held longer than it is needed, and each has
the scale that suits it. A backward direction scans backward: nothing is reversed in memory. The sequence of all states
is stacked only where the model reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tinyhil.frontend.listing import Call
from tinyhil.frontend.rewrite import Results, Rewrite, Site

GATES = {"RNN": "i", "GRU": "zrh", "LSTM": "iofc"}
DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
ACTIVATIONS = {"Relu": (), "Tanh": (), "Sigmoid": (), "LeakyRelu": ("alpha",), "Elu": ("alpha",), "Softplus": ()}
PARAMETERS = {**ACTIVATIONS, "HardSigmoid": ("alpha", "beta")}


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction of one layer: constant matrices by gate, the initial states, the activations."""

    site: Site
    backward: bool
    input_weights: dict[str, np.ndarray]  # gate -> (inputs, hidden)
    state_weights: dict[str, np.ndarray]  # gate -> (hidden, hidden)
    input_bias: dict[str, np.ndarray]  # gate -> (hidden,)
    state_bias: dict[str, np.ndarray]
    peepholes: dict[str, np.ndarray]
    states: tuple[str, ...]
    activations: tuple[tuple[str, dict[str, float]], ...]

    def constant(self, part: str, array: np.ndarray) -> str:
        """A constant under a name that tells the two directions apart."""
        return self.site.constant(f"{'back' if self.backward else 'forth'}.{part}", array)

    def product(self, x: str, gate: str) -> str:
        """x_t W + b, without the state's part."""
        weights = self.constant(f"W{gate}", self.input_weights[gate])
        if not self.input_bias[gate].any():
            return self.site.make("MatMul", x, weights)
        bias = self.constant(f"b{gate}", self.input_bias[gate])
        return self.site.make("Gemm", x, weights, bias)

    def recurrence(self, state: str, gate: str) -> str:
        """The state's part of a gate, with its own bias if that is not all zeros."""
        weights = self.constant(f"R{gate}", self.state_weights[gate])
        if not self.state_bias[gate].any():
            return self.site.make("MatMul", state, weights)
        return self.site.make("Gemm", state, weights, self.constant(f"r{gate}", self.state_bias[gate]))

    def activate(self, index: int, x: str) -> str:
        """The activation at `index`, behind the layer's clip if it has one."""
        op, attrs = self.activations[index]
        clip = self.site.attr("clip", None)
        if clip is not None:
            ends = (self.site.constant("low", -clip), self.site.constant("high", clip))
            x = self.site.make("Clip", x, *ends)
        return self.site.make(op, x, **attrs)

    def gate(self, activation: int, x: str, h: str, gate: str) -> str:
        """activation(W x + R h + b)."""
        return self.activate(activation, self.site.make("Add", self.product(x, gate), self.recurrence(h, gate)))


# ---- one step


def _rnn_step(d: Direction, x: str, states: tuple[str, ...]) -> tuple[str, ...]:
    return (d.gate(0, x, states[0], "i"),)


def _gru_step(d: Direction, x: str, states: tuple[str, ...]) -> tuple[str, ...]:
    site, (h,) = d.site, states
    update, reset = d.gate(0, x, h, "z"), d.gate(0, x, h, "r")
    if int(site.attr("linear_before_reset", 0)):
        recurrent = site.make("Mul", reset, d.recurrence(h, "h"))
    else:
        recurrent = d.recurrence(site.make("Mul", reset, h), "h")
    candidate = d.activate(1, site.make("Add", d.product(x, "h"), recurrent))
    # (1 - z) candidate + z h = candidate + z (h - candidate): one product and no constant
    return (site.make("Add", candidate, site.make("Mul", update, site.make("Sub", h, candidate))),)


def _lstm_step(d: Direction, x: str, states: tuple[str, ...]) -> tuple[str, ...]:
    site, (h, c) = d.site, states

    def gate(name: str, cell: str) -> str:
        total = site.make("Add", d.product(x, name), d.recurrence(h, name))
        if name in d.peepholes:
            weights = d.constant(f"P{name}", d.peepholes[name])
            total = site.make("Add", total, site.make("Mul", cell, weights))
        return d.activate(0, total)

    enter = gate("i", c)
    if int(site.attr("input_forget", 0)):
        forget = site.make("Sub", d.constant("one", np.ones(1)), enter)
    else:
        forget = gate("f", c)
    candidate = d.gate(1, x, h, "c")
    cell = site.make("Add", site.make("Mul", forget, c), site.make("Mul", enter, candidate))
    return site.make("Mul", gate("o", cell), d.activate(2, cell)), cell


STEPS: dict[str, Callable[[Direction, str, tuple[str, ...]], tuple[str, ...]]] = {
    "RNN": _rnn_step,
    "GRU": _gru_step,
    "LSTM": _lstm_step,
}


# ---- the layer


def _layer(site: Site) -> Results:
    """Inputs X, W, R, B, sequence_lens, initial_h, (LSTM) initial_c, P; outputs Y, Y_h, (LSTM) Y_c."""
    x, by_batch = site.input(0), int(site.attr("layout", 0))
    if by_batch:
        x = site.make("Transpose", x, perm=[1, 0, 2])
    steps, batch, _ = site.shape(x)
    lengths = site.value(site.input(4)) if site.input(4) else None
    if site.input(4) and (lengths is None or (lengths != steps).any()):
        raise site.refuse("sequences shorter than the input", "leave sequence_lens out")
    direction = site.attr("direction", "forward")
    backward = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}.get(direction)
    if backward is None:
        raise site.refuse(f"direction {direction}", "use forward, reverse or bidirectional")
    wants_all = site.wants(0)
    finals, stacks = [], []
    for number, back in enumerate(backward):
        layer = _direction(site, number, back, len(backward), batch)
        results = _scan(layer, x, wants_all)
        count = len(layer.states)
        finals.append(results[:count])
        stacks.append(results[count] if wants_all else "")
    outputs = [_all_states(site, stacks, by_batch) if wants_all else ""]
    for index in range(len(finals[0])):
        wanted = site.wants(1 + index)
        parts = [final[index] for final in finals]
        # (directions, batch, hidden), or batch first
        outputs.append(_joined(site, 1 + index, parts, 1 if by_batch else 0) if wanted else "")
    return tuple(outputs[: len(site.call.outputs)])


def _all_states(site: Site, stacks: list[str], by_batch: int) -> str:
    """(steps, directions, batch, hidden), or batch first."""
    axis = 1 if not by_batch else 2
    if by_batch:
        stacks = [site.make("Transpose", stack, perm=[1, 0, 2]) for stack in stacks]
    return _joined(site, 0, stacks, axis)


def _joined(site: Site, output: int, parts: list[str], axis: int) -> str:
    axes = site.constant("axis", [axis], np.int64)
    if len(parts) == 1:
        return site.named(output, "Unsqueeze", parts[0], axes)
    return site.named(output, "Concat", *(site.make("Unsqueeze", part, axes) for part in parts), axis=axis)


def _direction(site: Site, number: int, backward: bool, count: int, batch: int) -> Direction:
    gates = GATES[site.call.op]
    w, r = site.static(1, "W")[number], site.static(2, "R")[number]
    hidden = r.shape[1]
    if w.shape[0] != len(gates) * hidden or r.shape[0] != len(gates) * hidden:
        raise site.refuse(f"W {list(w.shape)} and R {list(r.shape)} of {len(gates)} gates", "the file is damaged")
    b = site.static(3, "B")[number] if site.input(3) else np.zeros(2 * len(gates) * hidden, np.float32)

    def by_gate(array: np.ndarray) -> dict[str, np.ndarray]:
        return dict(zip(gates, np.split(array, len(gates)), strict=True))

    first, second = (by_gate(half) for half in np.split(b, 2))
    # both biases join the exact sum of the inputs, but where the reset gate multiplies the state's part
    apart = {"h"} if site.call.op == "GRU" and int(site.attr("linear_before_reset", 0)) else set()
    zeros = np.zeros(hidden, np.float32)
    return Direction(
        site,
        backward,
        {gate: part.T for gate, part in by_gate(w).items()},
        {gate: part.T for gate, part in by_gate(r).items()},
        {gate: first[gate] + (zeros if gate in apart else second[gate]) for gate in gates},
        {gate: second[gate] if gate in apart else zeros for gate in gates},
        _peepholes(site, number),
        tuple(_initial(site, 5 + index, number, count, (batch, hidden)) for index in range(_states(site))),
        _activations(site, number, count),
    )


def _states(site: Site) -> int:
    return 2 if site.call.op == "LSTM" else 1


def _peepholes(site: Site, number: int) -> dict[str, np.ndarray]:
    if site.call.op != "LSTM" or not site.input(7):
        return {}
    return dict(zip("iof", np.split(site.static(7, "P")[number], 3), strict=True))


def _initial(site: Site, index: int, number: int, count: int, shape: tuple[int, int]) -> str:
    """The first state of a direction, (batch, hidden); zeros if none is given."""
    name = site.input(index)
    if not name:
        return site.constant(f"state{index}", np.zeros(shape))
    by_batch = int(site.attr("layout", 0))
    axis = 1 if by_batch else 0
    if count > 1:
        name = site.make("Gather", name, site.constant("direction", [number], np.int64), axis=axis)
    return site.make("Reshape", name, site.constant("shape", shape, np.int64))


def _activations(site: Site, number: int, count: int) -> tuple[tuple[str, dict[str, float]], ...]:
    defaults = DEFAULTS[site.call.op]
    given = site.attr("activations", None)
    names = [n.decode() if isinstance(n, bytes) else str(n) for n in given] if given else list(defaults) * count
    if len(names) != len(defaults) * count:
        raise site.refuse(f"activations {names}", f"give {len(defaults)} per direction")
    numbers = {key: list(site.attr(f"activation_{key}", None) or []) for key in ("alpha", "beta")}
    chosen = []
    for position, wish in enumerate(names):
        name = next((known for known in PARAMETERS if known.lower() == wish.lower()), "")
        if not name:
            raise site.refuse(f"activation {wish}", f"use {', '.join(PARAMETERS)}")
        attrs = {key: float(numbers[key].pop(0)) for key in PARAMETERS[name] if numbers[key]}
        if position // len(defaults) == number:
            chosen.append((name, attrs))
    return tuple(chosen)


def _scan(layer: Direction, x: str, stacked: bool) -> tuple[str, ...]:
    """Final states, and all states of the first kind if `stacked`."""
    site, count = layer.site, len(layer.states)
    stem = f"{site.stem}.{'back' if layer.backward else 'forth'}"
    wishes = [*(f"{stem}.{state}" for state in "hc"[:count]), f"{stem}.x"]
    outputs = [*(f"{stem}.{state}_last" for state in "hc"[:count]), *([f"{stem}.all"] if stacked else [])]
    attrs: dict[str, object] = {"num_scan_inputs": 1}
    if layer.backward:
        attrs |= {"scan_input_directions": [1], **({"scan_output_directions": [1]} if stacked else {})}

    def fill(inputs: tuple[str, ...]) -> tuple[str, ...]:
        following = STEPS[site.call.op](layer, inputs[count], inputs[:count])
        return (*following, following[0]) if stacked else following

    call = Call("Scan", f"{site.call.name}.{layer.backward:d}", (*layer.states, x), tuple(outputs), attrs)
    return site.builder.loop(call, wishes, fill)


_COMMON = ("activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size", "layout")

REWRITES = (
    Rewrite("RNN", "all directions; constant weights; becomes Scan", _layer, _COMMON),
    Rewrite("GRU", "all directions; constant weights; becomes Scan", _layer, (*_COMMON, "linear_before_reset")),
    Rewrite("LSTM", "all directions, peepholes; constant weights; becomes Scan", _layer, (*_COMMON, "input_forget")),
)
