"""The registry of strategies, and how their options are read from text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from tinyhil.errors import ConfigError, did_you_mean
from tinyhil.search.search_problem import Strategy
from tinyhil.search.strategies.accuracy_only import AccuracyOnly
from tinyhil.search.strategies.ddpg import Ddpg
from tinyhil.search.strategies.exhaustive import Exhaustive
from tinyhil.search.strategies.haunter import Haunter
from tinyhil.search.strategies.lagrange import Lagrange
from tinyhil.search.strategies.layerwise import Layerwise
from tinyhil.search.strategies.lazy_imports import require_package
from tinyhil.search.strategies.milp import Milp
from tinyhil.search.strategies.nsga2 import Nsga2
from tinyhil.search.strategies.own_file import own_strategy
from tinyhil.search.strategies.ppo import Ppo
from tinyhil.search.strategies.random_widths import RandomWidths
from tinyhil.search.strategies.shiftry import Shiftry
from tinyhil.search.strategies.size_only import SizeOnly

STRATEGIES: tuple[type[Strategy], ...] = (
    Lagrange,
    Haunter,
    Shiftry,
    AccuracyOnly,
    SizeOnly,
    Layerwise,
    Exhaustive,
    RandomWidths,
    Nsga2,
    Ppo,
    Ddpg,
    Milp,
)
READ: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "bool": lambda text: {"true": True, "false": False}[text.lower()],
}


def make_strategy(name: str, options: Iterable[str]) -> Strategy:
    """The strategy `name`, or that of the file `name`, with `options` such as `percentile=90`; ConfigError lists what
    there is."""
    if is_own(name):
        return _with_options(own_strategy(Path(name)), options)
    found = next((strategy for strategy in STRATEGIES if strategy.name == name), None)
    if found is None:
        known = [strategy.name for strategy in STRATEGIES]
        listed = f"{', '.join(known)}, and FILE.py with one of your own"
        raise ConfigError(f"unknown strategy '{name}'; {did_you_mean(name, known)}known: {listed}")
    require_package(name)
    return _with_options(found, options)


def is_own(name: str) -> bool:
    """Whether it names a file with a strategy of the user's own."""
    return name.endswith(".py")


def _with_options(found: type[Strategy], options: Iterable[str]) -> Strategy:
    name = found.name
    types = {field.name: str(getattr(field.type, "__name__", field.type)) for field in fields(found)}  # type: ignore[arg-type]
    values = {}
    for option in options:
        key, _, text = option.partition("=")
        if key not in types:
            raise ConfigError(f"strategy '{name}' has no option '{key}'; it has: {', '.join(types) or 'none'}")
        try:
            values[key] = READ[types[key]](text)
        except (ValueError, KeyError):
            raise ConfigError(f"strategy '{name}': {key}={text} is no {types[key]}") from None
    return found(**values)
