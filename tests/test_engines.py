"""Engines of others: one by hand, compiled as all are, and those of the folder HIL_ENGINES."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from given_data import data_file
from hil_command import hil

from tests.test_engines_firmware import MODEL, WEIGHTS, X
from tinyhil.errors import BuildError, ConfigError, DoesNotFit, HilError, ModelError
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.engines import comparison, registry, standing
from tinyhil.harness.engines.contest_page import contest_page
from tinyhil.harness.engines.difference import diff_engines
from tinyhil.harness.engines.emlearn import layers_of
from tinyhil.harness.engines.engine import Built, Engine, Task
from tinyhil.harness.engines.engine_run import run_engine
from tinyhil.harness.engines.firmware_run import Bench
from tinyhil.harness.engines.objects import Recipe, archive
from tinyhil.harness.engines.port import Port
from tinyhil.harness.job.job import Request, open_model
from tinyhil.harness.settings.config import load_boards

ROOT = Path(__file__).resolve().parent.parent
COMPARE = "compare it by `hil run --engine`"
ARENA = "#include <stdint.h>\nuint32_t hil_engine_arena_bytes = 100; uint8_t work[SIZE];\n"


def build_by_hand(task: Task, arena_bytes: int = 1000, *flags: str) -> Built:
    recipe = Recipe((f"-I{ROOT}", f"-DSIZE={arena_bytes}", *flags))
    made = archive(task, [(task.source / name, recipe) for name in ("engine.c", "arena.c")])
    ends = Port.parse("int8 0.5 3"), Port.parse("int16 0.25 0")
    resized = None if arena_bytes != 1000 else lambda used: build_by_hand(task, used + 4)
    return Built(*ends, 8, 3, archive=made, arena_bytes=arena_bytes, resized=resized)


BY_HAND = Engine("by-hand", "by hand", "ours", (".dsl",), ("nothing",), "hand", "engine.c", build_by_hand)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(registry, "ENGINES", (*registry.ENGINES, BY_HAND))
    monkeypatch.delenv("HIL_ENGINES", raising=False)
    (tmp_path / "hand").mkdir()
    (tmp_path / "hand/engine.c").write_text((ROOT / "tests/firmware_bench/engine.c").read_text())
    (tmp_path / "hand/arena.c").write_text(ARENA)
    (tmp_path / "dense.dsl").write_text(MODEL.format(WEIGHTS.T.astype(float).tolist()))
    np.savez(tmp_path / "x.npz", x=X)
    return tmp_path


def bench() -> Bench:
    return Bench(load_boards(), default_cache_dir(), lambda line: None, lambda done, total: None)


def request(folder: Path, board: str) -> Request:
    model, inputs = str(folder / "dense.dsl"), folder / "x.npz"
    return Request(board, model, inputs=inputs, results=folder / "results", timeout_s=5.0)


@pytest.mark.parametrize("board", ["host", "uno@emulated", pytest.param("h747@emulated", marks=pytest.mark.slow)])
def test_an_engine_by_hand_computes_what_it_should(folder: Path, board: str) -> None:
    record, path = run_engine("by-hand", folder, request(folder, board), bench())
    assert path.is_file()
    codes = [np.frombuffer(bytes.fromhex(text), "<i2") for text in record["raw"]["outputs"]]
    assert (np.array(codes) * 0.25 == X @ WEIGHTS.T + [1.0, -2.0, 0.25]).all()
    assert (record["disagreements"], record["largest_output_error"]) == (0, 0.0)
    assert record["memory"]["arena_bytes"] == 104  # what the firmware said it had used, and four
    assert record["engine"]["sources"].keys() == {"sources_sha256"}
    assert f"--engine by-hand --engine-source {folder / 'hand'}" in record["provenance"]["command"]


@pytest.mark.parametrize(
    ("board", "fault", "code", "says"),
    [
        ("host", "OVERWRITES_MEMORY", 7, "ended with code"),
        ("host", "NEVER_ANSWERS", 6, "no"),
        ("host", "FAILS_TO_BEGIN", 7, "ended with code"),
        ("due@emulated", "FAILS_TO_BEGIN", 7, "hil_engine_init"),
        ("due@emulated", "OVERWRITES_MEMORY", 7, "hil_engine_invoke"),
        ("due@emulated", "BABBLES", 6, "no valid frame"),
    ],
)
def test_an_engine_that_fails_ends_as_a_board_does(
    board: str, fault: str, code: int, says: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = replace(BY_HAND, build=lambda task: build_by_hand(task, 100, f"-D{fault}"))
    monkeypatch.setattr(registry, "ENGINES", (engine,))
    with pytest.raises(HilError, match=says) as failed:
        run_engine(
            "by-hand",
            folder,
            replace(request(folder, board), timeout_s=0.5 if fault == "NEVER_ANSWERS" else 2.0),
            bench(),
        )
    assert failed.value.exit_code == code


def test_an_engine_that_cannot_begin_with_all_memory_does_not_fit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = replace(BY_HAND, build=lambda task: build_by_hand(task, 1000, "-DFAILS_TO_BEGIN"))
    monkeypatch.setattr(registry, "ENGINES", (engine,))
    with pytest.raises(DoesNotFit, match=r"due: by-hand does not begin with as much working memory .*more RAM"):
        run_engine("by-hand", folder, request(folder, "due@emulated"), bench())


def test_engines_stand_side_by_side_and_losses_come_first(folder: Path) -> None:
    contest = comparison.Contest(
        ("tinyhil", "by-hand", "tflm"),
        (str(folder / "dense.dsl"),),
        ("uno@emulated",),
        folder,
        folder / "x.npz",
        format="fixed16",
        results=folder / "results",
        tensors=True,
    )
    cells = comparison.measure(contest, bench())
    rows = comparison.rows_of(cells)
    text = standing.table(rows)
    assert [cell.engine for cell in cells if cell.record is not None] == ["tinyhil", "by-hand"]
    assert [row["first"] for row in rows] == [
        "",
        "not known: by-hand: tells of no tensors between its ends; " + COMPARE,
        "",
    ]
    ours, other = (row["cycles"] for row in rows[:2])
    assert ours is not None
    assert other is not None
    lost = f"lost: dense on uno@emulated: by-hand takes {other:,.0f} cycles, tinyhil {ours:,.0f}"
    assert (lost in text) == (other < ours)
    assert text.splitlines()[-1].startswith("dense on uno@emulated by tflm: ")
    assert "tflm reads .tflite files" in text
    page = contest_page(rows)
    assert "What ours loses" in page
    assert "by-hand" in page
    assert (f"<li>{lost}</li>" in page) == (other < ours)
    assert "<li>dense on uno@emulated by tflm: " in page


def row(engine: str, cycles: float | None, board: str = "uno", **figures: object) -> dict[str, object]:
    known = {"network": "net", "board": board, "engine": engine, "cycles": cycles, "why": "" if cycles else "no room"}
    known |= dict.fromkeys(("low", "high", "RAM", "arena", "stack", "static", "flash", "largest", "equal", "first"))
    return {**known, "samples": 2, "disagreements": 0, **figures}


def test_who_wins_is_computed() -> None:
    rows = [row("tinyhil", 100.0, RAM=50, equal=None), row("a", 250.0, RAM=40, equal=1), row("b", 90.0)]
    rows += [row("tinyhil", 100.0, "due"), row("a", 800.0, "due"), row("b", None, "due")]
    assert [str(one) for one in standing.losses(rows)] == [
        "lost: net on uno: b takes 90 cycles, tinyhil 100",
        "lost: net on uno: a takes 40 bytes of RAM, tinyhil 50",
    ]
    assert standing.ratios(rows) == [
        "a takes 2.5 to 8 times the cycles (2 measured), 0.8 to 0.8 times the bytes of RAM (1 measured)",
        "b takes 0.9 to 0.9 times the cycles (1 measured)",
    ]
    assert standing.failures(rows) == ["net on due by b: no room"]
    cells = standing.cells_of(rows)
    assert [(cell[1], cell[2]) for cell in cells] == [
        ("uno", "b"), ("uno", "tinyhil"), ("uno", "a"), ("due", "tinyhil"), ("due", "a"),
    ]  # fmt: skip
    assert cells[2][standing.COLUMNS.index("equal to ours")] == "1 of 2"


def test_what_cannot_be_built_is_one_line_with_the_remedy(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"no engine named 'tflite'; .*known: tflm, cmsis-nn, onnx2c"):
        run_engine("tflite", None, request(folder, "host"), bench())
    with pytest.raises(ModelError, match=r"dense.dsl: onnx2c reads .onnx files"):
        run_engine("onnx2c", None, request(folder, "host"), bench())
    with pytest.raises(ConfigError, match=r"by-hand: no sources; name them by --engine-source or HIL_ENGINES"):
        run_engine("by-hand", None, request(folder, "host"), bench())
    with pytest.raises(ConfigError, match=r"by-hand: .*results: no engine.c there; get them"):
        run_engine("by-hand", folder / "results", request(folder, "host"), bench())
    (folder / "hand/engine.c").write_text("int f( {\n")
    with pytest.raises(BuildError, match=r"host: engine.c of .*hand is not compiled: .*error"):
        run_engine("by-hand", folder, request(folder, "host"), bench())


@pytest.mark.parametrize(
    ("models", "board", "engine", "code", "says"),
    [
        ("nothing.tflite", "host", "tinyhil,emlearn", 2, "nothing.tflite: no such file"),
        ("dense.dsl+nothing.onnx", "host", "tinyhil,emlearn", 2, "nothing.onnx: no such file"),
        ("dense.dsl", "nothing", "tinyhil,emlearn", 3, "no board named 'nothing'"),
        ("dense.dsl", "host", "tinyhil,nothing", 2, "no engine named 'nothing'"),
        ("dense.dsl", "host", "tflm", 1, "nothing could be measured"),
    ],
)
def test_a_contest_of_what_there_is_not(
    folder: Path, models: str, board: str, engine: str, code: int, says: str
) -> None:
    """Said before anything is measured; a contest without a figure is none."""
    done = hil("compare", "--engines", engine, "--models", models, "--boards", board, cwd=folder)
    assert (done.returncode, says in done.stderr) == (code, True), done.stderr


def test_the_command_lists_engines_and_how_to_get_them(tmp_path: Path) -> None:
    done = hil("engines", cwd=tmp_path, HIL_ENGINES=None)
    assert done.returncode == 0
    assert "git clone https://github.com/tensorflow/tflite-micro tflm" in done.stdout
    assert "onnx2c" in done.stdout


@pytest.mark.parametrize("board", ["host", "due@emulated"])
def test_emlearn_comes_with_its_package(board: str, tmp_path: Path) -> None:
    """Of the example's network, which has two dense layers; float32 on both sides."""
    example = ROOT / "examples/vibration"
    asked = Request(
        board, str(example / "models/vibration.onnx"), inputs=example / "data/test.npz", samples=8, results=tmp_path
    )
    record, _ = run_engine("emlearn", None, asked, bench())
    assert record["disagreements"] == 0
    assert record["largest_output_error"] < 1e-4
    assert record["accuracy"] == record["float_accuracy"]


