"""Large constants are embedded as they are, not as C++ text: every storage, every core, every way into a project."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from boards_under_test import ARM, each
from hil_command import hil
from onnx_models import load, node, simple
from random_models import extreme_inputs
from test_fuse import inputs_of, kernels, lowered, rnd, thinned

import tinyhil
from tinyhil.codegen.constants import BINARY_BYTES, Binary
from tinyhil.codegen.model import Source
from tinyhil.formats.fixed import Fixed
from tinyhil.language.form import Weights
from tinyhil.language.program import Loop, Role, walk
from tinyhil.passes.streams import with_streams
from tinyhil.references.reference import run_reference

SIDE = 400  # 64 KB and more in every format below
X = np.random.default_rng(5).normal(0, 1, (2, SIDE, 1, 1)).astype(np.float32)
STORED = {"w0": "fixed8", "w1": "fixed16", "w2": "fixed5", "w3": "fixed12", "w4": "nf4", "w5": "float32"}
CODED = {"w0": "posit16es1", "w1": "bfloat16"}


def layers(count: int) -> onnx.ModelProto:
    """1 x 1 convolutions in a row; on ARM those of 8 bits are stored in blocks."""
    rng = np.random.default_rng(1)
    nodes = [node("Conv", f"x{at} w{at}", f"x{at + 1}" if at < count - 1 else "y") for at in range(count)]
    weights = {f"w{at}": rng.normal(0, 1 / SIDE**0.5, (SIDE, SIDE, 1, 1)) for at in range(count)}
    return simple(nodes, {"x0": (1, SIDE, 1, 1)}, weights)


def made(count: int) -> tinyhil.Model:
    return tinyhil.load(layers(count), name="large").calibrate(X)


def sizes(sources: dict[str, Source]) -> tuple[int, list[int]]:
    """Bytes of generated text, and of each file of constants."""
    model = {path: content for path, content in sources.items() if path.startswith("model/")}
    binary = [len(content) for content in model.values() if isinstance(content, bytes)]
    return sum(len(content) for content in model.values() if isinstance(content, str)), binary


@pytest.mark.parametrize(
    ("default", "formats", "stored"),
    [("fixed16", STORED, (8 + 16 + 5 + 16 + 4 + 32) * SIDE**2 // 8), ("fixed16", CODED, (16 + 16) * SIDE**2 // 8)],
)
def test_every_storage_on_the_host(default: str, formats: dict[str, str], stored: int) -> None:
    compiled = made(len(formats)).compile({"default": default, "values": formats}, "host")
    text, binary = sizes(dict(compiled.sources))
    assert text < BINARY_BYTES
    assert len(binary) == 1
    assert 0 <= binary[0] - stored <= 16  # packed codes end in whole words
    assert compiled.run(x=X).bit_exact


@pytest.mark.parametrize("board", each(ARM))
def test_blocks_on_arm(board: str) -> None:
    compiled = made(2).compile({"default": "fixed8", "values": {"w1": "fixed16"}}, board)
    assert sizes(dict(compiled.sources))[1] == [3 * SIDE**2]
    record = compiled.run(x=X)
    assert record.bit_exact
    assert record.flash_bytes > 3 * SIDE**2


def test_a_project_for_several_cores_has_a_file_for_each_and_none_of_before(tmp_path: Path) -> None:
    """Weights in blocks differ from core to core; PlatformIO finds them below the project, wherever it stands."""
    for seed in (1, 2):
        proto = layers(1)
        proto.graph.initializer[0].raw_data = (
            np.random.default_rng(seed).normal(0, 0.05, SIDE**2).astype("f4").tobytes()
        )
        onnx.save(proto, tmp_path / "m.onnx")
        np.savez(tmp_path / "x.npz", x=X)
        out = tmp_path / "project"
        hil(
            "generate",
            tmp_path / "m.onnx",
            "--calibrate",
            tmp_path / "x.npz",
            "--out",
            out,
            "--format",
            "fixed8",
            cwd=tmp_path,
        )
        text = (out / "model/model.cpp").read_text()
        found = {path.name for path in (out / "model").glob("*.bin")}
        assert len(found) == 4  # plain, and in the blocks of Cortex-M0+, of M3, and of M4 and M7
        named = sorted(text.count(f"model/{name}") for name in found)
        assert named == [1, 1, 1, 1]  # plain that of the host; an Uno's flash is too small


def test_an_exported_library_is_text(tmp_path: Path) -> None:
    """Its one source is compiled by build systems of others, with link-time optimisation too: nothing to search for."""
    path = made(1).export("arduino", tmp_path / "large.zip", formats="fixed8")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        text = archive.read("large/src/large.cpp").decode()
    assert not [name for name in names if name.endswith((".bin", ".S", ".s"))]
    assert "incbin" not in text
    assert f"[{SIDE**2}] HIL_FLASH" in text


def test_arrays_of_a_binary_begin_at_words() -> None:
    binary = Binary()
    first = binary.array("int8_t", "first", np.arange(1, 6, dtype=np.int8))
    second = binary.array("int16_t", "second", np.array([-2, 3], "<i2"))
    assert bytes(binary.content) == bytes((1, 2, 3, 4, 5, 0, 0, 0, 0xFE, 0xFF, 3, 0))
    assert first[0] == 'extern "C" const int8_t first[5] __asm__("constant_first");'
    assert '.incbin \\"@BINARY@\\", 0, 5' in first[1]
    assert '.incbin \\"@BINARY@\\", 8, 4' in second[1]
    assert ".size constant_second, 4" in second[1]


LISTED = {
    "all bytes": ({}, [True, True, True]),
    "fewer bits": ({"w1": "fixed6"}, [True, False, True]),
    "more bits": ({"w0": "fixed16", "w2": "fixed12"}, [False, True, False]),
    "results of more bits": ({"x1": "fixed16"}, [True, False, True]),
    "none": ({"w0": "fixed6", "w1": "fixed6", "w2": "fixed6"}, [False, False, False]),
}


@pytest.mark.parametrize("case", LISTED)
def test_lists_and_weights_of_bytes_are_one_stream(case: str, tmp_path: Path) -> None:
    """Each sparse layer as its own formats allow, in a loop too; nothing else changes, nothing is stored twice."""
    formats, streamed = LISTED[case]
    nodes = [node("Gemm", f"x{at} w{at} b{at}", f"x{at + 1}" if at < 2 else "y") for at in range(3)]
    constants = {f"w{at}": thinned(rnd(14, 14, seed=at), 6) for at in range(3)} | {f"b{at}": rnd(14) for at in range(3)}
    graph = load(simple(nodes, {"x0": (1, 14)}, constants), tmp_path)
    plain = lowered(graph, inputs_of(graph), default="fixed8", mix=formats)
    plain = replace(plain, body=(plain.body[0], *(Loop("again", 2, (), (op,)) for op in plain.body[1:])))
    made = with_streams(plain)
    assert kernels(plain) == ["sparse_dense_bias"] * 3
    assert kernels(made) == ["stream_dense_bias" if one else "sparse_dense_bias" for one in streamed]
    assert (made is plain) is not any(streamed)
    inputs = extreme_inputs(plain, 5)
    assert np.array_equal(run_reference(plain, inputs).outputs, run_reference(made, inputs).outputs)
    used = {name for op in walk(made.body) for name in op.inputs}
    assert set(made.constants) == used & set(made.constants) == {name for name in used if name in made.constants}
    for op in walk(made.body):
        table = made.tensors[op.inputs[0]]
        assert table.count == made.constants[table.name].size
        assert table.role == Role.TABLE
        assert op.kernel.weights is Weights.LISTS or table.format == Fixed(8, 0)
