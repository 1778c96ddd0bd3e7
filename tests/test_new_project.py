"""`hil new`: what it writes is a project; what it refuses, and why. README's lines are typed by test_readme.py."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
import yaml
from hil_command import check_failure, forked_pytest, hil
from wire_bench import write_tiny_model

from tinyhil.errors import ConfigError
from tinyhil.harness.settings.own_project import golden_folder

ROOT = Path(__file__).resolve().parent.parent
WRITTEN = ("tests/test_boards.py", ".github/workflows/boards.yml")  # besides copies


def paths_of_readme(folder: Path) -> set[str]:
    """Those that its table lists and that are there; golden records are written later."""
    rows = re.findall(r"^\| `(.+?)` \|", (folder / "README.md").read_text(), re.M)
    assert {path for path in rows if not (folder / path).exists()} == {"golden/"}
    return {*rows} - {"golden/"}


def test_a_model_of_ones_own_with_a_name_that_needs_quotes(tmp_path: Path) -> None:
    write_tiny_model(tmp_path / 'my "tiny".onnx')
    np.save(tmp_path / "x 1.npy", np.zeros((2, 1, 32), np.float32))
    options = ("--model", 'my "tiny".onnx', "--inputs", "x 1.npy", "--board", "uno", "--board", "due")
    done = hil("new", "My Pump", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "My Pump"
    settings = tomllib.loads((folder / "pyproject.toml").read_text())
    assert settings["project"]["name"] == "my-pump"
    assert settings["tool"]["pytest"]["ini_options"]["hil_boards"] == ["uno", "due"]
    workflow = yaml.safe_load((folder / ".github/workflows/boards.yml").read_text())
    step = workflow["jobs"]["boards"]["steps"][-1]
    known = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    assert step["with"] == {"boards": "uno due"}
    assert set(step["with"]) <= set(known)
    (call,) = [n for n in ast.walk(ast.parse((folder / "tests/test_boards.py").read_text())) if isinstance(n, ast.Call)]
    assert ast.literal_eval(call.args[0]) == 'models/my "tiny".onnx'
    assert (folder / ast.literal_eval(call.args[0])).is_file()
    assert (folder / ast.literal_eval(call.keywords[0].value)).is_file()
    assert done.stderr.endswith(" files; cd 'My Pump' && pytest --hil-update; README.md says the rest\n")
    listed = {Path(line) for line in done.stdout.splitlines()}
    assert listed == {path.relative_to(tmp_path) for path in folder.rglob("*") if path.is_file()}
    typed = [line for line in (folder / "README.md").read_text().splitlines() if line.startswith("hil run")]
    assert typed == ["hil run --board uno --model 'models/my \"tiny\".onnx' --inputs 'data/x 1.npy'"]
    assert paths_of_readme(folder) == {'models/my "tiny".onnx', "data/x 1.npy", *WRITTEN}


def test_samples_for_ranges_have_their_line(tmp_path: Path) -> None:
    """README named files `train` and `test`, whatever there was."""
    write_tiny_model(tmp_path / "tiny.onnx")
    (tmp_path / "other").mkdir()
    for name in ("x.npy", "ranges.npy", "other/x.npy"):
        np.save(tmp_path / name, np.zeros((2, 1, 32), np.float32))
    asked = ("new", "pump", "--model", "tiny.onnx", "--inputs", "x.npy", "--calibrate")
    check_failure(hil(*asked, "other/x.npy", cwd=tmp_path), 2, "other/x.npy and x.npy would both be data/x.npy")
    assert hil(*asked, "ranges.npy", cwd=tmp_path).returncode == 0
    assert paths_of_readme(tmp_path / "pump") == {"models/tiny.onnx", "data/x.npy", "data/ranges.npy", *WRITTEN}


def test_a_board_of_ones_own_goes_with_the_project(tmp_path: Path) -> None:
    """Its tests had said that there is no such board."""
    write_tiny_model(tmp_path / "tiny.onnx")
    np.save(tmp_path / "x.npy", np.random.default_rng(1).normal(size=(2, 1, 32)).astype(np.float32))
    (tmp_path / "own.yaml").write_text(
        "boards:\n  ourboard: {title: Ours, chip: atmega328p, reset: on_open, upload: arduino}\n"
    )
    options = ("--model", "tiny.onnx", "--inputs", "x.npy", "--board", "ourboard", "--boards-file", "own.yaml")
    options += ("--format", "fixed8")
    done = hil("new", "pump", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "pump"
    assert (folder / "boards.yaml").read_bytes() == (tmp_path / "own.yaml").read_bytes()
    (typed,) = [line for line in (folder / "README.md").read_text().splitlines() if line.startswith("hil run")]
    assert "\nhil fit models/tiny.onnx --boards-file boards.yaml\n" in (folder / "README.md").read_text()
    options = "--model models/tiny.onnx --inputs data/x.npy --format fixed8 --boards-file boards.yaml"
    assert typed == f"hil run --board ourboard {options}"
    for more in (["--hil-update"], []):
        ran = forked_pytest("-q", "-p", "no:cacheprovider", *more, cwd=folder)
        assert ran.returncode == 0, ran.stdout
    assert [path.name for path in (folder / "golden/ourboard").iterdir()] == ["tiny-fixed8.json"]


def test_commands_in_a_project_find_its_records_and_its_boards(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(
        "boards:\n  ourboard: {title: Ours, chip: atmega328p, reset: on_open, upload: arduino}\n"
    )
    done = hil("new", "pump", "--board", "ourboard", "--boards-file", "own.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "pump"
    check_failure(hil("golden", "check", cwd=folder), 2, "golden: no golden records", "pytest --hil-update")
    assert forked_pytest("-q", "-p", "no:cacheprovider", "--hil-update", cwd=folder).returncode == 0
    held = hil("golden", "check", cwd=folder)
    assert held.stdout == "golden/ourboard/vibration-fixed16.json: holds\n", held.stderr
    samples = ("--inputs", "data/test.npz", "--calibrate", "data/train.npz", "--samples", "2")
    more = hil("golden", "update", "--model", "models/vibration.onnx", "--board", "host", *samples, cwd=folder)
    assert more.stdout.startswith("golden/host/vibration-fixed16.json: 2 samples"), more.stderr
    again = hil("golden", "update", "--model", "models/vibration.onnx", "--board", "host", *samples[:-2], cwd=folder)
    assert again.stdout.startswith("golden/host/vibration-fixed16.json: 2 samples"), again.stderr  # as many as it has
    held = forked_pytest("-q", "-p", "no:cacheprovider", "--board", "host", cwd=folder)
    assert (held.returncode, "samples: 2 in the golden record, 60 in the test" in held.stdout) == (1, True)
    assert not (folder / "results" / "golden").exists()
    listed = hil("boards", cwd=folder)
    fits = hil("fit", "models/vibration.onnx", "--boards", "ourboard", cwd=folder)
    assert (listed.returncode, fits.returncode) == (0, 0), listed.stderr + fits.stderr
    assert "ourboard" in listed.stdout
    assert "ourboard" in fits.stdout


def test_a_project_that_says_nothing_of_golden_records(tmp_path: Path) -> None:
    """As pytest's plugin, `golden` if it is there; where both are, `results/golden` as ever."""
    assert golden_folder(tmp_path) == Path("results/golden")
    (tmp_path / "golden").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.pytest]\nini_options = 3\n")
    assert golden_folder(tmp_path) == Path("golden")
    (tmp_path / "results" / "golden").mkdir(parents=True)
    assert golden_folder(tmp_path) == Path("results/golden")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest")
    with pytest.raises(ConfigError, match=r"pyproject\.toml: not TOML"):
        golden_folder(tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("there",), "there is something already"),
        (("new", "--board", "unno"), "did you mean uno"),
        (("new", "--model", "none.onnx"), "no such file"),
        (("new", "--model", "text.onnx", "--inputs", "text.onnx"), "text.onnx"),
        (("new", "--model", "text.onnx"), "text.onnx: its test needs samples to run on; give --inputs test.npz"),
        (("new", "--inputs", "text.onnx"), "name it by --model"),
        (("new", "--format", "fixed99x"), "unknown number format 'fixed99x'"),
    ],
)
def test_what_it_refuses_leaves_nothing_behind(options: tuple[str, ...], words: str, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine").touch()
    (tmp_path / "text.onnx").write_text("no model")
    done = hil("new", *options, cwd=tmp_path)
    assert done.returncode in (ConfigError.exit_code, 3), done.stderr
    check_failure(done, done.returncode, words)
    assert not (tmp_path / "new").exists()
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["mine"]
