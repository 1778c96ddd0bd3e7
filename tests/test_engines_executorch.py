"""ExecuTorch's program as tinyhil writes it; with its sources at hand its codes are those of TFLM with CMSIS-NN."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from given_data import data_file
from tflite_files import classifier

from tests.test_engines import bench, request
from tinyhil.errors import BuildError, ModelError
from tinyhil.frontend.tflite_file import File, read_file
from tinyhil.harness.engines.engine_run import run_engine
from tinyhil.harness.engines.executorch_program import ALIGNMENT, HEADER_BYTES, packed, program_of

OPERATORS = ("quantized_conv2d", "quantized_avg_pool2d", "quantized_linear", "softmax")


def test_the_program_holds_the_layers_of_the_network() -> None:
    content = read_file(classifier(quantized=True))
    program = program_of(content, has_dsp=True)
    assert program.operators == tuple(f"cortex_m::{name}.out" for name in OPERATORS)
    (plan,) = json.loads(program.text)["execution_plan"]
    values, calls = plan["values"], plan["chains"][0]["instructions"]
    assert [call["instr_args"]["op_index"] for call in calls] == [0, 1, 2, 3]
    source = values[plan["inputs"][0]]["val"]
    assert (source["sizes"], source["dim_order"]) == ([1, 2, 6, 5], [0, 2, 3, 1])
    conv = [values[number] for number in calls[0]["instr_args"]["args"]]
    assert [conv[number]["val"]["sizes"] for number in (1, 2, 8, 9, 13)] == [[3, 3, 3, 2], [3], [3], [3], [1, 3, 3, 3]]
    assert conv[6]["val"] == {"int_val": -3}  # the input's zero point is 3
    assert conv[12]["val"]["sizes"] == [4 * 20]  # 3 x 3 x 2 to four, two columns of 16 bits
    weights = next(one for one in content.tensors if one.name == "w")
    assert weights.data is not None
    assert program.constants[: weights.data.size] == weights.data.astype("i1").tobytes()
    pooled, flat = (program.offsets[content.operations[number].outputs[0]] for number in (1, 2))
    assert pooled == flat  # reshaping moves nothing


def test_its_multipliers_are_those_that_round_as_tensorflow_lite() -> None:
    """Of the first layer: scales of input and weights by that of the result, to 31 bits."""
    content = read_file(classifier(quantized=True))
    program = program_of(content, has_dsp=False)
    (plan,) = json.loads(program.text)["execution_plan"]
    offsets = json.loads(program.text)["constant_segment"]["offsets"]
    conv = [plan["values"][number]["val"] for number in plan["chains"][0]["instructions"][0]["instr_args"]["args"]]
    m, shift = (
        np.frombuffer(program.constants, "<i4", 3, offsets[conv[number]["data_buffer_idx"]]).astype(object)
        for number in (8, 9)
    )
    assert (m * 2.0 ** (shift - 31)).astype(float) == pytest.approx(
        [float(scale) for scale in _factors(content)], rel=2**-30
    )


def _factors(content: File) -> np.ndarray:
    one = content.operations[0]
    source, w, target = (np.asarray(content.tensors[n].scales, np.float64) for n in (*one.inputs[:2], one.outputs[0]))
    return np.asarray(source * w / target)


def test_tensors_that_live_together_do_not_overlap() -> None:
    content = read_file(classifier(quantized=True))
    shared, apart = (program_of(content, has_dsp=True, shares=shares) for shares in (True, False))
    assert shared.planned_bytes < apart.planned_bytes
    ends = sorted((at, content.tensors[number].shape) for number, at in apart.offsets.items())
    for (a, shape), (b, _) in combinations(ends, 2):
        assert a == b or a + np.prod(shape) <= b  # a reshaped one is the same
        assert a % ALIGNMENT == b % ALIGNMENT == 0


def test_the_file_has_its_constants_behind_the_program() -> None:
    flat = struct.pack("<I4s", 16, b"ET12") + bytes(24)
    file = packed(flat, b"constants")
    root, magic, head, length, size, base, more = struct.unpack("<I4s4sIQQQ", file[:40])
    assert (root, magic, head, length) == (16 + HEADER_BYTES, b"ET12", b"eh00", 32)
    assert (size, more) == (len(flat) + HEADER_BYTES, len(b"constants"))
    assert file[base:] == b"constants"
    assert base % ALIGNMENT == 0
    with pytest.raises(ModelError, match="begins with ET12"):
        packed(struct.pack("<I4s", 16, b"ET13") + bytes(24), b"")


def test_what_its_operators_have_not_is_refused() -> None:
    content = read_file(classifier(quantized=True))
    operations = content.operations
    for number, change, says in (
        (1, {"op": "LOGISTIC"}, "LOGISTIC is none of the operators written for ExecuTorch: ADD, AVERAGE_POOL_2D"),
        (1, {"options": {**operations[1].options, "FusedActivationFunction": 2}}, "quantized_avg_pool2d has no act"),
    ):
        other = replace(operations[number], **change)
        with pytest.raises(ModelError, match=says):
            program_of(
                replace(content, operations=(*operations[:number], other, *operations[number + 1 :])), has_dsp=True
            )
    with pytest.raises(ModelError, match="'x' is of float32; ExecuTorch's Cortex-M operators take int8"):
        program_of(read_file(classifier(quantized=False)), has_dsp=True)


@pytest.mark.parametrize(
    ("folder", "board", "says"),
    [
        ("executorch", "uno@emulated", "uno: ExecuTorch is for 32 bits and more; choose another board"),
        ("executorch", "host", r"flatbuffers is empty; run: git -C executorch submodule update --init third-party"),
        ("torch", "host", "name the folder executorch"),
    ],
)
def test_what_cannot_be_built_is_one_line(folder: str, board: str, says: str, tmp_path: Path) -> None:
    operators = tmp_path / folder / "backends/cortex_m/ops/operators.yaml"
    operators.parent.mkdir(parents=True)
    operators.write_text("")
    (tmp_path / "net.tflite").write_bytes(classifier(quantized=True))
    np.savez(tmp_path / "x.npz", x=np.zeros((1, 6, 5, 2), np.float32))
    asked = replace(request(tmp_path, board), model=str(tmp_path / "net.tflite"))
    with pytest.raises(BuildError, match=says):
        run_engine("executorch", tmp_path / folder, asked, bench())


@pytest.mark.slow
@pytest.mark.data("engines/executorch", "engines/cmsis-nn", "models")
@pytest.mark.parametrize("board", ["host", "nucleo_l4r5@emulated"])
def test_its_codes_are_those_of_tflm_with_cmsis_nn(board: str, tmp_path: Path) -> None:
    """Both call CMSIS-NN; MLPerf Tiny's autoencoder, in cycles within 1 % too."""
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).normal(size=(2, 640)).astype(np.float32))
    model = str(data_file("models/mlperftiny_ad_autoencoder_int8.tflite"))
    asked = replace(request(tmp_path, board), model=model, timeout_s=60.0)
    ours, theirs = (run_engine(name, data_file("engines"), asked, bench())[0] for name in ("executorch", "cmsis-nn"))
    assert ours["raw"]["outputs"] == theirs["raw"]["outputs"]
    if board != "host":
        assert ours["latency"]["median"] == pytest.approx(theirs["latency"]["median"], rel=0.01)
