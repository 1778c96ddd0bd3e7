"""A search counts the arena that its answer has on the board."""

from __future__ import annotations

import json
import re
from pathlib import Path

import hil_command
import numpy as np
import onnx
import pytest
import yaml
from onnx_models import samples_for
from test_rows import mobile

from tinyhil.compiler.calibrate import calibrate
from tinyhil.frontend.load import load_model
from tinyhil.harness.build.pipeline import compile_model
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.total import memory_of
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.preference import Wish
from tinyhil.search.space import Choice, make_space


@pytest.mark.parametrize("board", ["due", "h747", "nucleo_g0b1", "reram"])
def test_a_search_plans_the_arena_that_is_compiled(board: str, tmp_path: Path) -> None:
    """Scratch of the chip's own kernels included."""
    boards = load_boards()
    path = tmp_path / "mobile.onnx"
    onnx.save(mobile().model(), path)
    model = load_model(path)
    ranges = calibrate(model.graph, samples_for((1, 3, 20, 20)), {"name": "test"})
    space = make_space(model.graph, ranges, ("fixed8", "fixed16"))
    request = SearchRequest(str(path), board=board)
    memory = memory_of(space, boards.board(board), request)
    made = compile_model(model, Assignment("fixed8"), ranges, [boards.board(board)], {board}, wish=Wish("ram"))
    assert memory.planned_bytes(space.uniform(Choice("fixed8"))) == made.plan.peak_bytes
    assert memory_of(space, None, request).planned_bytes(space.uniform(Choice("fixed8"))) != made.plan.peak_bytes


def test_a_narrower_format_on_offer_makes_no_limit_infeasible(tmp_path: Path) -> None:
    """fixed4 has the smallest arena, as fixed8, and more stack: 656 B were called the least, where fixed8 takes 598."""
    options = ("--board", "uno", "--model", "digits_cnn", "--formats", "fixed4,fixed8", "--samples", 40)
    asked = ("search", *options, "--evaluations", 2)
    found = hil_command.record_of(hil_command.hil(*asked, "--ram", 600, "--json", cwd=tmp_path))
    assert found["ram_bytes"] <= 600
    assert found["less_ram"]
    shown = hil_command.hil(*asked, "--ram", 600, cwd=tmp_path).stdout
    assert "the answer, planned for less RAM" in shown
    said = "are the least of one (fixed8); values of fewer than 8 bits take a byte each"
    refused = hil_command.hil(*asked, "--ram", found["ram_bytes"] - 1, cwd=tmp_path)
    hil_command.check_failure(refused, 4, said, f"try --ram {found['ram_bytes']}", logs=True)


def test_products_are_computed_again_only_where_the_limit_asks_for_it(tmp_path: Path) -> None:
    """By what lies beside the answer's own arena: fixed4's stack, which is deeper, is that of another image."""
    options = ("--board", "uno", "--model", "digits_cnn", "--formats", "fixed4,fixed8,fixed16", "--samples", 200)
    asked = ("search", *options, "--strategy", "haunter", "--evaluations", 2, "--ram", 720, "--json")
    found = hil_command.record_of(hil_command.hil(*asked, cwd=tmp_path))
    plain = next(one for one in found["uniform"] if one["format"] == "fixed8")
    assert found["ram_bytes"] == plain["ram_bytes"] <= 720
    assert not found["less_ram"]


def windows(folder: Path) -> tuple[str, ...]:
    """Options that name a network by rows and its samples, in the folder."""
    random = np.random.default_rng(0)
    onnx.save(mobile().model(), folder / "net.onnx")
    spread = np.linspace(0.2, 6, 40)[:, None, None, None]
    x = random.normal(size=(40, 3, 20, 20)) * spread + 4 * random.normal(size=(40, 3, 1, 1))
    np.savez(folder / "x.npz", x=x.astype(np.float32))
    return "--model", "net.onnx", "--inputs", "x.npz", "--calibrate", "x.npz"


