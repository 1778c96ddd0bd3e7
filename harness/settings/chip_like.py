"""`like: other` in a board file: a chip has all that another has, but what it says itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from tinyhil.harness.settings.yaml_file import Fault, mark

Plain = dict[str, Any]


def complete_chips(data: Any, root: yaml.Node, known: Mapping[str, Plain]) -> list[Fault]:
    """Give each chip of a board file its name, its folder in firmware/hal/, what it is emulated as and what it has of
    the chip it is like.

    `known`: chips of the file that this one stands beside.
    """
    chips = data.get("chips") if isinstance(data, dict) else None
    if not isinstance(chips, dict):
        return []
    written = {name: chip for name, chip in chips.items() if isinstance(chip, dict)}
    faults: list[Fault] = []
    for name in written:
        models = _ancestors(name, written, known)
        if isinstance(models, str):
            faults.append((*mark(root, ("chips", name, "like")), f"chips.{name}.like: {models}"))
            continue
        whole: Plain = {}
        for one in [*reversed(models), name]:
            own = written.get(one, known.get(one, {}))
            whole = {"hal": one, **whole, **own}
        chips[name] = {"emulated_as": name, **whole, "name": name}  # `known` have theirs, which is inherited
    return faults


def _ancestors(name: str, written: Mapping[str, Plain], known: Mapping[str, Plain]) -> list[str] | str:
    """The chips that `name` is like, nearest first; a text if there is no such chip, or a circle."""
    found: list[str] = []
    at = name
    while at in written and isinstance(model := written[at].get("like"), str):
        if model == name or model in found:
            return f"{' -> '.join([*map(str, (name, *found)), model])} is a circle"
        if model not in written and model not in known:
            return f"no chip named {model!r}; known: {', '.join(map(str, dict.fromkeys([*known, *written])))}"
        found.append(model)
        at = model
    return found
