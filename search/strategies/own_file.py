"""A strategy from a file of the user's own, which `--strategy FILE.py` names."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

from tinyhil.errors import OWN_CODE, ConfigError
from tinyhil.search.search_problem import Strategy

WORD = re.compile(r"[A-Za-z0-9_]+")


def own_strategy(path: Path) -> type[Strategy]:
    """The one strategy that a file defines: a dataclass with `name`, `source` and `propose`; ConfigError where it can
    not be loaded, or defines none or several."""
    name = f"{OWN_CODE}{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ConfigError(f"strategy {path}: no such file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for the types of their fields
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"strategy {path}: {type(error).__name__}: {error}") from error
    classes = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == name]
    found: list[Any] = [one for one in classes if hasattr(one, "propose")]
    if len(found) != 1:
        said = "none" if not found else " and ".join(one.__name__ for one in found)
        raise ConfigError(f"strategy {path}: one class with a method `propose` is wanted, there is {said}")
    strategy: type[Strategy] = found[0]
    title = getattr(strategy, "name", None)
    if not (hasattr(strategy, "__dataclass_fields__") and isinstance(title, str) and WORD.fullmatch(title)):
        raise ConfigError(f"strategy {path}: {strategy.__name__} is no dataclass with `name: ClassVar[str]`, a word")
    return strategy
