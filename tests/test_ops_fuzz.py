"""Mutated models of every operator of test_ops_more.py: refused in one line, or run to the end; never anything else."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from ops_models import ALL, proto

from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.errors import HilError
from tinyhil.frontend.onnx import model_of
from tinyhil.language.assignment import Assignment
from tinyhil.references.reference import quantize_inputs, run_reference

MAX_INPUT = 5000
WHOLE, REAL = (-9, -1, 0, 1, 2, 7, 1 << 40), (0.0, -1.0, 1e30, float("nan"), float("inf"))


def mutate(model: onnx.ModelProto, chance: random.Random) -> None:
    """One change: an operand, an attribute, a weight, a shape."""
    graph = model.graph
    node = chance.choice(graph.node)
    names = ["x", *(name for item in graph.node for name in item.output if name), *(t.name for t in graph.initializer)]
    match chance.randrange(6):
        case 0 if node.input:
            node.input[chance.randrange(len(node.input))] = chance.choice(names)
        case 1 if node.input:
            del node.input[chance.randrange(len(node.input))]
        case 2 if node.attribute:
            mutate_attribute(chance.choice(node.attribute), chance)
        case 3 if graph.initializer:
            tensor = chance.choice(graph.initializer)
            array = onnx.numpy_helper.to_array(tensor)
            cut = array.reshape(-1)[: chance.randint(1, max(array.size, 1))]
            with np.errstate(all="ignore"):
                moved = (array * chance.choice([-1, 0, 1000])).astype(array.dtype)
            made = np.ascontiguousarray(cut if chance.random() < 0.5 else moved)
            tensor.CopyFrom(onnx.numpy_helper.from_array(made, tensor.name))
        case 4 if node.attribute:
            del node.attribute[chance.randrange(len(node.attribute))]
        case _:
            dims = graph.input[0].type.tensor_type.shape.dim
            dims[chance.randrange(len(dims))].dim_value = chance.choice([1, 2, 5, 9])


def mutate_attribute(attribute: onnx.AttributeProto, chance: random.Random) -> None:
    if attribute.type == onnx.AttributeProto.INT:
        attribute.i = chance.choice(WHOLE)
    elif attribute.type == onnx.AttributeProto.INTS and attribute.ints:
        attribute.ints[chance.randrange(len(attribute.ints))] = chance.choice(WHOLE)
    elif attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f = chance.choice(REAL)


def survives(model: onnx.ModelProto, seed: int) -> bool:
    """Whether it ran; any exception but ours goes up, and so does a refusal of several lines."""
    try:
        graph = model_of(model, Path("mutated.onnx"), "").graph
        x = np.random.default_rng(seed).normal(size=(3, *graph.shapes[graph.inputs[0]])).astype(np.float32)
        if x.size > MAX_INPUT:
            return False
        with np.errstate(all="ignore"):
            ranges = calibrate(graph, x, {})
        program = lower(graph, Assignment(("fixed8", "fixed16")[seed % 2]), ranges)
        run_reference(program, quantize_inputs(program, x)[0])
    except HilError as error:
        if len(str(error).splitlines()) != 1:
            raise AssertionError(f"a refusal of several lines: {error}") from error
        return False
    return True


def mutated(first: int, count: int) -> int:
    """How many of `count` mutated models ran to the end."""
    names, ran = sorted(ALL), 0
    originals = {name: proto(name) for name in names}
    for seed in range(first, first + count):
        chance = random.Random(seed)
        model = onnx.ModelProto()
        model.CopyFrom(originals[chance.choice(names)])
        for _ in range(chance.randint(1, 3)):
            mutate(model, chance)
        try:
            onnx.checker.check_model(model)
        except Exception:  # what the checker refuses, the front end does
            continue
        ran += survives(model, seed)
    return ran


def test_mutated_models() -> None:
    assert mutated(0, 800) > 100


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100_000, 120_000, 2000))
def test_many_more_mutated_models(first: int) -> None:
    assert mutated(first, 2000) > 200
