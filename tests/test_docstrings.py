"""Every public function and class says what it is, and what it raises by itself."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("tinyhil", "memplan", "codegen", "search", "train", "harness")
FILES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py") if not path.is_symlink())
Definition = ast.FunctionDef | ast.ClassDef
UNSAID = {"AssertionError"}  # what can not happen


@functools.cache
def body_of(path: Path) -> list[ast.stmt]:
    return ast.parse(path.read_text()).body


def definitions(body: list[ast.stmt], *, of_classes: bool) -> Iterator[Definition]:
    """Public ones of a module and, if asked for, of its public classes."""
    for item in body:
        if isinstance(item, Definition) and not item.name.startswith("_"):
            yield item
            if of_classes and isinstance(item, ast.ClassDef):
                yield from definitions(item.body, of_classes=True)


def raised(function: ast.FunctionDef) -> set[str]:
    """Names of the exceptions in `raise` statements; `refuse` makes a ModelError."""
    found: set[str] = set()
    todo: list[ast.AST] = list(function.body)
    while todo:
        item = todo.pop()
        if isinstance(item, ast.FunctionDef | ast.Lambda):
            continue
        todo += ast.iter_child_nodes(item)
        if isinstance(item, ast.Raise) and item.exc is not None:
            made = item.exc.func if isinstance(item.exc, ast.Call) else item.exc
            name = made.attr if isinstance(made, ast.Attribute) else getattr(made, "id", "")
            found.add("ModelError" if name == "refuse" else name if name[:1].isupper() else "")
    return found - {""} - UNSAID


def test_there_are_files() -> None:
    assert len(FILES) > 300


@pytest.mark.parametrize("package", PACKAGES)
def test_public_functions_and_classes_have_docstrings(package: str) -> None:
    bare = [
        f"{path.relative_to(ROOT)}: {item.name}"
        for path in FILES
        if path.relative_to(ROOT).parts[0] == package
        for item in definitions(body_of(path), of_classes=False)
        if not ast.get_docstring(item)
    ]
    assert bare == []


def test_what_a_function_raises_it_names() -> None:
    """Commands aside, whose docstring is their help."""
    silent = [
        f"{path.relative_to(ROOT)}: {item.name}: {', '.join(sorted(missing))}"
        for path in FILES
        if "commands" not in path.parts
        for item in definitions(body_of(path), of_classes=True)
        if isinstance(item, ast.FunctionDef)
        and (missing := {name for name in raised(item) if name not in (ast.get_docstring(item) or "")})
    ]
    assert silent == []
