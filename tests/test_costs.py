"""Latency and flash as limits: the model of costs, every strategy under it, and `hil search` on an emulated Uno."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hil_command import hil
from onnx_models import node, simple
from scan_models import weights
from search_models import FORMATS, STRATEGY_NAMES, network_problem

from tinyhil.errors import EXIT_BUILD, EXIT_USAGE
from tinyhil.harness.cli import main
from tinyhil.harness.search.cost_table import CostTable, Version, describer
from tinyhil.harness.search.request import SearchRequest
from tinyhil.search.anchor import least
from tinyhil.search.costs import Additive, Costs, Described, Limits, Operation, Row, Run
from tinyhil.search.search_loop import Budget, search
from tinyhil.search.search_problem import SearchProblem
from tinyhil.search.space import ARENA, CONSTANT, Candidate, Choice, Space
from tinyhil.search.strategies import make_strategy

CLOCK_HZ = 1_000_000  # a tick is a microsecond
A, B = (Choice("fixed8"),), (Choice("fixed16"),)
TICKS = {"fixed8": 100.0, "fixed16": 250.0}


# --- the model ----------------------------------------------------------------------------------------------------


def operation(formats: tuple[str, ...], name: str = "op", kernel: str = "add") -> Operation:
    return Operation(name, kernel, formats, f"hil::{kernel}<hil::Wide<32>>({', '.join(formats)});", 10, 2)


def test_additive_effects_are_found() -> None:
    random = np.random.default_rng(0)
    effects = {"a": 5.0, "b": -2.0, "c": 11.0}
    seen = [[name for name in effects if random.random() < 0.5] for _ in range(40)]
    fitted = Additive.fitted(seen, [100 + sum(effects[name] for name in names) for names in seen])
    for names in ([], ["a"], ["b", "c"], ["a", "b", "c"], ["never seen"]):
        assert fitted.predict(names) == pytest.approx(100 + sum(effects.get(name, 0) for name in names), rel=1e-3)


def test_pairs_of_formats_are_told_apart() -> None:
    """Cheap only where both operands are narrow, as a product of bytes is."""
    triples = list(product(FORMATS, repeat=3))
    ticks = {triple: 12.0 if triple[:2] == ("fixed8", "fixed8") else 37.0 for triple in triples}
    for left_out in triples:
        rows = tuple(Row(operation(triple), ticks[triple]) for triple in triples if triple != left_out)
        estimate = costs_of({A: (operation(left_out),)}, rows).estimate(A)
        assert estimate is not None
        assert estimate.latency_us / 2 == pytest.approx(ticks[left_out], abs=0.35 * (37 - 12))
        assert estimate.exact == 0.0


def costs_of(
    known: dict[Candidate, tuple[Operation, ...]],
    rows: tuple[Row, ...],
    runs: tuple[Run, ...] = (),
    limits: Limits = Limits(1.0),  # noqa: B008
) -> Costs:
    return Costs(lambda candidate: Described(known[candidate], 1000), rows, runs, CLOCK_HZ, limits)


@pytest.mark.parametrize(
    ("text", "damaged"),
    [
        ('"ticks": 40.0', '"ticks": null'),
        ('"ticks": 40.0', '"ticks": NaN'),
        ('"ticks": 40.0', '"ticks": -4'),
        ('"ticks": 40.0', '"tocks": 40.0'),
        ('"executions": ', '"executions": -'),
        ('"worst": 50', '"worst": "much"'),
        ('"summed": 45', '"summed": 0'),
        ('"candidate": ["fixed8"', '"candidate": ["fixed8q"'),
        ('"kind"', '"was"'),
        ('"phase": 0', '"phase": null'),
        ('{"kind"', 'null\n[1]\n\xff{"kind"'),
    ],
)
def test_damaged_lines_of_costs_are_left_out(text: str, damaged: str, tmp_path: Path) -> None:
    """Each line that the damage touches, and no other."""
    version = Version("uno", "emulated", "f", "c", "m")
    own, candidate = tmp_path / "own.jsonl", (Choice("fixed8"), Choice("fixed16", -1))
    row = Row(operation(("fixed8", "fixed16")), 40.0)
    CostTable(tmp_path / "uno.jsonl", own, version).add([row], Run(candidate, 50, 45.0, 5.0, 100), ["s"], 0)
    whole = own.read_text()
    assert text in whole
    own.write_bytes(whole.replace(text, damaged).encode("latin-1"))
    table = CostTable(tmp_path / "none.jsonl", own, version)
    touched = [text in line for line in whole.splitlines()]
    assert [len(table.rows(0)), len(table.runs(0))] == [0 if hit else 1 for hit in touched]


def test_what_another_search_measured_is_known_of_the_same_schedule(tmp_path: Path) -> None:
    """A search that prefers time had taken the time that the smallest plan needs, and called a limit infeasible."""
    of_ram, of_time = (Version("uno", "emulated", "f", "c", f"m-{prefer}") for prefer in ("ram", "latency"))
    shared, candidates = tmp_path / "uno.jsonl", [(Choice("fixed8"),), (Choice("fixed16"),)]
    first = CostTable(shared, tmp_path / "first.jsonl", of_ram)
    for worst, candidate, arena in zip((50, 40), candidates, (None, 96), strict=True):
        first.add([], Run(candidate, worst, 30.0, 5.0, 100), [], 0, arena)
    same = CostTable(shared, tmp_path / "same.jsonl", of_ram)
    assert [*same.elsewhere()] == candidates[::-1]  # the fastest first
    assert same.runs(0) == ()
    assert [same.known(candidates[1], 0, arena) for arena in (None, 95, 96)] == [False, False, True]
    assert [run.worst for run in same.runs(0)] == [40]
    other = CostTable(shared, tmp_path / "other.jsonl", of_time)
    assert [*other.elsewhere()] == []
    assert not other.known(candidates[0], 0)


def test_a_limit_that_was_named_as_kept_is_kept(folder: Path) -> None:
    """Where estimates lead elsewhere what was measured before is remembered."""
    offered = ("--board", "uno", "--formats", "fixed8,fixed16")
    refused = searched(folder, *offered, "--latency-us", "200")
    assert refused.returncode == EXIT_BUILD
    (named,) = re.findall(r"try --latency-us (\d+)", refused.stderr)
    record = record_of(searched(folder, *offered, "--latency-us", named, "--json"))
    assert record["latency_us"] <= float(named)
    assert record["held_out_latency_us"] > 0


@pytest.mark.parametrize(
    ("asked", "prefer"),
    [
        ({}, "ram"),
        ({"latency_us": 9.0}, "balanced"),
        ({"minimize": "latency"}, "balanced"),
        ({"pareto": "latency, accuracy"}, "balanced"),
        ({"latency_us": 9.0, "ram": 99}, "ram"),
        ({"latency_us": 9.0, "arena": 99}, "ram"),
        ({"pareto": "ram,latency"}, "ram"),
        ({"latency_us": 9.0, "prefer": "ram"}, "ram"),
    ],
)
def test_time_counts_first_where_it_is_limited_and_ram_is_not(asked: dict[str, Any], prefer: str) -> None:
    """The schedule of least RAM had made a limit infeasible that `hil run` keeps."""
    assert SearchRequest("m", board="uno", **asked).prefer == prefer


def test_what_was_measured_is_known_and_the_rest_is_scaled() -> None:
    ops = {A: (operation(("fixed8",)),), B: (operation(("fixed16",)),)}
    rows = (Row(ops[A][0], 50.0), Row(ops[B][0], 80.0))
    runs = (Run(A, worst=132.0, summed=120.0, outside=20.0, flash_bytes=5000),)
    costs = costs_of(ops, rows, runs)
    known, other = costs.estimate(A), costs.estimate(B)
    assert known is not None
    assert other is not None
    assert (known.latency_us, known.flash_bytes, known.exact) == (132.0, 5000, 1.0)
    assert other.latency_us == pytest.approx((2 * 80 + 20) * 1.1)  # 2 executions, outside, whole against sum
    assert (other.flash_bytes, other.exact) == (pytest.approx(5000), 1.0)
    assert costs.parts(B) == [("op", pytest.approx(176.0))]


def test_a_margin_counts_for_estimates_only() -> None:
    ops = {A: (operation(("fixed8",)),), B: (operation(("fixed16",)),)}
    runs = (Run(A, 100.0, 100.0, 0.0, 5000),)
    costs = costs_of(ops, (Row(ops[A][0], 50.0), Row(ops[B][0], 50.0)), runs, Limits(100.0))
    assert costs.fits(A)
    assert costs.fits(B)
    wary = replace(costs, margin=0.05, _known={})
    assert wary.fits(A)
    assert not wary.fits(B)


def test_an_image_that_did_not_fit_the_board_keeps_no_limit() -> None:
    ops = {A: (operation(("fixed8",)),)}
    costs = costs_of(ops, (), (Run(A, float("inf"), 0.0, 0.0, 0),), Limits(flash_bytes=10_000))
    assert not costs.fits(A)
    assert costs.value(A) == float("inf")


# --- strategies ---------------------------------------------------------------------------------------------------


def in_all(problem: SearchProblem, candidate: Candidate) -> float:
    """A cost of every tensor, constants and input included."""
    return sum(TICKS[choice.format] for choice in candidate)


def described(candidate: Candidate) -> Described:
    ops = [Operation(f"op{n}", "add", (c.format,), f"{n} {c.format}", 1, 1) for n, c in enumerate(candidate)]
    return Described(tuple(ops), 0)


def problem_with_costs(folder: Path, limit_us: float, ram_bytes: int = 30) -> SearchProblem:
    problem = network_problem(folder, ram_bytes)
    every = [described(problem.space.uniform(Choice(name))).operations for name in FORMATS]
    rows = tuple(Row(op, TICKS[op.formats[0]]) for ops in every for op in ops)
    problem = replace(problem, costs=Costs(described, rows, (), CLOCK_HZ, Limits(limit_us)))
    return replace(problem, anchor=least(problem.space, problem.excess, enough=0.0))


@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize("name", STRATEGY_NAMES)
def test_every_strategy_keeps_to_the_limit(name: str, share: float, tmp_path: Path) -> None:
    groups = len(network_problem(tmp_path, 30).space.groups)
    limit_us = groups * (TICKS["fixed8"] + share * (TICKS["fixed16"] - TICKS["fixed8"]))
    problem = problem_with_costs(tmp_path, limit_us)
    found = search(make_strategy(name, ()), problem, budget=Budget(evaluations=10))
    assert found.best.fits
    assert in_all(problem, found.best.candidate) <= limit_us
    assert found.best.ram_bytes <= problem.limit_bytes
    again = search(make_strategy(name, ()), problem_with_costs(tmp_path, limit_us), budget=Budget(evaluations=10))
    assert again.trials == found.trials


def test_a_limit_that_does_not_bind_changes_no_trial_of_haunter(tmp_path: Path) -> None:
    free = search(make_strategy("haunter", ()), network_problem(tmp_path, 18))
    bound = search(make_strategy("haunter", ()), problem_with_costs(tmp_path, 1e9, 18))
    assert [t.candidate for t in bound.trials] == [t.candidate for t in free.trials]


def test_lagrange_uses_what_it_is_given(tmp_path: Path) -> None:
    """With room for half of the tensors at 16 bits it is closer to float than all at 8 bits."""
    groups = len(network_problem(tmp_path, 30).space.groups)
    narrow = search(make_strategy("lagrange", ()), problem_with_costs(tmp_path, 100.0 * groups), budget=Budget(10))
    roomy = search(make_strategy("lagrange", ()), problem_with_costs(tmp_path, 175.0 * groups), budget=Budget(10))
    assert roomy.best.score.loss < narrow.best.score.loss


def test_the_least_of_a_sum_is_found(tmp_path: Path) -> None:
    space: Space = network_problem(tmp_path, 30).space
    prices = {(index, name): float((7 * index + len(name)) % 5) for index in range(20) for name in FORMATS}

    def cost(candidate: Candidate) -> float:
        return sum(prices[index, choice.format] for index, choice in enumerate(candidate))

    found = least(space, cost)
    assert cost(found) == sum(min(prices[i, name] for name in FORMATS) for i in range(len(space.groups)))


WEIGHTS = ("fixed8pc", "fixed6", "fixed4pc", "kmeans16")


def problem_within_flash(folder: Path, offered: tuple[str, ...], flash_bytes: int) -> SearchProblem:
    """Flash as what the constants take, nothing for the code."""
    problem = network_problem(folder, 30)
    space = replace(problem.space, weights=offered)
    memory = replace(problem.memory, space=space)
    image = space.uniform(space.high)
    describe = describer(memory.placed)
    run = Run(image, 1.0, 1.0, 0.0, describe(image).constant_bytes)
    costs = Costs(describe, (), (run,), CLOCK_HZ, Limits(flash_bytes=flash_bytes))
    problem = replace(problem, space=space, memory=memory, costs=costs)
    return replace(problem, anchor=least(space, problem.excess, enough=0.0))


def test_formats_for_weights_alone_keep_limits_of_flash_that_bytes_do_not(tmp_path: Path) -> None:
    """Where 8 bits for everything take more."""
    problem = problem_within_flash(tmp_path, WEIGHTS, 1)
    described = describer(problem.memory.placed)
    bytes_8 = described(problem.space.uniform(problem.space.low)).constant_bytes
    tight = problem_within_flash(tmp_path, WEIGHTS, bytes_8 - 12)
    found = search(make_strategy("lagrange", ()), tight, budget=Budget(2)).best
    assert found.fits
    assert described(found.candidate).constant_bytes <= bytes_8 - 12
    for group, choice in zip(problem.space.groups, found.candidate, strict=True):
        assert choice.format in FORMATS or group.is_matrix
    without = problem_within_flash(tmp_path, (), bytes_8 - 12)
    assert not without.fits(without.fallback()), "nothing else keeps it"


def test_constants_are_told_apart_by_bits_and_the_arena_by_bytes(tmp_path: Path) -> None:
    problem = problem_within_flash(tmp_path, WEIGHTS, 90)
    bits = {role: {group.stored_bits(Choice("fixed6")) for group in problem.space.groups if group.role == role}
            for role in (CONSTANT, ARENA)}  # fmt: skip
    assert bits == {CONSTANT: {6}, ARENA: {8}}


# --- the command --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, 120 samples, and the results of all tests: what one has profiled the next need not."""
    path = tmp_path_factory.mktemp("costs")
    nodes = [node("MatMul", "x W", "t"), node("Tanh", "t", "h"), node("MatMul", "h V", "y")]
    model = simple(nodes, {"x": (1, 32)}, {"W": weights(32, 16), "V": weights(16, 3)})
    (path / "net.onnx").write_bytes(model.SerializeToString())
    x = np.random.default_rng(0).normal(size=(120, 1, 32)).astype(np.float32)
    np.savez(path / "x.npz", x=x)
    return path


