"""Single operators and chains of them between random grids, beside TensorFlow Lite Micro: equal in every tensor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kernel_cases import first_difference, run_natively, run_on_board
from test_tflite_operators import case_of
from tflite_chains import BYTE, CODE, OF_PLANES, REAL, STEPS, WORD, chain, divided, single

from benchmarks.tflite_files import EVERYWHERE, Verdict, oracle, ours, verdict
from tinyhil.frontend.ports import Stream
from tinyhil.frontend.tflite import tflite_model
from tinyhil.frontend.tflite_file import read_file
from tinyhil.frontend.tflite_records import File
from tinyhil.harness.settings.config import load_boards

pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
NAMES = (*STEPS, *OF_PLANES)


def unequal(files: dict[str, bytes], folder: Path) -> dict[str, Verdict]:
    """What becomes of those of the named files that are not equal in every tensor."""
    found = {}
    for name, data in files.items():
        (folder / "m.tflite").write_bytes(data)
        found[name] = verdict(folder / "m.tflite", 2)
    return {name: said for name, said in found.items() if said.kind != EVERYWHERE}


def chains(seeds: range, kind: str) -> dict[str, bytes]:
    files = {seed: chain(seed, kind) for seed in seeds}
    return {f"{seed}: {' '.join(operators)}": data for seed, (data, operators) in files.items()}


@pytest.mark.parametrize("kind", [CODE, WORD])
def test_operators_between_random_grids(kind: str, tmp_path: Path) -> None:
    files = {name: single(name, 1, kind) for name in NAMES}
    assert unequal({name: data for name, data in files.items() if data}, tmp_path) == {}


@pytest.mark.parametrize("kind", [CODE, WORD])
def test_chains(kind: str, tmp_path: Path) -> None:
    assert unequal(chains(range(12), kind), tmp_path) == {}


@pytest.mark.parametrize("seeds", [range(600, 608), pytest.param(range(608, 640), marks=pytest.mark.slow)])
def test_chains_that_end_in_a_division(seeds: range, tmp_path: Path) -> None:
    files = {str(seed): chain(seed, CODE, divided) for seed in seeds}
    assert sum("DIV" in operators for _, operators in files.values()) > len(seeds) * 3 // 4
    assert unequal({name: data for name, (data, _) in files.items()}, tmp_path) == {}


def by_litert(data: bytes, file: File, x: np.ndarray) -> np.ndarray:
    """What LiteRT's reference kernels make of the inputs `x` (samples, ...): (samples, elements)."""
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")
    kernels, found = litert.OpResolverType.BUILTIN_REF, []
    runtime = litert.Interpreter(model_content=data, experimental_op_resolver_type=kernels)
    runtime.allocate_tensors()
    for sample in x:
        runtime.set_tensor(file.inputs[0], sample)
        runtime.invoke()
        found.append(runtime.get_tensor(file.outputs[0]).reshape(-1))
    return np.array(found)


def test_whose_relu6_between_scales(tmp_path: Path) -> None:
    """LiteRT rescales; TensorFlow Lite Micro takes the clamped codes as they are."""
    data = single("relu6", 1, CODE)
    file, tensors = read_file(data), oracle(data, read_file(data), 3)
    path, output = tmp_path / "m.tflite", file.outputs[0]
    path.write_bytes(data)
    wanted = {
        "tflm": tensors[output].reshape(3, -1),
        "litert": by_litert(data, file, tensors[file.inputs[0]]),
    }
    for rounding, codes in wanted.items():
        assert np.array_equal(ours(data, path, file, tensors, output, rounding), codes)
        said = tflite_model(data, path, stream=Stream((), rounding=rounding)).notes[0]
        assert ("rescales none" in said) == (rounding == "tflm")
    assert not np.array_equal(*wanted.values())


@pytest.mark.parametrize("name", [name for name, (_, kinds) in {**STEPS, **OF_PLANES}.items() if BYTE in kinds])
def test_bytes_without_a_sign(name: str, tmp_path: Path) -> None:
    """Of old files, which only LiteRT computes with."""
    for seed in range(4):
        data, path = single(name, seed, BYTE), tmp_path / "m.tflite"
        path.write_bytes(data)
        file = read_file(data)
        x = np.random.default_rng(seed).integers(0, 256, (3, *file.tensors[file.inputs[0]].shape)).astype(np.uint8)
        wanted = by_litert(data, file, x)
        for rounding in ("", "litert"):  # no other runtime has them
            assert np.array_equal(ours(data, path, file, {file.inputs[0]: x}, file.outputs[0], rounding), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [CODE, WORD, REAL])
def test_hundreds_of_chains(kind: str, tmp_path: Path) -> None:
    files = {f"{name} {seed}": single(name, seed, kind) for name in NAMES for seed in range(2, 12)}
    files |= chains(range(12, 60 if kind == REAL else 312), kind)
    assert unequal({name: data for name, data in files.items() if data}, tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [CODE, WORD])
def test_chains_in_cpp_are_their_references(kind: str, tmp_path: Path) -> None:
    """Natively, and in one image of an emulated Due."""
    cases = [case_of(name, data, kind) for name, data in chains(range(400, 410), kind).items()]
    (tmp_path / "native").mkdir()
    for results in (
        run_natively(cases, tmp_path / "native"),
        run_on_board(cases, load_boards().board("due"), tmp_path / "due"),
    ):
        assert first_difference(cases, results) == ""
