"""What a stranger types: README's first lines, in the folder that they name. No page sends to an index without us."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hil_command import hil

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
FIRST = [line.split(" #")[0].strip() for line in README.split("```")[1].strip().splitlines()]
SKETCH = re.findall(r"`(hil export [^`]*)`", README)[:1]
PUBLISHED = "tinyhil is not on the Python package index yet" not in (ROOT / "docs/install.md").read_text()


def test_the_first_lines_run_as_typed(tmp_path: Path) -> None:
    """One after the other, as in a fresh clone: a folder with what git has there."""
    clone, make, cd, *lines = FIRST
    address = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["repo_url"]
    assert clone == f"git clone {address} && cd {address.rpartition('/')[2]}"
    assert make == "make setup && . .venv/bin/activate"
    assert re.search(r"^setup:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    folder = tmp_path / cd.removeprefix("cd ")
    listed = subprocess.run(["git", "ls-files", folder.relative_to(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    for name in listed.stdout.split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    typed = [line for line in [*lines, *SKETCH] if not line.startswith("pytest ")]
    assert len(typed) == len(lines)  # pytest's is the one that the next test types, the sketch's joins them
    for line in typed:
        words = [str(path) for word in shlex.split(line)[1:] for path in expanded(word, folder)]
        done = hil(*words, cwd=folder)
        assert done.returncode == 0, (line, done.stderr)
    assert (folder / "report.html").stat().st_size > 10_000
    header = (ROOT / "README.md").read_text()
    for name in re.findall(r"\b(VIBRATION_\w+|vibration_predict)\b", header):
        assert name in unpacked_header(folder / "vibration.zip")


def expanded(word: str, folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in sorted(folder.glob(word))] if "*" in word else [word]


def unpacked_header(path: Path) -> str:
    import zipfile

    with zipfile.ZipFile(path) as archive:
        return "".join(archive.read(name).decode() for name in archive.namelist() if name.endswith("vibration.h"))


def test_pytest_finds_the_plugin_after_make_setup(tmp_path: Path) -> None:
    """`make setup` installs the extra that brings pytest; the line of README passes on an emulated board."""
    (line,) = (line for line in FIRST if line.startswith("pytest "))
    base = (ROOT / "Makefile").read_text().split("$(VENV)/.base:")[1].split("touch")[0]
    assert "pytest" in base.split("'.[")[1].split("]")[0].split(",")
    shutil.copytree(
        ROOT / "examples/vibration", tmp_path / "v", ignore=shutil.ignore_patterns("__pycache__", "results")
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [sys.executable, "-m", *shlex.split(line), "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path / "v", capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout[-2000:]
    assert " passed" in done.stdout


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "examples/vibration/README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_nobody_is_sent_to_an_index_that_has_nothing(page: Path) -> None:
    """Until the first release no page says `pip install tinyhil`; docs/install.md says so and how it becomes true."""
    text = page.read_text().replace("and `pip install tinyhil` may be written elsewhere", "")
    assert PUBLISHED or not re.findall(r"pip install (?:-\w+ )*'?tinyhil\b(?!-\*)", text)


def test_the_checklist_of_a_release_is_a_script_of_steps_that_exist() -> None:
    text = (ROOT / ".ci/release").read_text()
    for script in (ROOT / ".ci/release", ROOT / ".ci/run", ROOT / ".ci/pythons"):
        assert os.access(script, os.X_OK)
        subprocess.run(["bash", "-n", script], check=True)
    assert [
        step
        for step in ("-m build", 'twine" check --strict', ".ci/pythons", "CHANGELOG.md", "git tag")
        if step not in text
    ] == []
    assert "3.11 3.12 3.13" in (ROOT / ".ci/pythons").read_text()


def test_continuous_integration_runs_without_data_first_and_all_tests_count() -> None:
    text = (ROOT / ".ci/run").read_text()
    parts = re.findall(r'^\s*part "([^"]+)"', text, re.MULTILINE)
    assert parts == ["without data", "with data", "a tenth of the slow tests", "figures"]
    assert text.index("unset HIL_DATA") < text.index('part "without data"') < text.index('env HIL_DATA="$data"')
    assert text.index('part "with data"') < text.index("holding=") < text.index('part "a tenth')  # draws report
    assert re.search(r"holding\[@\].*exit 1", text)
