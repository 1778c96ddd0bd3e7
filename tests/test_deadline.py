"""Deadlines beside other load: time spent waiting for a processor does not count, and nothing lasts for ever."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tinyhil.harness.wire import deadline
from tinyhil.harness.wire.deadline import LEAST_SHARE, Deadline, own_starved_s, starved_s


class World:
    """A clock, and how long this process and the board have waited for a processor."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.ours = self.board = 0.0
        monkeypatch.setattr(deadline.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(deadline, "own_starved_s", lambda: self.ours)

    def pass_time(self, seconds: float, ours: float = 0.0, board: float = 0.0) -> None:
        self.now, self.ours, self.board = self.now + seconds, self.ours + ours, self.board + board


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_a_processor_s_absence_does_not_count(world: World) -> None:
    limit = Deadline(2.0, lambda: world.board)
    world.pass_time(5.0, board=3.5)
    assert limit.left_s() == pytest.approx(0.5)
    world.pass_time(1.0, ours=0.8)
    assert limit.left_s() == pytest.approx(0.3)
    world.pass_time(0.31)
    assert limit.is_over()


def test_progress_begins_it_anew(world: World) -> None:
    limit = Deadline(2.0)
    world.pass_time(1.9)
    limit.restart()
    world.pass_time(1.9)
    assert not limit.is_over()
    world.pass_time(0.2)
    assert limit.is_over()


def test_a_board_that_never_gets_a_processor_is_given_up(world: World) -> None:
    limit = Deadline(2.0, lambda: world.board)
    for _ in range(int(2.0 / LEAST_SHARE) + 1):
        world.pass_time(1.0, ours=1.0, board=1.0)
    assert limit.is_over()


def test_what_the_kernel_says(tmp_path: Path) -> None:
    for thread, text in (("1", "7 2000000000 9\n"), ("2", "7 500000000 9\n")):
        (tmp_path / "task" / thread).mkdir(parents=True)
        (tmp_path / "task" / thread / "schedstat").write_text(text)
    assert starved_s(f"..{tmp_path}") == pytest.approx(2.0)  # they waited at the same time
    (tmp_path / "task" / "1" / "schedstat").write_text("7\n")
    assert starved_s(f"..{tmp_path}") == pytest.approx(0.5)
    assert starved_s(os.getpid()) >= 0
    assert 0 <= own_starved_s() <= own_starved_s()
    assert starved_s(2**22 + 1) == 0


def test_threads_that_wait_beside_ours_do_not_stretch_it() -> None:
    """A server that floods keeps pyserial's thread busy: what that one waits for a processor is not ours."""
    seen: list[tuple[float, float, float]] = []

    def ask() -> None:
        schedstat = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        before, own, after = schedstat.read_text(), own_starved_s(), schedstat.read_text()
        seen.append((1e-9 * int(before.split()[1]), own, 1e-9 * int(after.split()[1])))

    asking = threading.Thread(target=ask)
    asking.start()
    asking.join()
    ask()
    for before, own, after in seen:
        assert before <= own <= after
