"""Locks on boards: between processes, with owner and expiry; and how a board that does not answer is brought back."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flash_bench import Emulator
from hil_command import Forked, check_failure, finished_samples, hil, record_of, start_hil, wait_until
from wire_bench import Bench, make_bench, powered

from tinyhil.errors import EXIT_NO_BOARD, BoardError, ConfigError
from tinyhil.harness.boards import locks as lock_module
from tinyhil.harness.boards.heal import STEP_NAMES
from tinyhil.harness.boards.locks import Claim, LockFolder, owner, started
from tinyhil.harness.job.inputs import load_inputs
from tinyhil.harness.job.zoo import find_model
from tinyhil.harness.settings.bench_file import Locks

MODEL = ("--model", "fastgrnn_har")


@pytest.fixture
def locks(tmp_path: Path) -> LockFolder:
    return LockFolder(Locks(folder=str(tmp_path / "locks"), expiry_s=60))


# ---- the locks themselves ----

HOLD = """
import sys, time
from tinyhil.harness.settings.bench_file import Locks
from tinyhil.harness.boards.locks import LockFolder
with LockFolder(Locks(folder=sys.argv[1], expiry_s=int(sys.argv[2]))).hold(["board"], "due", 0, print):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(locks: LockFolder, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock `board`; its claim expires after `param` seconds."""
    command = [sys.executable, "-c", HOLD, str(locks.path), str(getattr(request, "param", 60))]
    env = {**os.environ, "HIL_OWNER": "alice"}
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def refusal(locks: LockFolder, wait_s: float = 0, name: str = "board") -> str:
    with pytest.raises(BoardError) as caught, locks.hold([name], "due", wait_s, lambda line: None):
        pass
    assert caught.value.exit_code == EXIT_NO_BOARD
    return str(caught.value)


def test_a_lock_that_is_held_names_its_owner(locks: LockFolder, holder: subprocess.Popen[str]) -> None:
    said = refusal(locks)
    assert said.startswith(f"due is in use by alice, process {holder.pid} (")
    claim = locks.holder("board")
    assert claim is not None
    assert 50 < claim.expires - claim.since <= 60
    with locks.hold(["another"], "uno", 0, print):
        pass


def test_who_waits_asks_again_until_the_time_is_over(
    locks: LockFolder, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    naps_s: list[float] = []
    clock = SimpleNamespace(
        **{name: getattr(time, name) for name in ("time", "strftime", "localtime")},
        monotonic=lambda: 100 + sum(naps_s),
        sleep=naps_s.append,
    )
    monkeypatch.setattr(lock_module, "time", clock)
    assert "in use by alice" in refusal(locks, wait_s=5.0)
    assert sum(naps_s) == pytest.approx(5.0, abs=1.1 * lock_module.POLL_S)


def test_who_waits_says_so_once_and_gets_the_lock(locks: LockFolder, holder: subprocess.Popen[str]) -> None:
    said: list[str] = []

    def end_it(line: str) -> None:
        said.append(line)
        holder.kill()  # nothing is tidied up: the kernel frees the lock

    with locks.hold(["board"], "due", 20, end_it):
        claim = locks.holder("board")
        assert claim is not None
        assert claim.pid == os.getpid()
    assert len(said) == 1
    assert "waiting up to 20 s" in said[0]
    assert locks.holder("board") is None


@pytest.mark.parametrize("holder", [1], indirect=True)
def test_an_overdue_holder_is_called_so(locks: LockFolder, holder: subprocess.Popen[str]) -> None:
    time.sleep(1.1)
    assert "overdue since" in refusal(locks)


def test_what_a_dead_process_left_behind_is_nobody_s(locks: LockFolder) -> None:
    now = time.time()
    ended = subprocess.Popen(["true"])
    ended.wait()
    namesake = Claim("alice", "hil run", now, now + 60, os.getpid(), "1")  # our number, another start
    for claim in (Claim("alice", "hil run", now, now + 60, ended.pid, "12345"), namesake):
        locks.path.mkdir(exist_ok=True)
        (locks.path / "board.holder").write_text(json.dumps(asdict(claim)))
        assert locks.holder("board") is None
    (locks.path / "board.holder").write_text("{ torn")
    assert locks.holder("board") is None
    with locks.hold(["board"], "due", 0, print):
        pass
    assert started(os.getpid()).isdigit()
    assert started(ended.pid) == ""


def test_a_reservation_keeps_others_away_until_it_expires(locks: LockFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    locks.reserve(["board"], "due", 60, "soldering")
    with locks.hold(["board"], "due", 0, print):
        pass  # ours
    me = owner()
    monkeypatch.setenv("HIL_OWNER", "bob\x1b[2J")
    assert owner() == "bob[2J"
    assert re.fullmatch(rf"due is reserved by {re.escape(me)} until [\d:]+ \(soldering\); .*", refusal(locks))
    with pytest.raises(BoardError, match="soldering"):
        locks.reserve(["board"], "due", 9, "")
    with pytest.raises(BoardError, match="soldering"):
        locks.release(["board"], "due", force=False)
    later = SimpleNamespace(time=lambda: time.time() + 61, monotonic=time.monotonic, sleep=time.sleep)
    monkeypatch.setattr(lock_module, "time", later)
    with locks.hold(["board"], "due", 0, lambda line: None):
        pass
    assert locks.release(["board"], "due", force=False) is False
    locks.reserve(["board"], "due", 60, "")
    monkeypatch.delenv("HIL_OWNER")
    assert locks.release(["board"], "due", force=True) is True
    assert locks.reservation("board") is None


def test_several_locks_are_taken_in_one_order_and_all_given_back(locks: LockFolder) -> None:
    held = []

    def fail() -> None:
        held.extend(bool(locks.holder(name)) for name in "ab")
        raise RuntimeError

    with pytest.raises(RuntimeError), locks.hold(["b", "a"], "due", 0, print):
        fail()
    assert held == [True, True]
    with locks.hold(["a", "b"], "due", 0, print):
        pass


def test_a_mark_stays_until_it_is_cleared(locks: LockFolder) -> None:
    assert locks.wedged(["board"]) is None
    locks.mark_wedged(["board"], "no HELLO\nwithin 3 s " + "x" * 1000)
    found = locks.wedged(["other", "board"])
    assert found is not None
    assert found.why.startswith("no HELLO within 3 s")
    assert len(found.why) == 300
    locks.clear_wedged(["board"])
    assert locks.wedged(["board"]) is None


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    locks = LockFolder(Locks(folder=str(tmp_path / "file" / "locks")))
    with pytest.raises(ConfigError, match="lock folder"), locks.hold(["board"], "due", 0, print):
        pass


# ---- hil processes after one board: an emulated Due that stays on between runs ----


def write_bench(folder: Path, port: str) -> None:
    text = f"boards:\n  left: {{board: due, port: {port}, role: ci, power: {{hub: '1-1', port: 3}}}}\n"
    (folder / "bench.yaml").write_text(text)


@pytest.fixture(scope="module")
def flashed() -> Bench:
    return make_bench("due", "fastgrnn_har", load_inputs(find_model("fastgrnn_har"), None, 1).x)


@pytest.fixture
def desk(flashed: Bench, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A Due that holds the model already, known to the bench file as `left`; its port."""
    with powered(flashed, tmp_path) as device:
        write_bench(tmp_path, device.port)
        yield device.port, tmp_path


@contextmanager
def endless_run(folder: Path) -> Iterator[Forked]:
    """A run that has the board of `desk` until it is ended: after its first samples the board stands still."""
    run = start_hil("run", "--board", "left", *MODEL, "--samples", 119, "--timeout", 600, "--json", cwd=folder)
    wait_until(lambda: finished_samples(folder / "results") > 3)
    listed = subprocess.run(["pgrep", "-P", str(os.getpid()), "armsim"], capture_output=True, text=True, check=True)
    emulator = int(listed.stdout)
    os.kill(emulator, signal.SIGSTOP)
    try:
        yield run
    finally:
        os.kill(emulator, signal.SIGCONT)
        run.kill()
        run.communicate()


@pytest.fixture
def erased(tmp_path: Path) -> Iterator[tuple[Emulator, Path]]:
    """A Due as it leaves the shop."""
    with Emulator("due", tmp_path) as due:
        write_bench(tmp_path, due.port)
        yield due, tmp_path


def at(folder: Path, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    state = {"XDG_STATE_HOME": str(folder / "state"), "HIL_BENCH": str(folder / "bench.yaml")}
    return hil(*arguments, cwd=folder, **{**state, **environment})


def state_of(folder: Path) -> dict[str, Any]:
    (left,) = (one for one in json.loads(at(folder, "boards", "--json").stdout) if one["name"] == "left")
    return left


def test_two_runs_after_one_board(desk: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    port, folder = desk
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.setenv("HIL_BENCH", str(folder / "bench.yaml"))
    monkeypatch.setenv("HIL_OWNER", "alice")
    with endless_run(folder) as first:
        monkeypatch.setenv("HIL_OWNER", "bob")
        assert state_of(folder)["state"] == "busy"
        refused = at(folder, "run", "--board", "due", "--port", port, *MODEL, "--samples", 3, "--wait", 0)
        check_failure(refused, EXIT_NO_BOARD, "in use by alice", f"process {first.pid}", "--wait", logs=True)
        check_failure(
            at(folder, "flash", "--board", "left", *MODEL, "--wait", 0), EXIT_NO_BOARD, "in use by alice", logs=True
        )
    second = at(folder, "run", "--board", "due@ci", *MODEL, "--samples", 3, "--json")
    assert record_of(second)["bit_exact"]
    assert state_of(folder)["state"] == "attached"


def test_who_waits_long_enough_gets_the_board(desk: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    _, folder = desk
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.setenv("HIL_BENCH", str(folder / "bench.yaml"))
    both = [start_hil("run", "--board", "left", *MODEL, "--samples", 12, "--json", cwd=folder) for _ in range(2)]
    ends = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    assert all(json.loads(out)["bit_exact"] for out, _ in ends)


def test_reserve_and_release_by_command(desk: tuple[str, Path]) -> None:
    _, folder = desk
    done = at(folder, "boards", "lock", "left", "--for", "2m", "--note", "logic analyser", HIL_OWNER="alice")
    assert done.stdout.startswith("left (")
    assert "reserved by alice" in done.stdout
    assert (state_of(folder)["state"], "logic analyser" in state_of(folder)["detail"]) == ("reserved", True)
    check_failure(at(folder, "run", "--board", "left", *MODEL, "--wait", 0), EXIT_NO_BOARD, "alice", logs=True)
    check_failure(at(folder, "boards", "unlock", "left"), EXIT_NO_BOARD, "alice", "--force")
    assert at(folder, "boards", "unlock", "left", HIL_OWNER="alice").stdout == "left: free\n"
    assert at(folder, "boards", "unlock", "left").stdout == "left: was not reserved\n"
    check_failure(at(folder, "boards", "lock", "left", "--for", "soon"), 2, "no duration")
    check_failure(at(folder, "boards", "lock", "uno"), EXIT_NO_BOARD, "none is attached")


@pytest.mark.slow
def test_a_run_is_ended_by_force(desk: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    _, folder = desk
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.setenv("HIL_BENCH", str(folder / "bench.yaml"))
    with endless_run(folder) as process:
        check_failure(at(folder, "boards", "unlock", "left"), EXIT_NO_BOARD, f"process {process.pid}", "--force")
        assert at(folder, "boards", "unlock", "left", "--force").stdout == "left: free\n"
        assert process.wait() == 130
    assert finished_samples(folder / "results") > 3


# ---- heal ----


def test_a_board_without_a_program_is_wedged_and_healed(erased: tuple[Emulator, Path]) -> None:
    _, folder = erased
    check_failure(
        at(folder, "run", "--board", "left", *MODEL, "--samples", 3, "--timeout", 0.5, "--no-flash"),
        6,
        "no HELLO",
        logs=True,
    )
    assert state_of(folder)["state"] == "wedged"
    done = at(folder, "boards", "heal", "left")
    assert (done.returncode, done.stdout) == (0, "left: answers again after: reflash\n"), done.stderr
    assert "left: reset: " in done.stderr
    assert "left: touch: done" in done.stderr
    assert state_of(folder)["state"] == "attached"
    assert at(folder, "boards", "heal", "left").stdout == "left: answers again after: reset\n"


UHUBCTL = """#!/bin/sh
echo "$@" > {log}
echo "Current status for hub 1-1"
{what}
"""


@pytest.mark.slow
def test_the_power_is_the_last_means(erased: tuple[Emulator, Path]) -> None:
    """A board whose processor stands still: nothing but its power helps. The switch is a program of the test's own."""
    due, folder = erased
    assert at(folder, "boards", "heal", "left", "--steps", "reflash").returncode == 0
    (folder / "bin").mkdir()
    switch = folder / "bin" / "uhubctl"
    switch.write_text(UHUBCTL.format(log=folder / "switched", what=f"kill -CONT {due.process.pid}"))
    switch.chmod(0o755)
    os.kill(due.process.pid, signal.SIGSTOP)
    try:
        done = at(
            folder, "boards", "heal", "left", "--steps", "reset,power", PATH=f"{switch.parent}:{os.environ['PATH']}"
        )
    finally:
        os.kill(due.process.pid, signal.SIGCONT)
    assert (done.returncode, done.stdout) == (0, "left: answers again after: power\n"), done.stderr
    assert (folder / "switched").read_text() == "-l 1-1 -p 3 -a cycle -d 2\n"


def test_a_switch_that_fails_is_one_line(desk: tuple[str, Path]) -> None:
    _, folder = desk
    (folder / "bin").mkdir()
    switch = folder / "bin" / "uhubctl"
    switch.write_text(UHUBCTL.format(log=folder / "switched", what="exit 1").replace("Current", "No compatible"))
    switch.chmod(0o755)
    done = at(folder, "boards", "heal", "left", "--steps", "power", PATH=f"{switch.parent}:{os.environ['PATH']}")
    check_failure(done, 6, "power: uhubctl, hub 1-1 port 3: No compatible status", logs=True)


def test_steps_that_do_not_exist(desk: tuple[str, Path]) -> None:
    _, folder = desk
    check_failure(at(folder, "boards", "heal", "left", "--steps", "pray"), 2, "no step named 'pray'", *STEP_NAMES)
