"""The user's project under examples/ and the workflows: they run, and say nothing that does not exist."""

from __future__ import annotations

import functools
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import click
import numpy as np
import onnx
import pytest
import yaml
from boards_under_test import EMULATED, FLASHED
from hil_command import forked_pytest
from onnx import numpy_helper
from wire_bench import ROOT

from tinyhil.harness.cli import hil

PROJECT = ROOT / "examples" / "vibration"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
OURS = ("hil", "pytest", "make", "cd", "apt-get", "mypy", "git", "lint-commits")


def run_project(folder: Path, *arguments: object) -> tuple[int, str]:
    shutil.copytree(PROJECT, folder / "project", ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))
    done = forked_pytest("-q", "-p", "no:cacheprovider", *arguments, cwd=folder / "project")
    return done.returncode, done.stdout + done.stderr


@functools.cache
def options_of_pytest() -> str:
    command = [sys.executable, "-m", "pytest", "--help"]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout


def test_the_project_holds_on_the_uno(tmp_path: Path) -> None:
    """If not, and the change is meant: pytest --hil-update with --board for each emulated board, in that folder."""
    code, said = run_project(tmp_path, "--board", "uno", "--hil-samples", 8, "--hil-json", "hil.json")
    assert code == 0, said
    assert "4 passed" in said
    results = json.loads((tmp_path / "project" / "hil.json").read_text())["results"]
    assert [result["differences"] for result in results if result["golden"]] == [[], []]


@pytest.mark.slow
def test_the_project_holds_on_every_board(tmp_path: Path) -> None:
    code, said = run_project(tmp_path, *(word for board in EMULATED for word in ("--board", board)))
    assert code == 0, said
    assert f"{4 + 3 * (len(EMULATED) - 1)} passed" in said


def make_model() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_model", PROJECT / "make_model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_project_s_model_is_what_its_script_trains() -> None:
    module = make_model()
    x, y = module.windows(900, seed=1)
    model = onnx.load(PROJECT / "models" / "vibration.onnx")
    stored = [numpy_helper.to_array(tensor) for tensor in model.graph.initializer]
    for found, expected in zip(stored, module.train(x, y), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(np.load(PROJECT / "data" / "test.npz")["x"], module.windows(60, seed=2)[0], atol=1e-6)


def test_everything_the_project_s_readme_names_is_there() -> None:
    named = re.findall(r"^\| `([^|]+)` \|", (PROJECT / "README.md").read_text(), re.MULTILINE)
    paths = [path for row in named for path in re.split(r"`, `", row)]
    assert len(paths) >= 6
    assert [path for path in paths if not (PROJECT / path).exists()] == []


# ---- workflows ----


def steps(path: Path) -> list[dict[str, object]]:
    content = yaml.safe_load(path.read_text())
    return [step for job in content["jobs"].values() for step in job["steps"]]


def command_lines(path: Path) -> list[list[str]]:
    """Words of every command of a workflow, `${{ ... }}` replaced by a word."""
    lines = []
    for step in steps(path):
        text = re.sub(r"\$\{\{.*?\}\}", "uno", str(step.get("run", ""))).replace("\\\n", " ")
        for line in text.splitlines():
            lines += [shlex.split(part) for part in line.split("&&") if part.strip()]
    return lines


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflow_is_well_formed(path: Path) -> None:
    content = yaml.safe_load(path.read_text())
    assert content["name"]
    assert content.get("on", content.get(True))  # YAML 1.1 reads the key `on` as true
    for job in content["jobs"].values():
        assert job["runs-on"]
        assert job["timeout-minutes"] <= 120
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            assert "uses" not in step or re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]), step


def check_hil(words: list[str]) -> None:
    """click itself parses the line; nothing is executed."""
    command: click.Command = hil
    context = click.Context(hil)
    while isinstance(command, click.Group) and not (
        command.invoke_without_command and (not words or "-" in words[0][0])
    ):
        name = words.pop(0)
        assert name in command.commands, name
        command = command.commands[name]
    command.make_parser(context).parse_args(list(words))


@pytest.mark.parametrize("name", ["emulators.yml", "bench.yml"])
def test_commands_of_the_workflows_exist(name: str) -> None:
    found = []
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for words in command_lines(ROOT / ".github" / "workflows" / name):
        program = Path(words[0]).name
        assert program in OURS, words
        found.append(program)
        if program == "hil":
            check_hil(words[1:])
        elif program == "make":
            assert set(words[1:]) <= targets
        elif program == "cd":
            assert (ROOT / words[1]).is_dir()
        elif program == "pytest":
            missing = [
                word
                for word in words
                if word.startswith("--") and word not in options_of_pytest() and word != "--junitxml"
            ]
            assert missing == []
    assert {"hil", "pytest", "make"} <= set(found)


def test_the_emulators_workflow_flashes_every_board_with_its_real_program() -> None:
    runs = [words for words in command_lines(ROOT / ".github" / "workflows" / "emulators.yml") if "run" in words[:2]]
    flashed = {words[words.index("--board") + 1] for words in runs if words[words.index("--load") + 1] == "flash"}
    assert flashed == set(FLASHED)
    assert all("fastgrnn_har" in words for words in runs)


def test_an_option_that_does_not_exist_is_noticed() -> None:
    with pytest.raises(click.NoSuchOption):
        check_hil(["run", "--bord", "uno"])
    with pytest.raises(AssertionError):
        check_hil(["fly"])
