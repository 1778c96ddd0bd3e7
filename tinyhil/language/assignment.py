"""Which number format each value gets: one for all, or a file that names exceptions.

An assignment file is YAML or JSON: `default: fixed16`, `values: {name: fixed8, ...}` and, to move scales by powers of
two, `offsets: {name: -1, ...}` (-1 halves the step and the range; Shiftry, stage III). Names are those of the graph.
A search adds `found`, the conditions under which its figures hold: commands that are given the file keep to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from tinyhil import files
from tinyhil.errors import ConfigError
from tinyhil.formats import affine, named
from tinyhil.formats.clipping import METHODS
from tinyhil.formats.format import Domain
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program, Role
from tinyhil.preference import PREFERENCES

MOST_OFFSET = 32
MIXED = "mixed"
KINDS: dict[str, type] = {"calibrated_samples": int, "arena": int, "input_apart": bool}  # of conditions but texts
KEYS = frozenset({"default", "values", "offsets", "found"})
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


@dataclass(frozen=True, slots=True)
class Conditions:
    """How an assignment was found: what memory was planned for, how ranges were cut, on which samples (their name,
    number and SHA-256), by which version, and for how many bytes of `arena` products are computed again; `input_apart`:
    these do not hold the sample, wherever the board may have it. None: the file does not say."""

    prefer: str | None = None
    calibrate_by: str | None = None
    calibrated_on: str | None = None
    calibrated_samples: int | None = None
    calibrated_sha256: str | None = None
    tinyhil: str | None = None
    arena: int | None = None
    input_apart: bool | None = None

    def as_yaml(self) -> dict[str, Any]:
        """What there is to write under `found`."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def _agreed(given: Mapping[str, Chosen], group: Iterable[str], what: str) -> Chosen | None:
    """What `given` says of the values of `group`, which share storage; None if nothing."""
    chosen = {given[name]: name for name in group if name in given}
    if len(chosen) > 1:
        (first, a), (second, b) = list(chosen.items())[:2]
        raise ConfigError(
            f"assignment: '{a}' is {first}, '{b}' is {second}, but they share memory; give them one {what}"
        )
    return next(iter(chosen), None)


def load_conditions(path: Path) -> Conditions:
    """What an assignment file says of how it was found; ConfigError for what no search writes."""
    given = _content(path).get("found") or {}
    kinds = {one.name: KINDS.get(one.name, str) for one in fields(Conditions)}
    if not isinstance(given, dict) or not set(given) <= set(kinds):
        raise ConfigError(f"assignment file {path}: 'found' may say {', '.join(kinds)} only; leave it out to choose")
    for name, value in given.items():
        allowed = {"prefer": PREFERENCES, "calibrate_by": METHODS}.get(name)
        if type(value) is not kinds[name] or (allowed is not None and value not in allowed):
            known = f"; there are {', '.join(allowed)}" if allowed is not None else ""
            raise ConfigError(f"assignment file {path}: found: {name} can not be {str(value)[:40]!r}{known}")
    return Conditions(**given)


def load_assignment(path: Path, graph: Graph) -> Assignment:
    """Read an assignment file; ConfigError names the unknown value or format."""
    data = _content(path)
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


def _content(path: Path) -> dict[str, Any]:
    """The file's keys, known ones only and `default` among them."""
    import yaml

    text = files.read_text(path, "assignment file", files.MOST_YAML_BYTES, ConfigError)
    try:
        data = files.parse_yaml(text)
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"assignment file {path}: not YAML or JSON ({str(error).splitlines()[0]})") from None
    if not isinstance(data, dict) or "default" not in data:
        raise ConfigError(f"assignment file {path}: needs the key 'default' and, if there are exceptions, 'values'")
    unknown = sorted(str(key) for key in set(data) - KEYS - {"$schema"})  # an editor's
    if unknown:
        raise ConfigError(f"assignment file {path}: unknown key '{unknown[0]}'; known: {', '.join(sorted(KEYS))}")
    return data


def format_name(assignment: Assignment, program: Program) -> str:
    """The name of a uniform assignment, or `mixed`; of a quantized model the format that it states for all values."""
    name = assignment.describe()
    if name == MIXED:
        return name
    held = (tensor.format for tensor in program.tensors.values() if tensor.role in (Role.INPUT, Role.ARENA))
    of_bits = {named.bits: named.name for named in affine.NAMED}
    stated = {of_bits[one.bits] if one.domain is Domain.AFFINE else name for one in held}
    return stated.pop() if len(stated) == 1 else name
