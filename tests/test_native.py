"""Libraries compiled on this machine: once, however many ask, and without compilers left behind."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tinyhil.errors import BuildError
from tinyhil.native import Library, compiled, default_cache_dir, run_watched

ROOT = Path(__file__).resolve().parent.parent
HANG_S = 120.0  # far above what any machine needs: only a process that never ends reaches it

ASKS = """
import sys
from pathlib import Path
from tinyhil.native import Library, compiled
library = Library("a test", "test", (Path(sys.argv[1]),), ("-shared", "-fPIC"))
print("ready", flush=True)
sys.stdin.readline()
print(compiled(library, sys.argv[2], Path(sys.argv[3]), print), flush=True)
"""


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def library(folder: Path) -> Library:
    source = folder / "one.c"
    source.write_text("int one(void) { return 1; }\n")
    return Library("a test", "test", (source,), ("-shared", "-fPIC"))


def asking(folder: Path, compiler: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", ASKS, str(folder / "one.c"), str(compiler), str(folder / "cache")]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def wait_for(what: object, done: object) -> None:
    begin = time.monotonic()
    while not done():  # type: ignore[operator]
        assert time.monotonic() - begin < HANG_S, what
        time.sleep(0.01)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_four_processes_compile_once(tmp_path: Path) -> None:
    library(tmp_path)
    counting = script(tmp_path / "counting", f'echo one >>{tmp_path}/count\nexec cc "$@"')
    processes = [asking(tmp_path, counting) for _ in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    lines = [process.communicate()[0].splitlines() for process in processes]
    assert (tmp_path / "count").read_text() == "one\n"
    assert {said[-1] for said in lines} == {str(*(tmp_path / "cache").glob("*.so"))}
    assert ctypes.CDLL(lines[0][-1]).one() == 1
    assert [path.suffix for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock"] == [".so"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_compiler_outlives_who_started_it(tmp_path: Path, number: signal.Signals) -> None:
    """A driver and the program it started, as g++ and its cc1plus; the next one compiles undisturbed."""
    library(tmp_path)
    forever = script(tmp_path / "forever", "while :; do sleep 1000; done")
    driver = script(
        tmp_path / "driver",
        f"{forever} &\necho $! $$ >{tmp_path}/pids.new\nmv {tmp_path}/pids.new {tmp_path}/pids\nwait",
    )
    process = asking(tmp_path, driver)
    process.stdin.write("\n")  # type: ignore[union-attr]
    process.stdin.flush()  # type: ignore[union-attr]
    wait_for("the compiler starts", (tmp_path / "pids").exists)
    pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
    assert all(map(lives, pids))
    os.kill(process.pid, number)
    process.communicate()
    wait_for("all of them end", lambda: not any(map(lives, pids)))
    assert compiled(library(tmp_path), "cc", tmp_path / "cache", lambda line: None).exists()


def test_a_program_reads_nothing_and_holds_no_pipe() -> None:
    """Of ours: it would keep the watch from seeing our end."""
    returncode, text = run_watched(["sh", "-c", "read line && exit 9; ls /proc/$$/fd >&2; exit 3"])
    assert returncode == 3
    assert "3" not in text.split()


@pytest.mark.parametrize("compiler", ["false", "no-such-compiler"])
def test_a_failure_is_one_line(tmp_path: Path, compiler: str) -> None:
    with pytest.raises(BuildError, match=f"{compiler} could not build a test"):
        compiled(library(tmp_path), compiler, tmp_path / "cache", lambda line: None)
    assert not list((tmp_path / "cache").glob("*.so"))


def test_a_cache_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(BuildError, match=r"can not be compiled into .*; set HIL_CACHE"):
        compiled(library(tmp_path), "cc", tmp_path / "cache", lambda line: None)


def test_one_place_for_all(tmp_path: Path) -> None:
    """What `make setup` compiles: the planner's core and the engine of searches."""
    environment = {**os.environ, "HIL_CACHE": str(tmp_path), "CXX": "/bin/false"}
    done = subprocess.run(
        [sys.executable, "-m", "tinyhil.harness.build.natives"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert done.stderr == "setup: /bin/false could not build the host engine (no output)\n"
    program = "from memplan.compiled_cores import backend; print(backend())"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "compiled\n"
    assert len(list(tmp_path.glob("memplan-*.so"))) == 1
    assert "natives" in (ROOT / "Makefile").read_text().split("setup:")[1].splitlines()[0]
    assert default_cache_dir().is_absolute()
