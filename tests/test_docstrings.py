"""Every public function and class says what it is, and what it raises by itself."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

import pytest
from sources import ROOT, SHIPPED, nodes, python_files, tree

FILES = python_files()
Definition = ast.FunctionDef | ast.ClassDef
UNSAID = {"AssertionError"}  # what can not happen


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


@pytest.mark.parametrize("package", SHIPPED)
def test_public_functions_and_classes_have_docstrings(package: str) -> None:
    bare = [
        f"{path.relative_to(ROOT)}: {item.name}"
        for path in FILES
        if path.relative_to(ROOT).parts[0] == package
        for item in definitions(tree(path).body, of_classes=False)
        if not ast.get_docstring(item)
    ]
    assert bare == []


@functools.cache
def classes() -> dict[str, list[ast.ClassDef]]:
    found: dict[str, list[ast.ClassDef]] = {}
    for path in FILES:
        for item in nodes(path):
            if isinstance(item, ast.ClassDef):
                found.setdefault(item.name, []).append(item)
    return found


def bases(item: ast.ClassDef) -> list[str]:
    return [ast.unparse(base).split("[")[0].split(".")[-1] for base in item.bases]


def methods(item: ast.ClassDef) -> list[ast.FunctionDef]:
    return [one for one in item.body if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")]


@functools.cache
def protocols() -> list[dict[str, bool]]:
    """What each protocol asks for, and whether it says what that means."""
    every = [item for found in classes().values() for item in found if "Protocol" in bases(item)]
    return [{one.name: bool(ast.get_docstring(one)) for one in methods(item)} for item in every]


def members(item: ast.ClassDef, below: tuple[str, ...] = ()) -> set[str]:
    """Methods and fields, inherited ones too."""
    fields = {one.target.id for one in item.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)}
    above = (found for base in bases(item) if base not in below for found in classes().get(base, []))
    inherited = (members(found, (*below, item.name)) for found in above)
    return fields.union({one.name for one in methods(item)}, *inherited)


def is_asked_for(item: ast.ClassDef, name: str) -> bool:
    """By a protocol that says what it means, and that the class has all of."""
    return any(asked.get(name) and asked.keys() <= members(item) for asked in protocols())


def is_said(item: ast.ClassDef, name: str, below: tuple[str, ...] = ()) -> bool:
    """By the method itself or by what it overrides."""
    own = any(one.name == name and ast.get_docstring(one) for one in methods(item))
    above = (found for base in bases(item) if base not in below for found in classes().get(base, []))
    return own or any(is_said(found, name, (*below, item.name)) for found in above)


@pytest.mark.parametrize("package", SHIPPED)
def test_public_methods_have_docstrings(package: str) -> None:
    bare = [
        f"{path.relative_to(ROOT)}: {item.name}.{one.name}"
        for path in FILES
        if path.relative_to(ROOT).parts[0] == package
        for item in definitions(tree(path).body, of_classes=False)
        if isinstance(item, ast.ClassDef)
        for one in methods(item)
        if not is_said(item, one.name) and not is_asked_for(item, one.name)
    ]
    assert bare == []


def test_what_a_function_raises_it_names() -> None:
    """Commands aside, whose docstring is their help."""
    silent = [
        f"{path.relative_to(ROOT)}: {item.name}: {', '.join(sorted(missing))}"
        for path in FILES
        if "commands" not in path.parts
        for item in definitions(tree(path).body, of_classes=True)
        if isinstance(item, ast.FunctionDef)
        and (missing := {name for name in raised(item) if name not in (ast.get_docstring(item) or "")})
    ]
    assert silent == []
