"""The planner as `tinyhil-memplan`: a package with numpy alone beside it, its command, C header and picture."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from test_memplan_eject import drawn

from tinyhil.errors import ConfigError
from tinyhil.memplan import Budget, Buffer, Plan, Problem, Region, cp_sat, plan
from tinyhil.memplan.__main__ import main
from tinyhil.memplan.c_header import c_header, header_name
from tinyhil.memplan.csv import parse_problem, write_problem
from tinyhil.memplan.picture import as_svg
from tools.memplan_distribution import PACKAGE, write_project

ALONE = """
import numpy, sys

package, *arguments = sys.argv[1:]
given = sys.path[1]  # PYTHONPATH
sys.path = [given, *(path for path in sys.path if path.startswith(sys.base_prefix) and "-packages" not in path)]
sys.meta_path = [finder for finder in sys.meta_path if "importlib" in getattr(finder, "__module__", "")]
main = __import__(f"{package}.__main__", fromlist=["main"]).main
assert not [name for name in sys.modules if name.split(".")[0] in ("tinyhil", "click", "pydantic", "onnx")]
sys.exit(main(arguments))
"""
PROGRAM = """
#include "the_plan.h"
#include <stdio.h>
#define SHOW(number) printf("%%llu ", (unsigned long long)(number))
int main(void) {
    SHOW(THE_PLAN_BYTES); SHOW(THE_PLAN_ALIGNMENT); %s
    return 0;
}
"""


@pytest.fixture
def found(tmp_path: Path) -> tuple[Problem, Plan]:
    problem = drawn(3, 14)
    (tmp_path / "in.csv").write_text(write_problem(problem))
    return problem, plan(problem, budget=Budget(20_000))


def test_it_plans_beside_numpy_alone(
    found: tuple[Problem, Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process in which nothing else can be imported; the plan is ours."""
    write_project(tmp_path / "project")
    command = [sys.executable, "-c", ALONE, PACKAGE, "in.csv", "--json", "--out", "out.csv", "--plot", "map.svg"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "project")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    monkeypatch.setattr(cp_sat, "is_installed", lambda: False)  # as it is there
    record, whole = json.loads(done.stdout), plan(found[0])
    assert record["offsets"] == dict(whole.offsets)
    assert record["proven"] == whole.proven
    placed = {b.name: b.offset for b in parse_problem((tmp_path / "out.csv").read_text()).buffers}
    assert placed == dict(whole.offsets)


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_a_command(tmp_path: Path) -> None:
    write_project(tmp_path)
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(tmp_path / "out"),
        str(tmp_path),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    (wheel,) = (tmp_path / "out").glob("tinyhil_memplan-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {f"{PACKAGE}/search_core.c", f"{PACKAGE}/__main__.py", f"{PACKAGE}/check.py"} <= set(names)
    (points,) = (name for name in names if name.endswith("entry_points.txt"))
    assert f"memplan = {PACKAGE}.__main__:main" in zipfile.ZipFile(wheel).read(points).decode()


def test_a_compiler_reads_the_header(found: tuple[Problem, Plan], tmp_path: Path) -> None:
    problem, best = found
    (tmp_path / "the_plan.h").write_text(c_header(problem, best, "the_plan"))
    prints = "".join(f"SHOW(THE_PLAN_{b.name}_OFFSET); SHOW(THE_PLAN_{b.name}_BYTES);" for b in problem.buffers)
    (tmp_path / "main.c").write_text(PROGRAM % prints)
    flags = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
    subprocess.run(["cc", *flags, "main.c", "-o", "main"], cwd=tmp_path, check=True, timeout=60)
    shown = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert [int(word) for word in shown] == [
        best.peak_bytes, 6, *(n for b in problem.buffers for n in (best.offsets[b.name], b.size_bytes))
    ]  # fmt: skip


def test_each_region_has_its_own_array() -> None:
    two = Problem((Buffer("a", 5, 0, 2), Buffer("b", 9, 0, 2)), (Region("fast", 6), Region("slow")))
    text = c_header(two, plan(two))
    assert "#define PLAN_fast_BYTES 5u" in text
    assert "#define PLAN_slow_BYTES 9u" in text


@pytest.mark.parametrize(
    ("names", "title", "message"),
    [(("a/b", "a.b"), "plan", "are both PLAN_a_b"), (("a", "b"), "1st", "is no C identifier"), (("a",), "", "is no C")],
)
def test_what_is_no_identifier_is_refused(names: tuple[str, ...], title: str, message: str) -> None:
    problem = Problem(tuple(Buffer(name, 4, 0, 1) for name in names))
    with pytest.raises(ConfigError, match=message):
        c_header(problem, plan(problem), title)


def test_a_picture_shows_every_part_of_a_live_range() -> None:
    problem = Problem((Buffer("<a&b>", 4, 0, 9, gaps=((2, 5),)), Buffer("c\n", 4, 2, 5), Buffer("none", 0, 0, 9)))
    text = as_svg(problem, plan(problem), "x")
    assert text == as_svg(problem, plan(problem), "x")
    boxes = ElementTree.fromstring(text).findall("{http://www.w3.org/2000/svg}rect")
    assert [box[0].text for box in boxes] == ["<a&b>", "<a&b>", "c?"]
    assert {float(box.attrib["y"]) + float(box.attrib["height"]) for box in boxes} == {520.0}  # all at offset 0
    assert ElementTree.fromstring(as_svg(Problem(()), plan(Problem(())), "nothing")) is not None


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("in.csv", "--capacity", "1"), 4, "B > 1 B"),
        (("none.csv",), 2, "none.csv"),
        (("in.csv", "--time", "0"), 2, "give seconds above 0"),
        (("in.csv", "--plot", "map.png"), 2, "pictures end in .svg"),
        (("in.csv", "--header", "no/plan.h"), 2, "no"),
        (("in.csv", "--header", "5.h"), 0, ""),
    ],
)
def test_the_command_ends_with_one_line(
    arguments: tuple[str, ...],
    code: int,
    message: str,
    found: tuple[Problem, Plan],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == code
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == (code != 0)


@pytest.mark.parametrize(("file", "name"), [("plan.h", "plan"), ("my-arena.v2.h", "my_arena_v2"), ("5.h", "plan_5")])
def test_constants_are_named_by_the_file(file: str, name: str) -> None:
    assert header_name(Path(file)) == name
