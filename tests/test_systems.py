"""What needs no board runs where Unix' own modules and calls are missing, as on Windows; macOS has most of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

MISSING = ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty")
CALLS = ("geteuid", "getuid", "killpg", "sched_getaffinity", "uname")
# Blocked for our own modules alone: those of others (pyserial, filelock) have a version for every system.
BEGIN = f"""
import builtins, os, signal, sys
real = builtins.__import__
def guarded(name, globals=None, locals=None, fromlist=(), level=0):
    who = (globals or {{}}).get("__name__", "")
    if level == 0 and name.split(".")[0] in {MISSING!r} and (who.startswith("tinyhil") or who == "__main__"):
        raise ImportError(f"no {{name}} here")
    return real(name, globals, locals, fromlist, level)
builtins.__import__ = guarded
import platform, subprocess, tempfile, numpy, onnx, unicodedata  # others have looked around before
for call in {CALLS!r}:
    if hasattr(os, call):
        delattr(os, call)
del signal.SIGHUP
"""
PROGRAMS = {
    "the interface": "import tinyhil; m = tinyhil.load('digits_mlp'); print(m.compile('fixed8').arena_bytes)",
    "hil plan": "from tinyhil.harness.cli import main; main(['plan', '--model', 'digits_mlp', '--json'])",
    "hil doctor": "from tinyhil.harness.cli import main; main(['doctor'])",
    "hil export": "from tinyhil.harness.cli import main; main('export cmake digits_mlp --out x.zip'.split())",
    "hil search": "from tinyhil.harness.cli import main; "
    "main('search --model digits_mlp --arena 200 --evaluations 3 --evaluator reference --samples 50'.split())",
    "every module": "import pkgutil, importlib\n"
    "for package in ('', '.memplan', '.codegen', '.search', '.train', '.harness'):\n"
    "    path = importlib.import_module('tinyhil' + package).__path__\n"
    "    [importlib.import_module(m.name) for m in pkgutil.walk_packages(path, f'tinyhil{package}.') "
    "if '.share.' not in m.name]",
}


ROOT = Path(__file__).resolve().parent.parent
UNSAID = re.compile(r"(?<!files)\.(read_text\(\)|write_text\((?!.*encoding))")
OF_LINUX = ("doctor/serial_ports.py", "boards/locks.py", "wire/deadline.py", "engine/library.py")  # read /proc and /sys

BEFORE = {"every module": "import torch\n"}  # which looks around, too: for graphics cards
FAST = ("hil plan", "every module")


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in PROGRAMS]
)
def test_it_runs_without_what_unix_alone_has(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", BEFORE.get(name, "") + BEGIN + PROGRAMS[name]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1200)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr


def test_the_block_blocks() -> None:
    done = subprocess.run([sys.executable, "-c", BEGIN + "import fcntl"], capture_output=True, text=True)
    assert "ImportError: no fcntl here" in done.stderr


def test_texts_say_their_encoding() -> None:
    """Windows reads in a code page of its own where none is said; what lies under /proc is Linux' alone."""
    found = []
    for package in ("tinyhil", "memplan", "codegen", "search", "train", "harness"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if not path.as_posix().endswith(OF_LINUX):
                lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
                found += [f"{path.relative_to(ROOT)}:{number}: {line}" for number, line in lines if UNSAID.search(line)]
    assert found == []
    assert UNSAID.search("text = path.read_text()")
    assert UNSAID.search("path.write_text(text)")
    assert not UNSAID.search('path.write_text(text, encoding="utf-8")')