def test_an_answer_computes_again_what_its_limit_asks_for(tmp_path: Path) -> None:
    """Rows are chosen with widths: what each product once exceeds fits in strips, and the file says for how much."""
    asked = windows(tmp_path)
    limit = 850  # each product once takes 930 B
    search = ("search", *asked, "--arena", str(limit), "--evaluations", "1", "--formats", "fixed8", "--out", "w.yaml")
    refused = hil_command.hil(*search, "--more-time", "0", cwd=tmp_path)
    assert "the least is 930 B" in refused.stderr
    done = hil_command.hil(*search, "--more-time", "100", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    arena_bytes = json.loads(done.stdout)["arena_bytes"]
    assert yaml.safe_load((tmp_path / "w.yaml").read_text())["found"]["arena"] == arena_bytes <= limit
    for prefer, expected in (((), arena_bytes), (("--prefer", "ram"), 930)):
        run = ("run", "--board", "host", *asked, "--samples", "3", "--assignment", "w.yaml", *prefer, "--json")
        record = json.loads(hil_command.hil(*run, cwd=tmp_path).stdout)
        assert record["memory"]["arena_bytes"] == expected
        assert record["verdict"] == "valid"


def test_a_format_for_all_tensors_computes_again_as_the_answer_may(tmp_path: Path) -> None:
    """fixed8 takes 708 B as it is planned, 598 B with products computed again: it is within 700 B, and no mixture of
    more is its better."""
    options = ("--board", "uno", "--model", "digits_cnn", "--formats", "fixed8,fixed16", "--samples", 60)
    asked = ("search", *options, "--evaluations", 8, "--ram", 700, "--json")
    found = hil_command.record_of(hil_command.hil(*asked, cwd=tmp_path))
    plain = next(one for one in found["uniform"] if one["format"] == "fixed8")
    assert (plain["keeps_limits"], plain["less_ram"]) == (True, True)
    assert found["ram_bytes"] <= plain["ram_bytes"] <= 700


def test_an_arena_that_counts_no_sample_is_as_large_beside_it(tmp_path: Path) -> None:
    """On an Uno the sample lies in the arena: 296 B with it were planned, where 296 B without it were searched."""
    asked = ("--model", "digits_cnn", "--formats", "fixed8", "--arena", "300", "--samples", "20", "--out", "w.yaml")
    search = ("search", *asked, "--evaluations", "1", "--more-time", "60", "--json")
    hil_command.record_of(hil_command.hil(*search, cwd=tmp_path))
    run = ("run", "--board", "uno", "--model", "digits_cnn", "--samples", "2", "--json")
    cycles = [
        hil_command.record_of(hil_command.hil(*run, *how, cwd=tmp_path))["latency"]["median"]
        for how in (("--assignment", "w.yaml"), ("--format", "fixed8", "--prefer", "ram"))
    ]
    assert cycles[1] < cycles[0] < 1.5 * cycles[1]


def test_the_table_says_the_arena_that_the_limit_is_of(tmp_path: Path) -> None:
    """Not with the sample, which lies in it on the board: 616 B stood there under a limit of 500."""
    options = ("--board", "uno", "--model", "digits_cnn", "--formats", "fixed8", "--samples", 20, "--evaluations", 1)
    limits = ("--arena", 500, "--latency-us", 100_000, "--prefer", "ram")
    shown = hil_command.hil("search", *options, *limits, cwd=tmp_path).stdout
    (arena,) = re.findall(r"^arena +(\d+) B of 500 B", shown, re.MULTILINE)
    assert int(arena) <= 500
    assert re.findall(r"│ the answer +│ +(\d+) │", shown) == [arena]
    assert "error, alone" not in shown  # of one format alone there is none


def test_the_least_ram_that_is_looked_for_is_what_a_refusal_names(tmp_path: Path) -> None:
    """`--minimize ram` and `--pareto` compute again as a limit does, and their files plan for that."""
    asked = windows(tmp_path)
    search = ("search", *asked, "--evaluations", "1", "--formats", "fixed8,fixed16", "--more-time", "100", "--json")
    refused = hil_command.hil(*search, "--arena", "1", cwd=tmp_path)
    least = int(refused.stderr.split("the least is ")[1].split(" B")[0])
    assert least < 930  # each product once
    least_of = ("--minimize", "ram", "--arena", "9999", "--points", "100")
    minimized = json.loads(hil_command.hil(*search, *least_of, cwd=tmp_path).stdout)
    assert minimized["arena_bytes"] == least
    swept = ("--pareto", "ram,accuracy", "--levels", "3")
    front = json.loads(hil_command.hil(*search, *swept, cwd=tmp_path).stdout)["points"]
    assert min(point["arena_bytes"] for point in front) == least
    for point in front:
        run = ("run", "--board", "host", *asked, "--samples", "3", "--assignment", point["assignment_file"], "--json")
        record = json.loads(hil_command.hil(*run, cwd=tmp_path).stdout)
        assert record["memory"]["arena_bytes"] <= point["arena_bytes"]  # of the host's own kernels


def test_each_format_saves_what_it_saves_by_computing_again(tmp_path: Path) -> None:
    """Of fixed4 windows read in place save less: the schedule of fixed8 that fits was not planned, and fixed4 won."""
    search = ("search", "--model", "digits_cnn", "--samples", "60", "--arena", "400", "--more-time", "2000")
    done = hil_command.hil(*search, "--evaluations", "2", "--formats", "fixed4,fixed8", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    wide = {row["format"]: row for row in found["uniform"]}["fixed8"]
    assert wide["keeps_limits"]
    assert found["disagreements"] <= wide["disagreements"]
