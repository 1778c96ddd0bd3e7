"""Random small models in random formats, and inputs that reach the ends of a format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from kernel_cases import Case
from onnx_models import compiled, load, model, node, samples_for
from onnx_models import graph as onnx_graph
from scan_models import scan

from tinyhil.codegen.kernel_calls import name_of
from tinyhil.compiler.calibrate import Ranges, calibrate
from tinyhil.compiler.lower import lower, tied_values
from tinyhil.errors import ConfigError, ModelError
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Program, walk


def extreme_inputs(program: Program, seed: int, random_rows: int = 3) -> np.ndarray:
    """All lowest, all highest, alternating both ways, and random ones over the whole format."""
    tensor = program.tensors[program.input]
    low, high = tensor.format.lowest, tensor.format.highest
    alternating = np.where(np.arange(tensor.count) % 2 == 0, low, high)
    random = np.random.default_rng(seed).integers(low, high + 1, (random_rows, tensor.count))
    return np.stack([np.full(tensor.count, low), np.full(tensor.count, high), alternating, -1 - alternating, *random])


class Growing:
    """A random graph: values with shapes, nodes added one after the other."""

    def __init__(self, chance: np.random.Generator, shape: tuple[int, int], prefix: str) -> None:
        self.chance = chance
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Any] = {}
        self.values: dict[str, tuple[int, int]] = {}
        self.prefix = prefix
        self.count = 0

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{self.prefix}{stem}{self.count}"

    def constant(self, shape: tuple[int, ...]) -> str:
        name = self.name("w")
        spread = self.chance.choice([0.02, 1.0, 30.0])
        self.constants[name] = (self.chance.normal(size=shape) * spread).astype(np.float32)
        return name

    def pick(self) -> str:
        names = list(self.values)
        return names[max(0, len(names) - 1 - int(self.chance.integers(3)))]

    def add(self, op: str, operands: str, shape: tuple[int, int], **attrs: Any) -> str:
        out = self.name("v")
        self.nodes.append(node(op, operands, out, **attrs))
        self.values[out] = shape
        return out

    def grow(self) -> str:
        source = self.pick()
        rows, columns = self.values[source]
        width = int(self.chance.integers(1, 7))
        match int(self.chance.integers(8)):
            case 0:
                return self.add("MatMul", f"{source} {self.constant((columns, width))}", (rows, width))
            case 1:
                operands = f"{source} {self.constant((width, columns))} {self.constant((width,))}"
                return self.add("Gemm", operands, (rows, width), transB=1)
            case 2:
                op = str(self.chance.choice(["Add", "Sub", "Mul"]))
                other = self.constant([(columns,), (rows, columns), (), (1, columns)][int(self.chance.integers(4))])
                pair = [source, other]
                self.chance.shuffle(pair)
                return self.add(op, " ".join(pair), (rows, columns))
            case 3:
                same = [name for name, shape in self.values.items() if shape == (rows, columns)]
                op = str(self.chance.choice(["Add", "Sub", "Mul"]))
                return self.add(op, f"{source} {self.chance.choice(same)}", (rows, columns))
            case 4:
                return self.add("Relu", source, (rows, columns))
            case 5:
                return self.add(str(self.chance.choice(["Sigmoid", "Tanh"])), source, (rows, columns))
            case 6:
                flipped = self.name("s")
                self.constants[flipped] = [columns, rows]
                view = self.add("Reshape", f"{source} {flipped}", (columns, rows))
                return self.add("MatMul", f"{source} {view}", (rows, rows))
            case _:
                return self.add("MatMul", f"{self.constant((width, rows))} {source}", (width, columns))


def random_model(chance: np.random.Generator) -> onnx.ModelProto:
    rows, columns = int(chance.integers(1, 4)), int(chance.integers(1, 9))
    main = Growing(chance, (rows, columns), "m")
    main.values["x"] = (rows, columns)
    for _ in range(int(chance.integers(1, 6))):
        last = main.grow()
    if chance.random() < 0.35:
        last = add_loop(main, last, (rows, columns))
        for _ in range(int(chance.integers(0, 3))):
            last = main.grow()
    return model(onnx_graph(main.nodes, {"x": (rows, columns)}, last, main.constants))


def add_loop(main: Growing, start: str, x_shape: tuple[int, int]) -> str:
    """A loop over the rows of the input, from a computed or a constant state, of random body."""
    shape = main.values[start]
    body = Growing(main.chance, shape, f"b{main.count}")
    body.values |= {"state": shape, start: shape} if main.chance.random() < 0.5 else {"state": shape}
    for _ in range(int(main.chance.integers(1, 4))):
        last = body.grow()
    if body.values[last] != shape:
        flat = body.name("s")
        body.constants[flat] = [1, -1]
        view = body.add("Reshape", f"{last} {flat}", (1, int(np.prod(body.values[last]))))
        wide = body.add("MatMul", f"{view} {body.constant((body.values[view][1], int(np.prod(shape))))}", (1, 1))
        back = body.name("s")
        body.constants[back] = list(shape)
        last = body.add("Reshape", f"{wide} {back}", shape)
    row = body.add("MatMul", f"row {body.constant((x_shape[1], shape[1]))}", (1, shape[1]))
    following = body.add("Add", f"{last} {row}", shape)
    level = onnx_graph(body.nodes, {"state": shape, "row": (1, x_shape[1])}, following, body.constants, "body")
    sequence, three = main.name("q"), main.name("s")
    main.constants[three] = [x_shape[0], 1, x_shape[1]]
    main.nodes.append(node("Reshape", f"x {three}", sequence))
    initial = start
    if main.chance.random() < 0.5:
        initial = main.name("h")
        main.constants[initial] = np.zeros(shape) if main.chance.random() < 0.5 else main.chance.normal(size=shape)
    out = main.name("v")
    main.nodes.append(scan(f"{initial} {sequence}", out, level, name=main.name("scan")))
    main.values[out] = shape
    if main.chance.random() < 0.5:
        out = main.add("Add", f"{out} {start}", shape)
    return out


def random_case(seed: int, folder: Path) -> Case | None:
    """A random model in a random mix of 8 and 16 bits, half of them with ranges that are wrong; None: not possible."""
    chance = np.random.default_rng(seed)
    try:
        loaded = load(random_model(chance), folder)
    except ModelError:  # e.g. the output became constant
        return None
    x = chance.normal(size=(8, *loaded.shapes["x"])).astype(np.float32)
    observed = calibrate(loaded, x, {})
    spread = float(chance.choice([0.0, 3.0, 12.0]))
    wrong = {n: tuple(v * 2.0 ** chance.normal(scale=spread) for v in pair) for n, pair in observed.values.items()}
    mix = {}
    for group in tied_values(loaded):
        mix[group[0]] = str(chance.choice(["fixed8", "fixed16"]))
    try:
        program = lower(loaded, Assignment("fixed16", mix), Ranges(wrong, {}))
    except (ModelError, ConfigError):  # sums beyond 63 bits, exchanged states
        return None
    if all(name_of(op.kernel) == "copy" for op in walk(program.body)):
        return None
    return Case(f"seed {seed}", program, extreme_inputs(program, seed))


def random_cases(first: int, count: int, folder: Path) -> list[Case]:
    cases: list[Case] = []
    seed = first
    while len(cases) < count:
        case = random_case(seed, folder)
        seed += 1
        if case is not None:
            cases.append(case)
    return cases


def cases_of(
    folder: Path, default: str, models: Iterable[tuple[str, onnx.ModelProto, Sequence[int]]], rows: int = 7
) -> list[Case]:
    """Models by name with the shape of their input: each in one format, and with the input in another; at its ends."""
    found = []
    for name, proto, shape in models:
        graph = load(proto, folder)
        for exceptions in ({}, {"x": "fixed8" if default == "fixed16" else "fixed16"}):
            program = compiled(graph, samples_for(shape, 4), default, **exceptions)
            found.append(Case(f"{name} {default} {exceptions}", program, extreme_inputs(program, 3)[-rows:]))
    return found
