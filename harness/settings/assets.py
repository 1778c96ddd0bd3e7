"""Files that ship with tinyhil: from the checkout, or from `harness/share` of an installed wheel."""

from __future__ import annotations

from pathlib import Path

from tinyhil.errors import ConfigError

_HERE = Path(__file__).resolve().parent.parent  # harness/


def asset(name: str) -> Path:
    """The file or folder `name` ("firmware", "models", ...); ConfigError if the installation lacks it."""
    for folder in (_HERE / "share", _HERE.parent):
        if (folder / name).exists():
            return folder / name
    raise ConfigError(f"'{name}' is missing from this installation; install tinyhil again")


def in_checkout() -> bool:
    """Whether this is a source checkout rather than an installed wheel."""
    return not (_HERE / "share").exists()
