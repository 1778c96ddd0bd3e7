"""Plan, run and export name the same arena, or say why theirs is another."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hil_command import hil
from onnx_models import node, simple
from scan_models import weights

import tinyhil


@pytest.mark.parametrize(("model", "board"), [("digits_cnn", "h747"), ("digits_cnn", "due"), ("digits_mlp", "uno")])
def test_plan_says_what_a_run_takes_and_export_what_it_is_made_of(model: str, board: str, tmp_path: Path) -> None:
    planned = hil("plan", "--model", model, "--board", board, "--format", "fixed8", cwd=tmp_path)
    exported = hil("export", "cmake", model, "--board", board, "--format", "fixed8", "--out", "x.zip", cwd=tmp_path)
    run_bytes = tinyhil.load(model).compile("fixed8", board=board).arena_bytes
    (own,) = re.findall(rf"^{board}: arena (\d+) B", planned.stdout, re.MULTILINE)
    others = re.findall(r"less time while RAM is free: arena (\d+) B \(--prefer balanced\)", planned.stdout)
    assert [int(found) for found in others or [own]] == [run_bytes], planned.stdout
    (whole, tensors, integers) = re.findall(
        r"arena (\d+) B \(--prefer balanced\) = (\d+) B of tensors \+ (\d+) B", exported.stderr
    )[0]
    assert int(whole) == int(tensors) + int(integers)
    assert int(tensors) >= run_bytes


def test_plan_takes_an_assignment_as_a_run_does(tmp_path: Path) -> None:
    (tmp_path / "found.yaml").write_text("default: fixed8\nfound: {prefer: balanced}\n")
    planned = hil("plan", "--model", "digits_cnn", "--board", "due", "--assignment", "found.yaml", cwd=tmp_path)
    run_bytes = tinyhil.load("digits_cnn").compile("fixed8", board="due").arena_bytes
    assert re.findall(r"^due: arena (\d+) B", planned.stdout, re.MULTILINE) == [str(run_bytes)], planned.stdout


def test_sizes_are_printed_and_say_which_processor_does_not_take_it(tmp_path: Path) -> None:
    model = simple([node("MatMul", "x W", "y")], {"x": (1, 200)}, {"W": weights(200, 200)})
    (tmp_path / "wide.onnx").write_bytes(model.SerializeToString())
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(20, 1, 200)).astype(np.float32))
    given = ("--format", "fixed8", "--calibrate", "x.npy", "--sizes", "--out", "x.zip")
    done = hil("export", "cmake", "wide.onnx", *given, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (uno,) = [line for line in done.stderr.splitlines() if line.startswith("| ATmega328P")]
    assert "does not fit: size of array" in uno
    assert "/" not in uno
    assert re.search(r"^\| Cortex-M3, .* \| \S+ \S+ \| ([\d,]+ B, ){3}[\d,]+ B \|", done.stderr, re.MULTILINE)


PAIRS = [(model, board) for model in ("digits_cnn", "digits_mlp", "fastgrnn_har") for board in ("uno", "due", "h747")]
QUICK = ("digits_mlp", "uno")
SAMPLES = ("--samples", "1")


def said(folder: Path, pattern: str, *command: str) -> tuple[str, int]:
    """What a command says that its plan is of, and how many bytes that takes."""
    done = hil(*command, cwd=folder)
    assert done.returncode == 0, done.stderr
    found = [match.groupdict() for match in re.finditer(pattern, done.stdout + done.stderr, re.MULTILINE)]
    return found[-1]["prefer"], int(found[-1]["bytes"])


def swept(folder: Path, model: str, board: str, more: tuple[str, ...]) -> tuple[str, int]:
    """The same of a sweep of one cell, which its table names, too."""
    chosen = f"run: {{samples: 1{f', prefer: {more[1]}' if more else ''}}}"
    text = f"models: [{model}]\nboards: [{board}]\nformats: [fixed8]\n{chosen}\n"
    (folder / "sweep.yaml").write_text(text)
    (row,) = json.loads(hil("sweep", "sweep.yaml", "--json", cwd=folder).stdout)["cells"]
    assert f" {row['prefer']} " in hil("sweep", "sweep.yaml", cwd=folder).stdout
    return row["prefer"], row["arena_bytes"]


@pytest.mark.parametrize(
    ("model", "board"), [pair if pair == QUICK else pytest.param(*pair, marks=pytest.mark.slow) for pair in PAIRS]
)
def test_five_commands_name_one_arena_for_one_preference(model: str, board: str, tmp_path: Path) -> None:
    """Each says which plan its bytes are of, in the same words; for the same plan the bytes are the same."""
    by, words = r"(?P<bytes>\d+) B(?: with the input)? \(--prefer (?P<prefer>\w+)\)", ("--format", "fixed8")
    found: dict[str, set[int]] = {}
    libraries: dict[str, set[int]] = {}  # in which the input is the caller's
    for more in ((), ("--prefer", "ram"), ("--prefer", "balanced")):
        place = ("--model", model, "--board", board, *words, *more)
        prefer, own = said(tmp_path, rf"^arena +{by}", "run", *place, *SAMPLES)
        found.setdefault(prefer, set()).add(own)
        planned = hil("plan", *place, cwd=tmp_path).stdout
        pattern = rf"^{board}: arena (\d+) B .* \(--prefer (\w+)\)$" if more else by
        for own, prefer in re.findall(pattern, planned, re.MULTILINE):
            found.setdefault(prefer, set()).add(int(own))
        assert ("(the least arena by layers or rows; --pareto: all schedules)" in planned) == (not more)
        fit = ("fit", model, "--boards", board, "--formats", "fixed8", *more)
        printed = json.loads(hil(*fit, "--json", cwd=tmp_path).stdout)
        assert f"RAM and latency (--prefer {printed['prefer']})" in hil(*fit, cwd=tmp_path).stdout
        found.setdefault(printed["prefer"], set()).add(printed["rows"][0]["arena_bytes"])
        if more != ("--prefer", "balanced"):  # what a sweep takes anyway: its worker imports everything anew
            prefer, own = swept(tmp_path, model, board, more)
            found.setdefault(prefer, set()).add(own)
        export = ("export", "cmake", model, "--board", board, *words, *more, "--out", "x.zip")
        prefer, tensors = said(tmp_path, r"\(--prefer (?P<prefer>\w+)\) = (?P<bytes>\d+) B", *export)
        libraries.setdefault(prefer, set()).add(tensors)
    assert found.keys() == libraries.keys() == {"ram", "balanced"}
    assert all(len(sizes) == 1 for sizes in (*found.values(), *libraries.values())), (found, libraries)
