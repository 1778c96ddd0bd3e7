"""Code keeps its shape: C and C++ are formatted, cppcheck finds nothing in them, files and functions stay short."""

from __future__ import annotations

import ast
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from sources import ROOT, tree

MOST_LINES = 500
MOST_LINES_OF_A_FUNCTION = 60


@pytest.mark.parametrize(("length", "code"), [(71, 0), (72, 1)])
def test_subjects_of_commits_are_short(length: int, code: int, tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run([*git, "init", "-q"], check=True)
    for subject in ("first", "s" * length):
        subprocess.run(
            [*git, "commit", "-q", "--allow-empty", "-m", f"{subject}\n\nA body as long as {'it ' * 40}"], check=True
        )
    run = subprocess.run([ROOT / ".ci/lint-commits", "HEAD~1..HEAD"], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == code, run.stderr
    assert ("s" * length in run.stderr) is bool(code)


def test_firmware_is_formatted() -> None:
    sources = sorted((ROOT / "firmware").rglob("*.[ch]pp"))
    assert len(sources) > 50
    command = [Path(sysconfig.get_path("scripts")) / "clang-format", "--dry-run", "-Werror", *sources]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def functions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef]:
    """Those of a module, of its classes and functions."""
    for item in body:
        if isinstance(item, ast.FunctionDef):
            yield item
        if isinstance(item, ast.FunctionDef | ast.ClassDef):
            yield from functions(item.body)


def test_files_and_functions_fit_a_reader() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    endings = (".py", ".c", ".h", ".cpp", ".hpp")
    sources = [path for path in listed if path.endswith(endings) and "/golden/" not in path and (ROOT / path).is_file()]
    assert len(sources) > 700
    assert [path for path in sources if (ROOT / path).read_text().count("\n") > MOST_LINES] == []
    long = [
        f"{path}:{item.lineno} {item.name}"
        for path in sources
        if path.endswith(".py")
        for item in functions(tree(ROOT / path).body)
        if (item.end_lineno or 0) - item.lineno >= MOST_LINES_OF_A_FUNCTION
    ]
    assert long == []
