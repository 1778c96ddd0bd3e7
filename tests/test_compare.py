"""Two records against each other, the statistics of physical boards, and the commands that use them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hil_command import check_failure, hil, record_of
from port_models import STEPS, cell, streams
from wire_bench import write_tiny_model

from tinyhil.harness.measure.golden import Order, make_golden
from tinyhil.harness.records.bench_stats import Summary, Times, bootstrap, compare_times, spread
from tinyhil.harness.records.compare import compare
from tinyhil.harness.records.figures import figures
from tinyhil.harness.records.reals import format_of, real_outputs
from tinyhil.harness.records.side_by_side import changes

Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compare")
    write_tiny_model(folder / "tiny.onnx")
    x = np.random.default_rng(5).uniform(-1, 1, (40, 1, 32)).astype(np.float32)
    np.savez(folder / "x.npz", x=x, y=np.arange(40) % 4)
    return folder


def tiny(files: Path) -> list[object]:
    return ["--model", files / "tiny.onnx", "--inputs", files / "x.npz", "--calibrate", files / "x.npz"]


@pytest.fixture(scope="session")
def record(files: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A run of the tiny model on the emulated Uno."""
    folder = tmp_path_factory.mktemp("run")
    return record_of(hil("run", "--board", "uno", *tiny(files), "--samples", 8, "--json", cwd=folder))


def plus(path: str, amount: int) -> Change:
    """Adds to the number at a.b.c."""

    def change(record: dict[str, Any]) -> None:
        *way, last = path.split(".")
        for step in way:
            record = record[int(step)] if isinstance(record, list) else record[step]
        key = int(last) if isinstance(record, list) else last
        record[key] += amount

    return change


def put(path: str, value: object) -> Change:
    def change(record: dict[str, Any]) -> None:
        *way, last = path.split(".")
        for step in way:
            record = record[int(step)] if isinstance(record, list) else record[step]
        record[int(last) if isinstance(record, list) else last] = value

    return change


