"""Records as Python objects: attributes, a dictionary, a pandas Series or DataFrame, a table in a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from tinyhil.errors import ConfigError

SHOWN = 80  # characters of a value in one line
LONG = 8  # elements of a list that a table shows as their number


class Record(Mapping[str, Any]):
    """What a run, a profile or a search found. `record.latency.median` is `record["latency"]["median"]`. `folder`: of
    files that it names, kept as long as it is."""

    def __init__(self, values: Mapping[str, Any], folder: Any = None) -> None:
        self._values, self._folder = {name: _plain(value) for name, value in values.items()}, folder

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._values,)

    def __getitem__(self, key: str) -> Any:
        return _viewed(self._values[key])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._values:
            raise AttributeError(f"no {name!r} in this record; it holds {', '.join(self._values)}")
        return self[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._values]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Record({', '.join(f'{name}={_cut(text)}' for name, text in _rows(self._values))})"

    def to_dict(self) -> dict[str, Any]:
        """A copy in plain types, as `--json` prints it."""
        import copy

        return copy.deepcopy(self._values)

    def to_pandas(self) -> Any:
        """A Series with dotted names; of a record that lists operations, a DataFrame of those.

        ConfigError without pandas.
        """
        try:
            import pandas
        except ImportError:
            raise ConfigError("to_pandas() needs the package pandas; type: pip install pandas") from None
        rows = self._values.get("operations")
        if isinstance(rows, list | tuple) and rows and all(isinstance(row, Mapping) for row in rows):
            return pandas.DataFrame(rows)
        return pandas.Series(dict(_flat(self._values, "")))

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>" for name, text in _rows(self._values)
        )
        return f"<table>{rows}</table>"


def _plain(value: Any) -> Any:
    """As JSON has it: lists, and of an enumeration's member what it stands for."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.value if isinstance(value, Enum) else value


def _viewed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Record(value)
    return [_viewed(item) for item in value] if isinstance(value, list | tuple) else value


def _flat(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _rows(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and short texts; what is long by its size."""
    found = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            short = ", ".join(
                f"{key} {item}" for key, item in list(value.items())[:LONG] if not isinstance(item, list | dict)
            )
            found.append((name, short or f"{len(value)} entries"))
        elif isinstance(value, list | tuple) and len(value) > LONG:
            found.append((name, f"{len(value)} values"))
        else:
            found.append((name, str(value)))
    return found
