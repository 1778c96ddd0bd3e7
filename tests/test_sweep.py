"""`hil sweep`: one table, no cell computed twice, no failure that takes others along, one machine or many."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import signal
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from farm_bench import farm
from hil_command import Done, check_failure, hil, record_of, start_hil, wait_until
from onnx import TensorProto, helper
from remote_bench import SerialServer
from wire_bench import Bench, make_bench, powered

from tinyhil.errors import ConfigError, SchedulerError
from tinyhil.harness.job.inputs import load_inputs
from tinyhil.harness.job.job import open_model
from tinyhil.harness.job.zoo import find_model
from tinyhil.harness.offline.convert import convert_model
from tinyhil.harness.records.search_schema import MIXTURE
from tinyhil.harness.settings.config import load_boards
from tinyhil.harness.sweep.cell import Cell, cells_of
from tinyhil.harness.sweep.farm import Farm, _Try, received
from tinyhil.harness.sweep.file import read_sweep
from tinyhil.harness.sweep.work import finished
from tinyhil.harness.sweep.worker import Workers
from tinyhil.notice import telling
from tinyhil.sealed import sealed

RECORDS = Path(__file__).parent / "records"
ROOT = Path(__file__).resolve().parent.parent
MLP = "models: [digits_mlp]\nboards: [host]\nformats: [fixed8, fixed16]\nrun: {samples: 4}\n"


def sweep(folder: Path, text: str, *more: object, **environment: str) -> Any:
    (folder / "sweep.yaml").write_text(text)
    return hil("sweep", "sweep.yaml", *more, cwd=folder, **environment)


def table_of(done: Any, code: int = 0) -> list[dict[str, Any]]:
    """The rows but for what differs from machine to machine and from run to run."""
    passing = ("seconds", "processor_s", "machine", "process", "latency", "latency_us")
    passing += ("record", "search", "assignment")
    rows = record_of(done, code)["cells"]
    return [{name: value for name, value in row.items() if name not in passing} for row in rows]


def cells_in(folder: Path) -> dict[str, int]:
    """When each finished cell was written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in (folder / "results" / "sweep").glob("*/cell.json")}


def test_every_cell_is_computed_once(tmp_path: Path) -> None:
    text = MLP + "strategies: [lagrange, {strategy: random, set: {trials: 2}, evaluations: 2}]\n"
    text = (
        text.replace("fixed16]", "fixed16, [fixed8, fixed16]]") + "search: {evaluations: 4, samples: 40, ram: 1000}\n"
    )
    first = sweep(tmp_path, text, "--jobs", 1, "--json", "--md", "table.md", "--out", "report.html")
    rows = table_of(first)
    assert [(row["formats"], row["strategy"]) for row in rows] == [
        (["fixed8"], None),
        (["fixed16"], None),
        (["fixed8", "fixed16"], "lagrange"),
        (["fixed8", "fixed16"], "random"),
    ]
    assert all(row["bit_exact"] and row["samples"] == 4 and row["exit_code"] == 0 for row in rows)
    markdown = (tmp_path / "table.md").read_text()
    assert markdown.count("✅ valid") == 4
    for row in rows[2:]:  # one format for all tensors has its name, whoever chose it
        assert row["replaced"] in (None, MIXTURE, *row["formats"])
        answer = f": {row['format']} for all" if row["format"] in row["formats"] else ""
        assert f"| {row['strategy']}{': ' + MIXTURE if row['replaced'] == MIXTURE else answer} |" in markdown
    page = (tmp_path / "report.html").read_text()
    assert page.count('class="sortable"') >= 5
    assert page.count("<article") == 6, "a run each, and two searches"
    assert "→ digits_mlp" not in page, "nothing is compared that nobody asked to compare"
    assert len(list(tmp_path.glob("results/sweep/searches/search/digits_mlp/journal-*"))) == 2, "one, and its lock"
    before = cells_in(tmp_path)
    again = sweep(tmp_path, text, "--json")
    assert (table_of(again), json.loads(again.stdout)["known"], cells_in(tmp_path)) == (rows, 4, before)
    other = sweep(tmp_path, MLP.replace("fixed8, ", ""), "--json")
    assert json.loads(other.stdout)["known"] == 1, "another sweep knows what this one has computed"
    assert cells_in(tmp_path) == before


