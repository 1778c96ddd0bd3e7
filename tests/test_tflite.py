"""TensorFlow Lite files: every layer against TensorFlow Lite's own reference kernels, and damaged files."""

from __future__ import annotations

import contextlib
import random
import warnings
from pathlib import Path

import numpy as np
import pytest
from given_data import data_file
from hil_command import hil
from onnx_models import compiled
from tflite_files import FLOAT as FLOAT32
from tflite_files import OPERATOR, Writer, classifier

from tinyhil.errors import HilError, ModelError
from tinyhil.frontend.load import load_model
from tinyhil.frontend.tflite import tflite_model
from tinyhil.frontend.tflite_file import read_file
from tinyhil.frontend.tflite_records import Operation
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

QUANTIZED = ["mlperftiny_ad_autoencoder_int8", "mlperftiny_kws_dscnn_int8", "mlperftiny_sww_streaming_int8"]
QUANTIZED += [
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("mlperftiny_ic_resnet8_int8", "mlperftiny_vww_mobilenetv1_025_96_int8")
]
AUTOENCODER = "mlperftiny_ad_autoencoder_fp32"
FLOAT = [
    "mlperftiny_ic_resnet8_fp32",
    pytest.param(AUTOENCODER, marks=[pytest.mark.slow, pytest.mark.data(f"models/{AUTOENCODER}.tflite")]),
]
PATH = Path("m.tflite")


def content(name: str) -> bytes:
    return data_file(f"models/{name}.tflite").read_bytes()


def oracle(data: bytes, samples: int) -> tuple[np.ndarray, list[tuple[Operation, np.ndarray]]]:
    """Random inputs, and what TensorFlow Lite's reference kernels make of them after each operation."""
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")
    resolver = litert.OpResolverType.BUILTIN_REF
    interpreter = litert.Interpreter(
        model_content=data, experimental_op_resolver_type=resolver, experimental_preserve_all_tensors=True
    )
    interpreter.allocate_tensors()
    source, rng = interpreter.get_input_details()[0], np.random.default_rng(0)
    shape = (samples, *source["shape"])
    x = rng.integers(-128, 128, shape) if source["dtype"] == np.int8 else rng.normal(size=shape)
    operations = read_file(data).operations
    found: list[list[np.ndarray]] = [[] for _ in operations]
    for sample in x.astype(source["dtype"]):
        interpreter.set_tensor(source["index"], sample)
        interpreter.invoke()
        for results, operation in zip(found, operations, strict=True):
            results.append(interpreter.get_tensor(operation.outputs[0]).reshape(-1).astype(np.float64))
    return x.astype(np.float32), list(zip(operations, map(np.stack, found), strict=True))


def integers(data: bytes, x: np.ndarray, output: int) -> np.ndarray:
    """What our int8 program gives for tensor number `output`, as codes."""
    graph = tflite_model(data, PATH, output).graph
    program = compiled(graph, x, "int8")
    run = run_reference(program, quantize_inputs(program, x)[0])
    return dequantize_outputs(program, run.outputs)


def check_layers(data: bytes, samples: int) -> int:
    """Every layer, bit for bit; returns how many there were."""
    x, layers = oracle(data, samples)
    for operation, wanted in layers:
        np.testing.assert_array_equal(integers(data, x, operation.outputs[0]), wanted, operation.name)
    return len(layers)


@pytest.mark.parametrize("name", QUANTIZED)
def test_every_layer_of_published_models_is_bit_equal(name: str) -> None:
    data = content(name)
    layers = len(read_file(data).operations)
    assert check_layers(data, 2) == layers


@pytest.mark.parametrize("name", FLOAT)
def test_floats_equal_the_interpreter(name: str) -> None:
    data = content(name)
    x, layers = oracle(data, 2)
    got = evaluate(tflite_model(data, PATH).graph, x).reshape(2, -1)
    np.testing.assert_allclose(got, layers[-1][1], rtol=1e-4, atol=1e-4)


def test_written_here() -> None:
    data = classifier(quantized=False)
    x, layers = oracle(data, 20)
    np.testing.assert_allclose(evaluate(tflite_model(data, PATH).graph, x).reshape(20, -1), layers[-1][1], rtol=1e-4)
    assert check_layers(classifier(quantized=True), 20) == 5


