"""What coverage-guided fuzzing has kept, fed again: taken or refused in one line, by every reader."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fuzz_targets import TARGETS, feed
from mutants import limited

from tinyhil.frontend import load

CORPORA = Path(__file__).parent / "fuzz"


@pytest.mark.parametrize("target", TARGETS)
def test_corpora(target: str) -> None:
    seeds = sorted((CORPORA / target).iterdir())
    taken = 0
    for path in seeds:
        try:
            with limited():
                taken += feed(target, path.read_bytes())
        except Exception as error:
            raise AssertionError(f"{path}: {error!r}") from error
    assert taken, "the seeds hold what is right, too"


def test_every_reader_is_imported_with_the_targets() -> None:
    """Atheris instruments what is imported then, and guides by it."""
    code = "import sys, fuzz_targets; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=CORPORA.parent, capture_output=True, text=True, check=True)
    frontend = Path(load.__file__).parent
    readers = {f"tinyhil.frontend.{path.stem}" for path in frontend.glob("*.py")} - {"tinyhil.frontend.__init__"}
    writers = {f"tinyhil.frontend.{name}" for name in ("dsl_writer", "onnx_writer", "onnx_types")}
    assert readers - writers - {"tinyhil.frontend.tflite_sound"} <= {*done.stdout.split()}