def test_an_assignment_is_a_row(tmp_path: Path) -> None:
    """As a uniform format of the same widths measures; another content is another cell."""
    (tmp_path / "w.yaml").write_text("default: fixed16\n")
    text = MLP.replace("fixed8, ", "w.yaml, ")
    rows = table_of(sweep(tmp_path, text, "--json"))
    assert [row["formats"] for row in rows] == [["w.yaml"], ["fixed16"]]
    assert {**rows[0], "formats": 0, "key": 0} == {**rows[1], "formats": 0, "key": 0}
    (tmp_path / "w.yaml").write_text("default: fixed16\nvalues: {logits: fixed8}\n")
    other = record_of(sweep(tmp_path, text, "--json"))
    assert other["known"] == 1
    assert "logits: fixed8" in Path(tmp_path / other["cells"][0]["assignment"]).read_text()


def test_an_assignment_is_held_to_every_model(tmp_path: Path) -> None:
    """Before anything is computed, by the name of the user's file."""
    (tmp_path / "w.yaml").write_text("default: fixed16\nvalues: {relu1: fixed8}\n")
    text = MLP.replace("fixed8, ", "w.yaml, ").replace("digits_mlp", "digits_mlp, fastgrnn_har")
    (tmp_path / "sweep.yaml").write_text(text)
    said = r"formats\.0: fastgrnn_har: assignment file .*w\.yaml: the model has no value 'relu1'"
    with pytest.raises(ConfigError, match=said):
        read_sweep(tmp_path / "sweep.yaml", load_boards())


def test_what_determines_a_cell_is_in_its_key(tmp_path: Path) -> None:
    """Anything that changes a figure makes another cell; retry, and the order of things, do not."""

    boards = load_boards()
    np.save(tmp_path / "x.npy", np.zeros((3, 64), np.float32))
    np.save(tmp_path / "y.npy", np.ones((3, 64), np.float32))
    usual = (
        "models: [{model: digits_mlp, inputs: x.npy}]\nboards: [host]\nformats: [[fixed8, fixed16]]\n"
        "strategies: [lagrange]\nrun: {samples: 2}\nsearch: {evaluations: 9, ram: 900}\n"
    )

    def key(text: str) -> str:
        (tmp_path / "sweep.yaml").write_text(text)
        (cell,) = cells_of(read_sweep(tmp_path / "sweep.yaml", boards), tmp_path, boards)
        return cell.key

    others = {
        "digits_mlp": "digits_cnn",
        "x.npy": "y.npy",
        "[host]": "[due@emulated]",
        "[[fixed8, fixed16]]": "[[fixed16, fixed8]]",
        "[lagrange]": "[haunter]",
        "samples: 2": "samples: 1",
        "samples: 2}": "samples: 2, ram: 700}",
        "evaluations: 9": "evaluations: 8",
        "ram: 900": "ram: 901",
    }
    assert all(word in usual for word in others)
    keys = [key(usual), *(key(usual.replace(word, other)) for word, other in others.items())]
    assert len(set(keys)) == len(keys)
    assert key(usual.replace("samples: 2", "samples: 2, timeout: 77, retries: 3, wait: 5")) == keys[0]
    np.save(tmp_path / "x.npy", np.ones((3, 64), np.float32))
    assert key(usual) == key(usual.replace("x.npy", "y.npy")) != keys[0], "contents count, not names"


@pytest.mark.parametrize("kind", ["onnx", "onnx in a folder", "dsl"])
def test_what_a_model_needs_travels_with_it_and_is_in_its_key(kind: str, tmp_path: Path) -> None:
    """As to a worker that has nothing of ours but the order and the contents of its files."""
    model = save_with_weights_beside(kind, tmp_path / "here")
    (tmp_path / "here" / "sweep.yaml").write_text(
        f"models: [{{model: {model.name}, inputs: x.npz, calibrate: x.npz}}]\nboards: [host]\nformats: [[fixed8]]\n"
    )
    boards = load_boards()

    def cell() -> Cell:
        (one,) = cells_of(read_sweep(tmp_path / "here" / "sweep.yaml", boards), tmp_path / "here", boards)
        return one

    before = cell()
    contents = {path: Path(path).read_bytes() for path in before.files}
    side = next(path for path in (tmp_path / "here").rglob("*") if path.name in ("w.bin", "m.npz"))
    side.write_bytes(side.read_bytes()[::-1])
    assert cell().key != before.key
    shutil.rmtree(tmp_path / "here")
    order = received(before.order, contents, tmp_path / "there")
    assert Path(order["model"]).is_relative_to(tmp_path / "there")
    assert open_model(order["model"], lambda line: None).model.graph.constants