@dataclass(frozen=True, slots=True)
class Done:
    """What the command left behind."""

    returncode: int
    stdout: str
    stderr: str


def searched(folder: Path, *arguments: str) -> Done:
    """In this process: a test makes several searches, and starting Python takes longer than some of them."""
    given = ("--inputs", "x.npz", "--evaluations", "8", "--evaluator", "reference", "--device-samples", "10")
    out, err = io.StringIO(), io.StringIO()
    redirected = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with contextlib.chdir(folder), redirected[0], redirected[1], pytest.raises(SystemExit) as end:
        main(["search", "--model", "net.onnx", *given, *arguments])
    return Done(int(end.value.code or 0), out.getvalue(), err.getvalue())


def record_of(done: Done) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


LIMIT = ("--board", "uno", "--arena", "48", "--latency-us", "900", "--json")


def test_a_limit_of_latency_is_kept_to_and_a_killed_search_goes_on(folder: Path, tmp_path: Path) -> None:
    for name in ("net.onnx", "x.npz"):
        shutil.copy(folder / name, tmp_path)
    folder = tmp_path
    first = searched(folder, *LIMIT)
    record = record_of(first)
    assert record["latency_us"] <= record["latency_limit_us"] == 900
    assert (record["flash_limit_bytes"], record["ram_limit_bytes"], record["arena_limit_bytes"]) == (None, None, 48)
    assert "pairs of formats covered" in first.stderr
    assert f"the firmware fits uno: {record['flash_bytes']:,} B of 32,256 B of flash" in first.stderr
    stored = json.loads(next((folder / "results" / "search" / "net").glob("*.json")).read_text())
    run = json.loads((folder / stored["device"]["record"]).read_text())
    assert run["latency"]["max"] / 16 == pytest.approx(record["latency_us"])
    assert run["flash_bytes"] == record["flash_bytes"]
    (log,) = [p for p in (folder / "results" / "search" / "net").glob("*.jsonl") if len(p.suffixes) == 1]
    whole = log.read_text()
    lines = whole.splitlines(keepends=True)
    log.write_text("".join(lines[: len(lines) // 2]))  # killed in the middle
    second = searched(folder, *LIMIT)
    assert "profiling" not in second.stderr
    again = record_of(second)
    clocks = ("seconds", "utc", "phases", "first_answer")
    assert {k: v for k, v in again.items() if k not in clocks} == {k: v for k, v in record.items() if k not in clocks}
    assert trials(log.read_text()) == trials(whole)


def trials(log: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, log.splitlines()) if "device" not in line]


@pytest.mark.slow
def test_rows_of_another_firmware_are_not_used(folder: Path) -> None:
    table = folder / "results" / "costs" / "uno.jsonl"
    searched(folder, *LIMIT)
    lines = [json.loads(line) for line in table.read_text().splitlines()]
    assert {line["kind"] for line in lines} == {"operation", "run"}
    keys = ("kind", "model", "firmware", "operation", "signature", "candidate")
    facts = [tuple(str(line.get(key)) for key in keys) for line in lines]
    assert len(facts) == len(set(facts))
    table.write_text("".join(json.dumps({**line, "firmware": "older"}) + "\n" for line in lines))
    done = searched(folder, "--board", "uno", "--arena", "48", "--flash", "20000", "--json")
    assert "pairs of formats covered" in done.stderr
    assert record_of(done)["flash_bytes"] <= 20000


@pytest.mark.slow
def test_a_limit_that_estimates_miss_is_kept_to_after_all(folder: Path) -> None:
    """Tight ones: between the least and the widest, answers that exceed them are measured and taken back."""
    wide = record_of(searched(folder, "--board", "uno", "--arena", "48", "--latency-us", "100000", "--json"))
    for share in (0.75, 0.85, 0.95):
        limit = f"{share * wide['latency_us']:.0f}"
        done = searched(folder, "--board", "uno", "--arena", "48", "--latency-us", limit, "--json")
        assert record_of(done)["latency_us"] <= float(limit)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (
            ["--latency-us", "50"],
            r"50 us for the worst sample are not feasible on uno: its products alone take 1\d\d us on any avr",
        ),
        (
            ["--latency-us", "200"],
            r"200 us for the worst sample were not found feasible .* [\d,]+ \(as profiled, MatMul_t",
        ),
        (
            ["--flash", "3000"],
            r"3,000 B of flash .* \(as profiled, [\d,]+ B of constants \(W 512 B, h_codes 256 B, V 48 B\)",
        ),
    ],
)
def test_a_limit_that_can_not_be_kept(limits: list[str], message: str, folder: Path) -> None:
    done = searched(folder, "--board", "uno", "--arena", "48", "--formats", "fixed8", *limits)
    assert done.returncode == EXIT_BUILD
    line = done.stderr.strip().splitlines()[-1]
    assert re.search(message, line), line
    assert f"try {limits[0]} " in line or f"raise {limits[0]}" in line


