"""The one list of passes: what is printed is what is carried out, each can be left out, data goes one way."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tinyhil.compiler_pass import watched
from tinyhil.errors import ConfigError
from tinyhil.harness.build.pipeline import Compiled, compile_model
from tinyhil.harness.job.job import open_model
from tinyhil.harness.offline.inspect import Wanted, described
from tinyhil.harness.settings.config import load_boards
from tinyhil.passes.every import PASSES

ROOT = Path(__file__).resolve().parent.parent
NAMES = [one.name for one in PASSES]


def compiled(model: str, fmt: str, board: str, without: Sequence[str] = ()) -> Compiled:
    opened = open_model(model, without=without)
    ranges = opened.required_ranges(None)
    boards = [load_boards().board(board)]
    return compile_model(opened.model, opened.assignment(None, fmt), ranges, boards, [board], without)


def executed(model: str, fmt: str, board: str, without: Sequence[str] = ()) -> list[str]:
    found: list[str] = []
    with watched(lambda name, _: found.append(name)):
        compiled(model, fmt, board, without)
    return found


@pytest.mark.parametrize(("model", "fmt", "board"), [("digits_cnn", "int8", "h747"), ("fastgrnn_har", "fixed8", "uno")])
def test_the_printed_list_is_the_executed_list(model: str, fmt: str, board: str) -> None:
    """In its order; what is planned several times, row by row or with the sample in the arena, goes through memory as
    often."""
    assert list(dict.fromkeys(executed(model, fmt, board))) == NAMES


def test_whatever_is_left_out_is_not_executed() -> None:
    for name in NAMES:
        assert list(dict.fromkeys(executed("digits_cnn", "fixed8", "h747", [name]))) == [n for n in NAMES if n != name]
    assert executed("digits_cnn", "fixed8", "h747", NAMES) == []


@pytest.mark.parametrize("name", NAMES)
def test_what_a_pass_made_can_be_looked_at(name: str) -> None:
    """Every kind of thing that passes hand to each other has lines."""
    wanted = Wanted("fastgrnn_usps10", name, "int8")
    lines = list(described(wanted, load_boards().board("h747"), print))
    assert any("h_next" in line for line in lines)
    if name in ("ranges", "blocks"):
        assert ("dense_factored_pair" in "\n".join(lines)) == (name == "blocks")
    if name in ("layouts", "chains"):
        assert any(line.strip().startswith("chain ") for line in lines) == (name == "chains")
        assert any(", at " in line for line in lines)


def test_a_pass_of_a_core_needs_one() -> None:
    with pytest.raises(ConfigError, match="inspect: --after tables: that pass is for a core; name a --board"):
        list(described(Wanted("digits_cnn", "tables"), None, print))
    assert any(line.startswith("dense") for line in described(Wanted("digits_cnn", "sparse"), None, print))


def test_data_enters_code_generation_once() -> None:
    """From the model's file to its text one call goes into `codegen/` from outside, and none from there leads back."""
    entries, returns = list[str](), list[str]()

    def is_inside(frame: FrameType) -> bool:
        return frame.f_code.co_filename.startswith(str(ROOT / "codegen"))

    def called(frame: FrameType, event: str, _: Any) -> None:
        outer = frame.f_back
        if event != "call" or outer is None or not is_inside(frame) or is_inside(outer):
            return
        while outer is not None and not is_inside(outer):
            outer = outer.f_back
        if frame.f_code.co_name != "<module>":  # an import
            (entries if outer is None else returns).append(frame.f_code.co_qualname)

    sys.setprofile(called)
    try:
        made = compiled("digits_cnn", "fixed8", "h747")
    finally:
        sys.setprofile(None)
    assert any(name.startswith("model/") for name in made.sources)
    assert (entries, returns) == (["emit_models"], [])
