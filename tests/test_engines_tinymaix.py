"""TinyMaix's model file as tinyhil writes it; with its sources at hand equal to its own tool's."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from given_data import data_file
from tflite_files import classifier

from tests.test_engines import bench, request
from tinyhil.errors import BuildError, ModelError
from tinyhil.frontend.tflite_file import read_file
from tinyhil.harness.engines.engine_run import run_engine
from tinyhil.harness.engines.tinymaix import CONV, FC, GAP, HEAD_BYTES, RESHAPE, SOFTMAX, model_of
from tinyhil.harness.job.job import Request

FLASH, MODELS = "engines/TinyMaix/tools/tmdl", "engines/TinyMaix/tools/tflite"


def test_the_model_file_holds_the_layers_of_the_network() -> None:
    """Head of 64 bytes, then layers, each with its size: kinds, places in memory, scales, weights, biases."""
    content = read_file(classifier(quantized=True))
    model, memory = model_of(content)
    assert model[:4] == b"MAIX"
    assert struct.unpack("<HII", model[10:20]) == (5, memory, 0)
    assert memory == 64 + 32  # 6 x 5 x 2 and 3 x 3 x 3, each to 8 bytes
    layers, at = [], 64
    while at < len(model):
        kind, is_out, size, source, target = struct.unpack("<HHIII", model[at : at + 16])
        layers.append((kind, is_out, source, target, model[at : at + size]))
        at += size
    assert at == len(model)
    assert [layer[:4] for layer in layers] == [
        (CONV, 0, 0, 64),
        (GAP, 0, 64, 0),
        (RESHAPE, 0, 0, 0),
        (FC, 0, 0, 88),
        (SOFTMAX, 1, 88, 0),
    ]
    conv = layers[0][4]
    assert struct.unpack("<6BH4BI", conv[HEAD_BYTES : HEAD_BYTES + 16]) == (3, 3, 2, 2, 1, 1, 3, 0, 1, 1, 1, 0)
    weights = next(one for one in content.tensors if one.name == "w")
    bias = next(one for one in content.tensors if one.name == "w_bias")
    assert weights.data is not None
    assert bias.data is not None
    scales_at, weights_at, bias_at = struct.unpack("<III", conv[HEAD_BYTES + 20 : HEAD_BYTES + 32])
    wanted = weights.data.transpose(0, 3, 1, 2)
    assert np.frombuffer(conv, "i1", wanted.size, weights_at).tolist() == wanted.reshape(-1).tolist()
    assert np.frombuffer(conv, "<f4", 3, scales_at) == pytest.approx([0.01, 0.02, 0.015])
    shifted = bias.data - 3 * wanted.astype(int).reshape(3, -1).sum(1)  # the input's zero point is 3
    assert np.frombuffer(conv, "<i4", 3, bias_at).tolist() == shifted.tolist()


def test_what_tinymaix_has_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="'x' is of float32; TinyMaix takes int8"):
        model_of(read_file(classifier(quantized=False)))
    content = read_file(classifier(quantized=True))
    other = replace(content.operations[1], op="MAX_POOL_2D")
    with pytest.raises(ModelError, match="max_pool_2d_1: TinyMaix takes a chain of AVERAGE_POOL_2D, CONV_2D"):
        model_of(replace(content, operations=(content.operations[0], other, *content.operations[2:])))
    without_outputs = replace(content.operations[0], op="CALL_ONCE", inputs=(), outputs=())
    with pytest.raises(ModelError, match="call_once_0: TinyMaix takes a chain of"):
        model_of(replace(content, operations=(without_outputs, *content.operations)))
    deep = [replace(one, shape=(1, 1, *one.shape)) if len(one.shape) == 4 else one for one in content.tensors]
    with pytest.raises(ModelError, match="TinyMaix has height, width and channels alone"):
        model_of(replace(content, tensors=tuple(deep)))
    options = {**content.operations[3].options, "FusedActivationFunction": 1}
    operations = (*content.operations[:3], replace(content.operations[3], options=options), content.operations[4])
    with pytest.raises(ModelError, match="fully_connected_3: TinyMaix has no RELU there"):
        model_of(replace(content, operations=operations))
    (tmp_path / "TinyMaix/src").mkdir(parents=True)
    (tmp_path / "TinyMaix/src/tm_model.c").write_text("")
    (tmp_path / "net.tflite").write_bytes(classifier(quantized=True))
    np.savez(tmp_path / "x.npz", x=np.zeros((1, 6, 5, 2), np.float32))
    asked = replace(request(tmp_path, "uno@emulated"), model=str(tmp_path / "net.tflite"))
    with pytest.raises(BuildError, match="uno: TinyMaix reads its model from ordinary memory"):
        run_engine("tinymaix", tmp_path, asked, bench())


SMALL = ("tinymaix/mnist_valid_q.tflite", "tinymaix/mnist_valid_q.h")
LARGE = (f"{MODELS}/vww96_q.tflite", f"{FLASH}/vww96_q.h")


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(SMALL, marks=pytest.mark.data(*SMALL)),
        pytest.param(LARGE, marks=[pytest.mark.slow, pytest.mark.data(*LARGE)]),
    ],
    ids=["small", "large"],
)
def test_the_model_file_is_that_of_tinymaix_own_tool(files: tuple[str, str]) -> None:
    source, header = map(data_file, files)
    model, _ = model_of(read_file(source.read_bytes()))
    text = header.read_text()
    theirs = bytes(int(word, 16) for word in re.findall(r"0x[0-9a-fA-F]+", text[text.index("{") : text.index("}")]))
    assert [at for at, (a, b) in enumerate(zip(model, theirs, strict=True)) if a != b] == [5]  # theirs gives floats


@pytest.mark.data(FLASH, MODELS)
def test_it_decides_as_the_float_model(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).integers(-128, 128, (3, 28, 28, 1)).astype(np.float32))
    model = str(data_file(MODELS) / "mnist_valid_q.tflite")
    asked = Request("host", model, inputs=tmp_path / "x.npz", results=tmp_path)
    record, _ = run_engine("tinymaix", data_file("engines"), asked, bench())
    assert record["disagreements"] == 0


@pytest.mark.slow
@pytest.mark.data(MODELS)
@pytest.mark.parametrize(("model", "side", "published_ms"), [("cifar10_q", 32, 15), ("vww96_q", 96, 64)])
def test_published_milliseconds_lie_in_the_model_s_band(
    model: str, side: int, published_ms: int, tmp_path: Path
) -> None:
    """doc/porting/port_STM32H750.md: 480 MHz, O1, SIMD; the STM32H747 has that core and those caches."""
    np.savez(tmp_path / "x.npz", x=np.zeros((1, side, side, 3), np.float32))
    asked = Request("h747@emulated", str(data_file(MODELS) / f"{model}.tflite"), inputs=tmp_path / "x.npz")
    record, _ = run_engine("tinymaix", data_file("engines"), replace(asked, results=tmp_path), bench())
    latency = record["latency"]
    assert latency["low"] <= published_ms * 480_000 <= latency["high"]
