"""A plan as a C header: bytes of the arena, and offset and size of every buffer, as constants."""

from __future__ import annotations

import re
from pathlib import Path

from tinyhil.errors import ConfigError
from tinyhil.files import write_text
from tinyhil.memplan.blocks import lcm_of
from tinyhil.memplan.describe import describe
from tinyhil.memplan.problem import Plan, Problem

NO_IDENTIFIER = re.compile(r"[^A-Za-z0-9_]")


def c_header(problem: Problem, plan: Plan, name: str = "plan") -> str:
    """The text of a header for C99 and C++11. Constants begin with `name` in capitals: `_BYTES` and `_ALIGNMENT` of
    each region's array (one region: without its name), `_<buffer>_OFFSET` and `_<buffer>_BYTES`.

    ConfigError where two names become one identifier, or `name` is none.
    """
    prefix = name.upper()
    if not re.fullmatch(r"[A-Z][A-Z0-9_]*", prefix):
        raise ConfigError(f"header: {name!r} is no C identifier; give letters, digits and _, a letter first")
    lines = [f"/* {line.replace('*/', '* /')} */" for line in describe(plan).splitlines()]  # nothing ends a comment
    lines += [f"#ifndef {prefix}_H", f"#define {prefix}_H", ""]
    for region in problem.regions:
        own = prefix if len(problem.regions) == 1 else f"{prefix}_{_identifier(region.name)}"
        placed = [buffer for buffer in problem.buffers if plan.regions[buffer.name] == region.name]
        peak = max((plan.offsets[b.name] + b.size_bytes for b in placed if b.size_bytes), default=0)
        lines += [f"#define {own}_BYTES {peak}u", f"#define {own}_ALIGNMENT {lcm_of(b.alignment for b in placed)}u", ""]
    seen: dict[str, str] = {}
    for buffer in problem.buffers:
        own = f"{prefix}_{_identifier(buffer.name)}"
        if own in seen:
            raise ConfigError(f"header: buffers {seen[own]!r} and {buffer.name!r} are both {own}; rename one of them")
        seen[own] = buffer.name
        lines += [f"#define {own}_OFFSET {plan.offsets[buffer.name]}u", f"#define {own}_BYTES {buffer.size_bytes}u"]
    return "\n".join([*lines, "", f"#endif /* {prefix}_H */", ""])


def _identifier(name: str) -> str:
    return NO_IDENTIFIER.sub("_", name)


def write_header(path: Path, problem: Problem, plan: Plan) -> None:
    """The header as a file, whose constants begin with the file's name, as far as it is an identifier; ConfigError
    where it can not be written."""
    written(path, c_header(problem, plan, header_name(path)))


def header_name(path: Path) -> str:
    """What its constants begin with."""
    name = "".join(char if char.isascii() and char.isalnum() else "_" for char in path.stem)
    return name if name[:1].isalpha() else f"plan_{name}"


def written(path: Path, text: str) -> None:
    """The file as a whole; ConfigError where it can not be."""
    try:
        write_text(path, text)
    except OSError as error:
        raise ConfigError(f"{path} can not be written: {error.strerror}; choose another place") from None
