"""Our top-level packages have plain names: make sure that they are ours."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from tinyhil.errors import ConfigError

PACKAGES = ("tinyhil", "memplan", "codegen", "search", "harness")


def check_names() -> None:
    """ConfigError if another distribution owns one of the names; finds the packages without importing them."""
    home = Path(__file__).resolve().parent.parent
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        origin = Path(spec.origin).resolve() if spec is not None and spec.origin else None
        if origin is None or origin.parent.parent != home:
            raise ConfigError(f"package '{name}' comes from {origin}, not from tinyhil; use a fresh environment")
