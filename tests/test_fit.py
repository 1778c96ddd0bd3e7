"""`hil fit` against what was measured: arenas to the byte, estimates within their bands."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import hil_command
import numpy as np
import pytest
from onnx_models import node, simple

import tinyhil
from benchmarks import latency_table
from tinyhil import data
from tinyhil.errors import EXIT_BUILD, EXIT_USAGE, ModelError
from tinyhil.harness.fit.core_costs import Estimate, costs_of
from tinyhil.harness.fit.session import NO, TIGHT, YES, Agreement, Fit, FitRequest, _verdict, _with_choice, run_fit
from tinyhil.harness.job.zoo import zoo_names
from tinyhil.harness.settings.config import load_boards

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "results" / "golden"
MODELS = ("digits_cnn", "digits_mlp", "fastgrnn_har", "lenet5_mnist", "protonn_usps2", "bonsai_usps2")
BOARDS = ("uno", "due", "h747")


def fits(model: str, boards: tuple[str, ...], formats: str, **options: object) -> tuple[Fit, ...]:
    return run_fit(FitRequest(model, boards, formats, **options), load_boards(), lambda line: None).rows


Said = tuple[Fit, dict]


def on_file(model: str, boards: tuple[str, ...], formats: str) -> Iterator[Said]:
    """What is said of a zoo model, and its golden records."""
    for row in fits(model, boards, formats, prefer="balanced"):
        path = GOLDEN / row.board / f"{model}-{row.format}.json"
        if path.is_file():
            yield row, json.loads(path.read_text())


@pytest.fixture(scope="module")
def pairs() -> list[Said]:
    return [pair for model in MODELS for pair in on_file(model, BOARDS, "fixed8,fixed16")]


def test_plans_are_those_of_the_firmware(pairs: list[Said]) -> None:
    assert len(pairs) > 30
    for row, golden in pairs:
        assert row.fits == YES, row
        assert row.arena_bytes == golden["memory"]["arena_bytes"], row


def outside(pairs: Iterable[Said]) -> list[str]:
    """What was measured beside its band."""
    found = []
    for row, golden in pairs:
        latency_us = golden["latency"]["median"] / golden["latency"]["clock_hz"] * 1e6
        for what, measured, said in (
            ("us", latency_us, row.latency_us),
            ("B of flash", golden["flash_bytes"], row.flash_bytes),
            ("B of RAM", golden["memory"]["total_bytes"], row.ram_bytes),
        ):
            if said is None or not said.low <= measured <= said.high:
                found.append(f"{golden['model']} on {row.board} in {row.format}: {measured} {what}, said: {said}")
    return found


def test_measured_images_lie_in_the_bands(pairs: list[Said]) -> None:
    assert outside(pairs) == []


@pytest.mark.parametrize("model", [name for name in zoo_names() if name not in MODELS])
def test_all_records_of_the_zoo_lie_in_the_bands(model: str) -> None:
    boards = tuple(sorted({path.parent.name for path in GOLDEN.rglob(f"{model}-*.json")}))
    assert outside(pair for board in boards for pair in on_file(model, (board,), "fixed8,int8,fixed16")) == []


def test_floats_of_int8_and_code_for_them_take_what_was_measured() -> None:
    """Means, norms and a softmax in single precision: 20 ms and 36 kB on a Due, where 6 ms and 15 kB were said."""
    measured = json.loads((ROOT / "results" / "fit_points.json").read_text())["rows"]
    rows = {(row["network"], row["board"]): row["formats"]["int8"] for row in measured if "int8" in row["formats"]}
    boards = load_boards()
    for model in latency_table.INT8_ALONE:
        for said in fits(model, ("due", "nucleo_g0b1", "h747"), "int8", prefer="balanced"):
            took = rows[model, said.board]
            latency_us = took["cycles"] / boards.board(said.board).chip.clock_hz * 1e6
            assert said.latency_us.low <= latency_us <= said.latency_us.high, said
            assert said.flash_bytes.low <= took["flash_bytes"] <= said.flash_bytes.high, said


def test_what_is_looked_up_is_no_code_with_floats(tmp_path: Path) -> None:
    """A Sigmoid of int8 codes is a table: two values of it differ in no library from two of a Relu."""
    rng, found = np.random.default_rng(5), []
    np.savez(tmp_path / "x.npz", x=rng.normal(size=(16, 8)))
    for kind in ("Sigmoid", "Relu"):
        network = simple(
            [node("MatMul", "x w", "a"), node(kind, "a", "y")], {"x": (1, 8)}, {"w": rng.normal(size=(8, 2))}
        )
        (tmp_path / "m.onnx").write_bytes(network.SerializeToString())
        (row,) = fits(str(tmp_path / "m.onnx"), ("uno",), "int8", inputs=tmp_path / "x.npz")
        assert row.flash_bytes is not None
        found.append(row.flash_bytes.value)
    assert abs(found[0] - found[1]) < 1300  # a library of floats takes 1,408 B


def test_a_chip_without_room_beside_the_stack_copies_no_code(tmp_path: Path) -> None:
    """16 KiB are kept for the stack of a G0B1 before kernels are copied: with 12 KiB of RAM none are."""
    entry = "chips: {small: {like: stm32g0b1, ram_bytes: 12288}}\n"
    board = "boards: {node: {title: N, chip: small, reset: by_probe, upload: stlink}}\n"
    (tmp_path / "b.yaml").write_text(entry + board)
    request = FitRequest("digits_mlp", ("node", "nucleo_g0b1"), "fixed8")
    small, large = run_fit(request, load_boards(tmp_path / "b.yaml"), lambda line: None).rows
    assert small.ram_bytes.high < 2000 < large.ram_bytes.high


def test_a_scaler_takes_no_time_without_samples_either(tmp_path: Path) -> None:
    """It goes into the codes of the input: counted as operations, 11 of 24 latencies lay below their bands."""
    rng, found = np.random.default_rng(6), []
    mean, scale = rng.normal(size=16) * 50, np.exp(rng.normal(size=16) * 2)
    constants = {"mean": mean, "scale": scale, "w": rng.normal(size=(16, 4))}
    nodes = [node("Sub", "x mean", "c"), node("Div", "c scale", "s"), node("MatMul", "s w", "y")]
    (tmp_path / "m.onnx").write_bytes(simple(nodes, {"x": (1, 16)}, constants).SerializeToString())
    np.savez(tmp_path / "x.npz", x=mean + scale * rng.normal(size=(64, 16)))
    for samples in ({}, {"inputs": tmp_path / "x.npz"}):
        rows = fits(str(tmp_path / "m.onnx"), ("uno", "h747"), "int8,fixed8,fixed16", **samples)
        found.append([(row.latency_us.value, row.flash_bytes.value) for row in rows])
    assert np.allclose(found[0], found[1], rtol=0.05)


def test_a_board_whose_supply_is_unknown_is_said_to_be_slower(tmp_path: Path) -> None:
    """And is: its times are those of the clock that it has."""
    entry = "  ours:\n    title: Ours\n    chip: stm32h747\n    reset: by_probe\n    upload: stlink\n"
    asked = ("fit", "digits_mlp", "--boards-file", "own.yaml", "--board", "ours", "--formats", "fixed8")
    times = list[float]()
    for supply, words in (("", "ours: without `supply:` it runs at its clock after reset"), ("    supply: smps\n", "")):
        (tmp_path / "own.yaml").write_text(f"boards:\n{entry}{supply}")
        done = hil_command.hil(*asked, "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stderr.startswith(words)
        assert ("supply" in done.stderr) == bool(words)
        times.append(json.loads(done.stdout)["rows"][0]["latency_us"]["value"])
    assert times[0] == pytest.approx(400 / 64 * times[1])
    (tmp_path / "own.yaml").write_text(f"boards:\n{entry}    clock_hz: 64000000\n")  # which it has after its reset
    assert "supply" not in hil_command.hil(*asked, cwd=tmp_path).stderr


def test_no_operation_is_free() -> None:
    for core, row in json.loads((ROOT / "harness" / "fit" / "costs.json").read_text())["cores"].items():
        floors = latency_table.floors(core)
        for name, cost in row["cycles"].items():
            assert cost >= floors.get(name, latency_table.LEAST), (core, name)


def test_every_board_takes_seconds() -> None:
    begin = time.process_time()
    rows = run_fit(FitRequest("lenet5_mnist"), load_boards(), lambda line: None).rows
    assert time.process_time() - begin < 10
    boards = load_boards()
    specs = [boards.board(name) for name in boards.entries]
    chips = {spec.name for spec in specs if spec.chip.tick == "cycles" and spec.chip.flash_bytes}
    assert {row.board for row in rows} == chips >= {"uno", "due", "h747", "nucleo_h745", "nucleo_l4r5"}
    bands = [row.latency_us for row in rows if row.fits != NO]
    assert bands
    assert all(band is not None and band.low < band.value < band.high for band in bands)
    assert {row.format for row in rows} == {"fixed8", "int8", "fixed16"}


def test_isolated_operations_take_what_was_measured_of_them(tmp_path: Path) -> None:
    boards, measured = load_boards(), json.loads((ROOT / "results" / "fit_points.json").read_text())["rows"]
    for network in latency_table.isolated(tmp_path):
        rows = {row["board"]: row["formats"] for row in measured if row["network"] == network.title}
        for said in fits(str(network.model), ("due", "nucleo_g0b1"), "fixed8,int8", prefer="balanced"):
            if said.format not in rows.get(said.board, {}):
                continue
            took = rows[said.board][said.format]["cycles"] / boards.board(said.board).chip.clock_hz * 1e6
            assert said.latency_us is not None
            assert said.latency_us.low <= took <= said.latency_us.high, said


@pytest.mark.parametrize(("size", "side", "reason"), [(200, 1, "constants take 40,"), (2, 3000, "RAM is too small")])
def test_what_does_not_fit_says_why(size: int, side: int, reason: str, tmp_path: Path) -> None:
    nodes = [node("Tanh", "x", "t"), node("MatMul", "t W", "y")]
    model = simple(nodes, {"x": (side, size)}, {"W": np.random.default_rng(0).normal(size=(size, size))})
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    done = hil_command.hil("fit", "net.onnx", "--board", "uno", "--formats", "fixed8", cwd=tmp_path)
    assert done.returncode == EXIT_BUILD
    assert reason in done.stdout
    assert "* what to take on that board" in done.stdout
    assert "--prefer ram` measures it on an emulated board" in done.stdout
    assert "fits none of these boards" in done.stderr


def test_what_does_not_fit_counts_its_sample(tmp_path: Path) -> None:
    """The same plan in less RAM than it takes, and in more."""
    chips = "chips:\n" + "".join(f"  a{n}: {{like: atmega328p, ram_bytes: {n}}}\n" for n in (400, 2048))
    entry = "{{title: Mine, chip: {0}, reset: on_open, upload: none}}"
    boards = "boards:\n" + "".join(f"  {n}: {entry.format(n)}\n" for n in ("a400", "a2048"))
    (tmp_path / "own.yaml").write_text(chips + boards)
    asked = ("digits_cnn", "--boards-file", "own.yaml", "--boards", "a400,a2048", "--formats", "fixed16", "--json")
    small, large = json.loads(hil_command.hil("fit", *asked, cwd=tmp_path).stdout)["rows"]
    assert (small["fits"], small["reason"]) == (NO, "RAM is too small")
    assert [small[name] for name in ("arena_bytes", "ram_bytes")] == [
        large[name] for name in ("arena_bytes", "ram_bytes")
    ]
    assert small["ram_bytes"]["low"] > 400


SEPARABLE = {"W1": (8, 1, 3, 3), "D": (8, 1, 3, 3), "W2": (384, 4)}


def test_what_no_image_has_shown_is_tight_at_best() -> None:
    """A convolution in groups: its code is as unknown on an AVR as its time."""
    weights = {"W": np.random.default_rng(0).normal(size=(4, 2, 3, 3))}
    model = tinyhil.load(simple([node("Conv", "x W", "y", group=2)], {"x": (1, 4, 5, 5)}, weights))
    rows = {row.board: row for row in model.fit(["uno", "h747"], formats="int8")}
    assert (rows["uno"].fits, rows["uno"].latency_us) == (TIGHT, None)
    assert "no measured image of this core has such operations" in rows["uno"].reason
    assert rows["h747"].fits == YES
    assert rows["h747"].latency_us is not None


@pytest.mark.parametrize("board", ["nucleo_l4r5", "h747"])
def test_rows_of_depthwise_layers_cost_what_they_take(board: str) -> None:
    """Planned for the least RAM, by rows, they take half as long again as layer by layer."""
    random = np.random.default_rng(0)
    weights = {name: random.normal(size=shape) / 3 for name, shape in SEPARABLE.items()}
    nodes = [
        node("Conv", "x W1", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("Conv", "r D", "d", kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=8),
        node("Relu", "d", "s"),
        node("Add", "r s", "a"),
        node("MaxPool", "a", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", "p", "f"),
        node("MatMul", "f W2", "y"),
    ]
    x = random.normal(size=(20, 1, 24, 8)).astype(np.float32)
    model = tinyhil.load(simple(nodes, {"x": (1, 1, 24, 8)}, weights), x)
    (said,) = model.fit(board, x, formats="int8", prefer="ram")
    took = {how: model.run(board, x[:4], formats="int8", prefer=how).latency["median_us"] for how in ("ram", "latency")}
    assert took["ram"] > 1.25 * took["latency"]
    assert said.latency_us["low"] < took["ram"] < said.latency_us["high"]
    assert took["ram"] / 1.6 < said.latency_us["value"] < 1.6 * took["ram"]


def test_a_file_of_pytorch_is_told_how_to_become_onnx(tmp_path: Path) -> None:
    done = hil_command.hil("fit", "net.pt", cwd=tmp_path)
    words = "net.pt: a file of PyTorch; write it as .onnx or .tflite: hil docs exporters"
    hil_command.check_failure(done, ModelError.exit_code, words)


def test_samples_judge_formats_and_python_says_the_same(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    x = random.uniform(0, 1, (60, 1, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    asked = ("fit", "digits_cnn", "--boards", "uno", "--formats", "fixed4,fixed16", "--inputs", "x.npz", "--json")
    done = hil_command.hil(*asked, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    model = tinyhil.load("digits_cnn")
    assert [row.to_dict() for row in model.fit("uno", x, formats="fixed4,fixed16")] == rows
    for row in rows:
        measured = model.run("host", x, formats=row["format"])
        assert row["agreement"]["disagreements"] == measured["disagreements"]
        assert row["agreement"]["samples"] == 60
    assert [row["chosen"] for row in rows] == [False, True]


@pytest.mark.parametrize(
    ("flash", "ram", "expected"),
    [
        ((80, 90, 99), (1, 1, 1), YES),
        ((80, 90, 101), (1, 1, 1), TIGHT),
        ((101, 110, 120), (1, 1, 1), NO),
        ((1, 1, 1), (9, 10, 11), TIGHT),
        ((1, 1, 1), (11, 12, 13), NO),
    ],
)
def test_the_verdict_follows_the_bands(
    flash: tuple[float, float, float], ram: tuple[float, float, float], expected: str
) -> None:
    def estimate(low: float, value: float, high: float) -> Estimate:
        return Estimate(value, low, high)

    assert _verdict(estimate(*flash), 100, estimate(*ram), 10)[0] == expected


@pytest.mark.parametrize(
    ("labels", "said"), [(True, "have label 4"), (False, "float model decides all 40 samples alike")]
)
def test_samples_of_one_class_are_said(labels: bool, said: str, tmp_path: Path) -> None:
    """By `hil fit` and by `hil run`, once each: a model that always says the same is right about them, too."""
    x = data.load("digits").x_test[:1].reshape(1, 1, 8, 8) + np.linspace(0, 0.1, 40).reshape(-1, 1, 1, 1)
    y = {"y": np.full(40, 4)} if labels else {}
    np.savez(tmp_path / "one.npz", x=x, **y)
    np.savez(tmp_path / "all.npz", x=data.load("digits").x_test[:40].reshape(40, 1, 8, 8))
    for name, count in (("one.npz", 1), ("all.npz", 0)):
        fitted = hil_command.hil("fit", "digits_mlp", "--boards", "uno", "--inputs", name, cwd=tmp_path)
        ran = hil_command.hil("run", "--model", "digits_mlp", "--board", "host", "--inputs", name, cwd=tmp_path)
        for done in (fitted, ran):
            assert done.returncode == 0, done.stderr
            assert done.stderr.count(said) == count, done.stderr


def test_labels_that_begin_with_one_are_said(tmp_path: Path) -> None:
    """Those of nine of the ten classes were taken: each lies within them."""
    digits = data.load("digits")
    x, y = digits.x_test.reshape(-1, 1, 8, 8), digits.y_test
    np.savez(tmp_path / "one.npz", x=x[y < 9][:60], y=y[y < 9][:60] + 1)
    np.savez(tmp_path / "own.npz", x=x[:60], y=y[:60])
    for name, count in (("one.npz", 1), ("own.npz", 0)):
        done = hil_command.hil("run", "--model", "digits_mlp", "--board", "host", "--inputs", name, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("labels seem to begin with 1: the float model decides 100% of samples") == count, (
            done.stderr
        )


def test_the_printed_command_gives_the_ram_that_was_said(tmp_path: Path) -> None:
    """Of a network that a run places otherwise as long as nobody says what is preferred."""
    said = hil_command.hil("fit", "digits_cnn", "--boards", "uno", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    (line,) = (line for line in said.stdout.splitlines() if line.startswith("to see it run: "))
    words = shlex.split(line[line.index("hil run") :])[1:]
    (row,) = (one for one in fits("digits_cnn", ("uno",), "fixed8,int8,fixed16") if one.chosen)
    ran = hil_command.record_of(hil_command.hil(*words, "--samples", 2, "--json", cwd=tmp_path))
    assert ran["format"] == row.format
    assert ran["memory"]["arena_bytes"] == row.arena_bytes


@pytest.mark.parametrize("board", ["uno", "h747"])
def test_what_is_computed_again_takes_its_time(board: str, tmp_path: Path) -> None:
    """Layers by rows and in groups of channels cost calls and windows gathered anew: several times the whole layers."""
    (whole,) = fits("digits_cnn", (board,), "fixed8", prefer="latency")
    (least,) = fits("digits_cnn", (board,), "fixed8", prefer="least")
    assert whole.latency_us is not None
    assert least.latency_us is not None
    assert least.latency_us.value > 3 * whole.latency_us.value
    done = hil_command.hil(
        *("run", "--board", board, "--model", "digits_cnn", "--format", "fixed8", "--prefer", "least"),
        *("--samples", "2", "--json"),
        cwd=tmp_path,
    )
    median_us = json.loads(done.stdout)["latency"]["median_us"]
    assert least.latency_us.low <= median_us <= least.latency_us.high


def test_a_row_says_what_its_band_does_not_hold() -> None:
    """Of a Pico, whose flash cache a run gives no more than bounds of; a Nucleo's error is known, an Uno's is none."""
    said = {row.board: row.beside_latency for row in fits("digits_mlp", ("uno", "pico", "nucleo_g0b1"), "fixed8")}
    assert said == {"uno": "", "pico": "flash waits", "nucleo_g0b1": ""}
    done = hil_command.hil("fit", "digits_mlp", "--boards", "pico", "--formats", "fixed8", cwd=ROOT)
    (line,) = (line for line in done.stdout.splitlines() if "pico" in line and "fixed8 *" in line)
    assert "us + flash waits" in line


def test_what_to_take() -> None:
    def row(name: str, fits_: str, us: float, disagreements: int | None = None, ram: int = 0) -> Fit:
        judged = None if disagreements is None else Agreement(100, disagreements, None, None, 100)
        room = {"ram_bytes": Estimate(ram, ram, ram), "ram_limit_bytes": 720}
        return Fit("uno", name, fits_, latency_us=Estimate(us, us, us), agreement=judged, **room)

    def taken(*rows: Fit) -> str:
        return next(one.format for one in _with_choice(rows, ["uno"], []) if one.chosen)

    assert taken(row("fixed8", YES, 5), row("int8", YES, 4), row("fixed16", YES, 9)) == "fixed16"
    assert taken(row("fixed8", YES, 5), row("int8", YES, 4), row("fixed16", TIGHT, 9)) == "int8"
    assert taken(row("fixed8", YES, 5, 3), row("int8", YES, 4, 7), row("fixed16", YES, 9, 3)) == "fixed8"
    tight = row("fixed8", TIGHT, 5, 3, ram=697), row("int8", TIGHT, 4, 3, ram=697), row("fixed16", TIGHT, 9, 0, ram=793)
    assert taken(*tight) == "int8"  # which fits but for what is kept for the stack
    assert taken(row("fixed8", TIGHT, 5, ram=800), row("fixed16", TIGHT, 9, ram=793)) == "fixed16"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("net", "--boards", "host"), "host has no limits"),
        (("digits_cnn", "--boards", "nobody"), "nobody"),
        (("digits_cnn", "--formats", "fixed99"), "fixed99"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = hil_command.hil("fit", *arguments, cwd=tmp_path)
    assert done.returncode in (EXIT_USAGE, 3)
    assert message in done.stderr.splitlines()[-1]


def test_formats_that_were_not_measured_have_no_latency() -> None:
    """Codes that are decoded or unpacked before they are multiplied cost what no class of the table says."""
    measured = ("fixed8", "int8", "fixed16", "fixed12", "fixed8pc")
    others = ("posit8es0", "posit16es1", "fp8e4m3", "fixed4", "fixed6", "fixed4pc", "kmeans16")
    rows = run_fit(
        FitRequest("digits_cnn", ("uno", "h747"), ",".join((*measured, *others))), load_boards(), lambda line: None
    ).rows
    assert {row.format for row in rows if row.latency_us is None} == set(others)
    assert all(row.reason for row in rows if row.latency_us is None)


def test_a_limit_can_be_chosen_from_what_is_printed(tmp_path: Path) -> None:
    """RAM is the upper end of its band, and of which samples decisions are is said."""
    x = np.random.default_rng(0).uniform(0, 16, (450, 1, 1, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    fit = ("fit", "digits_mlp", "--board", "uno", "--formats", "fixed8", "--inputs", "x.npz")
    done = hil_command.hil(*fit, "--samples", "90", cwd=tmp_path)
    (row,) = json.loads(hil_command.hil(*fit, "--samples", "90", "--json", cwd=tmp_path).stdout)["rows"]
    assert f" {row['ram_bytes']['high']:,.0f} " in done.stdout
    assert f"of {row['agreement']['samples']} of 450 samples, evenly spread" in done.stdout
    assert "evenly spread" not in hil_command.hil(*fit, "--samples", "450", cwd=tmp_path).stdout


@pytest.mark.parametrize("board", ["uno", "due", "h747"])
def test_what_to_take_does_not_depend_on_the_order_of_formats(board: str) -> None:
    """Scales of channels cost code and, on most cores, time: once neither."""
    found = []
    for formats in ("fixed8,fixed8pc", "fixed8pc,fixed8"):
        rows = run_fit(FitRequest("digits_mlp", (board,), formats), load_boards(), lambda line: None).rows
        costs = {row.format: (row.latency_us.value, row.flash_bytes.value) for row in rows}
        assert costs["fixed8"][0] <= costs["fixed8pc"][0]
        assert costs["fixed8"][1] < costs["fixed8pc"][1]
        found += [row.format for row in rows if row.chosen]
    assert found == ["fixed8", "fixed8"]


def test_the_page_shows_the_bands_of_the_table() -> None:
    page = (ROOT / "docs" / "fit.md").read_text()
    cores = json.loads((ROOT / "harness" / "fit" / "costs.json").read_text())["cores"]
    for core, row in cores.items():
        low, high = (f"{100 * (share - 1):+.0f}" for share in row["cycles_band"])
        line = f"cycles of an? {core} \\| {row['images']} images of {row['networks']} networks \\| {re.escape(low)} to"
        of_code = [f"{100 * (share - 1):+.0f}" for share in row["code_band"]]
        code = f"its code \\| the same \\| {re.escape(of_code[0])} to {re.escape(of_code[1])} %"
        assert re.search(f"{line} {re.escape(high)} % \\|\n\\| {code}", page), core
        costs = costs_of(core)
        assert costs is not None
        assert costs.cycles_of({"call": 1, "a layer that nobody has measured": 5}) is None


def test_a_file_that_states_its_formats_has_one_row_a_board() -> None:
    """It was three equal ones, and that of the most bits was to be taken."""
    said: list[str] = []
    model = str(ROOT / "tests" / "data" / "models" / "mlperftiny_ad_autoencoder_int8.tflite")
    found = run_fit(FitRequest(model, ("due", "h747")), load_boards(), said.append)
    assert [(row.board, row.format, row.chosen) for row in found.rows] == [
        ("due", "int8", True),
        ("h747", "int8", True),
    ]
    assert any("one row, `int8`, stands for all" in line for line in said)
    assert "--format int8" in found.next_command


@pytest.mark.parametrize("board", ["uno", "due"])
def test_a_walk_from_node_to_node_was_never_measured(board: str) -> None:
    """Forests took twice to a sixth of the latencies that were said of them."""
    (row,) = fits(str(ROOT / "tests" / "scikit_learn" / "rf2.onnx"), (board,), "fixed8")
    assert (row.fits, row.latency_us) == (TIGHT, None)
    assert "code and time are not known" in row.reason


def test_what_is_kept_for_the_stack_may_be_too_much(tmp_path: Path) -> None:
    """Of 3,304 B the linker keeps 2,048 for a stack of some 400, and refuses what has 1,300 beside it."""
    own = tmp_path / "own.yaml"
    chips = "".join(
        f"  {name}: {{like: stm32l4r5, ram_bytes: 3304, stack_reserve_bytes: {reserve}}}\n"
        for name, reserve in (("wary", 2048), ("bold", 800))
    )
    each = "".join(
        f"  {name}: {{title: T, chip: {name}, reset: by_probe, upload: stlink}}\n" for name in ("wary", "bold")
    )
    own.write_text(f"chips:\n{chips}boards:\n{each}")
    request = FitRequest("digits_cnn", ("wary", "bold"), "fixed8")
    rows = {row.board: row for row in run_fit(request, load_boards(own), lambda line: None).rows}
    assert (rows["wary"].fits, rows["bold"].fits) == (TIGHT, YES)
    assert "2,048 B of RAM are kept for the stack (stack_reserve_bytes)" in rows["wary"].reason
