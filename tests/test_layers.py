"""Dependencies point one way, and the command line starts without what it does not need."""

from __future__ import annotations

import ast
import graphlib
import json
import re
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest
from sources import nodes

from tinyhil.formats.format import Domain
from tinyhil.language.program import Role

ROOT = Path(__file__).resolve().parent.parent
# From the lowest floor up: a folder imports of ours itself and what stands below it, types and deferred imports
# included. All of them live in the package `tinyhil`, in a checkout or out of one (tinyhil/__init__.py).
FLOORS = (
    "tinyhil",
    "tinyhil/crossbars",
    "tinyhil/formats",
    "tinyhil/language",
    "tinyhil/ops",
    "tinyhil/references",
    "tinyhil/fuse",
    "tinyhil/compiler",
    "tinyhil/reram",
    "tinyhil/agreement",
    "tinyhil/frontend",
    "tinyhil/data",
    "memplan",
    "memplan/arena",
    "tinyhil/passes",
    "codegen",
    "search",
    "search/engine",
    "search/strategies",
    "train",
    "harness/settings",
    "harness/job",
    "harness/wire",
    "harness/records",
    "harness/build",
    "harness/boards",
    "harness/measure",
    "harness/offline",
    "harness/report",
    "harness/fit",
    "harness/energy",
    "harness/search",
    "harness/train",
    "harness/python",
    "harness/doctor",
    "harness/mlperf",
    "harness/engines",
    "harness/sweep",
    "harness/watch",
    "harness/commands",
    "harness",
    "tools",
)
# What stands below and is none of their business
STRANGERS = {
    "memplan": {floor for floor in FLOORS[:12] if floor != "tinyhil"},
    "search": {"tinyhil/passes", "codegen"},
    "search/engine": {"tinyhil/passes", "codegen"},
    "search/strategies": {"tinyhil/passes", "codegen"},
    "train": {"memplan", "memplan/arena", "tinyhil/passes", "codegen"},
    "harness/wire": {"tinyhil/passes", "codegen", "search", "train", "harness/job"},
    "harness/records": {"tinyhil/passes", "codegen", "search", "train"},
}
FOLDERS = ("memplan", "codegen", "search", "train", "harness")
HEAVY = {
    "numpy",
    "onnx",
    "onnxruntime",
    "platformio",
    "torch",
    "ortools",
    "pydantic",
    "yaml",
    "serial",
    "rich",
    "unicorn",
}
PAGE = (ROOT / "docs" / "architecture.md").read_text()
TABLE = PAGE[PAGE.index("## Where things are") : PAGE.index("## One run")]
FILES = sorted(path for top in ("tinyhil", *FOLDERS, "tools") for path in (ROOT / top).rglob("*.py"))


def floor_of(path: Path) -> str:
    """The innermost folder of FLOORS that holds the file."""
    name = path.relative_to(ROOT).as_posix()
    return max((floor for floor in FLOORS if name.startswith(f"{floor}/")), key=len)


def imports(path: Path) -> set[str]:
    """Every module a file imports, at whatever depth, with the names taken from it."""
    found = set()
    for item in nodes(path):
        if isinstance(item, ast.Import):
            found |= {alias.name for alias in item.names}
        elif isinstance(item, ast.ImportFrom):
            assert item.level == 0, f"{path}: relative import"
            found |= {f"{item.module}.{alias.name}" for alias in item.names}
    return found


STAGES = ("tinyhil.harness.measure.run", "tinyhil.harness.measure.profile.profile",
          "tinyhil.harness.search.session.run_search", "tinyhil.harness.offline.export.export_model")  # fmt: skip


@pytest.mark.parametrize(
    "name", ["python/api", *(f"commands/{name}" for name in ("run", "profile", "search", "export"))]
)
def test_commands_and_python_make_the_same_calls(name: str) -> None:
    """What is done with a request stands once, in harness/python/calls.py."""
    found = imports(ROOT / "harness" / f"{name}.py")
    assert "tinyhil.harness.python.calls" in found
    assert not [module for module in found if module.startswith(STAGES)]


def _place_of(module: str) -> str:
    """`harness/records/view` of `tinyhil.harness.records.view.Record`, as far as names go."""
    parts = module.split(".")
    return "/".join(parts[1:] if parts[1:] and parts[1] in FOLDERS else parts)


def owner(module: str) -> str:
    """The floor that an imported name of ours belongs to, "" for others' modules."""
    if module.split(".")[0] in FOLDERS:
        return "unqualified"
    name = f"{_place_of(module)}/"
    return max((floor for floor in FLOORS if name.startswith(f"{floor}/")), key=len, default="")


def forbidden(floor: str, imported: set[str]) -> set[str]:
    """Those of our own modules that `floor` may not know, and those that leave out `tinyhil.`."""
    allowed = {"", *FLOORS[: FLOORS.index(floor) + 1]} - STRANGERS.get(floor, set())
    return {name for name in imported if owner(name) not in allowed}


@pytest.mark.parametrize("floor", FLOORS)
def test_dependencies_point_down(floor: str) -> None:
    found = {str(path.relative_to(ROOT)): forbidden(floor, imports(path)) for path in FILES if floor_of(path) == floor}
    assert found
    assert {name: modules for name, modules in found.items() if modules} == {}