@pytest.mark.slow
def test_the_least_latency_within_some_points(folder: Path) -> None:
    wide = record_of(searched(folder, "--board", "uno", "--arena", "48", "--latency-us", "100000", "--json"))
    least_ = record_of(
        searched(folder, "--board", "uno", "--arena", "48", "--minimize", "latency", "--points", "10", "--json")
    )
    assert least_["latency_us"] < wide["latency_us"]
    assert least_["latency_limit_us"] is None


def test_the_least_ram_needs_no_board(folder: Path) -> None:
    wide = record_of(searched(folder, "--ram", "64", "--json"))
    least_ = record_of(searched(folder, "--ram", "64", "--minimize", "ram", "--points", "10", "--json"))
    assert least_["arena_bytes"] <= wide["arena_bytes"] <= 64 == least_["arena_limit_bytes"]


@pytest.mark.parametrize("limit", [("--ram", "2000", "--board", "uno"), ("--ram", "64")])
def test_no_answer_is_dominated_by_one_format_for_all(limit: tuple[str, ...], folder: Path) -> None:
    """The least RAM first, then latency, then flash; every format is printed beside the answer."""
    record = record_of(searched(folder, *limit, "--minimize", "ram", "--points", "3", "--json"))
    assert [row["format"] for row in record["uniform"]] == ["fixed8", "fixed16", "int8"]
    good = [row for row in record["uniform"] if row["quality"] >= 0.97]
    assert good
    for row in good:
        order = ("arena_bytes", *(("ram_bytes", "latency_us", "flash_bytes") if "--board" in limit else ()))
        assert [record[name] for name in order] <= [row[name] for name in order]


