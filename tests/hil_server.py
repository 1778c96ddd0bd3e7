"""A process that has imported `hil` once and forks for each command: starting it anew costs 0.7 s of processor.

`python hil_server.py SOCKET` listens there. A request is one message: JSON of arguments, folder, environment and
which emulator of a test's own may be started, and three descriptors for standard input, output and errors. The
answers: the process id, at once, and later its exit status as `waitpid` tells it. The server ends when
its standard input is closed.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import re
import resource
import selectors
import socket
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
REQUEST_BYTES = 1 << 18
# By most commands when they run, and not before: the look for a data set or a port, random numbers, distinct values
IMPORTED_LATE = ("pooch", "requests", "serial.tools.list_ports", "numpy.ma", "numpy.random", "tqdm.auto")


def preload() -> None:
    """What the commands import when they run; what is optional stays out, a command must find that out itself."""
    for package in ("tinyhil", *(f"tinyhil.{name}" for name in ("memplan", "codegen", "search", "train", "harness"))):
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            with contextlib.suppress(ImportError):  # of an extra that is not installed
                importlib.import_module(found.name)
    for name in IMPORTED_LATE:
        importlib.import_module(name)
    importlib.import_module("tinyhil.harness.settings.config").load_boards()  # kept by all children, as what follows
    importlib.import_module("tinyhil.harness.build.pipeline").runtime_sources()
    kernels = importlib.import_module("tinyhil.codegen.kernel_subset")
    for path in (ROOT / kernels.FOLDER).rglob("*.hpp"):
        if path.name != kernels.ALL:
            kernels._parsed(path.read_text())
    importlib.import_module("direct_build")  # `hil` compiles without PlatformIO where the test asks for no other


def become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Turn this child into the process that was asked for."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, 4096)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.stdin, sys.stdout = (io.TextIOWrapper(io.FileIO(n, mode), "utf-8") for n, mode in ((0, "r"), (1, "w")))
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w"), "utf-8", "backslashreplace", line_buffering=True)
    sys.argv = [request["program"], *request["arguments"]]
    if request["file_bytes"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["file_bytes"],) * 2)
    if request["emulator"]:
        allow(request["emulator"])


def allow(emulator: str) -> None:
    """Beside our own emulators this one file, which a test has written; `hil` itself has no such setting."""
    from tinyhil.harness.settings import emulator_entry

    ours = emulator_entry.PROGRAMS["process"].pattern
    emulator_entry.PROGRAMS["process"] = re.compile(f"{ours}|{re.escape(emulator)}")


def serve(path: str) -> str:
    """Returns only in children: which program they are."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(64)
    for taken_apart in list(weakref.finalize._registry):
        taken_apart.atexit = False  # 134 libraries of PyTorch: each child would copy 27 MB to forget them
    gc.collect()
    gc.freeze()  # else the collector of every child touches, and so copies, all that was imported
    print("ready", flush=True)
    waiting = selectors.DefaultSelector()
    waiting.register(listener, selectors.EVENT_READ, None)
    waiting.register(0, selectors.EVENT_READ, None)
    while True:
        for key, _ in waiting.select():
            if key.fileobj == 0:
                os._exit(0)
            if key.fileobj is listener:
                client, _ = listener.accept()
                data, descriptors, _, _ = socket.recv_fds(client, REQUEST_BYTES, 3)
                pid = os.fork()
                if pid == 0:
                    # by name, before their numbers are reused: the selector is a cycle, collected at any time later
                    for other in [key.data[1] for key in waiting.get_map().values() if key.data]:
                        other.close()
                    for ours in (waiting, listener, client):
                        ours.close()
                    become(json.loads(data), descriptors)
                    return sys.argv[0]
                for descriptor in descriptors:
                    os.close(descriptor)
                client.send(b"%d" % pid)
                waiting.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, client))
            else:
                pid, client = key.data
                waiting.unregister(key.fileobj)
                os.close(key.fd)
                _, status = os.waitpid(pid, 0)
                with contextlib.suppress(OSError):  # nobody waits any more
                    client.send(b"%d" % status)
                client.close()


def leave(main: Callable[[], int | None]) -> None:
    """As `sys.exit(main())`, but without taking all modules apart, which copies the memory they share."""
    try:
        status = main()
    except SystemExit as error:
        status = error.code if error.code is None or isinstance(error.code, int) else sys.exit(error.code)
    threading._shutdown()  # waits for threads, as the interpreter does
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status or 0)


if __name__ == "__main__":
    preload()
    program = serve(sys.argv[1])
    if program == "pytest":
        import pytest

        sys.path.remove(os.path.dirname(os.path.abspath(__file__)))  # our tests are none of theirs
        leave(pytest.console_main)
    from tinyhil.harness.cli import main

    leave(main)
