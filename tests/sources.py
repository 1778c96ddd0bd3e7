"""Our Python as the tests of its shape see it: parsed once, for all of them that run in one process (together.py)."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ("tinyhil", "memplan", "codegen", "search", "train", "harness")


@functools.cache
def python_files(*folders: str) -> tuple[Path, ...]:
    """Those of the folders, the product's where none is named, but for what is a link."""
    found = (path for name in folders or SHIPPED for path in (ROOT / name).rglob("*.py") if not path.is_symlink())
    return tuple(sorted(found))


@functools.cache
def tree(path: Path) -> ast.Module:
    """Nobody changes it."""
    return ast.parse(path.read_text())


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All of a file, as `ast.walk` gives them."""
    return tuple(ast.walk(tree(path)))