def test_without_a_limit_the_ram_is_the_board_s(folder: Path) -> None:
    done = searched(folder, "--board", "uno", "--json", "--strategy", "haunter")
    record = record_of(done)
    assert record["arena_bytes"] < record["ram_bytes"] <= record["ram_limit_bytes"] == 2048
    assert "search: the firmware fits uno" in done.stderr


def test_firmware_that_does_not_fit_the_board(tmp_path: Path) -> None:
    model = simple([node("MatMul", "x W", "y")], {"x": (1, 200)}, {"W": weights(200, 200)})
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).normal(size=(20, 1, 200)).astype(np.float32))
    for limit in ("--arena", "--ram"):
        done = searched(tmp_path, "--board", "uno", limit, "1000", "--strategy", "haunter")
        assert done.returncode == EXIT_BUILD
        line = done.stderr.strip().splitlines()[-1]
        assert "uno: weights 40000 B > 32256 B of flash" in line  # of the narrowest format


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ram", "48", "--latency-us", "9"], "--latency-us needs a board"),
        (["--ram", "48", "--flash", "9"], "--flash needs a board"),
        (["--ram", "48", "--minimize", "flash"], "--minimize flash needs a board"),
        ([], "a limit is needed; give --ram BYTES, or --board NAME"),
        (["--board", "host"], "the RAM of host is not limited"),
        (["--ram", "48", "--out", "a/b.yaml"], "--out a/b.yaml: there is no folder a; make it first"),
        (["--ram", "48", "--plot", "a/b.svg"], "--plot a/b.svg: there is no folder a; make it first"),
        (["--ram", "48", "--board", "qemu_m3", "--latency-us", "9"], "counts instructions"),
    ],
)
def test_options_that_make_no_sense(arguments: list[str], message: str, folder: Path) -> None:
    done = searched(folder, *arguments)
    assert done.returncode == EXIT_USAGE
    assert message in done.stderr.strip().splitlines()[-1]


def test_ram_is_checked_before_an_engine_is_compiled(folder: Path, tmp_path: Path) -> None:
    command = ("search", "--model", "net.onnx", "--inputs", "x.npz", "--ram", 3)
    done = hil(*command, cwd=folder, HIL_CACHE=str(tmp_path / "cache"))
    assert done.returncode == EXIT_BUILD
    assert "3 B of RAM are not feasible" in done.stderr
    assert not list((tmp_path / "cache").glob("*"))  # the folder itself is made, with its permissions, when it is named
