"""Several inputs, several outputs, states: one record in, one out, equal to onnxruntime in float and to the bit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from boards_under_test import EMULATED

import tinyhil
from tests.export_bench import OnHost, export
from tests.port_models import STEPS, cell, fusion, fusion_inputs, streams
from tinyhil.compiler.calibrate import Ranges, calibrate
from tinyhil.compiler.columns import scaled_columns
from tinyhil.compiler.lower import lower
from tinyhil.errors import ConfigError, DataError, HilError, ModelError
from tinyhil.frontend.load import load_model
from tinyhil.frontend.ports import Stream, state_pairs
from tinyhil.harness.job.inputs import joined_inputs, read_inputs
from tinyhil.harness.job.job import Streamed, open_model
from tinyhil.language.assignment import Assignment
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ports")
    fusion(path / "fusion.onnx")
    cell(path / "cell.onnx")
    cell(path / "odd.onnx", ("alpha", "beta"))
    np.savez(path / "fusion.npz", **fusion_inputs(20))
    np.savez(path / "cell.npz", x=streams(20))
    return path


def by_onnxruntime(path: Path, x: dict[str, np.ndarray]) -> np.ndarray:
    found = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, x)
    return np.concatenate([array.reshape(len(array), -1) for array in found], axis=1)


def step_by_step(path: Path, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    state = np.zeros((len(x), 8), np.float32)
    for step in range(x.shape[1]):
        scores, state = session.run(None, {"frame": x[:, step], session.get_inputs()[1].name: state})
    return np.asarray(scores)


# ---- several inputs and outputs


def test_inputs_and_outputs_are_one_record_each(folder: Path) -> None:
    graph, x = load_model(folder / "fusion.onnx").graph, fusion_inputs(20)
    assert [(part.name, part.start, part.shape) for part in graph.parts] == [
        ("image", 0, (1, 10)),
        ("weather", 10, (1, 3)),
    ]
    assert [(part.name, part.start, part.count) for part in graph.results] == [("scores", 0, 4), ("distance", 4, 1)]
    found = evaluate(graph, joined_inputs(x, graph.parts, "x")).reshape(20, -1)
    np.testing.assert_allclose(found, by_onnxruntime(folder / "fusion.onnx", x), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("fmt", ["fixed8", "fixed16", "int8"])
def test_each_input_and_output_has_a_scale_of_its_own(folder: Path, fmt: str) -> None:
    graph, inputs = load_model(folder / "fusion.onnx").graph, fusion_inputs(60)
    x = joined_inputs(inputs, graph.parts, "x")
    ranges = calibrate(graph, x, {})
    program = lower(graph, Assignment(fmt), ranges)
    assert program.columns is not None
    assert program.output_scale is not None
    assert program.columns.scale[0] > 100 * program.columns.scale[12]
    codes, clipped = quantize_inputs(program, x)
    assert clipped == 0
    for part in graph.parts:  # more than half of the codes on one side of zero are used by each
        assert (
            np.abs(codes[:, part.start : part.start + part.count]).max()
            > (1 << (15 if fmt == "fixed16" else 7)) / 2 - 2
        )
    real = dequantize_outputs(program, run_reference(program, codes).outputs)
    wanted = evaluate(graph, x).reshape(60, -1)
    for part in graph.results:
        mine, theirs = (a[:, part.start : part.start + part.count] for a in (real, wanted))
        assert np.abs(mine - theirs).max() < np.abs(theirs).max() * (0.002 if fmt == "fixed16" else 0.1)


def test_floats_need_no_scales(folder: Path) -> None:
    graph = load_model(folder / "fusion.onnx").graph
    ranges = calibrate(graph, joined_inputs(fusion_inputs(9), graph.parts, "x"), {})
    assert scaled_columns(graph, Assignment("float32"), ranges).columns is None


def test_arrays_have_the_names_of_the_inputs(folder: Path, tmp_path: Path) -> None:
    model, x = load_model(folder / "fusion.onnx"), fusion_inputs(4)
    np.savez(tmp_path / "x.npz", **x, y=np.arange(4))
    read = read_inputs(tmp_path / "x.npz", model)
    assert read.y is not None
    np.testing.assert_array_equal(read.x.reshape(4, 13), np.concatenate([x["image"], x["weather"]], axis=1))
    for wrong, words in (
        ({"image": x["image"]}, "no array 'weather'; the model's inputs are 'image', 'weather'"),
        ({**x, "weather": x["weather"][:3]}, "different numbers of samples"),
        ({**x, "weather": x["image"]}, "'weather' is float32 \\[4, 10\\]; the input takes \\[1, 3\\]"),
    ):
        with pytest.raises(DataError, match=words):
            joined_inputs(wrong, model.graph.parts, "x.npz")


# ---- states


@pytest.mark.parametrize(
    ("inputs", "outputs", "pairs"),
    [
        (["x", "h0"], ["y", "hn"], [("h0", "hn")]),
        (["x", "h0", "c0"], ["y", "hn", "cn"], [("h0", "hn"), ("c0", "cn")]),
        (["input", "state", "sr"], ["output", "stateN"], [("state", "stateN")]),
        (["frame", "cache_in_0", "cache_in_1"], ["p", "cache_out_0", "cache_out_1"], [("cache_in_1", "cache_out_1")]),
        (["x", "past_key"], ["y", "present_key"], [("past_key", "present_key")]),
        (["x", "hidden.prev"], ["hidden.next", "y"], [("hidden.prev", "hidden.next")]),
        (["x"], ["x_out"], []),
        (["x_in", "z_in"], ["x_out", "z_out"], []),
        (["image", "weather"], ["scores", "distance"], []),
    ],
)
def test_states_are_found_by_their_names(inputs: list[str], outputs: list[str], pairs: list[tuple[str, str]]) -> None:
    assert set(pairs) <= set(state_pairs(inputs, outputs, None))
    assert {after for _, after in state_pairs(inputs, outputs, None)} <= set(outputs)
    assert bool(state_pairs(inputs, outputs, None)) == bool(pairs)


@pytest.mark.parametrize(("name", "states"), [("cell", None), ("odd", (("alpha", "beta"),))])
def test_a_model_of_one_step_runs_over_a_stream(
    folder: Path, name: str, states: tuple[tuple[str, str], ...] | None
) -> None:
    x = streams(6)
    model = load_model(folder / f"{name}.onnx", Stream(states, STEPS))
    assert model.stream
    found = evaluate(model.graph, x).reshape(6, -1)
    np.testing.assert_allclose(found, step_by_step(folder / f"{name}.onnx", x), rtol=1e-4, atol=1e-5)


def test_states_that_go_wrong(folder: Path) -> None:
    with pytest.raises(ModelError, match="it has states \\(h_in=h_out\\); say how many steps"):
        load_model(folder / "cell.onnx")
    with pytest.raises(ModelError, match="no input 'gamma'; it has frame, h_in"):
        load_model(folder / "cell.onnx", Stream((("gamma", "h_out"),), 3))
    with pytest.raises(ModelError, match="a state changes its shape"):
        load_model(folder / "cell.onnx", Stream((("h_in", "scores"),), 3))
    with pytest.raises(ModelError, match="0 inputs beside its states"):
        load_model(folder / "cell.onnx", Stream((("h_in", "h_out"), ("frame", "scores")), 3))
    with pytest.raises(ConfigError, match="must be INPUT=OUTPUT"):
        tinyhil.harness.job.job.Streamed(("h_in",)).of(folder / "cell.onnx")
    assert len(load_model(folder / "cell.onnx", Stream(())).graph.parts) == 2  # no state: an input like others


# ---- all the way


@pytest.mark.parametrize("fmt", ["fixed8", "fixed16", "int8", "posit8es1"])
@pytest.mark.parametrize("name", ["fusion", "cell"])
def test_a_board_equals_the_reference(folder: Path, name: str, fmt: str) -> None:
    samples = dict(np.load(folder / f"{name}.npz"))
    model = tinyhil.load(folder / f"{name}.onnx", steps=STEPS if name == "cell" else None)
    x = samples if name == "fusion" else samples["x"]
    record = model.calibrate(x).run("host", x, formats=fmt)
    assert record.bit_exact
    assert record.samples == 20
    assert not record["degraded"], record["degraded"]


@pytest.mark.slow
@pytest.mark.parametrize("board", EMULATED)
@pytest.mark.parametrize("fmt", ["fixed8", "fixed16", "int8"])
def test_emulated_boards_equal_the_reference(folder: Path, board: str, fmt: str) -> None:
    for name in ("fusion", "cell"):
        samples = dict(np.load(folder / f"{name}.npz"))
        model = tinyhil.load(folder / f"{name}.onnx", steps=STEPS if name == "cell" else None)
        assert model.run(f"{board}@emulated", samples, formats=fmt).bit_exact


def test_the_interface_names_inputs_and_outputs(folder: Path) -> None:
    model = tinyhil.load(folder / "fusion.onnx")
    assert model.inputs == {"image": (1, 10), "weather": (1, 3)}
    assert model.outputs == {"scores": (1, 4), "distance": (1, 1)}
    with pytest.raises(HilError, match="no array 'weather'"):
        model.calibrate({"image": np.zeros((3, 10))})


def test_steps_are_counted_in_the_samples(folder: Path) -> None:
    streamed = tinyhil.harness.job.job.Streamed(samples=folder / "cell.npz")
    assert open_model(str(folder / "cell.onnx"), None, streamed).model.graph.shapes["frame"] == (STEPS, 1, 5)
    np.save(folder / "short.npy", np.zeros((3, 7)))
    with pytest.raises(DataError, match="7 numbers per sample, a step of the model takes 5"):
        open_model(str(folder / "cell.onnx"), None, tinyhil.harness.job.job.Streamed(samples=folder / "short.npy"))
    assert json.dumps(list(streamed.of(folder / "cell.onnx").states or ())) == "[]"


@pytest.mark.parametrize("fmt", ["fixed8", "int8", "float32"])
def test_exported_libraries_take_and_give_records(folder: Path, tmp_path: Path, fmt: str) -> None:
    exported = export(str(folder / "fusion.onnx"), fmt, streamed=Streamed(samples=folder / "fusion.npz"))
    library, program = OnHost(exported, tmp_path), exported.compiled.program
    assert exported.library.parts[1].start == 10
    header = exported.files["fusion/src/fusion.h"]
    assert "#define FUSION_INPUT_WEATHER 10 " in header
    assert "#define FUSION_OUTPUT_DISTANCE 4 " in header
    assert "#define FUSION_CLASSES 4" in header
    x = joined_inputs(dict(np.load(folder / "fusion.npz")), exported.library.parts, "x")[:5]
    codes, _ = quantize_inputs(program, x)
    real = dequantize_outputs(program, run_reference(program, codes).outputs)
    for row, wanted, sample in zip(codes, real, x, strict=True):
        np.testing.assert_array_equal(library.quantize(sample), row)
        decided, outputs = library.predict(sample)
        np.testing.assert_allclose(outputs, wanted, rtol=1e-6)
        assert decided == wanted[:4].argmax()  # the first output names the class


def test_an_exported_stream_has_no_end(folder: Path, tmp_path: Path) -> None:
    exported = export(str(folder / "cell.onnx"), "fixed16", streamed=Streamed(samples=folder / "cell.npz"))
    library = OnHost(exported, tmp_path)
    assert exported.library.endless
    x = streams(1)
    long = np.concatenate([x, x, x], axis=1)
    for steps in (1, STEPS, 3 * STEPS):  # each as a program of so many steps computes it
        one = lower(
            load_model(folder / "cell.onnx", Stream(None, steps)).graph,
            Assignment("fixed16"),
            exported_ranges(folder),
        )
        codes, _ = quantize_inputs(one, long[:, :steps])
        wanted = run_reference(one, codes).outputs[0]
        out = np.zeros(len(wanted), np.int16)
        library.call("begin")
        assert library.call("finish_codes", out) == -1
        for row in long[0, :steps]:
            left = library.call("step", np.ascontiguousarray(row))
        assert left == max(0, STEPS - steps)
        for _ in range(2):  # looking changes nothing
            library.call("finish_codes", out)
            np.testing.assert_array_equal(out, wanted)


def exported_ranges(folder: Path) -> Ranges:
    return calibrate(load_model(folder / "cell.onnx", Stream(None, STEPS)).graph, np.load(folder / "cell.npz")["x"], {})
