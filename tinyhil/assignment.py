"""Which number format each value gets: one for all, or a file that names exceptions.

An assignment file is YAML or JSON: `default: fixed16`, `values: {name: fixed8, ...}` and, to move scales by powers of
two, `offsets: {name: -1, ...}` (-1 halves the step and the range; Shiftry, stage III). Names are those of the graph.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tinyhil import files
from tinyhil.errors import ConfigError
from tinyhil.formats import named
from tinyhil.graph import Graph

if TYPE_CHECKING:
    import yaml

MOST_OFFSET = 32
MIXED = "mixed"
Chosen = TypeVar("Chosen", str, int)


@dataclass(frozen=True, slots=True)
class Assignment:
    """Format names by value; `default` for all others."""

    default: str
    values: Mapping[str, str] = field(default_factory=dict)
    offsets: Mapping[str, int] = field(default_factory=dict)

    def format_of(self, group: Iterable[str]) -> str:
        """Format of values that share storage; ConfigError if the assignment gives them different ones."""
        return _agreed(self.values, group, "format") or self.default

    def offset_of(self, group: Iterable[str]) -> int:
        """Power of two by which the scale of values that share storage is moved."""
        return _agreed(self.offsets, group, "offset") or 0

    def describe(self) -> str:
        """The name of a uniform assignment, or `mixed`."""
        uniform = all(fmt == self.default for fmt in self.values.values()) and not any(self.offsets.values())
        return self.default if uniform else MIXED


def _agreed(given: Mapping[str, Chosen], group: Iterable[str], what: str) -> Chosen | None:
    """What `given` says of the values of `group`, which share storage; None if nothing."""
    chosen = {given[name]: name for name in group if name in given}
    if len(chosen) > 1:
        (first, a), (second, b) = list(chosen.items())[:2]
        raise ConfigError(
            f"assignment: '{a}' is {first}, '{b}' is {second}, but they share memory; give them one {what}"
        )
    return next(iter(chosen), None)


def load_assignment(path: Path, graph: Graph) -> Assignment:
    """Read an assignment file; ConfigError names the unknown value or format."""
    import yaml

    text = files.read_text(path, "assignment file", files.MOST_YAML_BYTES, ConfigError)
    try:
        files.compose_yaml(text)
        data = yaml.load(text, Loader=_once_only())  # a SafeLoader
    except (yaml.YAMLError, ValueError) as error:  # ValueError: no UTF-8, or a date that does not exist
        raise ConfigError(f"assignment file {path}: not YAML or JSON ({str(error).splitlines()[0]})") from None
    if not isinstance(data, dict) or "default" not in data:
        raise ConfigError(f"assignment file {path}: needs the key 'default' and, if there are exceptions, 'values'")
    unknown = sorted(str(key) for key in set(data) - {"default", "values", "offsets"})
    if unknown:
        raise ConfigError(f"assignment file {path}: unknown key '{unknown[0]}'; known: default, values, offsets")
    values, offsets = data.get("values") or {}, data.get("offsets") or {}
    for key, given in (("values", values), ("offsets", offsets)):
        if not isinstance(given, dict):
            raise ConfigError(f"assignment file {path}: '{key}' must map value names to {key}")
        unknown = [str(name) for name in given if name not in graph.all_shapes()]
        if unknown:
            raise ConfigError(f"assignment file {path}: the model has no value '{unknown[0]}'; see `hil inspect`")
    for fmt in (data["default"], *values.values()):
        named(str(fmt))
    wrong = [str(offset) for offset in offsets.values() if type(offset) is not int or abs(offset) > MOST_OFFSET]
    if wrong:
        raise ConfigError(f"assignment file {path}: offset {wrong[0]}: integers in -{MOST_OFFSET}..{MOST_OFFSET} only")
    return Assignment(
        str(data["default"]), {str(k): str(v) for k, v in values.items()}, {str(k): v for k, v in offsets.items()}
    )


def _once_only() -> type[yaml.SafeLoader]:
    """A loader that rejects a key given twice, of which YAML would silently keep the last."""
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
            """As PyYAML's, but ValueError for a key that is there twice."""
            found = super().construct_mapping(node, deep)
            if len(found) < len(node.value):
                keys = [str(key.value) for key, _ in node.value]
                twice = next(key for key in keys if keys.count(key) > 1)
                raise ValueError(f"'{twice}' is given twice")
            return found

    return Loader
