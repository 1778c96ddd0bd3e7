"""Emulators ship as sources: compiled into the cache where they are needed, and what is missing said before."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from boards_under_test import EMULATED, by_compiler

from tinyhil.errors import EXIT_NO_BOARD, BoardError
from tinyhil.harness.build.emulators import check_emulator, compiled_emulator
from tinyhil.harness.settings.config import ChipSpec, load_boards
from tinyhil.processes import run

ROOT = Path(__file__).resolve().parent.parent


def chip(board: str, folder: Path) -> ChipSpec:
    """The chip of a board with the sources of its emulator elsewhere, nothing compiled."""
    found = load_boards().board(board).chip
    assert found.emulator is not None
    program = Path(found.emulator.program)
    sources = folder / program.parent.parent.name
    shutil.copytree(ROOT / program.parent.parent, sources, ignore=shutil.ignore_patterns("build"), dirs_exist_ok=True)
    emulator = found.emulator.model_copy(update={"program": str(sources / "build" / program.name)})
    return found.model_copy(update={"emulator": emulator})


@pytest.mark.parametrize("board", by_compiler(EMULATED))
def test_it_is_compiled_once_and_nothing_is_written_beside_its_sources(board: str, tmp_path: Path) -> None:
    spec, said = chip(board, tmp_path), list[str]()
    assert "on first use" in check_emulator(spec)
    before = sorted(tmp_path.rglob("*"))
    program = compiled_emulator(spec, tmp_path / "cache", said.append)
    assert [path for path in sorted(tmp_path.rglob("*")) if "cache" not in path.parts] == before
    assert len(said) == 2
    assert program == compiled_emulator(spec, tmp_path / "cache", said.append)
    assert len(said) == 2
    assert program.name.split("-")[0] in run([program, "--nonsense"], 60).stderr


def test_the_makefile_compiles_the_same_sources() -> None:
    makefile = (ROOT / "emulators/uno/Makefile").read_text(encoding="utf-8")
    named = next(line for line in makefile.splitlines() if line.startswith("SOURCES"))
    assert sorted(named.split(":=")[1].split()) == sorted(path.name for path in (ROOT / "emulators/uno").glob("*.c"))


def test_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = chip("uno", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BoardError, match="needs a C compiler; type: sudo apt-get install gcc") as caught:
        check_emulator(spec)
    assert caught.value.exit_code == EXIT_NO_BOARD


@pytest.mark.parametrize(("board", "remedy"), [("uno", "libsimavr-dev"), ("due", "pip install .*unicorn")])
def test_without_the_headers(board: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = chip(board, tmp_path)
    compiler = tmp_path / "cc"  # finds no header of anybody
    compiler.write_text("#!/bin/sh\necho 'fatal error: no such file' >&2; exit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(BoardError, match=f"no .*\\.h; type: .*{remedy}"):
        check_emulator(spec)


def test_one_that_is_older_than_its_sources_is_not_used(tmp_path: Path) -> None:
    spec = chip("uno", tmp_path)
    assert spec.emulator is not None
    program = Path(spec.emulator.program)
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert check_emulator(spec) == str(program)
    os.utime(program, (0, 0))
    assert "on first use" in check_emulator(spec)
