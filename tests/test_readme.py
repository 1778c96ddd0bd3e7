"""What a stranger types: README's first lines, in the folder that they name. No page sends to an index without us."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from string import Template

import pytest
import yaml
from hil_command import forked_pytest, hil

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
FIRST = [line.split("  #")[0].strip() for line in README.split("```")[1].strip().splitlines()]
MINUTES = runpy.run_path(str(ROOT / ".ci/first-minutes"))
PUBLISHED = "tinyhil is not on the Python package index yet" not in (ROOT / "docs/install.md").read_text()


def test_it_takes_three_lines_to_a_run_and_six_to_ones_own_sketch() -> None:
    """What `.ci/first-minutes` also counts, with the seconds, in empty containers."""
    kinds = [line.split()[:2] for line in FIRST]
    assert kinds[0] == ["git", "clone"]
    assert kinds[1] == ["hil", "fit"], "the first command that is shown"
    assert kinds.index(["hil", "run"]) < 3
    assert kinds.index(["hil", "export"]) < 6
    assert MINUTES["lines_of_readme"]() == FIRST
    assert MINUTES["line_for_wheels"]().endswith(" && hil doctor --fix | sh")


def test_the_first_lines_run_as_typed(tmp_path: Path) -> None:
    """One after the other, as in a fresh clone; pytest's is the next test's."""
    clone, *lines = FIRST
    address = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["extra"]["social"][0]["link"]
    installed = "make setup && . .venv/bin/activate"
    assert clone == f"git clone {address} && cd {address.rpartition('/')[2]} && {installed}"
    assert re.search(r"^setup:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    folder = tmp_path
    for line in lines:
        for command in line.split(" && "):
            program, *words = [str(path) for word in shlex.split(command) for path in expanded(word, folder)]
            if program == "cd":
                folder = folder / words[0]
            elif program == "hil":
                done = hil(*words, cwd=folder)
                assert done.returncode == 0, (line, done.stderr)
                assert "hil run" not in line or "bit-exact      yes" in done.stdout
    assert (folder / "report.html").stat().st_size > 10_000
    assert MINUTES["sketch_faults"](folder) == [], "README's lines for a sketch are compiled with the library"


@pytest.mark.slow
def test_the_script_that_types_them_sees_what_goes_wrong(tmp_path: Path) -> None:
    """In a shell of its own, with the commands of this environment; a README whose command fails."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/first-minutes", tmp_path / ".ci/first-minutes")

    def typed(readme: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "README.md").write_text(readme)
        command = [sys.executable, tmp_path / ".ci/first-minutes", "--installed", "--until", "hil run"]
        return subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)

    done = typed(README)
    assert done.returncode == 0, done.stderr
    assert re.search(r"first bit-exact run: line 3, [\d.]+ s; library for a sketch: line 5; errors: 0", done.stdout)
    done = typed(README.replace("hil fit digits_cnn", "hil fit digits_cn"))
    assert done.returncode == 1
    assert "line 2 ends with 2" in done.stderr
    assert "did you mean digits_cnn" in done.stderr


def expanded(word: str, folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in sorted(folder.glob(word))] if "*" in word else [word]


def test_pytest_finds_the_plugin_after_make_setup(tmp_path: Path) -> None:
    """`make setup` installs the extra that brings pytest; README's line writes golden records (test_examples.py: that
    hold)."""
    (line,) = (line for line in FIRST if line.startswith("pytest "))
    base = (ROOT / "Makefile").read_text().split("$(VENV)/.base:")[1].split("touch")[0]
    assert "pytest" in base.split("'.[")[1].split("]")[0].split(",")
    assert hil("new", "pump", cwd=tmp_path).returncode == 0
    done = forked_pytest(*shlex.split(line)[1:], cwd=tmp_path / "pump")
    assert done.returncode == 0, done.stdout[-2000:]
    assert " passed" in done.stdout
    assert (tmp_path / "pump/golden/uno/vibration-fixed16.json").is_file()


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "examples/vibration/README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_nobody_is_sent_to_an_index_that_has_nothing(page: Path) -> None:
    """Until the first release no page says `pip install tinyhil`; docs/install.md says so and how it becomes true."""
    text = page.read_text().replace("and `pip install tinyhil` may be written elsewhere", "")
    assert PUBLISHED or not re.findall(r"pip install (?:-\w+ )*'?tinyhil\b(?!-\*)", text)


@pytest.mark.parametrize("project", ["harness/offline/project/pyproject.toml.in", "examples/vibration/pyproject.toml"])
def test_no_project_depends_on_what_the_index_does_not_have(project: str) -> None:
    depends = tomllib.loads(Template((ROOT / project).read_text()).safe_substitute(package="x", quoted_boards=""))
    assert ("tinyhil" in depends["project"]["dependencies"]) == PUBLISHED


def test_the_checklist_of_a_release_is_a_script_of_steps_that_exist() -> None:
    text = (ROOT / ".ci/release").read_text()
    text += (ROOT / ".ci/wheels").read_text()
    for name in ("release", "run", "pythons", "wheels", "bare-install"):
        script = ROOT / ".ci" / name
        assert os.access(script, os.X_OK)
        subprocess.run(["bash", "-n", script], check=True)
    assert [
        step
        for step in ("-m build", 'twine" check --strict', ".ci/pythons", "CHANGELOG.md", "git tag")
        if step not in text
    ] == []
    assert "3.11 3.12 3.13 3.14" in (ROOT / ".ci/pythons").read_text()


def test_continuous_integration_runs_without_data_first_and_all_tests_count() -> None:
    text = (ROOT / ".ci/run").read_text()
    parts = re.findall(r'^\s*part "([^"]+)"', text, re.MULTILINE)
    assert parts == ["C++", "without data", "with data", "a tenth of the slow tests", "figures"]
    assert text.index("unset HIL_DATA") < text.index('part "without data"') < text.index('part "with data"')
    assert "HIL_DATA=$data tests" in text
    assert text.index('part "with data"') < text.index("holding=") < text.index('part "a tenth')  # draws report
    assert re.search(r"holding\[@\].*exit 1", text)
