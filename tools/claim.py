"""What a page states of a measurement, the command that repeats it, and whether it gave the same."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tinyhil.errors import DataError, HilError
from tools.measured import ROOT

LONGEST_S = 1200.0


@dataclass(frozen=True, slots=True)
class Claim:
    """`measure` gives what `stated` was; both by the name of the figure. `seconds`: about, of one processor.

    `tries`: of so many measurements one has to give all that is stated. `changed`: the first commit since then that
    touched its code, where that is known of it alone.
    """

    name: str
    command: str
    seconds: float
    stated: dict[str, Any]
    measure: Callable[[], dict[str, Any]]
    tolerance: float = 0.0  # relative
    apart: Mapping[str, float] = field(default_factory=dict)  # of figures by their last name
    tries: int = 1
    changed: str = ""


def repeat(claim: Claim) -> list[str]:
    """What differs from what is stated, in the measurement that comes nearest; DataError for want of data."""
    wrong: list[str] = []
    for _ in range(claim.tries):
        try:
            found = differences(claim, json.loads(json.dumps(claim.measure())))
        except DataError:
            raise
        except HilError as error:
            found = [str(error)]
        if not found:
            return []
        wrong = min(wrong or found, found, key=len)
    return wrong


def differences(claim: Claim, found: dict[str, Any]) -> list[str]:
    """What is not as stated, each with its name."""
    return list(_differences(claim, claim.stated, found, ()))


def _differences(claim: Claim, stated: Any, found: Any, where: tuple[str, ...]) -> Iterator[str]:
    if isinstance(stated, dict) and isinstance(found, dict):
        for key in {**stated, **found}:
            yield from _differences(claim, stated.get(key), found.get(key), (*where, str(key)))
    elif isinstance(stated, list) and isinstance(found, list) and len(stated) == len(found):
        for index, (a, b) in enumerate(zip(stated, found, strict=True)):
            yield from _differences(claim, a, b, (*where, str(index)))
    elif stated != found:
        numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (stated, found))
        allowed = max(claim.tolerance * abs(stated), claim.apart.get(where[-1], 0.0)) if numbers else 0.0
        if not numbers or not abs(found - stated) <= allowed:
            yield f"{' '.join(where)}: stated {stated!r}, today {found!r}"


def printed(command: str, finds: dict[str, str]) -> dict[str, float]:
    """What a command prints, by the regular expressions of the figures; DataError where it misses data."""
    given = os.environ.get("HIL_DATA", "")
    if "DATA/" in command and not Path(given).is_dir():
        raise DataError("set HIL_DATA")
    with tempfile.TemporaryDirectory() as folder:
        words = shlex.split(command.replace("ROOT/", f"{ROOT}/").replace("DATA/", f"{given}/"))
        program = [sys.executable, "-m", *words[2:]] if words[0] == "python" else words
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        cwd = ROOT if words[0] == "python" else folder
        done = subprocess.run(
            program, cwd=cwd, capture_output=True, text=True, timeout=LONGEST_S, env={**os.environ, "PATH": path}
        )
    if "HIL_DATA" in done.stderr and done.returncode:
        raise DataError(done.stderr.strip().splitlines()[-1])
    found = {key: re.search(pattern, done.stdout) for key, pattern in finds.items()}
    missing = [pattern for key, pattern in finds.items() if not found[key]]
    if missing:
        raise HilError(
            f"{command}: exit code {done.returncode}, prints nothing like {missing[0]!r}: {done.stderr[-200:]}"
        )
    return {key: number(match[1]) for key, match in found.items() if match}


def number(text: str) -> float:
    """Of '7,677,275', '92.53' or '4 %'."""
    return float(re.sub(r"[^\d.+-]", "", text))


def listed(claim: Claim) -> str:
    """A claim in one line: about how long, its name, its command, what it gives, how far off that may be, if stale."""
    allowed = [f"{key} within {far:g}" for key, far in claim.apart.items()]
    allowed += [f"equal in one of {claim.tries}"] if claim.tries > 1 else []
    tolerance = f"within {claim.tolerance:g} of it" if claim.tolerance else ", ".join(allowed) or "equal"
    expected = json.dumps(claim.stated)
    stale = f"  stale since {claim.changed}" if claim.changed else ""
    return f"{claim.seconds:7.1f} s  {claim.name}  ({claim.command})  {expected}  [{tolerance}]{stale}"
