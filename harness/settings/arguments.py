"""A request from what a Python caller gave: options by name, of the kinds that the request's fields have."""

from __future__ import annotations

import numbers
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from tinyhil.errors import ConfigError

T = TypeVar("T")
KINDS: dict[type, tuple[type, ...]] = {
    str: (str,),
    bool: (bool,),
    int: (numbers.Integral,),
    float: (numbers.Real,),
    tuple: (tuple,),
    Path: (os.PathLike,),
    type(None): (type(None),),
}


def request(what: str, cls: type[T], given: Mapping[str, Any]) -> T:
    """A `cls` with the options `given`. Lists become tuples, or text with commas where the option is such a text; text
    becomes a path where one is asked for. ConfigError for an option that there is not, or of another kind."""
    hints = get_type_hints(cls)
    values = {name: _fitted(what, name, value, hints.get(name)) for name, value in given.items()}
    try:
        return cls(**values)
    except TypeError as error:  # what a dataclass says of a field that it does not have, or lacks
        said = str(error).split("__init__() ")[-1].replace("got an unexpected keyword argument", "there is no option")
        own = "; boards of yours: hil_boards_file in pyproject.toml" if "'boards_file'" in said else ""
        raise ConfigError(f"{what}: {said}{own}") from None


def _fitted(what: str, name: str, value: Any, hint: Any) -> Any:
    if hint is None:  # no such option: the dataclass says so
        return value
    kinds = [get_origin(kind) or kind for kind in ((hint,) if get_origin(hint) is tuple else get_args(hint) or (hint,))]
    if isinstance(value, list | tuple):
        value = ",".join(map(str, value)) if str in kinds else tuple(value)
        if tuple in kinds and isinstance(value, tuple) and not all(isinstance(item, str) for item in value):
            raise ConfigError(f"{what}: {name} must hold text only")
    elif isinstance(value, str) and str not in kinds and Path in kinds:
        value = Path(value)
    known = value is None or isinstance(value, bool) == (bool in kinds)  # a bool is an integer to Python
    if not known or not isinstance(value, tuple(one for kind in kinds for one in KINDS[kind])):
        words = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
        raise ConfigError(f"{what}: {name} must be {words}, not {type(value).__name__}")
    return value
