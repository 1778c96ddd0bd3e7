"""The registry of strategies, and how their options are read from text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

from search.accuracy_only import AccuracyOnly
from search.exhaustive import Exhaustive
from search.haunter import Haunter
from search.lagrange import Lagrange
from search.layerwise import Layerwise
from search.nsga2 import Nsga2
from search.random_widths import RandomWidths
from search.shiftry import Shiftry
from search.size_only import SizeOnly
from search.study import Strategy
from tinyhil.errors import ConfigError

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
)
READ: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "bool": lambda text: {"true": True, "false": False}[text.lower()],
}


def make_strategy(name: str, options: Iterable[str]) -> Strategy:
    """The strategy `name` with `options` such as `percentile=90`; ConfigError lists what there is."""
    found = next((strategy for strategy in STRATEGIES if strategy.name == name), None)
    if found is None:
        raise ConfigError(f"unknown strategy '{name}'; known: {', '.join(s.name for s in STRATEGIES)}")
    types = {field.name: str(field.type) for field in fields(found)}  # type: ignore[arg-type]
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
