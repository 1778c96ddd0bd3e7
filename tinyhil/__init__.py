"""Fits trained models into microcontrollers and proves on the board that they fit: `tinyhil.load`, `tinyhil.compare`.

The interface of docs/python.md, imported when it is first used: `import tinyhil` alone costs nothing.
"""

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

__all__ = ["Compiled", "Model", "Record", "compare", "errors", "load"]


class _Beside:
    """Finds those folders that an installation holds inside this one where a checkout has them: beside it."""

    names = frozenset(f"{__name__}.{folder}" for folder in ("memplan", "codegen", "search", "train", "harness"))
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Asked of every import that nobody else has found."""
        return PathFinder.find_spec(name, [cls.folder]) if name in cls.names else None


sys.meta_path.append(_Beside)


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("Compiled", "Model", "Record", "compare", "load"):
        return getattr(importlib.import_module("tinyhil.harness.python.api"), name)
    if name == "errors":
        return importlib.import_module("tinyhil.errors")
    raise AttributeError(f"module 'tinyhil' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
