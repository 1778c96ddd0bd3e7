"""Names are words of the field: what once had a private one keeps the field's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("tinyhil", "memplan", "codegen", "search", "train", "harness", "tools", "benchmarks", "tests", "models")
PYTHON = sorted(path for name in FOLDERS for path in (ROOT / name).rglob("*.py") if not path.is_symlink())
NATIVE = sorted(
    path
    for name in ("firmware", "emulators", "memplan", "search", "tests")
    for ending in ("*.c", "*.h", "*.cpp", "*.hpp")
    for path in (ROOT / name).rglob(ending)
)
PRIVATE = {
    "having": "say what: limit, assignment",
    "kept": "say what is kept: front, cached, fitting",
    "ladder": "Pareto front",
    "ladders": "Pareto front",
    "leash": "penalty",
    "lockstep": "batch engine",
    "mended": "corrected",
    "patience": "time limit, restart limit",
    "rung": "point of a Pareto front",
    "skewed": "asymmetric, affine",
    "told": "say what: answer, notes, announced",
    "twin": "portable form, duplicate",
    "twins": "portable forms, duplicates",
    "unmended": "uncorrected",
}
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"", re.DOTALL)


def _python_names(path: Path) -> frozenset[str]:
    """Variables, attributes, parameters, functions and classes, modules imported."""
    text = path.read_text()
    if not any(word in text.lower() for word in PRIVATE):  # most files need not be parsed
        return frozenset()
    items = ast.walk(ast.parse(text))
    named = (getattr(item, field, None) for item in items for field in ("id", "attr", "arg", "name", "asname"))
    return frozenset(name for name in named if isinstance(name, str))


def _native_names(path: Path) -> frozenset[str]:
    return frozenset(re.findall(r"[A-Za-z_]\w*", _COMMENT.sub(" ", path.read_text())))


def words_of(name: str) -> list[str]:
    """`keptEnds`, `KEPT_ENDS` and `kept_ends` are the words kept, ends."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def _private(names: frozenset[str]) -> Iterator[str]:
    for name in sorted(names):
        if not name.startswith("test_"):  # a sentence
            yield from (f"{name} ({PRIVATE[word]})" for word in words_of(name) if word in PRIVATE)


@pytest.mark.parametrize("name", ["kept", "_kept_ends", "MOST_KEPT", "KeptEnds", "bytes_are_kept", "keptEnds2"])
def test_words_of_names_are_found(name: str) -> None:
    assert list(_private(frozenset({name}))) == [f"{name} ({PRIVATE['kept']})"]


def test_identifiers_are_words_of_the_field() -> None:
    assert len(PYTHON) > 500
    assert len(NATIVE) > 80
    names = {path: _python_names(path) for path in PYTHON} | {path: _native_names(path) for path in NATIVE}
    assert [f"{path.relative_to(ROOT)}: {found}" for path in names for found in _private(names[path])] == []


def test_modules_are_named_by_words_of_the_field() -> None:
    assert [str(path) for path in (*PYTHON, *NATIVE) if set(words_of(path.stem)) & set(PRIVATE)] == []


# Two modules of one name are two views of one thing; all others have names of their own
SHARED = {
    "session": "each command's request, carried out",
    "show": "what each command prints",
    "affine": "a family of formats, and its operators",
    "pair": "a fusion, and the operator it makes",
    "limits": "a fusion, and the operator it makes",
    "distance": "a fusion, and the operator it makes",
    "gathered": "a fusion, and the operator it makes",
    "residual": "a fusion, and the operator it makes",
    "sparse": "a fusion, and the operator it makes",
}
PACKAGES = ("tinyhil", "memplan", "codegen", "search", "train", "harness")


def test_modules_have_names_of_their_own() -> None:
    """A command aside (`harness/commands/`), whose name is that of what carries it out."""
    paths: dict[str, list[str]] = {}
    for path in PYTHON:
        relative = path.relative_to(ROOT)
        if relative.parts[0] in PACKAGES and path.stem != "__init__" and "commands" not in relative.parts:
            paths.setdefault(path.stem, []).append(str(relative))
    several = {stem: found for stem, found in paths.items() if len(found) > 1}
    assert {stem: found for stem, found in several.items() if stem not in SHARED} == {}
    assert set(several) == set(SHARED)
