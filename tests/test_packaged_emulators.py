"""tinyhil-emulators: the wheel of compiled emulators is built, holds what it should, and is taken if it fits."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from boards_under_test import by_compiler
from test_emulators_built import chip

from tinyhil.harness.build.emulators import check_emulator, compiled_emulator, digest
from tinyhil.processes import run

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built of its source distribution and unpacked beside the package unicorn."""
    folder = tmp_path_factory.mktemp("emulators")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT / "emulators")]
    subprocess.run(build, check=True, capture_output=True, timeout=1200)
    (wheel,) = folder.glob("*.whl")
    assert "-py3-none-manylinux_2_" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            archive.extract(entry, folder / "site")
            os.chmod(folder / "site" / entry.filename, entry.external_attr >> 16)
    import unicorn

    shutil.copytree(Path(unicorn.__file__).parent / "lib", folder / "site" / "unicorn" / "lib")
    return folder / "site"


def test_its_licences_are_its_own(installed: Path) -> None:
    """The compiler's wheel stays Apache-2.0; the programs' licences and texts come with them."""
    (folder,) = installed.glob("*.dist-info")
    said = (folder / "METADATA").read_text()
    assert "License-Expression: GPL-3.0-or-later AND GPL-2.0-only" in said
    assert "GENERAL PUBLIC LICENSE" in (folder / "licenses/LICENSES/GPL-3.0-or-later.txt").read_text()
    assert "Version 2, June 1991" in (folder / "licenses/LICENSES/GPL-2.0-only.txt").read_text()
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    theirs = tomllib.loads((ROOT / "emulators/pyproject.toml").read_text())["project"]
    assert ours["license"] == "Apache-2.0"
    assert ours["optional-dependencies"]["emulators"] == [f"tinyhil-emulators=={theirs['version']}"]
    assert ours["version"] == theirs["version"]


def test_its_digests_are_those_of_the_sources(installed: Path) -> None:
    said = json.loads((installed / "tinyhil_emulators/sources.json").read_text())
    assert said == {name: digest(ROOT / "emulators" / name) for name in ("uno", "cortexm")}


@pytest.mark.parametrize("board", by_compiler(("uno", "due")))
def test_a_program_is_taken_if_it_is_of_the_same_sources(
    board: str, installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(installed))
    monkeypatch.setenv("PATH", "")  # no compiler
    spec, said = chip(board, tmp_path), list[str]()
    program = compiled_emulator(spec, tmp_path / "cache", said.append)
    assert (program.parent.parent.parent, said) == (installed, [])
    assert check_emulator(spec) == str(program)
    assert program.name in run([program, "--nonsense"], 60).stderr
    monkeypatch.undo()


def test_one_of_other_sources_is_not_taken_and_said_so(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(installed))
    spec, said = chip("uno", tmp_path), list[str]()
    with (tmp_path / "uno" / "hex.c").open("a") as file:
        file.write("/* changed */\n")
    program = compiled_emulator(spec, tmp_path / "cache", said.append)
    assert (tmp_path / "cache") in program.parents
    assert "was made of other sources" in said[0]
