"""Which number format each value gets: one for all, or a file that names exceptions.

An assignment file is YAML or JSON: `default: fixed16` and `values: {name: fixed8, ...}`, names as in the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tinyhil.errors import ConfigError
from tinyhil.formats import named
from tinyhil.graph import Graph


@dataclass(frozen=True, slots=True)
class Assignment:
    """Format names by value; `default` for all others."""

    default: str
    values: Mapping[str, str] = field(default_factory=dict)

    def format_of(self, group: Iterable[str]) -> str:
        """Format of values that share storage; ConfigError if the assignment gives them different ones."""
        chosen = {self.values[name]: name for name in group if name in self.values}
        if len(chosen) > 1:
            (first, a), (second, b) = list(chosen.items())[:2]
            raise ConfigError(
                f"assignment: '{a}' is {first}, '{b}' is {second}, but they share memory; give them one format"
            )
        return next(iter(chosen), self.default)

    def describe(self) -> str:
        """The name of a uniform assignment, or `mixed`."""
        return self.default if all(fmt == self.default for fmt in self.values.values()) else "mixed"


def load_assignment(path: Path, graph: Graph) -> Assignment:
    """Read an assignment file; ConfigError names the unknown value or format."""
    import yaml

    try:
        data = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigError(f"assignment file {path}: {error.strerror}") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: no UTF-8, or a date that does not exist
        raise ConfigError(f"assignment file {path}: not YAML or JSON ({str(error).splitlines()[0]})") from None
    if not isinstance(data, dict) or "default" not in data:
        raise ConfigError(f"assignment file {path}: needs the key 'default' and, if there are exceptions, 'values'")
    unknown = sorted(str(key) for key in set(data) - {"default", "values"})
    if unknown:
        raise ConfigError(f"assignment file {path}: unknown key '{unknown[0]}'; known: default, values")
    values = data.get("values") or {}
    if not isinstance(values, dict):
        raise ConfigError(f"assignment file {path}: 'values' must map value names to formats")
    known = graph.all_shapes()
    for name, fmt in values.items():
        if name not in known:
            raise ConfigError(f"assignment file {path}: the model has no value '{name}'; see `hil inspect`")
        named(str(fmt))
    named(str(data["default"]))
    return Assignment(str(data["default"]), {str(k): str(v) for k, v in values.items()})
