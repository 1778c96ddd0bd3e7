"""A board for the time of one run or flashing: locked, reached, and marked wedged if it does not answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from tinyhil.errors import DeviceCrashed, LinkError
from tinyhil.harness.boards.flash import BoardRefused
from tinyhil.harness.boards.locate import Place
from tinyhil.harness.boards.locks import LockFolder
from tinyhil.harness.settings.bench_file import Locks
from tinyhil.notice import Say


@contextmanager
def claim(place: Place, settings: Locks, wait_s: float | None, say: Say) -> Iterator[str | None]:
    """Yields the port to open, None for an emulator or the host. BoardError names who has the board.

    `wait_s`: how long to wait for a busy board; None: as the bench file says.
    """
    if place.port is None:
        yield None
        return
    locks, names = LockFolder(settings), place.mark_names
    longest_s = settings.wait_s if wait_s is None else wait_s
    with locks.hold(place.lock_names, place.name, longest_s, say), _reach(place, place.port, longest_s) as port:
        known = locks.wedged(names)
        if known:
            say(f"{place.name}: failed the last time: {known.why}")
        try:
            yield port
        except (LinkError, DeviceCrashed, BoardRefused) as error:
            locks.mark_wedged(names, str(error))
            raise
        locks.clear_wedged(names)


def _reach(place: Place, port: str, wait_s: float) -> AbstractContextManager[str]:
    if place.instance is None or place.instance.labgrid is None:
        return nullcontext(port)
    from tinyhil.harness.boards.labgrid_place import acquired

    return acquired(place.name, place.instance.labgrid, wait_s)
