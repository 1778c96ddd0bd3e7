"""The disk fails at every call, or the power goes: what was written is whole or is not there, and the work goes on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CASES = ("run", "golden", "journal", "checkpoint", "costs", "trials")


@pytest.fixture(scope="module", params=[3, pytest.param(5, marks=pytest.mark.slow)])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """What tests/disk_bench.py says of each case, and of so many kinds of failure."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("needs Linux and a C compiler, for a library that is preloaded")
    folder = tmp_path_factory.mktemp("disk")
    library = folder / "faulty_disk.so"
    build = [
        compiler,
        "-shared",
        "-fPIC",
        "-O1",
        "-Wall",
        "-Werror",
        "-o",
        str(library),
        str(HERE / "faulty_disk.c"),
        "-ldl",
    ]
    subprocess.run(build, check=True, timeout=60)
    (folder / "d").mkdir()
    command = [sys.executable, str(HERE / "disk_bench.py"), str(folder), str(request.param)]
    done = subprocess.run(
        command,
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["name"]: row for row in rows}


@pytest.mark.parametrize("name", CASES)
def test_every_call_that_writes_may_fail(name: str, found: dict[str, dict[str, object]]) -> None:
    assert found[name]["wrong"] == []
    assert found[name]["calls"] > 5  # type: ignore[operator]
