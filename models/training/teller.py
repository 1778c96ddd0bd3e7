"""The step of a language model that speaks, as ONNX: one letter in, one letter out, everything between is a state.

A letter below 0 means: go on with your own. Keys and values are rings, written in place; positions turn whole times in
one ring (models/training/tales.py). The letter is drawn inside of the model: the `CHOICES` most likely ones, a
temperature, and three small generators of Wichmann and Hill's kind (1982), which letters of the prompt and the seed
stir. So a text is the same to the letter wherever the integers are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 23, 10  # opset 23 has RMSNormalization
CHOICES = 8  # most likely letters that one is drawn from
GENERATORS = {"x": (167, 128), "y": (173, 131), "z": (179, 137)}  # modulus and factor
MOST_SEED = 100  # and a letter are less than the smallest modulus
DRAWS = 128  # values of the sum of the three


@dataclass(frozen=True, slots=True)
class Teller:
    """What the file is made of. `weights`: float32, for row vectors: embedding (letters, width), head (width, letters)
    and for layer n query.n, key.n, value.n, out.n, gate.n, up.n, down.n; `angles` (window, head / 2)."""

    name: str
    heads: int
    layers: int
    weights: Mapping[str, np.ndarray]
    angles: np.ndarray

    @property
    def window(self) -> int:
        """Letters that are looked back at."""
        return len(self.angles)

    @property
    def head(self) -> int:
        """Numbers of one head."""
        return int(self.weights["query.0"].shape[1]) // self.heads


@dataclass(slots=True)
class _Writer:
    """Nodes and constants as they come."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)

    def __call__(self, op: str, out: str, *inputs: str, domain: str = "", **attrs: Any) -> str:
        node = helper.make_node(op, inputs, out.split(","), name=out.split(",")[0], domain=domain, **attrs)
        self.nodes.append(node)
        return out

    def real(self, name: str, array: Any) -> str:
        self.constants[name] = np.asarray(array, np.float32)
        return name

    def whole(self, name: str, array: Any) -> str:
        self.constants[name] = np.asarray(array, np.int64)
        return name


def teller(model: Teller, shown: str = "text") -> onnx.ModelProto:
    """The file: inputs letter, seed, temperature (per cent), and the states. `shown`: text, or logits instead."""
    make = _Writer()
    rows = make.whole("places", np.arange(model.window))
    make("Less", "own", "letter", make.whole("nought", [0]))
    make("Where", "fed", "own", "past_said", "letter")
    make("Gather", "x", make.real("embedding", model.weights["embedding"]), "fed")
    _turn_on(make, model)
    make("Equal", "whole", "past_full", make.whole("one", [1]))
    make("LessOrEqual", "behind", rows, "past_place")
    make("Or", "seen", "behind", "whole")
    make.real("ones", np.ones(model.weights["embedding"].shape[1]))
    x = "x"
    for layer in range(model.layers):
        x = _layer(make, model, layer, x)
    _drawn(make, model, _norm(make, "last", x))
    return _file(make, model, shown)


def _turn_on(make: _Writer, model: Teller) -> None:
    """Angles of this place, and the next place of the ring."""
    for name, function in (("cosine", np.cos), ("sine", np.sin)):
        make("Gather", name, make.real(f"{name}s", function(model.angles)), "past_place")
    make("Equal", "end", "past_place", make.whole("end_of_ring", [model.window - 1]))
    make("Add", "place_on", "past_place", "one")
    make("Where", "present_place", "end", "nought", "place_on")
    make("Where", "present_full", "end", "one", "past_full")


def _norm(make: _Writer, name: str, x: str) -> str:
    return make("RMSNormalization", f"{name}_norm", x, "ones", axis=-1, epsilon=1e-5)


def _dense(make: _Writer, model: Teller, name: str, x: str, out: str) -> str:
    return make("MatMul", out, x, make.real(name, model.weights[name]))


def _turned(make: _Writer, model: Teller, what: str, x: str) -> str:
    """Rotary positions: the halves of each head as pairs; (heads, 1, head)."""
    half, n = model.head // 2, what
    make("Reshape", f"{n}_heads", x, make.whole("by_head", [model.heads, 1, model.head]))
    make("Split", f"{n}_a,{n}_b", f"{n}_heads", make.whole("halves", [half, half]), axis=-1)
    for part in "ab":
        make("Mul", f"{n}_{part}_cosine", f"{n}_{part}", "cosine")
        make("Mul", f"{n}_{part}_sine", f"{n}_{part}", "sine")
    make("Sub", f"{n}_first", f"{n}_a_cosine", f"{n}_b_sine")
    make("Add", f"{n}_second", f"{n}_b_cosine", f"{n}_a_sine")
    return make("Concat", f"{n}_turned", f"{n}_first", f"{n}_second", axis=-1)