def save_with_weights_beside(kind: str, folder: Path) -> Path:
    folder.mkdir()
    np.savez(folder / "x.npz", x=np.ones((4, 64), np.float32))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "m",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64])],
        [onnx.numpy_helper.from_array(np.random.default_rng(1).normal(size=(64, 64)).astype(np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if kind == "dsl":
        onnx.save(model, folder / "first.onnx")
        convert_model(str(folder / "first.onnx"), folder / "m.dsl")
        (folder / "first.onnx").unlink()
        return folder / "m.dsl"
    location = "w.bin" if kind == "onnx" else "weights/w.bin"
    (folder / location).parent.mkdir(exist_ok=True)
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location=location, size_threshold=0)
    return folder / "m.onnx"


def test_a_cell_that_fails_says_so_and_the_others_go_on(tmp_path: Path) -> None:
    bench = "boards:\n  left: {board: due, port: /dev/nowhere}\n"
    (tmp_path / "bench.yaml").write_text(bench)
    text = MLP.replace("[host]", "[left, host]")
    done = sweep(tmp_path, text, "--json", "--md", "table.md", "-o", "report.html", "--bench", "bench.yaml")
    left, also_left, *hosts = table_of(done, 3)
    assert [row["exit_code"] for row in (left, also_left, *hosts)] == [3, 3, 0, 0]
    assert "/dev/nowhere does not exist" in left["error"]
    failures = [line for line in done.stderr.splitlines() if line.startswith("hil: ")]
    assert failures == [f"hil: digits_mlp on left, fixed8 and 1 more: {left['error']}"]  # each reason once
    assert "| ❌ failed (3) |" in (tmp_path / "table.md").read_text()
    page = (tmp_path / "report.html").read_text()
    assert "2 of 4 cells failed." in page
    assert page.index("cells failed") < page.index("/dev/nowhere does not exist") < page.index("All 2 runs fit")
    assert len(cells_in(tmp_path)) == 2, "a failure is tried again"


def test_a_cell_that_fails_names_keys_of_the_file(tmp_path: Path) -> None:
    text = MLP.replace("formats: ", "formats: [[fixed8, fixed16]] #")
    (row,) = table_of(sweep(tmp_path, text, "--json"), 2)
    assert row["error"].endswith("is not limited; give search: {ram: BYTES}")


def test_a_degraded_cell_says_why(tmp_path: Path) -> None:
    np.save(tmp_path / "loud.npy", np.full((4, 1, 8, 8), 1000, np.float32))
    text = "models: [{model: digits_mlp, inputs: loud.npy}]\nboards: [host]\nformats: [fixed8]\n"
    done = sweep(tmp_path, text, "--md", "table.md")
    assert done.returncode == 0, done.stderr
    table = (tmp_path / "table.md").read_text()
    assert "degraded" in table.split("\n")[2]
    assert "- digits_mlp on host, fixed8: degraded: " in table
    assert "of the inputs clipped" in table
    assert "of the inputs clipped" in done.stderr


@pytest.mark.parametrize(
    "damage",
    [
        *("[]", "{}", '{"key": 1}', "gone", "[" * 100_000),
        *({"exit_code": 7}, {"record": "../../../x.json"}, {"record": "/x.json"}, {"record": 3}, {"error": "no"}),
        *({"digests": {"profile.json": "0" * 64}}, {"digests": {"gone.json": "0" * 64}}, {"seconds": "1"}, {"key": 1}),
    ],
    ids=str,
)
def test_a_finished_cell_that_is_damaged_is_not_finished(damage: str | dict[str, Any], tmp_path: Path) -> None:
    """With a right sum, too, and the user is told."""
    key = "0" * 64
    record = (RECORDS / "profile.json").read_bytes()
    (tmp_path / "profile.json").write_bytes(record)
    whole: dict[str, Any] = {"schema_version": 2, "key": key, "exit_code": 0, "error": None, "record": "profile.json"}
    whole |= {
        "search": None,
        "assignment": None,
        "warnings": ["warning: of what was measured"],
        "seconds": 1.5,
        "processor_s": 1.0,
        "machine": "m",
        "process": [1, 2.0],
    }
    whole |= {"digests": {"profile.json": hashlib.sha256(record).hexdigest()}}
    cell, said = tmp_path / "cell.json", list[str]()
    cell.write_text(sealed(whole) + "\n")
    with telling(said.append):
        assert finished(tmp_path, key) == whole
        assert finished(tmp_path, "1" * 64) is None
        assert not said
        cell.write_text(damage if isinstance(damage, str) else sealed({**whole, **damage}) + "\n")
        assert finished(tmp_path, key) is None
        assert len(said) == 1
        cell.write_text(sealed(whole).replace("1.5", "0.5") + "\n")
        assert finished(tmp_path, key) is None
        cell.write_text(sealed(whole) + "\n")
        (tmp_path / "profile.json").write_bytes(record.replace(b'"accuracy": ', b'"accuracy":  '))
        assert finished(tmp_path, key) is None
    assert [line.rsplit(": ", 1)[1] for line in said[1:]] == [
        "edited; the cell is computed again",
        "profile.json is not what was measured; the cell is computed again",
    ]


def test_a_process_that_is_killed_is_its_cell_s_failure(tmp_path: Path) -> None:

    workers = Workers()
    try:
        worker = workers._take()
        os.kill(worker._process.pid, signal.SIGKILL)
        worker._process.wait()  # so that the order meets a closed pipe, and ending it does
        outcome = worker.carry_out({"key": "k"}, print)
        assert (outcome["exit_code"], outcome["error"]) == (130, "its process ended by signal 9")
        assert not worker.is_alive
    finally:
        workers.end()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "sweep.yaml:1:1: the file is empty"),
        ("[1, 2", "sweep.yaml:1:6"),
        ("just words", "must be a mapping"),
        ("models: [a, {b: &x [*x]}]", "contains itself"),
        (MLP + "modles: []", "modles: unknown key; `models`?"),
        (MLP + "samples: 10", "samples: unknown key; it stands in `run` or `search`: `run: {samples: ...}`"),
        (MLP + "colour: red", "colour: unknown key; known: models, boards, formats, strategies, run, search"),
        (MLP.replace("digits_mlp", "digits_mpl"), "1:10: models.0: no model 'digits_mpl'"),
        (MLP.replace("digits_mlp", "x.onnx"), "no such file"),
        (MLP.replace("host", "due, hots"), "boards.1: no board named 'hots'"),
        (MLP.replace("fixed16", "fixed61"), "formats.1: unknown number format 'fixed61'"),
        (MLP.replace("fixed16", "fp8"), "unknown number format 'fp8'; there are fp8e4m3, fp8e5m2"),
        (MLP.replace("fixed16", "posit8"), "formats.1: posit8 is a family; write posit8es0 and posit8es2 for a row of"),
        (MLP.replace("fixed16", "w.yaml"), "w.yaml: no such file"),
        (MLP.replace("fixed16", "[fixed8, w.yaml]"), "w.yaml: an assignment is a row of its own; a search chooses"),
        (MLP + "strategies: [lagrnage]", "unknown strategy 'lagrnage'"),
        (MLP + "strategies: [{strategy: random, set: {trails: 1}}]", "has no option 'trails'"),
        (MLP.replace("samples: 4", "samples: 0"), "run.samples"),
        (MLP.replace("samples: 4", "timeout: .inf"), "run.timeout"),
        (MLP.replace("fixed8,", "fixed16,"), "formats.1: fixed16 is there twice"),
        (MLP.replace("formats", "formats: []\nf"), "formats"),
        (MLP + "search: {minimize: weight}", "minimize"),
        (MLP.replace("[digits_mlp]", "digits_mlp"), "1:9: models: must be a list: [digits_mlp]"),
        (MLP.replace("{samples: 4}", "[samples: 4]"), "run: must be a mapping: {key: value}"),
        (MLP.replace("samples: 4", "sample: 4"), "run.sample: unknown key; `samples`?"),
        (MLP.replace("[digits_mlp]", "[{model: digits_mlp, input: x}]"), "models.0.input: unknown key; `inputs`?"),
        (
            MLP.replace("host", "uno, reram").replace("fixed8, fixed16", "[fixed4, fixed8]") + "search: {cost: 0.7}",
            "cost is no limit of uno, a chip; sweep over it without",
        ),
        (
            MLP.replace("host", "reram").replace("fixed8, fixed16", "[fixed4, fixed8]") + "search: {flash: 9}",
            "flash is no limit of reram, an accel",
        ),
        (MLP + "strategies: [{strategy: nsga2}]", "nsga2 needs Optuna: pip install 'tinyhil[nsga2]'"),
    ],
)
def test_bad_files_are_refused_in_a_line_each(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sweep.yaml").write_text(text)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ConfigError) as error:
        read_sweep(tmp_path / "sweep.yaml", load_boards())
    lines = str(error.value).splitlines()
    assert any(said in line for line in lines)
    assert all(line.startswith("sweep.yaml") for line in lines)
    assert len(lines) <= 3


def test_a_fault_of_an_entry_stands_alone(tmp_path: Path) -> None:
    """A list without its only entry was said to be too short, too; and a model in a file without samples ran into it
    cell by cell."""
    shutil.copy(ROOT / "models" / "digits_mlp" / "digits_mlp.onnx", tmp_path / "own.onnx")
    for entry, said in (
        ("{inputs: x.npz}", ["sweep.yaml:1:10: models.0.model: missing"]),
        ("own.onnx", ["sweep.yaml:1:10: models.0: a model from a file needs `inputs:`, samples to run on"]),
    ):
        (tmp_path / "sweep.yaml").write_text(MLP.replace("digits_mlp", entry))
        with pytest.raises(ConfigError) as error:
            read_sweep(tmp_path / "sweep.yaml", load_boards())
        assert str(error.value).splitlines() == said


def test_a_file_that_is_not_there_or_wrong_is_a_usage_error(tmp_path: Path) -> None:
    check_failure(hil("sweep", "nowhere.yaml", cwd=tmp_path), 2, "nowhere.yaml: no such file")
    check_failure(sweep(tmp_path, MLP.replace("host", "hots")), 2, "sweep.yaml:2:10: boards.0: no board named 'hots'")


def test_a_huge_product_is_refused(tmp_path: Path) -> None:
    formats = [f"fixed{bits}" for bits in range(2, 17)]
    pairs = [f"[{a}, {b}]" for a in formats for b in formats if a != b]
    ways = ", ".join(f"{{strategy: random, name: r{number}}}" for number in range(60))
    text = f"models: [digits_mlp]\nboards: [host]\nformats: [{', '.join(pairs)}]\nstrategies: [{ways}]\n"
    check_failure(sweep(tmp_path, text), 2, "are 12600 cells, more than 10000")


@pytest.mark.slow
def test_what_was_finished_outlives_a_kill(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text(MLP.replace("[host]", "[host, uno@emulated]"))
    process = start_hil("sweep", "sweep.yaml", "--jobs", 1, cwd=tmp_path)
    wait_until(lambda: len(cells_in(tmp_path)) >= 2)
    process.kill()
    process.communicate()
    before = cells_in(tmp_path)
    done = hil("sweep", "sweep.yaml", "--json", cwd=tmp_path)
    assert record_of(done)["known"] == len(before) >= 2
    assert {key: value for key, value in cells_in(tmp_path).items() if key in before} == before
    assert len(cells_in(tmp_path)) == 4


def test_a_scheduler_that_is_not_there(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes a connection and says nothing
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        check_failure(sweep(tmp_path, MLP, "--scheduler", address), 3, "no Dask scheduler answers there", address)
    with pytest.raises(SchedulerError, match=r"tcp://127.0.0.1:1: no Dask scheduler answers"):
        _ = Farm("tcp://127.0.0.1:1", 1.0, print).boards
    for address in ("nonsense://there", "tcp://", "", "tcp://host:port"):
        with pytest.raises(ConfigError, match="must be tcp://HOST:PORT"):
            Farm(address, 1.0, print)
    check_failure(sweep(tmp_path, MLP, "--scheduler", "tcp://x:1", "--jobs", 2), 2, "--jobs is for processes here")


def test_a_worker_that_can_not_tell_what_it_finished_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    class Scheduler:
        """Answers of two workers, as Dask's client returns them with on_error="return"."""

        def run(self, *_: object, on_error: str) -> dict[str, Any]:
            return {"tcp://a:1": PermissionError(13, "Permission denied"), "tcp://b:1": {"key": ({"exit_code": 0}, {})}}

    said: list[str] = []
    farm = Farm("tcp://host:1", 1.0, said.append)
    monkeypatch.setattr(Farm, "_client", Scheduler())
    assert farm._known(["key"]) == {"key": ({"exit_code": 0}, {})}
    assert [line.partition(" ")[0] for line in said] == ["tcp://a:1"]
    assert "Permission denied" in said[0]


def test_a_cell_whose_result_died_with_its_worker_is_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask has called it done; by the time we fetch it nobody has it, and nobody waits until another worker has."""
    monkeypatch.setattr("tinyhil.harness.sweep.farm.FETCH_S", 0.5)
    with farm(tmp_path / "farm") as running:
        running.add("first", {})
        asking = Farm(running.address, 60.0, print)
        cell, attempt = asking._client.submit(divmod, 7, 2), _Try(Cell("", "", (), None, {}, {}, (), ()))
        wait_until(lambda: cell.status == "finished")
        running.kill("first")
        assert asking._result(cell, attempt) is None
        running.add("second", {})
        wait_until(lambda: asking._result(cell, attempt) == (3, 1))
        asking._client.close()


# ---- a farm: four workers on loopback, each with a cache of its own ----

FARMED = """
models: [digits_mlp]
boards: [left, host, due@emulated, reram]
formats: [fixed16]
run: {samples: 100}
"""


@pytest.fixture(scope="module")
def due() -> Bench:
    """A Due behind a network can not be flashed: it runs the image of its cell."""
    return make_bench("due", "digits_mlp", load_inputs(find_model("digits_mlp"), None, 4).x)


@pytest.mark.slow
def test_a_farm_computes_what_one_machine_does(due: Bench, tmp_path: Path) -> None:
    """Three workers, two of them with a Due; a fourth when the first is killed amid a cell. The board that is asked
    first dies amid its cell, which goes on to the other one."""
    for name in ("alone", "farmed", "a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "farmed" / "sweep.yaml").write_text(FARMED)
    with ExitStack() as stack:
        servers = {}
        for name in ("a", "b"):
            device = stack.enter_context(powered(due, tmp_path / name))
            servers[name] = stack.enter_context(SerialServer(device.port, True))
            bench = f"boards:\n  left: {{board: due, address: '{servers[name].url}'}}\n"
            (tmp_path / f"{name}.yaml").write_text(bench)
        bench_file = ("--bench", tmp_path / "a.yaml")
        single = table_of(sweep(tmp_path / "alone", FARMED, "--json", *bench_file))
        running = stack.enter_context(farm(tmp_path / "farm"))
        running.add("killed", {})
        for name, server in servers.items():
            running.add(f"with_{name}", {"left": 1}, HIL_BENCH=str(tmp_path / f"{name}.yaml"))
            server.cut_after = 900
        running.wait_for(3)
        where = ("--scheduler", running.address, *bench_file)
        process = start_hil("sweep", "sweep.yaml", "--json", *where, cwd=tmp_path / "farmed")
        wait_until(lambda: running.has_begun("killed"))
        running.kill("killed")
        running.add("other", {})
        wait_until(lambda: None in (server.cut_after for server in servers.values()))
        for server in servers.values():
            server.cut_after = None
        out, err = process.communicate()
        done = Done(process.args, process.wait(), out, err)
    assert table_of(done) == single
    assert [row["exit_code"] for row in single] == [0] * 4
    assert done.stderr.count("another worker has such a board") == 1
    assert {row["machine"] for row in json.loads(out)["cells"]} == {platform.node()}
    folders = [Path(row["record"]) for row in json.loads(out)["cells"]]
    assert all((tmp_path / "farmed" / path).is_file() for path in folders), "records came back"


@pytest.mark.slow
def test_a_scheduler_that_goes_ends_the_sweep_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text(MLP.replace("host", "uno@emulated").replace("samples: 4", "samples: 400"))
    with farm(tmp_path / "farm") as running:
        running.add("one", {})
        running.wait_for(1)
        process = start_hil("sweep", "sweep.yaml", "--scheduler", running.address, cwd=tmp_path)
        wait_until(lambda: process.poll() is not None or running.has_begun("one"))
        running.kill_scheduler()
        out, err = process.communicate()
    check_failure(Done(process.args, process.wait(), out, err), 3, "it has gone", logs=True)
