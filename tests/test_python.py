"""The Python interface: arrays in, records out, typed errors; the notebook runs."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from hil_command import hil

import tinyhil
from tests.onnx_models import node, simple
from tinyhil import data, errors
from tinyhil.harness.commands.profile import profile as hil_profile
from tinyhil.harness.records.figures import CANDIDATES

ROOT = Path(__file__).resolve().parent.parent
X = np.random.default_rng(0).uniform(0, 16, (12, 1, 1, 8, 8)).astype(np.float32)
Y = np.arange(12) % 10


@pytest.fixture(scope="module")
def host() -> tinyhil.Record:
    return tinyhil.load("digits_mlp").run("host", X, Y, formats="fixed8")


def test_a_record_is_attributes_dictionary_table_and_series(host: tinyhil.Record, tmp_path: Path) -> None:
    assert (host.board, host.samples, host.bit_exact) == ("host", 12, True)
    assert host.latency.median == host["latency"]["median"] == host.to_dict()["latency"]["median"]
    assert host.to_pandas()["latency.median"] == host.latency.median
    assert "<th>bit_exact</th><td>True</td>" in host._repr_html_()
    assert len(repr(host)) < 3000
    copy = host.to_dict()
    copy["samples"] = 0
    assert host.samples == 12
    (tmp_path / "host.json").write_text(json.dumps(host.to_dict()))
    assert tinyhil.compare(host, tmp_path / "host.json") == tinyhil.compare(str(tmp_path / "host.json"), host) == []
    with pytest.raises(AttributeError, match="no 'nothing' in this record"):
        _ = host.nothing


def test_a_board_equals_the_host(host: tinyhil.Record) -> None:
    compiled = tinyhil.load("digits_mlp").compile("fixed8", "uno")
    assert compiled.arena_bytes == 42
    assert "model/model.cpp" in compiled.sources
    record = compiled.run(x=X, y=Y)
    assert (record.board, record.bit_exact) == ("uno", True)
    assert record.raw.outputs == host.raw.outputs
    assert tinyhil.compare(record, record) == []
    found = tinyhil.compare(host, record)
    assert found
    assert not [difference for difference in found if difference.fails]


def texts(value: object) -> Iterator[str]:
    """All there are in a record."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from texts(one)


def test_a_record_says_what_has_called_and_no_folder_that_is_gone(host: tinyhil.Record, tmp_path: Path) -> None:
    assert host.provenance.command == "tinyhil.load('digits_mlp').run('host', x, y, formats='fixed8')"
    model = tinyhil.load("digits_mlp")
    typed = model.run("host", samples=3, formats="fixed8", results=str(tmp_path)).provenance.command
    assert typed == "hil run --board host --model digits_mlp --format fixed8 --samples 3"
    ranged = model.calibrate(X, by="mse").run("host", X, formats={"default": "fixed8"}, results=str(tmp_path))
    called = "tinyhil.load('digits_mlp').calibrate(samples, by='mse').run('host', x, formats=..., results="
    assert ranged.provenance.command.startswith(called)
    model.profile("host", X, results=str(tmp_path))
    model.search(X, board="uno", ram=900, evaluations=1, device_samples=2, results=str(tmp_path))
    records = [json.loads(path.read_text()) for path in tmp_path.rglob("*.json")]
    assert len(records) >= 5  # those of the runs of a search, too
    commands = {text for record in records for text in texts(record) if "tinyhil.load" in text}
    assert any(".profile('host', x, formats='fixed16'" in command for command in commands)
    assert any(".search(x, board='uno', ram=900" in command for command in commands)
    for record in [*records, host.to_dict()]:
        command = record.get("command") or record["provenance"]["command"]
        assert tempfile.gettempdir() not in command.replace(str(tmp_path), "")


def test_a_candidate_of_a_search_names_the_search(tmp_path: Path) -> None:
    words = ("search", "--model", "digits_mlp", "--board", "uno", "--evaluations", "1", "--device-samples", "2")
    assert hil(*words, cwd=tmp_path).returncode == 0
    (path, *_) = (tmp_path / "results" / "search" / "digits_mlp" / CANDIDATES).rglob("*.json")
    assert json.loads(path.read_text())["provenance"]["command"].startswith("hil search --model digits_mlp")


def test_formats_by_name_file_and_mapping(tmp_path: Path) -> None:
    model = tinyhil.load("digits_mlp")
    (tmp_path / "widths.yaml").write_text("default: fixed8\nvalues:\n  relu1: fixed16\n")
    of_file = model.compile(tmp_path / "widths.yaml")
    of_mapping = model.compile({"default": "fixed8", "values": {"relu1": "fixed16"}})
    assert (of_file.format, of_file.arena_bytes) == (of_mapping.format, of_mapping.arena_bytes)
    assert model.compile("fixed8").arena_bytes < of_file.arena_bytes