# what is changed -> what is named, whether the gate fails, whether it counts as better
CHANGES: dict[str, tuple[Change, str, bool, bool]] = {
    "an output": (put("raw.outputs.3", "00"), "outputs: 1 of 8 samples differ; sample 3", True, False),
    "a saturation count": (plus("raw.saturations.0", 1), "saturations", True, False),
    "one cycle more": (plus("raw.ticks.7", 1), "cycles: +0.0", True, False),
    "one cycle less": (plus("raw.ticks.7", -1), "cycles: -0.0", True, True),
    "flash": (plus("flash_bytes", 2), "flash_bytes", True, False),
    "less flash": (plus("flash_bytes", -2), "flash_bytes", True, True),
    "static RAM": (plus("memory.static_bytes", 1), "static_bytes", True, False),
    "the arena": (plus("memory.arena_bytes", 4), "arena_bytes", True, False),
    "the heap": (plus("memory.heap_bytes", 4), "heap_bytes", True, False),
    "the stack": (plus("memory.stack_limit_bytes", 1), "stack_limit_bytes", True, False),
    "not bit-exact": (put("bit_exact", False), "bit-exact", True, False),
    "accuracy lost": (plus("accuracy", -1), "accuracy", True, False),
    "accuracy gained": (plus("accuracy", 1), "accuracy", False, True),
    "the model": (put("provenance.model_sha256", "0"), "model: another file", True, False),
    "the inputs": (put("raw.inputs_crc32.0", "0"), "inputs: the same samples in other codes", True, True),
    "the compiler": (put("provenance.compiler.version", "99"), "not held to each other", False, False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_one_change_is_one_difference(name: str, record: dict[str, Any]) -> None:
    change, words, fails, better = CHANGES[name]
    changed = copy.deepcopy(record)
    change(changed)
    (found,) = compare(figures(record), figures(changed))
    assert words in str(found)
    assert (found.fails, found.better) == (fails, better)


def test_codes_of_another_format_are_not_other_samples(record: dict[str, Any]) -> None:
    changed = {**copy.deepcopy(record), "format": "fixed4"}
    changed["raw"]["inputs_crc32"][0] = "0"
    (found,) = compare(figures(record), figures(changed))
    assert str(found) == f"inputs: codes in fixed4 instead of {record['format']}: outputs are not held to each other"
    assert not found.fails


def test_ranges_that_cost_accuracy_or_time_are_no_improvement(record: dict[str, Any]) -> None:
    """The same samples in other codes: what anybody asks of them is held, with --better-is-fine, too."""
    for format_ in (record["format"], "fixed4"):
        changed = {**copy.deepcopy(record), "format": format_}
        for change in (put("raw.inputs_crc32.0", "0"), plus("accuracy", -0.01), plus("latency.median", 1)):
            change(changed)
        found = compare(figures(record), figures(changed))
        assert {one.what for one in found if one.fails and not one.better} >= {"accuracy", "cycles"}
        doubtful = copy.deepcopy(record)
        for change in (put("raw.inputs_crc32.0", "0"), put("format", format_), plus("input_saturations", 10**6)):
            change(doubtful)
        put("input_beyond", 10**6)(doubtful)
        (verdict,) = [one for one in compare(figures(record), figures(doubtful)) if one.what == "verdict"]
        assert (verdict.text, verdict.fails, verdict.better) == ("degraded now: inputs-clipped", True, False)


def test_another_accuracy_of_equal_outputs_is_one_of_labels(record: dict[str, Any]) -> None:
    changed = copy.deepcopy(record)
    plus("accuracy", -0.01)(changed)
    (found,) = compare(figures(record), figures(changed))
    assert found.text.endswith(" %, of equal outputs: labels are others")


def test_equal_records_and_prefixes_do_not_differ(record: dict[str, Any]) -> None:
    assert compare(figures(record), figures(record)) == []
    short = copy.deepcopy(record)
    short["samples"], short["raw"] = 3, {key: values[:3] for key, values in short["raw"].items()}
    assert compare(figures(record), figures(short)) == []
    plus("raw.ticks.2", 1)(short)
    assert [difference.what for difference in compare(figures(record), figures(short))] == ["cycles"]


@pytest.mark.parametrize(("extra_bytes", "count"), [(0, 0), (64, 0), (-64, 0), (65, 1), (-65, 1)])
def test_the_stack_has_some_slack(extra_bytes: int, count: int, record: dict[str, Any]) -> None:
    """Only where the deepest stack that the image can need is not known."""
    before = copy.deepcopy(record)
    del before["memory"]["stack_limit_bytes"]
    changed = copy.deepcopy(before)
    changed["memory"]["stack_bytes"] += extra_bytes
    assert len(compare(figures(before), figures(changed))) == count


def test_costs_of_another_compiler_are_not_compared_but_outputs_are(record: dict[str, Any]) -> None:
    changed = copy.deepcopy(record)
    for change in (plus("flash_bytes", 9), plus("raw.ticks.0", 9), put("provenance.compiler.version", "99")):
        change(changed)
    assert [difference.fails for difference in compare(figures(record), figures(changed))] == [False]
    put("raw.outputs.0", "ff")(changed)
    assert [d.what for d in compare(figures(record), figures(changed)) if d.fails] == ["outputs"]


# ---- times of physical boards ----

TIMES = {  # boot medians before and now, medians of earlier runs -> does it fail
    "equal": ((1000.0,) * 3, (1000.0,) * 3, (), False),
    "0.9 % slower": ((1000.0,) * 3, (1009.0,) * 3, (), False),
    "1.1 % slower": ((1000.0,) * 3, (1011.0,) * 3, (), True),
    "one slow boot of three": ((1000.0,) * 3, (1000.0, 1000.0, 1500.0), (), False),
    "5 % faster": ((1000.0,) * 3, (950.0,) * 3, (), False),
    "5 % slower on a steady board": ((1000.0,) * 3, (1050.0,) * 3, (999.0, 1000.0, 1001.0) * 4, True),
    "5 % slower on a noisy board": ((1000.0,) * 3, (1050.0,) * 3, (980.0, 1000.0, 1020.0) * 4, False),
    "7 % slower on a noisy board": ((1000.0,) * 3, (1070.0,) * 3, (980.0, 1000.0, 1020.0) * 4, True),
}


@pytest.mark.parametrize("name", TIMES)
def test_gate_of_times(name: str) -> None:
    before, now, history, fails = TIMES[name]
    verdict = compare_times(Times(before), Times(now), history)
    assert verdict.fails is fails
    assert f"{len(now)} resets" in verdict.text


def test_spread_is_the_mad_of_the_last_ten() -> None:
    values = [1.0, 5.0, 2.0, 9.0, 4.0]
    assert spread(values) == np.median(np.abs(np.array(values) - np.median(values)))
    assert spread([1e9] * 5 + [7.0] * 10) == 0.0
    assert spread([1.0, 2.0]) == 0.0


def test_bootstrap_agrees_with_numpy_and_repeats() -> None:
    medians = [100.0, 101.0, 103.0, 110.0, 90.0]
    low, high = bootstrap(medians)
    assert bootstrap(medians) == (low, high)
    drawn = np.median(np.random.default_rng(1).choice(medians, (20_000, 5)), axis=1)
    assert (low, high) == (np.quantile(drawn, 0.025), np.quantile(drawn, 0.975))
    assert bootstrap([7.0, 7.0, 7.0]) == (7.0, 7.0)


def test_summary_leaves_the_first_out() -> None:
    ticks = [500, *range(100, 130)]
    found = Summary.of(ticks, 1)
    assert (found.first, found.min, found.max, found.median) == (500, 100, 129, 114.5)
    assert found.p95 == pytest.approx(np.percentile(ticks[1:], 95))
    with pytest.raises(ValueError, match="none is left"):
        Summary.of([1, 2], 2)


# ---- the commands ----


def test_bench_on_an_emulator_is_exact_and_is_its_own_gate(files: Path, tmp_path: Path) -> None:
    arguments = ["bench", "--board", "uno", *tiny(files), "--resets", 3, "--inferences", 6, "--json"]
    first = record_of(hil(*arguments, cwd=tmp_path))
    assert [boot["median"] for boot in first["boots"]] == [first["latency"]["median"]] * 3
    assert first["latency"]["interval"] == [first["latency"]["median"]] * 2
    (path,) = (tmp_path / "results" / "bench" / "uno" / "tiny").glob("*.json")
    assert json.loads(path.read_text()) == first
    assert record_of(hil(*arguments, "--against", path, cwd=tmp_path))["boots"] == first["boots"]
    faster = copy.deepcopy(first)
    faster["raw"]["ticks"][2] -= 1
    (tmp_path / "faster.json").write_text(json.dumps(faster))
    done = hil(*arguments, "--against", "faster.json", cwd=tmp_path)
    check_failure(done, 1, "gate failed", "faster.json", logs=True)
    assert "FAIL cycles: +0.0" in done.stderr
    others = copy.deepcopy(first)
    others["raw"]["inputs_crc32"][0] = "00000000"
    (tmp_path / "others.json").write_text(json.dumps(others))
    check_failure(hil(*arguments, "--against", "others.json", cwd=tmp_path), 1, "gate failed", logs=True)
    assert list((tmp_path / "results" / "uno").rglob("*")) == []


def test_an_arena_that_holds_the_sample_is_no_larger_one(record: dict[str, Any], tmp_path: Path) -> None:
    """Beside it the sample takes more; static RAM tells, and an arena of the same kind is held as ever."""
    apart, inside = copy.deepcopy(record), copy.deepcopy(record)
    apart["memory"] |= {"arena_bytes": 30, "input_bytes": 128, "static_bytes": 256}
    inside["memory"] |= {"arena_bytes": 88, "input_bytes": 0, "static_bytes": 168}
    for name, content in (("apart", apart), ("inside", inside)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.json").write_text(json.dumps(content))
    done = hil("compare", "apart", "inside", "--better-is-fine", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "note arena_bytes: 30 -> 88 (+58); with the sample in one of them" in done.stdout
    assert "worse" not in done.stdout
    inside["memory"]["arena_bytes"] += 8
    (tmp_path / "apart" / "x.json").write_text(json.dumps(inside))
    check_failure(hil("compare", "inside", "apart", cwd=tmp_path), 1, "gate failed: 1 difference")


def test_compare_prints_what_changed_and_exits_with_the_gate(record: dict[str, Any], tmp_path: Path) -> None:
    smaller, larger = copy.deepcopy(record), copy.deepcopy(record)
    smaller["flash_bytes"] -= 100
    larger["flash_bytes"] += 100
    for name, content in (("a", record), ("smaller", smaller), ("larger", larger)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.json").write_text(json.dumps(content))
    assert hil("compare", "a", "a", cwd=tmp_path).stdout == "uno tiny fixed16: equal\n"
    done = hil("compare", "a", "larger", cwd=tmp_path)
    check_failure(done, 1, "gate failed: 1 difference between")
    assert f"FAIL flash_bytes: {record['flash_bytes']:,} -> {record['flash_bytes'] + 100:,} (+100)" in done.stdout
    check_failure(hil("compare", "a/x.json", "smaller/x.json", cwd=tmp_path), 1, "gate failed")
    fine = hil("compare", "a", "smaller", "--better-is-fine", "--json", cwd=tmp_path)
    assert fine.returncode == 0
    assert json.loads(fine.stdout)["compared"][0]["differences"][0]["better"] is True


BAD_RECORDS = {
    "not JSON": ("{", "not a readable record"),
    "another object": ("{}", "not a record of"),
    "an old record": ('{"raw": {}, "memory": {}, "provenance": {}}', "measure again"),
}


@pytest.mark.parametrize("name", BAD_RECORDS)
def test_files_that_are_no_records(name: str, tmp_path: Path) -> None:
    text, words = BAD_RECORDS[name]
    (tmp_path / "x.json").write_text(text)
    check_failure(hil("compare", "x.json", "x.json", cwd=tmp_path), 2, "x.json", words)
    (tmp_path / "folder").mkdir()
    check_failure(hil("compare", "folder", "x.json", cwd=tmp_path), 2, "two records, or two folders")
    check_failure(hil("compare", "folder", "folder", cwd=tmp_path), 2, "no records below")


# ---- golden records ----


def test_golden_records_are_made_checked_and_updated(files: Path, tmp_path: Path) -> None:
    make = ["golden", "update", *tiny(files), "--samples", 5, "--board", "uno", "--board", "host"]
    assert hil(*make, cwd=tmp_path).returncode == 0
    path = tmp_path / "results/golden/uno/tiny-fixed16.json"
    golden = json.loads(path.read_text())
    assert golden["kind"] == "golden"
    assert len(golden["raw"]["outputs"]) == 5
    holds = hil("golden", "check", cwd=tmp_path)
    assert (holds.returncode, holds.stdout.count(": holds\n")) == (0, 2), holds.stderr
    run = record_of(hil("run", *tiny(files), "--samples", 5, "--board", "uno", "--json", cwd=tmp_path))
    rows = {row.what: row for row in changes(golden, run)}
    known = ("median cycles", "p95 cycles", "max cycles", "median us", "saturations")
    assert [rows[name].status for name in known] == ["equal"] * 5, "computed from what it holds"
    assert (rows["tinyhil"].status, rows["tinyhil"].why) == ("not comparable", "unknown before")
    golden["raw"]["outputs"][1] = "0000000000000000"
    golden["memory"]["static_bytes"] -= 1
    path.write_text(json.dumps(golden))
    done = hil("golden", "check", "--samples", 2, cwd=tmp_path)
    check_failure(done, 1, "1 of 2 golden records differ")
    assert "outputs: 1 of 2 samples differ; sample 1: 0000000000000000 -> " in done.stdout
    assert f"if the change is meant: hil golden update {path.relative_to(tmp_path)}" in done.stdout
    found = json.loads(hil("golden", "check", "--json", cwd=tmp_path).stdout)
    assert (found["failures"], [one["holds"] for one in found["checked"]]) == (1, [True, False])
    assert [each["what"] for each in found["checked"][1]["differences"] if each["fails"]] == ["outputs", "static_bytes"]
    assert hil("golden", "update", path, cwd=tmp_path).returncode == 0
    assert hil("golden", "check", path, cwd=tmp_path).returncode == 0
    write_tiny_model(files / "tiny.onnx", start=2)
    retrained = hil("golden", "check", path, cwd=tmp_path)
    write_tiny_model(files / "tiny.onnx")  # as the tests beside this one know it
    check_failure(retrained, 1, "1 of 1 golden records differ")
    assert "model: another file" in retrained.stdout
    assert "unknown before" not in retrained.stdout


def test_a_golden_record_repeats_a_plan_within_a_limit_of_ram(tmp_path: Path) -> None:
    """The order keeps `--ram`, which stands in the file's name: a record without it is another plan's."""
    make = ["golden", "update", "--model", "digits_cnn", "--format", "int8", "--samples", 2, "--board", "host"]
    assert hil(*make, cwd=tmp_path).returncode == 0
    done = hil(*make, "--ram", 400, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    usual, within = (
        json.loads((tmp_path / f"results/golden/host/digits_cnn-int8{end}.json").read_text()) for end in ("", "-ram400")
    )
    assert (usual["order"].get("ram"), within["order"]["ram"]) == (None, 400)
    assert within["memory"]["arena_bytes"] <= 400 < usual["memory"]["arena_bytes"]
    assert hil("golden", "check", cwd=tmp_path).stdout.count(": holds\n") == 2


@pytest.mark.parametrize(
    ("options", "streamed"),
    [((), {}), (("--steps", STEPS, "--state", "h_in=h_out"), {"states": ["h_in=h_out"], "steps": STEPS})],
)
def test_a_model_with_states_has_golden_records(
    options: tuple[object, ...], streamed: dict[str, object], tmp_path: Path
) -> None:
    """Of as many steps as are said, or as the samples of its calibration show; the order repeats it by itself."""
    cell(tmp_path / "cell.onnx")
    np.savez(tmp_path / "x.npz", x=streams(8))
    given = ["--model", "cell.onnx", "--board", "host", "--samples", 3, "--calibrate", "x.npz", *options]
    done = hil("golden", "update", *given, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.rglob("cell-fixed16.json")
    order = json.loads(path.read_text())["order"]
    assert {key: order[key] for key in ("states", "steps") if key in order} == streamed
    checked = hil("golden", "check", cwd=tmp_path)
    assert (checked.returncode, checked.stdout.count(": holds\n")) == (0, 1), checked.stderr


@pytest.mark.parametrize("command", [["bench"], ["golden", "update"]])
def test_boards_of_the_bench_file_are_known(command: list[str], files: Path, tmp_path: Path) -> None:
    (tmp_path / "bench.yaml").write_text("boards: {left: {board: uno, port: /dev/no-such}}\n")
    where = ("--board", "left", "--bench", "bench.yaml", "--wait", 0)
    done = hil(*command, *tiny(files), *where, cwd=tmp_path)
    check_failure(done, 3, "left: not attached: /dev/no-such does not exist", logs=True)


def test_a_golden_record_of_a_physical_board_is_not_repeated_on_an_emulator(files: Path, tmp_path: Path) -> None:
    assert hil("golden", "update", *tiny(files), "--samples", 2, "--board", "host", cwd=tmp_path).returncode == 0
    record = json.loads((tmp_path / "results/golden/host/tiny-fixed16.json").read_text())
    record["board"] = record["order"]["board"] = "uno"
    path = tmp_path / "results/golden/uno/tiny-fixed16.physical.json"
    path.parent.mkdir()
    path.write_text(json.dumps(record))
    for command in ("check", "update"):
        check_failure(hil("golden", command, path, cwd=tmp_path), 3, "of a physical uno, and none is attached")
    assert json.loads(path.read_text()) == record


def test_a_board_that_is_too_small_does_not_keep_the_others_from_their_records(tmp_path: Path) -> None:
    write_tiny_model(tmp_path / "wide.onnx", 1200)
    np.save(tmp_path / "x.npy", np.random.default_rng(5).uniform(-1, 1, (4, 1, 1200)).astype(np.float32))
    make = ["golden", "update", "--model", "wide.onnx", "--inputs", "x.npy", "--calibrate", "x.npy", "--samples", 4]
    done = hil(*make, "--board", "uno", "--board", "host", cwd=tmp_path)
    check_failure(done, 4, "1 of 2 orders do not fit", logs=True)
    assert "results/golden/uno/wide-fixed16.json: no record: uno: " in done.stdout
    assert [path.parent.name for path in (tmp_path / "results/golden").rglob("*.json")] == ["host"]
    for asked in (("results/golden/host",), ("--golden", "results/golden/host")):
        assert "wide-fixed16.json: holds" in hil("golden", "check", *asked, cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["check"], 2, "no golden records"),
        (["check", "empty"], 2, "empty: no golden records"),
        (["update"], 2, "no golden records"),
        (["update", "--model", "fastgrnn_har"], 2, "--board"),
        (["check", "bad.json"], 2, "not a record of this version"),
        (["update", "--model", "tiny.onnx", "--board", "host"], 2, "--inputs or --calibrate"),
    ],
)
def test_golden_commands_that_can_not_work(arguments: list[str], code: int, words: str, tmp_path: Path) -> None:
    write_tiny_model(tmp_path / "tiny.onnx")
    (tmp_path / "bad.json").write_text('{"raw": {}}')
    (tmp_path / "empty").mkdir()
    check_failure(hil("golden", *arguments, cwd=tmp_path), code, words)


def rows_of(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    return {row.what: row for row in changes(before, now)}


def test_the_table_says_all_that_changed_and_what_may_not_be_compared(record: dict[str, Any]) -> None:
    """Of the same model, of another format's outputs, of other samples, of another board."""
    changed = copy.deepcopy(record)
    for change in (plus("flash_bytes", 10), plus("latency.median", -5), put("raw.outputs.0", "00" * 8)):
        change(changed)
    rows = rows_of(record, changed)
    assert (rows["flash B"].status, rows["flash B"].change.split()[0]) == ("worse", "+10")
    assert rows["median cycles"].status == "better"
    assert rows["outputs changed"].now == "1 of 8 samples"
    assert float(rows["largest output change"].now) > 0
    was = real_outputs(record["raw"]["outputs"], record["output"]["format"])[0].argmax()
    assert rows["decisions changed"].now == f"{int(was != 0)} of 8 samples"  # of equal outputs the first decides
    assert {row.status for row in changes(record, record)} == {"equal"}
    golden = [make_golden(Order("uno", "m.onnx"), one) for one in (record, changed)]
    assert rows_of(*golden)["decisions changed"].now == rows["decisions changed"].now
    other = copy.deepcopy(record)
    for change in (put("raw.inputs_crc32.0", "00000000"), put("data.sha256", "0"), put("model", "other")):
        change(other)
    rows = rows_of(record, other)
    assert {rows[name].status for name in ("accuracy %", "outputs changed", "median cycles")} == {"not comparable"}
    assert rows["flash B"].status == "equal"
    elsewhere = copy.deepcopy(record)
    put("board", "due")(elsewhere)
    assert {
        rows_of(record, elsewhere)[name].status
        for name in ("median cycles", "RAM at worst B", "RAM measured B", "flash B")
    } == {"not comparable"}
    for change in (plus("flash_bytes", 10), plus("raw.ticks.0", 5)):
        change(elsewhere)
    assert [(one.what, one.fails) for one in compare(figures(record), figures(elsewhere))] == [("board", False)]
    put("raw.outputs.0", "00" * 8)(elsewhere)
    assert [one.what for one in compare(figures(record), figures(elsewhere)) if one.fails] == ["outputs"]
    slower = copy.deepcopy(record)
    put("latency.clock_hz", 8_000_000)(slower)
    (clock,) = compare(figures(record), figures(slower))
    assert (clock.what, clock.fails, clock.better) == ("clock_hz", True, False)
    assert "16,000,000 -> 8,000,000 Hz: the same cycles take 2 times as long" in clock.text
    assert [one.better for one in compare(figures(slower), figures(record))] == [True]


@pytest.mark.parametrize(("form", "words"), [("text", "flash B"), ("md", "| flash B |"), ("html", ">flash B</th>")])
def test_tables_as_text_markdown_and_html(form: str, words: str, record: dict[str, Any], tmp_path: Path) -> None:
    changed = copy.deepcopy(record)
    plus("flash_bytes", 10)(changed)
    for one, format_ in ((record, "fixed8"), (changed, "fixed16")):
        one["provenance"]["command"] = (
            f"hil run --model models/a_model_with_a_long_name.onnx --board uno --format {format_}"
        )
    for name, one in (("a.json", record), ("b.json", changed)):
        (tmp_path / name).write_text(json.dumps(one))
    done = hil("compare", "a.json", "b.json", "--as", form, "--out", "table", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    text = (tmp_path / "table").read_text()
    assert words in text
    assert "board uno --format fixed16" in text, "what two long commands begin with alike is cut"
    assert "FAIL flash_bytes" in text
    same = hil("compare", "a.json", "a.json", "--as", "md", cwd=tmp_path)
    assert (same.returncode, "Nothing has changed." in same.stdout) == (0, True)


def test_a_gate_refuses_what_is_invalid(record: dict[str, Any], tmp_path: Path) -> None:
    for name, one in (("a.json", {**record, "bit_exact": False}), ("b.json", record)):
        (tmp_path / name).write_text(json.dumps(one))
    done = hil("compare", "a.json", "b.json", cwd=tmp_path)
    assert done.returncode == 1
    assert "FAIL verdict: before: invalid: not-bit-exact" in done.stdout


@pytest.mark.parametrize(
    "text", ["fixed16 * 2^-12", "posit8es1 * 2^3", "int8 * 0.0123, zero -5", "int16 * 3.05e-05, zero 0"]
)
def test_a_format_is_read_as_it_is_printed(text: str) -> None:
    assert str(format_of(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        f"fixed16 * 2^-1{'0' * 40}", "fixed16 * 2^1000", "nosuch * 2^3",
        "int8 * 1e-e, zero 3", "int8 * 1.2.3, zero 3", "int8 * 1e999, zero 3",
        "int99 * 1.0, zero 3", f"int{'9' * 5000} * 1, zero 3", f"int8 * 1e-05, zero {'3' * 40}",
    ],
)  # fmt: skip
def test_numbers_that_no_format_has_are_an_unknown_format(text: str) -> None:
    """An exponent of forty digits ended `hil compare` with exit code 70 (found by fuzzing)."""
    assert format_of(text) is None
    assert real_outputs(["0000"], text) is None
