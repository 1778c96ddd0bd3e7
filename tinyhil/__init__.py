"""Fits trained models into microcontrollers and proves on the board that they fit: `tinyhil.load`, `tinyhil.compare`.

The interface of docs/python.md, imported when it is first used: `import tinyhil` alone costs nothing.
"""

import os
from typing import Any

__all__ = ["Compiled", "Model", "Record", "compare", "errors", "load"]

# An installation holds memplan, codegen, search, train and harness in this folder; in a checkout they stand beside it.
_BESIDE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if os.path.isfile(os.path.join(_BESIDE, "memplan", "__init__.py")):
    __path__.append(_BESIDE)


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("Compiled", "Model", "Record", "compare", "load"):
        return getattr(importlib.import_module("tinyhil.harness.python.api"), name)
    if name == "errors":
        return importlib.import_module("tinyhil.errors")
    raise AttributeError(f"module 'tinyhil' has no attribute {name!r}")