def test_samples_are_held_out_as_arrays() -> None:
    digits, model = data.load("digits", allow_download=False), tinyhil.load("digits_mlp")
    common = {"ram": 300, "formats": "fixed8,fixed16", "evaluations": 2}
    seen, x, y = digits.x_train[:40], digits.x_test[:30], digits.y_test[:30]
    assert model.search(seen, held_out=x, **common).accuracy is None
    found = model.search(seen, digits.y_train[:40], held_out=(x, y), **common)
    assert (found.samples, found.accuracy is not None) == (30, True)


def test_a_model_that_has_no_file_is_searched_and_exported(tmp_path: Path) -> None:
    weights = np.random.default_rng(2).normal(0, 1, (4, 3)).astype(np.float32)
    proto = simple([node("MatMul", "x w", "y")], {"x": (1, 4)}, {"w": weights})
    x = np.random.default_rng(3).normal(0, 1, (40, 1, 4)).astype(np.float32)
    y = (x[:, 0] @ weights).argmax(axis=1)
    model = tinyhil.load(proto, name="small").calibrate(x)
    assert model.input_shape == (1, 4)
    found = model.search(x, y, ram=100, evaluations=5)
    record = model.run("host", x, y, formats=found.assignment_file)
    assert (record.bit_exact, record.float_accuracy) == (True, 1.0)
    assert model.export("cmake", tmp_path / "small.zip", formats="fixed8").is_file()
    chained = tinyhil.load(proto, name="small").calibrate(x).search(x, y, ram=100, evaluations=5)
    assert Path(chained.assignment_file).is_file()  # though the model is gone
    assert pickle.loads(pickle.dumps(chained)).to_dict() == chained.to_dict()
    assert yaml.safe_load(yaml.safe_dump(chained.to_dict())) == chained.to_dict()  # plain types
    front = model.search(x, y, pareto="ram,accuracy", levels=2, evaluations=2, out=str(tmp_path / "front"))
    assert front.points[0].assignment_file == str(tmp_path / "front" / "1.yaml")


