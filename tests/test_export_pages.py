"""Pages of exported libraries: lines are typed, examples named; what is said where a board is nearly full."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.export_bench import OnHost, export
from tests.hil_command import hil
from tinyhil.codegen.export_kinds import KINDS
from tinyhil.codegen.library_source import emit_library
from tinyhil.harness.build.pipeline import runtime_sources
from tinyhil.harness.offline.export_room import little_room
from tinyhil.harness.settings.config import load_boards

SHELL = re.compile(r"`((?:g\+\+|gcc|avr-g\+\+|arm-none-eabi-g\+\+|seq) [^`]*)`")


@pytest.mark.parametrize(
    ("kind", "model", "board"),
    [
        *((kind, "digits_mlp", None) for kind in KINDS),
        ("header", "fastgrnn_har", None),
        ("arduino", "digits_mlp", "uno"),
        ("cmake", "digits_mlp", "h747"),
    ],
)
def test_lines_of_the_read_me_compile_it_and_run_its_example(
    kind: str, model: str, board: str | None, tmp_path: Path
) -> None:
    """Typed as they are in the folder where the archive was unpacked."""
    exported = export(model, "fixed8", kind=kind, board=board)
    exported.write(tmp_path)
    page = (tmp_path / model / "README.md").read_text()
    lines = SHELL.findall(page)
    done = [subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True) for line in lines]
    assert [one.stderr for one in done] == [""] * len(lines)
    assert (tmp_path / f"{model}.o").is_file()
    runs = kind in ("cmake", "header") and board is None
    assert len(lines) == (3 if runs else 1)
    if runs:
        x = np.arange(1, exported.library.input.count + 1, dtype=np.float32)
        assert int(done[-1].stdout) == OnHost(export(model, "fixed8"), tmp_path / "host").predict(x)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_the_read_me_names_every_example(kind: str) -> None:
    files = export("digits_mlp", "fixed8", kind=kind).files
    page = files["digits_mlp/README.md"]
    examples = [Path(path) for path in files if re.search(r"/(examples|samples)/.*\.(c|cpp|ino)$|/example\.py$", path)]
    assert examples
    assert [path for path in examples if path.name not in page and f"Examples, {path.parts[0]}" not in page] == []


@pytest.mark.parametrize(
    ("as_part", "options", "flag"),
    [(False, [], "-O3"), (False, ["-DCMAKE_BUILD_TYPE=MinSizeRel"], "-Os"), (True, [], "-O2"),
     (True, ["-DCMAKE_BUILD_TYPE=Debug"], "")],
)  # fmt: skip
def test_cmake_optimizes_where_nobody_says_how(as_part: bool, options: list[str], flag: str, tmp_path: Path) -> None:
    export("digits_mlp", "fixed8", kind="cmake").write(tmp_path)
    if as_part:
        (tmp_path / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.13)\nproject(app C)\nadd_subdirectory(digits_mlp)\n"
        )
    source = tmp_path if as_part else tmp_path / "digits_mlp"
    command = ["cmake", "-S", source, "-B", tmp_path / "build", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *options]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    (compiled,) = json.loads((tmp_path / "build" / "compile_commands.json").read_text())
    assert re.findall(r" (-O\w+)", compiled["command"]) == ([flag] if flag else [])


def test_a_sketch_that_leaves_little_ram_is_found_with_what_helps(tmp_path: Path) -> None:
    def said(*options: str) -> list[str]:
        done = hil("export", *options, "--out", "x.zip", cwd=tmp_path)
        assert done.returncode == 0
        return [line for line in done.stderr.splitlines() if line.startswith("uno: ")]

    (line,) = said("arduino", "digits_cnn")
    assert "RAM are left" in line
    assert line.endswith("; if it is for another board: --board")
    (line,) = said("arduino", "digits_cnn", "--board", "uno")
    found = re.fullmatch(r"uno: (\d+) B of 2,048 B RAM .*; (--prefer \w+) takes .* less", line)
    assert found is not None
    assert 0 < int(found[1]) < 256
    assert said("arduino", "digits_cnn", "--board", "uno", *found[2].split()) == []
    (line,) = said("platformio", "digits_cnn", "--format", "float32")
    assert "too large" in line
    assert "a narrower --format" in line
    assert said("arduino", "digits_cnn", "--format", "fixed8") == []
    assert said("header", "digits_cnn") == []


@pytest.mark.parametrize(("flash_bytes", "expected"), [(4000, "too large"), (9000, "flash are left"), (32256, "")])
def test_a_board_whose_flash_is_nearly_full(flash_bytes: int, expected: str) -> None:
    exported = export("digits_mlp", "fixed8", kind="arduino", board="uno")
    uno = load_boards().board("uno")
    board = uno.model_copy(update={"chip": uno.chip.model_copy(update={"flash_bytes": flash_bytes})})
    sources = emit_library(exported.library, runtime_sources())
    line = little_room(exported.library, board, sources, "balanced", lambda _: 0, is_sketch=True).said
    assert expected in line
    assert bool(line) == bool(expected)
    assert not line or "`hil search --flash BYTES` for this board" in line