@pytest.mark.parametrize("board", ["host", "uno"])
def test_the_command_runs_one(board: str, tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(classifier(quantized=True))
    x = np.random.default_rng(1).integers(-128, 128, (20, 1, 6, 5, 2)).astype(np.int8)
    np.savez(tmp_path / "x.npz", x=x)
    done = hil(
        "run", "--board", board, "--model", tmp_path / "m.tflite", "--inputs", tmp_path / "x.npz", "--results",
        tmp_path / "results", "--format", "int8", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "bit-exact      yes: 20 of 20" in done.stdout


def one_operator(code: int) -> bytes:
    w = Writer()
    x, y = (w.tensor(name, [1, 4], 0) for name in "xy")
    w.operator(code, [x], y)
    return w.file(x, y)


DAMAGED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not a valid TensorFlow Lite model"),
    "text": (b"this is no model at all", "not a valid TensorFlow Lite model"),
    "cut": (classifier(True)[:700], "not a valid TensorFlow Lite model"),
    "unknown operator": (
        one_operator(OPERATOR.CUSTOM),
        "node 'custom_0': operator CUSTOM is not supported; `hil docs exporters` lists",
    ),
    "one operand": (one_operator(OPERATOR.GREATER), r"node '.*' \(Greater\): 1 operands, it takes 2"),
    "read": (one_operator(OPERATOR.READ_VARIABLE), r"node 'read_variable_0' .*: its variable is not known"),
    "assign": (one_operator(OPERATOR.ASSIGN_VARIABLE), "not a valid TensorFlow Lite model"),
    "call": (one_operator(OPERATOR.CALL_ONCE), r"not a valid TensorFlow Lite model \(CALL_ONCE without options\)"),
    "while": (one_operator(OPERATOR.WHILE), "not a valid TensorFlow Lite model .WHILE without options."),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_end_in_one_line(name: str, tmp_path: Path) -> None:
    data, message = DAMAGED[name]
    (tmp_path / "m.tflite").write_bytes(data)
    with pytest.raises(ModelError, match=f"m.tflite: {message}") as caught:
        load_model(tmp_path / "m.tflite")
    assert "\n" not in str(caught.value)


def mutant(data: bytes, rng: random.Random) -> bytes:
    made = bytearray(data)
    at = rng.randrange(len(made) - 4)
    match rng.randrange(4):
        case 0:
            for _ in range(rng.randrange(1, 9)):
                made[rng.randrange(len(made))] = rng.randrange(256)
        case 1:
            del made[at:]
        case 2:
            made[at : at + 4] = rng.choice([b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\0\0\0\0"])
        case _:
            made[at] ^= 1 << rng.randrange(8)
    return bytes(made)


@pytest.mark.parametrize("count", [400, pytest.param(10_000, marks=pytest.mark.slow)])
def test_mutants_end_in_one_line(count: int) -> None:
    rng, bases = random.Random(count), [classifier(True), classifier(False)]
    for _ in range(count):
        data = mutant(rng.choice(bases), rng)
        with contextlib.suppress(ModelError):  # anything else is a traceback
            tflite_model(data, PATH)


SCALES = (0.05, 6 / 255, 0.1, 1 / 256, 0.01, 0.02, 0.015)
WRONG_SCALES = (0.0, -0.05, 1e-45, 1e-38, 1e-30, 1e-20, 1e-9, 1e9, 1e18, 1e25, 3e38, float("inf"), float("nan"))


@pytest.mark.parametrize("wrong", WRONG_SCALES)
@pytest.mark.parametrize("scale", SCALES)
def test_damaged_scales_are_refused_or_run_without_a_warning(scale: float, wrong: float, tmp_path: Path) -> None:
    """A scale that no calibration gives names its tensor; one that is merely strange runs."""
    old, new = (np.float32(value).tobytes() for value in (scale, wrong))
    data = classifier(True)
    assert old in data
    (tmp_path / "m.tflite").write_bytes(data.replace(old, new))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            graph = load_model(tmp_path / "m.tflite").graph
            x = np.random.default_rng(1).uniform(-1, 1, (3, *graph.shapes[graph.inputs[0]])).astype(np.float32)
            program = compiled(graph, x)
            run_reference(program, quantize_inputs(program, x)[0])
        except HilError as error:
            assert "\n" not in str(error)  # noqa: PT017
            return
    assert np.isfinite(wrong)
    assert wrong > 0


def with_metadata(name: str) -> bytes:
    """The classifier with an entry in its metadata."""
    writer = Writer()
    x = writer.tensor("x", [1, 4], FLOAT32)
    y = writer.tensor("y", [1, 4], FLOAT32)
    writer.operator(OPERATOR.RELU, [x], y)
    text = writer.b.CreateString(name)
    writer.metadata = [writer.table("Metadata", Name=text, Buffer=0)]
    return writer.file(x, y)


@pytest.mark.parametrize(
    ("name", "said"), [("COMPRESSION_METADATA", r"lookup table or Huffman codes"), ("min_runtime_version", None)]
)
def test_compressed_weights_are_refused_by_name(name: str, said: str | None, tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(with_metadata(name))
    if said is None:
        assert load_model(tmp_path / "m.tflite").graph.outputs
        return
    with pytest.raises(ModelError, match=said):
        load_model(tmp_path / "m.tflite")


def test_sparse_weights_are_refused_by_name(tmp_path: Path) -> None:
    writer = Writer()
    x = writer.tensor("x", [1, 4], FLOAT32)
    sparsity = writer.table("SparsityParameters", TraversalOrder=writer.vector([0, 1], np.int32))
    w = writer.tensor("w", [1, 4], FLOAT32, np.ones((1, 4), np.float32), sparsity=sparsity)
    y = writer.tensor("y", [1, 4], FLOAT32)
    writer.operator(OPERATOR.ADD, [x, w], y, "AddOptions", FusedActivationFunction=0)
    (tmp_path / "m.tflite").write_bytes(writer.file(x, y))
    with pytest.raises(ModelError, match=r"tensor 'w' is sparse; store the weights densely"):
        load_model(tmp_path / "m.tflite")
