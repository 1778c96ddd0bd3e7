"""Plan, run and export name the same arena, or say why theirs is another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hil_command import hil

import tinyhil

RESNET = Path(__file__).with_name("data") / "models" / "mlperftiny_ic_resnet8_int8.tflite"


@pytest.mark.parametrize(("model", "board"), [("digits_cnn", "h747"), ("digits_cnn", "due"), ("digits_mlp", "uno")])
def test_plan_says_what_a_run_takes_and_export_what_it_is_made_of(model: str, board: str, tmp_path: Path) -> None:
    planned = hil("plan", "--model", model, "--board", board, "--format", "fixed8", cwd=tmp_path)
    exported = hil("export", "cmake", model, "--board", board, "--format", "fixed8", "--out", "x.zip", cwd=tmp_path)
    run_bytes = tinyhil.load(model).compile("fixed8", board=board).arena_bytes
    (own,) = re.findall(rf"^{board}: arena (\d+) B", planned.stdout, re.MULTILINE)
    others = re.findall(r"less time while RAM is free: arena (\d+) B", planned.stdout)
    assert [int(found) for found in others or [own]] == [run_bytes], planned.stdout
    (whole, tensors, integers) = re.findall(r"arena (\d+) B = (\d+) B of tensors \+ (\d+) B", exported.stderr)[0]
    assert int(whole) == int(tensors) + int(integers)
    assert int(tensors) >= run_bytes


def test_plan_takes_an_assignment_as_a_run_does(tmp_path: Path) -> None:
    (tmp_path / "found.yaml").write_text("default: fixed8\nfound: {prefer: balanced}\n")
    planned = hil("plan", "--model", "digits_cnn", "--board", "due", "--assignment", "found.yaml", cwd=tmp_path)
    run_bytes = tinyhil.load("digits_cnn").compile("fixed8", board="due").arena_bytes
    assert re.findall(r"^due: arena (\d+) B", planned.stdout, re.MULTILINE) == [str(run_bytes)], planned.stdout


def test_sizes_are_printed(tmp_path: Path) -> None:
    done = hil("export", "cmake", "digits_mlp", "--format", "fixed8", "--sizes", "--out", "x.zip", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^\| \S.* \| \S+ \S+ \| [\d,]+ B, [\d,]+ B, [\d,]+ B \|", done.stderr, re.MULTILINE)


def test_sizes_say_which_processor_does_not_take_it(tmp_path: Path) -> None:
    done = hil("export", "cmake", RESNET, "--sizes", "--out", "x.zip", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (uno,) = [line for line in done.stderr.splitlines() if line.startswith("| ATmega328P")]
    assert "does not fit: size of array" in uno
    assert "/" not in uno
    assert re.search(r"^\| Cortex-M3 .* B \|$", done.stderr, re.MULTILINE)
