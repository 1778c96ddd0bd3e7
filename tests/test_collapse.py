"""A run whose decisions collapse says where they are lost, and which format would keep them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from given_data import SHIPPED, data_file
from hil_command import hil
from onnx import numpy_helper
from onnx_models import load, node, simple

from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.frontend.load import load_model
from tinyhil.harness.measure import collapse
from tinyhil.harness.measure.collapse import culprits, explain_collapse
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.language.program import walk
from tinyhil.memplan.arena.placement import place
from tinyhil.references.classes import classes_of
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

WAKE_WORDS = SHIPPED / "models/mlperftiny_vww_mobilenetv1_025_96.onnx"
PHOTOGRAPHS = "large/coco256_jpeg.npz"
X = np.random.default_rng(0).uniform(-1, 1, size=(40, 4, 6, 6)).astype(np.float32)


def depthwise(uneven: bool) -> onnx.ModelProto:
    """A depthwise layer; one of its channels has weights 300 times those of the others, and little to say."""
    random = np.random.default_rng(1)
    weights, mixing = random.normal(size=(4, 1, 3, 3)), random.normal(size=(4, 4, 1, 1))
    if uneven:
        weights[0] *= 300
        mixing[:, 0] /= 3000
    nodes = [
        node("Conv", "x w", "a", group=4),
        node("Clip", "a low high", "b"),
        node("Conv", "b m", "c"),
        node("GlobalAveragePool", "c", "d"),
        node("Flatten", "d", "e"),
        node("MatMul", "e o", "y"),
    ]
    constants = {
        "w": weights,
        "m": mixing,
        "o": random.normal(size=(4, 3)),
        "low": np.float32(-6),
        "high": np.float32(6),
    }
    return simple(nodes, {"x": (1, 4, 6, 6)}, constants)


def explained(g: Graph, name: str) -> str | None:
    ranges = calibrate(g, X, {})
    program = lower(g, Assignment(name), ranges)
    outputs = dequantize_outputs(program, run_reference(program, quantize_inputs(program, X)[0]).outputs)
    decided = (classes_of(g, outputs), classes_of(g, evaluate(g, X).reshape(len(X), -1)))
    return explain_collapse(g, Assignment(name), ranges, X, decided)


def test_it_names_the_layer_and_the_format(tmp_path: Path) -> None:
    line = explained(load(depthwise(uneven=True), tmp_path), "fixed8")
    assert line is not None
    assert "\n" not in line
    first = re.search(r"lost in '(\w+)' \(error \d+ %, channels of 'w' differ (\d+)-fold under one scale\)", line)
    assert first is not None, line
    assert first[1] in ("a", "b")  # the layer, with its Clip inside or not
    assert int(first[2]) > 100
    assert re.search(r"try --format (fixed8pc|int8) \([01] of \d+ differ, [\d,]+ B of weights and tables\)$", line), (
        line
    )


def test_a_good_format_needs_no_advice(tmp_path: Path) -> None:
    assert explained(load(depthwise(uneven=False), tmp_path), "fixed8") is None
    assert explained(load(depthwise(uneven=True), tmp_path), "int8") is None


def test_what_crossbars_can_not_hold_is_no_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--format int8` was named to a run on them, which then refused it."""
    x = np.random.default_rng(0).normal(size=(80, 1, 6)).astype(np.float32)
    random = np.random.default_rng(1)
    nodes = [node("MatMul", "x a", "h"), node("Tanh", "h", "t"), node("MatMul", "t b", "y")]
    g = load(simple(nodes, {"x": (1, 6)}, {"a": random.normal(size=(6, 9)), "b": random.normal(size=(9, 4))}), tmp_path)
    floats = classes_of(g, evaluate(g, x).reshape(len(x), -1))
    asked = (g, Assignment("fixed2"), calibrate(g, x, {}), x, ((floats + 1) % 4, floats))
    monkeypatch.setattr(collapse, "ON_CROSSBARS", ("int8", "fixed16"))
    for on_crossbars, name in ((False, "(fixed8pc|int8)"), (True, "fixed16")):
        said = explain_collapse(*asked, on_crossbars=on_crossbars) or ""
        assert re.search(rf"try --format {name} ", said), said


