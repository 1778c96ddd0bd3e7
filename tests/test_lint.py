"""C and C++ keep their shape, and cppcheck finds nothing in them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_cpp_is_formatted_and_free_of_warnings() -> None:
    """What `make check` runs: a warning or a file in another shape fails."""
    found = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    run = subprocess.run([ROOT / ".ci/lint-cpp"], cwd=ROOT, env=found, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
