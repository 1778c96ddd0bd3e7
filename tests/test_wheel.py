"""The wheel holds all that a run outside of the checkout needs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from boards_under_test import EMULATED
from test_new_board import NANO

from tinyhil.harness.settings.config import load_boards

ROOT = Path(__file__).resolve().parent.parent
PRINT_PAGES = """import json; from tinyhil.harness.offline.pages import page_text, pages
print(json.dumps({name: page_text(name) for name in pages()}))"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=1200)
    return next(folder.glob("*.whl"))


def test_it_holds_no_build_products_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert not [
        name
        for name in names
        if ("/build/" in name and not name.startswith("tinyhil/harness/build/"))
        or name.startswith(("tests/", "benchmarks/"))
    ]


def test_it_holds_every_runtime_file(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    command = ["git", "ls-files", "firmware", "models", "emulators"]
    tracked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    wanted = {f"tinyhil/harness/share/{name}" for name in [*tracked.stdout.split(), "boards.yaml"]}
    assert len(wanted) > 40
    assert wanted <= names


def test_hil_run_on_the_host_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(installed)
    environment = {**os.environ, "PYTHONPATH": str(installed), "HIL_CACHE": str(tmp_path / "cache")}
    run = ["run", "--board", "host", "--model", "fastgrnn_har", "--samples", "50", "--json"]
    command = [sys.executable, "-m", "tinyhil.harness.cli", *run]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["bit_exact"] is True
    assert record["provenance"]["commit"] is None  # an installed tinyhil knows no checkout
    assert not list(installed.rglob("*.partial.jsonl"))


def test_what_its_pages_name_is_in_it_or_said_to_be_in_a_clone(wheel: Path, tmp_path: Path) -> None:
    """Modules of Python, targets of make, files, extras: in every page, wherever a line breaks."""
    installed = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(installed)
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-c", PRINT_PAGES]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    targets = "|".join(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    printed = json.loads(done.stdout)
    for name, text in printed.items():
        note, *_ = *re.findall(r"^> .*(?:not in this installation|For `pip|The folder `).*$", text, re.MULTILINE), ""
        body = text.replace(note, "") if note else text
        named = re.findall(rf"\b(?:python -m\s+[a-z][\w.]*\w|make (?:{targets})\b(?!-))(?! it\b)", body)
        files = [word.rstrip(".") for word in re.findall(r"(?<![\w/(.<-])(?!\.venv)[\w.]+/[\w./-]*\w", body)]
        shipped = [installed, installed / "tinyhil", installed / "tinyhil/harness/share"]
        named += [word for word in files if (ROOT / word).is_file() and not any((at / word).exists() for at in shipped)]
        for words in (" ".join(one.split()) for one in named):
            assert f"`{words}`" in note, (name, words)
        assert ("git clone https://" in note) == ("not in this installation" in note)
        assert len(re.findall(r"install\s+-e", body)) <= note.count("tinyhil[")
        assert all(Path(folder).is_dir() for folder in re.findall(r"The folder `\w+/` is (\S+)\.(?: |$)", note))
    assert f"The folder `firmware/` is {installed}/tinyhil/harness/share/firmware." in printed["engines"]
    assert "`python -m benchmarks.papers`" in printed["papers/minun"].splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("board", [*EMULATED, "nano"])
def test_hil_run_on_emulated_boards_outside_the_checkout(wheel: Path, tmp_path: Path, board: str) -> None:
    """The emulator is compiled into the cache, and nothing is written where tinyhil is installed. A board of the user's
    own is one entry beside it."""
    (tmp_path / "mine.yaml").write_text(NANO)
    installed = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(installed)
    before = {path: path.stat().st_mtime_ns for path in installed.rglob("*")}
    cache = tmp_path / "cache"
    environment = {**os.environ, "PYTHONPATH": str(installed), "HIL_CACHE": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    shipped = load_boards().board("uno" if board == "nano" else board)
    emulator = shipped.chip.emulator
    load = "flash" if emulator is not None and emulator.has_loader(shipped.upload) else "direct"
    run = ["run", "--board", board, "--model", "fastgrnn_har", "--samples", "1", "--load", load, "--json"]
    run += ["--boards-file", "mine.yaml"] if board == "nano" else []
    command = [sys.executable, "-m", "tinyhil.harness.cli", *run]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["bit_exact"] is True
    assert len([path for path in (cache / "emulators").iterdir() if path.suffix != ".lock"]) == 1
    assert {path: path.stat().st_mtime_ns for path in installed.rglob("*")} == before


@pytest.mark.slow
def test_a_user_s_program_is_strictly_typed(wheel: Path, tmp_path: Path) -> None:
    """Against what is installed (py.typed), not against the checkout."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    program = (ROOT / "tests" / "user_program.py").read_text(encoding="utf-8")
    (tmp_path / "user.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "user.py"]
    environment = {**os.environ, "MYPYPATH": str(tmp_path / "site")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout
    (tmp_path / "user.py").write_text(program + '\nwrong: int = measured(3, "host", "x")\n', encoding="utf-8")
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1200)
    assert "incompatible type" in done.stdout
