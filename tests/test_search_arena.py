"""A search counts the arena that its answer has on the board."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
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
