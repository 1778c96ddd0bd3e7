"""The planner as a distribution of its own, `tinyhil-memplan`: its sources as a package that needs numpy alone.

    python -m tools.memplan_distribution FOLDER     # writes the project; then: python -m build FOLDER

It has a package name of its own, so that both distributions can be installed beside each other.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "tinyhil_memplan"
SHARED = ("errors.py", "files.py", "native.py", "processes.py")  # of tinyhil/ itself, all that the planner takes of it
PROJECT = """[build-system]
requires = ["hatchling>=1.24"]
build-backend = "hatchling.build"

[project]
name = "tinyhil-memplan"
version = "{version}"
description = "Memory planned to the byte: buffers with live ranges to offsets, with a proof"
readme = "README.md"
requires-python = "{python}"
license = "Apache-2.0"
license-files = ["LICENSE"]
keywords = ["memory planning", "tensor allocation", "tinyml", "minimalloc"]
dependencies = ["{numpy}"]

[project.optional-dependencies]
solver = ["{solver}"]

[project.scripts]
memplan = "{package}.__main__:main"

[tool.hatch.build.targets.wheel]
packages = ["{package}"]
"""


def write_project(folder: Path) -> None:
    """All files of the distribution below `folder`, which is made."""
    package = folder / PACKAGE
    package.mkdir(parents=True, exist_ok=True)
    sources = [*sorted((ROOT / "memplan").glob("*.py")), *(ROOT / "tinyhil" / name for name in SHARED)]
    for path in sources:
        (package / path.name).write_text(renamed(path.read_text()))
    for path in (ROOT / "memplan").glob("*.c"):
        (package / path.name).write_bytes(path.read_bytes())
    (package / "py.typed").write_text("")
    (folder / "README.md").write_bytes((ROOT / "memplan" / "README.md").read_bytes())
    (folder / "LICENSE").write_bytes((ROOT / "LICENSE").read_bytes())
    (folder / "pyproject.toml").write_text(_project())


def renamed(text: str) -> str:
    """A source with the distribution's package in place of ours."""
    text = re.sub(r"\btinyhil\.memplan\b", PACKAGE, text)
    text = re.sub(r"\b(from|import) tinyhil\b", rf"\1 {PACKAGE}", text)
    return text.replace("tinyhil[solver]", "tinyhil-memplan[solver]")


def _project() -> str:
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    numpy = next(text for text in whole["dependencies"] if text.startswith("numpy"))
    (solver,) = whole["optional-dependencies"]["solver"]
    known = {"version": whole["version"], "python": whole["requires-python"], "numpy": numpy, "solver": solver}
    return PROJECT.format(package=PACKAGE, **known)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    write_project(parser.parse_args().folder)


if __name__ == "__main__":
    main()
