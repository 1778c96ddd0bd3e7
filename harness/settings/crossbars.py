"""The constants of an accelerator in boards.yaml: each with its unit and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pydantic import Field, model_validator

from tinyhil.crossbars.hardware import Hardware
from tinyhil.errors import ConfigError
from tinyhil.harness.settings.yaml_file import Line, NonEmpty, Record

WHOLE = ("rows", "cell_bits", "dac_bits", "adc_bits", "crossbars_per_tile")
NAMES = tuple(field.name for field in fields(Hardware))


class Constant(Record):
    """`meaning`, `unit` and `source` are what docs/reram.md says of the value."""

    value: float = Field(gt=0)
    unit: Line = ""
    meaning: NonEmpty
    source: NonEmpty


def make_hardware(constants: Mapping[str, Constant], changes: Mapping[str, float]) -> Hardware:
    """The accelerator of a chip, with what its board has otherwise; ConfigError for values that are not modelled."""
    values: dict[str, Any] = {**{name: constant.value for name, constant in constants.items()}, **changes}
    for name in WHOLE:
        if values[name] != int(values[name]):
            raise ConfigError(f"crossbars: {name} {values[name]} is no whole number")
        values[name] = int(values[name])
    return Hardware(**values)


class WithCrossbars(Record):
    """A chip that may be an accelerator."""

    crossbars: dict[str, Constant] | None = None

    @model_validator(mode="after")
    def _crossbars_are_complete(self) -> WithCrossbars:
        if self.crossbars is not None:
            require_known(self.crossbars)
            missing = [name for name in NAMES if name not in self.crossbars]
            if missing:
                raise ValueError(f"crossbars need {', '.join(missing)}")
            _require_modelled(self.crossbars, {})
        return self


def require_known(given: Mapping[str, Any]) -> None:
    """ValueError for a constant that accelerators do not have."""
    unknown = [name for name in given if name not in NAMES]
    if unknown:
        raise ValueError(f"crossbars have no '{unknown[0]}'; they have {', '.join(NAMES)}")


def _require_modelled(constants: Mapping[str, Constant], changes: Mapping[str, float]) -> None:
    try:
        make_hardware(constants, changes)
    except ConfigError as error:
        raise ValueError(str(error)) from None