def test_where_the_input_is_what_is_lost(tmp_path: Path) -> None:
    """Columns that the host maps are compared as they are mapped: none of them is a culprit."""
    x = np.random.default_rng(0).normal(size=(40, 1, 3)).astype(np.float32) * np.array([1e-3, 1, 1e3], np.float32)
    weights = np.array([[1e3, -1e3], [1, 1], [1e-3, 2e-3]])
    g = load(simple([node("MatMul", "x w", "y")], {"x": (1, 3)}, {"w": weights}), tmp_path)
    assert culprits(g, Assignment("fixed8"), calibrate(g, x, {}), x) == []


def test_a_run_says_so(tmp_path: Path) -> None:
    load(depthwise(uneven=True), tmp_path)
    np.savez(tmp_path / "x.npz", x=X)
    args = ["run", "--board", "host", "--model", "m.onnx", "--format", "fixed8", "--inputs", "x.npz"]
    done = hil(*args, "--calibrate", "x.npz", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert re.search(r"m: \d+ of 40 decisions differ from float32; lost in .*; try --format (fixed8pc|int8)", said)


def uneven(path: Path) -> onnx.ModelProto:
    """MobileNetV1 with the same outputs: in its first three depthwise layers one channel in use is 200 times as large,
    and read 200 times as small."""
    model = onnx.load(path)
    held = {tensor.name: tensor for tensor in model.graph.initializer}

    def scale(name: str, index: tuple[slice | int, ...], factor: float) -> None:
        array = numpy_helper.to_array(held[name]).copy()
        array[index] *= factor
        held[name].CopyFrom(numpy_helper.from_array(array, name))

    for layer in (1, 3, 5):
        weights = numpy_helper.to_array(held[f"w_{layer}"])
        loudest = int(np.abs(weights).reshape(len(weights), -1).max(axis=1).argmax())
        scale(f"w_{layer}", (loudest,), 200)
        scale(f"b_{layer}", (loudest,), 200)
        scale(f"w_{layer + 1}", (slice(None), loudest), 1 / 200)
    return model


def test_samples_drawn_at_random_are_no_reason_for_another_format(tmp_path: Path) -> None:
    load(depthwise(uneven=True), tmp_path)
    np.savez(tmp_path / "seen.npz", x=X)
    order = (
        "golden",
        "update",
        "--model",
        "m.onnx",
        "--board",
        "host",
        "--format",
        "fixed8",
        "--calibrate",
        "seen.npz",
    )
    done = hil(*order, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"of 16 decisions differ from float32, of samples drawn at random, which says not", done.stderr)
    assert "--format" not in done.stderr


@pytest.mark.slow
@pytest.mark.data(PHOTOGRAPHS)
def test_a_run_of_mobilenet_says_so(tmp_path: Path) -> None:
    """Photographs: the line names a depthwise layer's weights, and a format that does repair it."""
    from test_mlperf_tiny import people

    onnx.save(uneven(WAKE_WORDS), tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=people(data_file(PHOTOGRAPHS))[0][::8])

    def run(name: str) -> str:
        args = ["run", "--board", "host", "--model", "m.onnx", "--inputs", "x.npz", "--calibrate", "x.npz"]
        done = hil(*args, "--format", name, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    said = run("fixed8")
    pattern = r"\d+ of 32 decisions differ from float32; (lost in .*); try --format (\w+) \([01] of 32 differ, .* B of"
    line = re.search(pattern, said)
    assert line is not None, said
    assert re.search(r"'\w+' \(error \d+ %, channels of 'w_[135]' differ \d\d\d+-fold", line[1]), line[1]
    repaired = run(line[2])
    assert "decisions differ" not in repaired
    assert int(re.findall(r"disagreements +(\d+)", repaired)[0]) <= 1, repaired


@pytest.mark.slow
def test_a_scale_per_channel_costs_mobilenet_no_ram() -> None:
    graph = load_model(WAKE_WORDS).graph
    ranges = calibrate(graph, np.random.default_rng(0).uniform(0, 1, (8, 3, 96, 96)).astype(np.float32), {})
    placed = {name: place(lower(graph, Assignment(name), ranges)) for name in ("fixed8", "fixed8pc")}
    assert placed["fixed8pc"].plan.peak_bytes <= placed["fixed8"].plan.peak_bytes < 25_000
    assert any(op.kernel.rows for op in walk(placed["fixed8pc"].program.body))