def _layer(make: _Writer, model: Teller, layer: int, x: str) -> str:
    n = f"l{layer}"
    rows = _norm(make, n, x)
    query = _turned(make, model, f"{n}_q", _dense(make, model, f"query.{layer}", rows, f"{n}_q"))
    key = _turned(make, model, f"{n}_k", _dense(make, model, f"key.{layer}", rows, f"{n}_k"))
    make("Reshape", f"{n}_v_row", _dense(make, model, f"value.{layer}", rows, f"{n}_v"), "by_head")
    make("Expand", f"{n}_at", "past_place", make.whole("row_of_heads", [model.heads, 1, model.head]))
    for what, row in (("key", key), ("value", f"{n}_v_row")):
        make("ScatterElements", f"present_{what}_{layer}", f"past_{what}_{layer}", f"{n}_at", row, axis=1)
    make("Reshape", f"{n}_column", query, make.whole("columns", [model.heads, model.head, 1]))
    make("MatMul", f"{n}_products", f"present_key_{layer}", f"{n}_column")
    make("Reshape", f"{n}_scores", f"{n}_products", make.whole("scores", [model.heads, 1, model.window]))
    make("Where", f"{n}_masked", "seen", f"{n}_scores", make.real("hidden", [-np.inf]))
    make("Softmax", f"{n}_shares", f"{n}_masked", axis=-1)
    make("MatMul", f"{n}_mixed", f"{n}_shares", f"present_value_{layer}")
    make("Reshape", f"{n}_seen", f"{n}_mixed", make.whole("row", [1, model.heads * model.head]))
    x = make("Add", f"{n}_x", x, _dense(make, model, f"out.{layer}", f"{n}_seen", f"{n}_out"))
    rows = _norm(make, f"{n}_mid", x)
    gate = _dense(make, model, f"gate.{layer}", rows, f"{n}_gate")
    make("Sigmoid", f"{n}_open", gate)
    make("Mul", f"{n}_silu", gate, f"{n}_open")
    make("Mul", f"{n}_gated", f"{n}_silu", _dense(make, model, f"up.{layer}", rows, f"{n}_up"))
    return make("Add", f"{n}_y", x, _dense(make, model, f"down.{layer}", f"{n}_gated", f"{n}_down"))


def _drawn(make: _Writer, model: Teller, rows: str) -> None:
    """One of the most likely letters, by a number of the generators."""
    _dense(make, model, "head", rows, "logits")
    make("TopK", "best,best_letters", "logits", make.whole("choices", [CHOICES]), axis=-1)
    for name, (first, last) in {"top": (0, 1), "but_last": (0, CHOICES - 1)}.items():
        make.whole(f"{name}_from", [first])
        make.whole(f"{name}_to", [last])
    make.whole("last_axis", [-1])
    make("Slice", "largest", "best", "top_from", "top_to", "last_axis")
    make("Sub", "distance", "best", "largest")
    make("Cast", "per_cent", "temperature", to=TensorProto.FLOAT)
    make("Div", "coldness", make.real("hundred", [100]), "per_cent")
    make("Mul", "weighed", "distance", "coldness")
    make("Softmax", "shares", "weighed", axis=-1)
    make("CumSum", "sums", "shares", make.whole("sum_axis", 1))
    make("Slice", "ends", "sums", "but_last_from", "but_last_to", "last_axis")
    make("LessOrEqual", "passed", "ends", _random(make))
    make("Cast", "passed_number", "passed", to=TensorProto.INT64)
    make("ReduceSum", "drawn", "passed_number", "last_axis", keepdims=0)
    make("Reshape", "letters", "best_letters", make.whole("all", [-1]))
    make("Gather", "present_said", "letters", "drawn")
    make("Identity", "text", "present_said")


def _random(make: _Writer) -> str:
    """A number in 0..1; letters that are given, and the seed (0 to MOST_SEED), stir the generators. Tables alone, and
    sums of whole numbers below twice the modulus: exact in every format."""
    make("Add", "stirring", "letter", "seed")
    make("Where", "stirred", "own", "nought", "stirring")
    for name, (modulus, factor) in GENERATORS.items():
        table = make.whole(f"{name}_table", (np.arange(modulus) * factor + 1) % modulus)
        make("Gather", f"{name}_on", table, f"past_random_{name}")
        make("Add", f"{name}_stirred", f"{name}_on", "stirred")
        make("Less", f"{name}_inside", f"{name}_stirred", make.whole(f"{name}_modulus", [modulus]))
        make("Sub", f"{name}_less", f"{name}_stirred", f"{name}_modulus")
        make("Where", f"present_random_{name}", f"{name}_inside", f"{name}_stirred", f"{name}_less")
    make("Add", "random_xy", "present_random_x", "present_random_y")
    make("Add", "random_xyz", "random_xy", "present_random_z")
    draws = np.arange(sum(modulus for modulus, _ in GENERATORS.values())) % DRAWS / DRAWS
    return make("Gather", "random", make.real("draws", draws), "random_xyz")


def _file(make: _Writer, model: Teller, shown: str) -> onnx.ModelProto:
    """Inputs, outputs and states around the nodes."""
    cache = (TensorProto.FLOAT, [model.heads, model.window, model.head])
    number = (TensorProto.INT64, [1])
    states = dict.fromkeys(("said", "place", "full", *(f"random_{name}" for name in GENERATORS)), number)
    states |= {f"{what}_{layer}": cache for layer in range(model.layers) for what in ("key", "value")}
    given = {"letter": number, "seed": number, "temperature": number}
    inputs = [helper.make_tensor_value_info(name, *kind) for name, kind in given.items()]
    inputs += [helper.make_tensor_value_info(f"past_{name}", *kind) for name, kind in states.items()]
    results = {"text": number, "logits": (TensorProto.FLOAT, [1, len(model.weights["embedding"])])}
    outputs = [helper.make_tensor_value_info(shown, *results[shown])]
    outputs += [helper.make_tensor_value_info(f"present_{name}", *kind) for name, kind in states.items()]
    constants = [numpy_helper.from_array(array, name) for name, array in make.constants.items()]
    graph = helper.make_graph(make.nodes, model.name, inputs, outputs, constants)
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, ir_version=IR_VERSION, opset_imports=opsets, producer_name="tinyhil")
