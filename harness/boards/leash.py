"""Programs of others that must not outlive us: on a closed terminal bossac, for one, spins for ever."""

from __future__ import annotations

import shutil
from collections.abc import Sequence


def leashed(command: Sequence[str]) -> list[str]:
    """`command`, ended by the kernel if the process that starts it is killed; as it is where setpriv is missing."""
    setpriv = shutil.which("setpriv")
    return [*([setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []), *command]
