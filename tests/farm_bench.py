"""A farm on loopback: Dask's scheduler and workers, each a process of its own that can be killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import distributed

from tests.hil_command import wait_until
from tinyhil.native import default_cache_dir


def _forked(work: Callable[[], Any], environment: Mapping[str, str]) -> int:
    """A child that has imported what we have; it costs no start of Python."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        os.environ.update(environment)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        asyncio.run(work())
    finally:
        os._exit(0)


async def _schedule(file: Path) -> None:
    async with distributed.Scheduler(host="tcp://127.0.0.1", dashboard=False) as scheduler:
        (file.parent / "address").write_text(scheduler.address)
        (file.parent / "address").rename(file)
        await scheduler.finished()


async def _work(address: str, resources: Mapping[str, float], folder: str) -> None:
    options = {"nthreads": 1, "resources": dict(resources), "dashboard": False, "local_directory": folder}
    async with distributed.Worker(address, host="127.0.0.1", **options) as worker:
        await worker.finished()


class Farm:
    """`address` of a scheduler; workers by name."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.workers = folder, dict[str, int]()
        self._file = folder / "scheduler"
        self._scheduler = _forked(lambda: _schedule(self._file), {})

    @property
    def address(self) -> str:
        wait_until(self._file.is_file)
        return self._file.read_text()

    def add(self, name: str, resources: Mapping[str, float], **environment: str) -> None:
        """A worker that has built all that we have, but finished no cell."""
        cache, address = self.cache(name), self.address
        cache.mkdir(parents=True)
        for path in default_cache_dir().iterdir():
            if path.name != "sweep":
                (cache / path.name).symlink_to(path)
        given = {**environment, "HIL_CACHE": str(cache)}
        self.workers[name] = _forked(lambda: _work(address, resources, str(self.folder / name)), given)

    def wait_for(self, workers: int) -> None:
        """Until so many are there."""
        with distributed.Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(workers)

    def cache(self, name: str) -> Path:
        return self.folder / name / "cache"

    def has_begun(self, name: str) -> bool:
        """Whether a worker has begun a cell."""
        return any(self.cache(name).glob("sweep/*/cell.lock"))

    def kill(self, name: str) -> None:
        pid = self.workers.pop(name)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def kill_scheduler(self) -> None:
        os.kill(self._scheduler, signal.SIGKILL)
        os.waitpid(self._scheduler, 0)
        self._scheduler = 0

    def end(self) -> None:
        for name in list(self.workers):
            self.kill(name)
        if self._scheduler:
            self.kill_scheduler()


@contextmanager
def farm(folder: Path) -> Iterator[Farm]:
    """Ends with the block."""
    running = Farm(folder)
    try:
        yield running
    finally:
        running.end()