def test_the_rule_has_teeth() -> None:
    assert forbidden("tinyhil", {"numpy", "tinyhil.codegen.model.emit_model"}) == {"tinyhil.codegen.model.emit_model"}
    assert forbidden("memplan", {"tinyhil.errors.ConfigError"}) == set()
    assert forbidden("memplan", {"tinyhil.language.graph.Graph"}) == {"tinyhil.language.graph.Graph"}
    assert forbidden("codegen", {"tinyhil.harness.cli.hil", "tinyhil.memplan.Plan"}) == {"tinyhil.harness.cli.hil"}
    assert forbidden("harness", {"search.run", "tinyhil.search.search_loop"}) == {"search.run"}
    assert forbidden("harness/records", {"tinyhil.harness.measure.run.Outcome", "tinyhil.harness.wire.link"}) == {
        "tinyhil.harness.measure.run.Outcome"
    }
    assert floor_of(ROOT / "memplan" / "arena" / "rows.py") == "memplan/arena"
    assert len(FILES) > 60


def test_every_folder_has_its_floor() -> None:
    assert {path.parent.relative_to(ROOT).as_posix() for path in FILES} == set(FLOORS)


def test_a_checkout_holds_no_symbolic_link() -> None:
    listed = subprocess.run(["git", "ls-files", "-s"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [line for line in listed.splitlines() if line.startswith("120000")] == []


def test_code_generation_starts_nothing_and_reads_nothing() -> None:
    for path in (ROOT / "codegen").glob("*.py"):
        modules = {name.split(".")[0] for name in imports(path)}
        assert not modules & {"os", "pathlib", "subprocess", "shutil", "tempfile", "io"}, path
        assert "open(" not in path.read_text()


def loaded_by(*arguments: str) -> tuple[str, set[str]]:
    """What `hil` prints and the top-level modules it has loaded by then."""
    program = (
        "import sys, json, io, contextlib\n"
        "from tinyhil.harness.cli import main\n"
        "out = io.StringIO()\n"
        "with contextlib.redirect_stdout(out):\n"
        "    try: main(sys.argv[1:])\n"
        "    except SystemExit as end: assert not end.code, end.code\n"
        "print(json.dumps([out.getvalue(), sorted({name.split('.')[0] for name in sys.modules})]))\n"
    )
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    text, modules = json.loads(done.stdout)
    return text, set(modules)


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["plan", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    text, modules = loaded_by(*arguments)
    assert "hil" in text
    assert modules & HEAVY == set()
    assert "tinyhil" in modules


def test_tests_and_benchmarks_import_each_other_as_packages() -> None:
    mentions = "sys.path." + "insert"
    assert not [
        path
        for folder in ("tests", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
        if mentions in path.read_text()
    ]


def test_the_table_of_folders_names_every_folder() -> None:
    """Of the first two levels; of the second none of tests, of data and of chips, which are said in one line."""
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    folders = {"/".join(path.split("/")[:depth]) for path in files for depth in (1, 2) if path.count("/") >= depth}
    below = {name for name in folders if not name.startswith(("tests/", "models/", "results/", ".ci/", ".github/"))}
    unnamed = [
        name
        for name in sorted(below)
        if f"`{name}/`" not in TABLE and not all(f"`{part}/" in TABLE for part in name.split("/"))
    ]
    assert unnamed == []
    named = re.findall(r"`([a-z_/.]+)/`", TABLE)
    assert [name for name in named if "/" in name and not (ROOT / name).is_dir()] == []


def _names_in(*items: ast.AST) -> set[str]:
    every = [one for item in items for one in ast.walk(item)]
    return {one.id for one in every if isinstance(one, ast.Name)} | {
        one.attr for one in every if isinstance(one, ast.Attribute)
    }


def test_formats_are_asked_and_not_sorted_by_class() -> None:
    """Outside of `tinyhil/formats/` nobody asks for the class of a format: a new one would be forgotten there."""
    inside = [path for path in FILES if path.parent == ROOT / "tinyhil" / "formats"]
    families = {"Format"}
    for item in [item for _ in range(3) for path in inside for item in nodes(path)]:
        if isinstance(item, ast.ClassDef) and families & _names_in(*item.bases):
            families.add(item.name)
    assert {"Fixed", "PerChannel", "Affine", "Posit", "Sign", "Codebook"} <= families

    def sorts(item: ast.AST) -> bool:
        if isinstance(item, ast.Call) and isinstance(item.func, ast.Name) and item.func.id == "isinstance":
            return bool(families & _names_in(item.args[1]))
        return isinstance(item, ast.MatchClass) and bool(families & _names_in(item.cls))

    others = [path for path in FILES if path not in inside]
    assert [str(path.relative_to(ROOT)) for path in others if any(map(sorts, nodes(path)))] == []


def test_roles_and_domains_are_compared_as_enums() -> None:
    texts = {*Role, *Domain}

    def by_text(item: ast.AST) -> bool:
        if not isinstance(item, ast.Compare):
            return False
        sides = (item.left, *item.comparators)
        asked = any(isinstance(one, ast.Attribute) and one.attr in ("role", "domain") for one in sides)
        return asked and any(isinstance(one, ast.Constant) and one.value in texts for one in ast.walk(item))

    assert [str(path.relative_to(ROOT)) for path in FILES if any(map(by_text, nodes(path)))] == []


def needed_by(path: Path, modules: Collection[str]) -> set[str]:
    """Modules of ours that this one imports, whenever it does."""
    return {name if name in modules else name.rpartition(".")[0] for name in imports(path)} & set(modules)


def test_modules_go_in_no_circle() -> None:
    files = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in FILES if path.stem != "__init__"}
    modules = {
        name if name.startswith(("tinyhil.", "tools.")) else f"tinyhil.{name}": path for name, path in files.items()
    }
    graph = {name: needed_by(path, modules) for name, path in modules.items()}
    assert sum(map(len, graph.values())) > 1000
    tuple(graphlib.TopologicalSorter(graph).static_order())  # CycleError names them
