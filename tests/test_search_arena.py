"""A search counts the arena that its answer has on the board."""

from __future__ import annotations

import json
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
from tinyhil.harness.search.task import memory_of
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.preference import Wish
from tinyhil.search.space import Choice, make_space


@pytest.mark.parametrize("board", ["due", "h747", "nucleo_g0b1"])
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


def test_an_answer_computes_again_what_its_limit_asks_for(tmp_path: Path) -> None:
    """Rows are chosen with widths: what each product once exceeds fits in strips, and the file says for how much."""
    path, random = tmp_path / "net.onnx", np.random.default_rng(0)
    onnx.save(mobile().model(), path)
    spread = np.linspace(0.2, 6, 40)[:, None, None, None]
    x = random.normal(size=(40, 3, 20, 20)) * spread + 4 * random.normal(size=(40, 3, 1, 1))
    np.savez(tmp_path / "x.npz", x=x.astype(np.float32))
    limit = 850  # each product once takes 930 B
    asked = ("--model", "net.onnx", "--inputs", "x.npz", "--calibrate", "x.npz")
    search = ("search", *asked, "--arena", str(limit), "--evaluations", "1", "--formats", "fixed8", "--out", "w.yaml")
    refused = hil_command.hil(*search, "--more-time", "0", cwd=tmp_path)
    assert "the least is 930 B" in refused.stderr
    done = hil_command.hil(*search, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    arena_bytes = json.loads(done.stdout)["arena_bytes"]
    assert yaml.safe_load((tmp_path / "w.yaml").read_text())["found"]["arena"] == arena_bytes <= limit
    for prefer, expected in (((), arena_bytes), (("--prefer", "ram"), 930)):
        run = ("run", "--board", "host", *asked, "--samples", "3", "--assignment", "w.yaml", *prefer, "--json")
        record = json.loads(hil_command.hil(*run, cwd=tmp_path).stdout)
        assert record["memory"]["arena_bytes"] == expected
        assert record["verdict"] == "valid"