def test_boards_nobody_names_are_not_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bench.yaml").write_text("boards: [")
    monkeypatch.setenv("HIL_BENCH", str(tmp_path / "bench.yaml"))
    model = tinyhil.load("digits_mlp")
    assert model.compile("fixed8").arena_bytes == 42
    with pytest.raises(tinyhil.errors.ConfigError, match=r"bench\.yaml"):
        model.compile("fixed8", board="uno")


def test_scikit_learn(tmp_path: Path) -> None:
    pytest.importorskip("skl2onnx")
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    x, y = load_digits(return_X_y=True)
    x = x.astype(np.float32)
    model = tinyhil.load(LogisticRegression(max_iter=100).fit(x[:500], y[:500]), x).calibrate(x[:500])
    record = model.run("host", x[500:600], y[500:600], formats="fixed16")
    assert record.bit_exact
    assert record.accuracy == pytest.approx(record.float_accuracy, abs=0.02)


@pytest.mark.slow
def test_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    x = np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32)
    wanted = net(torch.as_tensor(x)).detach().numpy().argmax(axis=1)
    net[1].eval()
    record = tinyhil.load(net, example=x).calibrate(x).run("host", x, wanted)
    assert [part.training for part in net.modules()] == [True, True, False, True], "as it was"
    assert record.bit_exact
    assert record.float_accuracy == 1.0
    with pytest.raises(errors.ModelError, match="needs an example input"):
        tinyhil.load(net)
    with pytest.raises(errors.ModelError, match="Sequential: can not be exported as ONNX"):
        tinyhil.load(net, example=x[:, :5])
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    for name in [name for name in sys.modules if name.startswith("torch.onnx._internal.exporter")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(errors.ConfigError, match="needs the package onnxscript; type: pip install onnxscript"):
        tinyhil.load(net, example=x)


@pytest.mark.slow
def test_keras(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras", reason="keras is not installed")
    layers = keras.layers
    x = np.random.default_rng(0).normal(size=(30, 6, 6, 1)).astype(np.float32)
    net = keras.Sequential(
        [keras.Input((6, 6, 1)), layers.Conv2D(4, 3, activation="relu"), layers.Flatten(), layers.Dense(3)]
    )
    left, right = keras.Input((4,)), keras.Input((2,))
    two = keras.Model([left, right], layers.Dense(3)(layers.Concatenate()([left, right])))
    open_ended = keras.Sequential([layers.Flatten(), layers.Dense(3)])
    for model, example in ((net, None), (open_ended, x)):
        loaded = tinyhil.load(model, example)
        wanted = keras.ops.convert_to_numpy(model(x)).argmax(axis=1)
        record = loaded.calibrate(x).run("host", x, wanted)
        assert record.bit_exact
        assert record.float_accuracy == 1.0
    loaded = tinyhil.load(two)
    parts = {name: x.reshape(30, -1)[:, : shape[-1]] for name, shape in loaded.inputs.items()}
    assert loaded.calibrate(parts).run("host", parts).bit_exact
    with pytest.raises(errors.ModelError, match="no fixed shape needs an example input"):
        tinyhil.load(keras.Sequential([layers.Dense(3)]))


def test_a_profile_has_a_row_per_operation() -> None:
    pandas = pytest.importorskip("pandas")
    table = tinyhil.load("digits_mlp").profile("uno", X[:1], formats="fixed8").to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert list(table["name"]) == ["fc1", "fc2"]
    (usual,) = (option.default for option in hil_profile.params if option.name == "samples")
    means = [tinyhil.load("digits_mlp").profile("uno", X, **given).to_dict() for given in ({}, {"samples": usual})]
    assert means[0]["operations"] == means[1]["operations"]


BAD: dict[str, tuple[Callable[[], object], type[errors.HilError], str]] = {
    "no model": (lambda: tinyhil.load(3), errors.ModelError, "builtins.int: no model"),
    "no name": (lambda: tinyhil.load("nothing_here"), errors.ModelError, "no model 'nothing_here'"),
    "no file": (lambda: tinyhil.load(Path("none.onnx")), errors.ModelError, "no such file"),
    "damaged": (lambda: tinyhil.load(onnx.ModelProto()), errors.ModelError, "model"),
    "format": (lambda: tinyhil.load("digits_mlp").compile("fixed99"), errors.ConfigError, "fixed99"),
    "board": (lambda: tinyhil.load("digits_mlp").run("mars", X), errors.BoardError, "no board named 'mars'"),
    "option": (lambda: tinyhil.load("digits_mlp").run("host", X, rom=1), errors.ConfigError, "no option 'rom'"),
    "limit": (lambda: tinyhil.load("digits_mlp").search(X, Y), errors.ConfigError, "a limit is needed"),
    "ragged": (lambda: tinyhil.load("digits_mlp").run("host", [[1], [1, 2]]), errors.DataError, "different lengths"),
    "shape": (lambda: tinyhil.load("digits_mlp").run("host", X[:, 0, 0, :3]), errors.DataError, "shape"),
    "labels": (lambda: tinyhil.load("digits_mlp").run("host", X, Y + 90), errors.DataError, "label"),
    "kind": (lambda: tinyhil.load("digits_mlp").export("mbed", "x.zip"), errors.ConfigError, "no kind 'mbed'"),
    "samples": (
        lambda: tinyhil.load("digits_mlp").run("host", X, samples="3"),
        errors.ConfigError,
        "samples must be int",
    ),
    "ram": (lambda: tinyhil.load("digits_mlp").search(ram=[3]), errors.ConfigError, "search: ram must be int or None"),
    "sizes": (lambda: tinyhil.load("digits_mlp").export("cmake", "x.zip", sizes=1), errors.ConfigError, "must be bool"),
    "board's name": (lambda: tinyhil.load("digits_mlp").run(3, X), errors.ConfigError, "board must be str, not int"),
    "formats": (lambda: tinyhil.load("digits_mlp").compile(8), errors.ConfigError, "formats must be a name"),
    "record": (lambda: tinyhil.compare({}, {}), errors.DataError, "not a record"),
}


@pytest.mark.parametrize("case", BAD)
def test_failures_are_typed_and_one_line(case: str) -> None:
    call, kind, said = BAD[case]
    with pytest.raises(kind) as caught:
        call()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_importing_costs_nothing_and_the_package_is_typed() -> None:
    code = "import sys, tinyhil; print(sorted({'numpy', 'onnx', 'tinyhil.harness.python.api'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert (ROOT / "tinyhil" / "py.typed").is_file()
    stub = (ROOT / "tinyhil" / "__init__.pyi").read_text()
    assert not [name for name in tinyhil.__all__ if f"as {name}" not in stub]
    assert not [name for name in tinyhil.__all__ if not hasattr(tinyhil, name)]


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = json.loads((ROOT / "examples" / "first_steps.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 8
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for cell in cells:
        exec(compile(cell, "cell", "exec"), names)
    assert names["host"].bit_exact  # type: ignore[attr-defined]
    assert names["record"].bit_exact  # type: ignore[attr-defined]


def test_what_there_is_can_be_listed() -> None:
    assert dir(tinyhil) == sorted(tinyhil.__all__)
    assert all(hasattr(tinyhil, name) for name in dir(tinyhil))
