"""The scripts that PlatformIO runs on a linked image, without a process that imports all they need anew."""

from __future__ import annotations

import functools
import importlib.util
from types import ModuleType

from tinyhil.harness.settings.assets import asset


@functools.cache
def script(name: str) -> ModuleType:
    """`name` of firmware/platform/, as a module that nothing else finds."""
    spec = importlib.util.spec_from_file_location(name, asset("firmware") / "platform" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