def test_a_bias_of_its_own_node_is_emlearns() -> None:
    """As scikit-learn's exporter writes dense layers: a product, then an addition."""
    layers = layers_of(open_model(str(ROOT / "tests/scikit_learn/mlp_str.onnx"), None).model.graph, "mlp_str")
    assert [(layer.weights.shape, layer.activation) for layer in layers] == [((4, 8), "Relu"), ((8, 3), "Softmax")]
    assert all(layer.bias.any() for layer in layers)


CASES = (
    ("tflm", "models/mlperftiny_ad_autoencoder_int8.tflite", 2),
    ("cmsis-nn", "models/mlperftiny_ad_autoencoder_int8.tflite", 2),
    ("onnx2c", "models/mlperftiny_ad_autoencoder.onnx", 1e-3),
)


@pytest.mark.slow
@pytest.mark.data("engines", "models", "small/ad01_normal_sample.npz")
@pytest.mark.parametrize(("engine", "model", "error"), CASES)
def test_engines_of_others_agree_with_the_float_model(engine: str, model: str, error: float, tmp_path: Path) -> None:
    """Of the float model, of codes in units: TFLite's and CMSIS-NN's roundings differ by one or two."""
    frames = np.load(data_file("small/ad01_normal_sample.npz"))["x"]
    np.savez(tmp_path / "x.npz", x=np.stack([frames[i : i + 5].reshape(-1) for i in range(3)]))
    asked = Request("nucleo_u575@emulated", str(data_file(model)), inputs=tmp_path / "x.npz", results=tmp_path)
    record, _ = run_engine(engine, data_file("engines"), asked, bench())
    assert record["largest_output_error"] <= error
    assert record["memory"]["stack_bytes"] > 0


@pytest.mark.slow
@pytest.mark.data("engines", "tflite/microwakeword/v2_okay_nabu.tflite")
def test_a_network_with_states_begins_where_its_file_says(tmp_path: Path) -> None:
    """A wake word's first step, by TFLM's variables and by the float model: the same code; by ours: every tensor."""
    x = np.random.default_rng(0).integers(-128, 128, (1, 1, 3, 40))
    np.savez(tmp_path / "x.npz", x=x.astype(np.float32))
    model = str(data_file("tflite/microwakeword/v2_okay_nabu.tflite"))
    asked = Request("host", model, inputs=tmp_path / "x.npz", results=tmp_path, steps=1)
    record, _ = run_engine("tflm", data_file("engines"), asked, bench())
    assert record["input"] == "int8 1 0"
    assert record["largest_output_error"] <= 1
    found = diff_engines(("tinyhil", "tflm"), data_file("engines"), replace(asked, format="int8"), 0, bench())
    assert found.first is None
    assert len(found.tensors) >= 17
