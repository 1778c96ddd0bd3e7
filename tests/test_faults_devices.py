"""Devices that fail: a run ends in time, with its exit code, in one line that says what to do; the next one resumes."""

from __future__ import annotations

import contextlib
import json
import os
import tty
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import yaml
from hil_command import check_failure, finished_samples, hil, record_of, start_hil, wait_until
from sabotage import AT_SAMPLE, SABOTAGES, board_file, build_both, disguised
from wire_bench import (
    Bench,
    Collected,
    FakeBoard,
    FaultyWire,
    hello_frame,
    powered,
    run_session,
    tiny_bench,
    write_tiny_model,
)

from tinyhil.errors import DeviceCrashed, DoesNotFit
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.crash import check_memory, demangled, explain_crash, locate
from tinyhil.harness.measure.talk import connect
from tinyhil.harness.settings.config import load_boards
from tinyhil.harness.wire import protocol
from tinyhil.harness.wire.protocol import QUIET, Stats
from tinyhil.harness.wire.stream import Options

SAMPLES = 12
TIMEOUT_S = 2.0
CHIPS = {name: board.chip.name for name, board in load_boards().entries.items()}


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with ranges beside it, so that every run and every test builds the same image."""
    folder = tmp_path_factory.mktemp("devices")
    write_tiny_model(folder / "tiny.onnx")
    x = np.random.default_rng(1).uniform(-1, 1, (SAMPLES, 1, 32)).astype(np.float32)
    np.savez(folder / "x.npz", x=x)
    done = hil("calibrate", folder / "tiny.onnx", "--inputs", folder / "x.npz", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def arguments(files: Path, board: str, *more: object) -> list[object]:
    line = ["run", "--board", board, "--model", files / "tiny.onnx", "--inputs", files / "x.npz"]
    return [*line, "--timeout", TIMEOUT_S, "--json", *more]


# board, what happens at sample AT_SAMPLE, exit code, words of the one line, samples kept
CRASHES = [
    ("uno", "stack overflow", 7, ("stack overflow by", " B: SP 0x", "fix the firmware"), AT_SAMPLE),
    ("uno", "watchdog", 7, ("restarted after 3 of 12", "resumes"), AT_SAMPLE),
    ("h747", "bad access", 7, ("write to an unmapped address 0x90000000 at pc 0x", "fix the firmware"), AT_SAMPLE),
]
MORE_CRASHES = [
    ("due", "stack overflow", 7, ("stack overflow by", "B into the MPU guard", "fix the firmware"), AT_SAMPLE),
    ("due", "heap exhaustion", 7, ("write to flash", "at pc 0x", "fix the firmware"), AT_SAMPLE),
    ("h747", "endless loop", 6, ("no progress for 2 s at sample 3 of 12", "kept", "a higher --timeout"), AT_SAMPLE),
    ("h747", "stack overflow", 7, ("stack overflow by", "B into the MPU guard"), AT_SAMPLE),
    ("due", "reset", 7, ("restarted after 3 of 12",), AT_SAMPLE),
    ("h747", "reset", 7, ("restarted after 3 of 12",), AT_SAMPLE),
    ("due", "bad access", 7, ("write to an unmapped address 0x90000000",), AT_SAMPLE),
    ("due", "undefined instruction", 7, ("undefined instruction",), AT_SAMPLE),
    ("h747", "undefined instruction", 7, ("undefined instruction",), AT_SAMPLE),
    ("uno", "endless loop", 6, ("no progress for 2 s at sample 3 of 12",), AT_SAMPLE),
]
Crash = tuple[str, str, int, tuple[str, ...], int]


def names(crashes: list[Crash]) -> list[str]:
    return [f"{board}-{what}" for board, what, *_ in crashes]


def check_crash(crash: Crash, files: Path, folder: Path) -> None:
    board, what, code, words, finished = crash
    good, bad = build_both(board, files / "tiny.onnx", files / "tiny.ranges.json", SABOTAGES[what])
    boards = board_file(folder, CHIPS[board], disguised(good, bad, folder))
    done = hil(*arguments(files, board), "--boards-file", boards, cwd=folder, emulator=folder / "sabotaged")
    check_failure(done, code, *words, logs=True)
    assert finished_samples(folder / "results") == finished
    again = hil(*arguments(files, board), cwd=folder)  # the firmware is fixed
    assert record_of(again)["equal_samples"] == SAMPLES
    assert (f"resuming, {finished} of {SAMPLES}" in again.stderr) == (finished > 0)


@pytest.mark.parametrize("crash", CRASHES, ids=names(CRASHES))
def test_firmware_that_goes_wrong_in_the_middle(crash: Crash, files: Path, tmp_path: Path) -> None:
    check_crash(crash, files, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("crash", MORE_CRASHES, ids=names(MORE_CRASHES))
def test_more_firmware_that_goes_wrong(crash: Crash, files: Path, tmp_path: Path) -> None:
    check_crash(crash, files, tmp_path)


@pytest.mark.parametrize("load", ["direct", "flash"])
def test_a_stack_that_can_not_fit_is_said_by_its_bytes(load: str, files: Path, tmp_path: Path) -> None:
    """Through the boot loader, too, the emulator knows where static data ends; no firmware mends what does not fit."""
    bench = crashed_bench("uno", "frame beyond RAM", files, tmp_path)
    request = Request("uno", "tiny", load=load)
    words = (
        r"uno: \d+ B static \+ \d+ B of stack at worst > 2048 B of RAM, \d+ B too much; .*overflow by .*; use a lower"
    )
    with (
        pytest.raises(DoesNotFit, match=words),
        explain_crash(bench.image, bench.board),
        connect(bench.board, None, request, bench.image, tmp_path) as device,
    ):
        run_session(bench, device, device.port, Options(QUIET, 5), lambda index, result: None)


def test_yesterday_s_firmware_is_refused(files: Path, tmp_path: Path) -> None:
    """Its own hash in HELLO: nothing it says counts."""
    _, bad = build_both("due", files / "tiny.onnx", files / "tiny.ranges.json", SABOTAGES["reset"])
    boards = board_file(tmp_path, CHIPS["due"], bad.load_path)
    done = hil(*arguments(files, "due"), "--boards-file", boards, cwd=tmp_path, emulator=tmp_path / "sabotaged")
    check_failure(done, 8, bad.hash.hex(), "flash again", logs=True)
    assert finished_samples(tmp_path / "results") == 0


def test_an_invalid_run_fails_its_gate_and_makes_no_golden_record(files: Path, tmp_path: Path) -> None:
    """Every output is right, but more stack is used than the image can need."""
    good, bad = build_both("uno", files / "tiny.onnx", files / "tiny.ranges.json", SABOTAGES["deep frame"])
    boards = board_file(tmp_path, CHIPS["uno"], disguised(good, bad, tmp_path))
    done = hil(*arguments(files, "uno"), "--boards-file", boards, cwd=tmp_path, emulator=tmp_path / "sabotaged")
    assert done.returncode == 1
    record = json.loads(done.stdout)
    assert (record["verdict"], record["bit_exact"]) == ("invalid", True)
    assert "gate failed: uno: tiny is invalid: stack-beyond-bound: " in done.stderr
    order = ("--model", files / "tiny.onnx", "--board", "uno", "--inputs", files / "x.npz", "--samples", SAMPLES)
    refused = hil("golden", "update", *order, "--boards-file", boards, cwd=tmp_path, emulator=tmp_path / "sabotaged")
    check_failure(refused, 1, "gate failed: ", "verdict: invalid: stack-beyond-bound", "not written")
    assert not (tmp_path / "results" / "golden").exists()


# ---- where it crashed ----


def crashed_bench(board: str, what: str, files: Path, folder: Path) -> Bench:
    """The sabotaged image as itself: its own hash, its own ELF."""
    _, bad = build_both(board, files / "tiny.onnx", files / "tiny.ranges.json", SABOTAGES[what])
    return replace(tiny_bench(board, folder, SAMPLES), image=bad)


FAULTS = [
    ("uno", "stack overflow", "stack overflow by", "descend"),
    ("due", "bad access", "write to an unmapped address", "sabotage"),
    ("h747", "undefined instruction", "undefined instruction", "sabotage"),
]


@pytest.mark.parametrize(("board", "what", "words", "function"), FAULTS)
def test_a_fault_is_told_with_function_and_line(
    board: str, what: str, words: str, function: str, files: Path, tmp_path: Path
) -> None:
    bench = crashed_bench(board, what, files, tmp_path)
    with (
        pytest.raises(DeviceCrashed, match=words) as caught,
        powered(bench, tmp_path) as device,
        explain_crash(bench.image, bench.board),
    ):
        run_session(bench, device, device.port, Options(QUIET, 5), lambda index, result: None)
    where = str(caught.value).split(", in ")[1]
    assert where.startswith(f"{function} (wire/session.cpp:"), where
    line = int(where.split("session.cpp:")[1].split(")")[0])
    text = (bench.image.project_dir / "firmware" / "wire" / "session.cpp").read_text().splitlines()[line - 1]
    assert function in text or "frame" in text or "endless" in text


@pytest.mark.parametrize(
    ("board", "what", "words"),
    [
        ("due", "bad access", "an address where nothing is 0x90000000 at pc"),
        ("h747", "undefined instruction", "undefined instruction at pc"),
        ("due", "stack overflow", "stack overflow into the MPU guard"),
    ],
)
def test_a_physical_board_tells_its_fault_over_the_wire(
    board: str, what: str, words: str, files: Path, tmp_path: Path
) -> None:
    """Nothing is known but what comes through the port: the firmware's own fault handler says where it was."""
    bench, collected = crashed_bench(board, what, files, tmp_path), Collected()
    with powered(bench, tmp_path) as device:
        deaf = FakeDevice(device.port)
        with pytest.raises(DeviceCrashed, match=words) as caught, explain_crash(bench.image, bench.board):
            run_session(bench, deaf, device.port, Options(QUIET, 5), collected.take)
    # where the guard stops the processor's own frame too, nobody knows the place
    unknown = what == "stack overflow" and "its place is unknown" in str(caught.value)
    expected = "descend" if what == "stack overflow" else "sabotage"
    assert unknown or f", in {expected} (wire/session.cpp:" in str(caught.value)
    assert len(collected.results) == AT_SAMPLE


class FakeDevice:
    """A connection that knows of a board what one knows of a real one."""

    def __init__(self, port: str) -> None:
        self.port = port
        self.banner_s = 0.5

    def alive(self) -> None:
        pass

    def starved_s(self) -> float:
        return 0.0

    def finish(self) -> dict[str, object]:
        return {}


def test_a_board_that_has_crashed_before_says_so_when_greeted(tmp_path: Path) -> None:
    bench = tiny_bench("host", tmp_path, 2)
    crashed = protocol.frame(b"\x86" + b"".join(word.to_bytes(4, "little") for word in (0x80100, 1, 2, 1 << 25, 0)))
    with (
        FakeBoard(lambda board: board.write(crashed * 3)) as board,
        pytest.raises(DeviceCrashed, match="division by zero at pc 0x00080100") as caught,
    ):
        run_session(bench, FakeDevice(board.port), board.port, Options(QUIET, 2), lambda index, result: None)
    assert caught.value.pc == 0x80100


def test_places_no_image_knows(tmp_path: Path) -> None:
    bench = tiny_bench("due", tmp_path, 2)
    assert locate(bench.image.elf, 0x20000000) == "no function of this image: a wild jump"
    assert locate(tmp_path / "nothing.elf", 0) == "code this image does not know"
    assert demangled("_ZN5model3runEPKhPh") == "model::run"
    assert demangled("_ZN4wire12_GLOBAL__N_14pollEv") == "wire::(anonymous)::poll"
    assert demangled("_Z8sabotagev") == demangled("_ZL8sabotagev") == "sabotage"
    assert demangled("_ZL7descendt.isra.0") == "descend"
    assert demangled("_ZN3hal4LockC1Ev") == "hal::Lock"
    assert demangled("main") == "main"


def test_a_heap_that_meets_the_stack_on_the_uno(files: Path, tmp_path: Path) -> None:
    """malloc gives what there is, nothing faults on an AVR, and a deep call then runs into it: the watermarks tell."""
    bench, forgotten = crashed_bench("uno", "heap exhaustion", files, tmp_path), []
    with powered(bench, tmp_path) as device:
        stats = run_session(bench, device, device.port, Options(QUIET, 5), lambda index, result: None)
    assert stats.heap_bytes is not None
    assert stats.heap_bytes > 1500
    with pytest.raises(DeviceCrashed, match=rf"{stats.heap_bytes} B heap of 2048 B leave 0 B"):
        check_memory(stats, bench.image, bench.board, lambda: forgotten.append(1))
    assert forgotten


@pytest.mark.parametrize(
    ("stack", "heap", "fails"), [(100, 0, False), (1400, 0, False), (0, 2048, True), (2048, 0, True)]
)
def test_memory_that_is_used_up(stack: int, heap: int, fails: bool, tmp_path: Path) -> None:
    bench, forgotten = tiny_bench("uno", tmp_path, 2), []
    stats = Stats(2, stack, heap, 0, 0, 0, 0)
    with pytest.raises(DeviceCrashed, match="RAM is used up") if fails else contextlib.nullcontext():
        check_memory(stats, bench.image, bench.board, lambda: forgotten.append(1))
    assert len(forgotten) == fails


# ---- power and cables ----


class LooseCable(FaultyWire):
    """A wire whose host side can vanish and come back under another name, behind the same link."""

    def __init__(self, inner: str, link: Path) -> None:
        super().__init__(inner, 0.0, seed=1)
        self.link = link
        self.names = [self.port]
        self.pull_after_bytes = 1 << 40
        self.gone_s = 0.3
        self.link.symlink_to(self.port)

    def serve(self) -> None:
        self._open()
        while not self.stopping.is_set():
            if self.passed > self.pull_after_bytes:
                self.pull_after_bytes = 1 << 40
                self._pull()
            self._pass_on()
        os.close(self._board)

    def _pull(self) -> None:
        self.link.unlink()
        os.close(self._slave)
        os.close(self.master)
        os.close(self._board)
        self.stopping.wait(self.gone_s)
        self.master, self._slave = self._pair_of_another_name()
        tty.setraw(self._slave)
        os.set_blocking(self.master, False)
        self.names.append(os.ttyname(self._slave))
        self.link.symlink_to(self.names[-1])
        self._open()

    def _pair_of_another_name(self) -> tuple[int, int]:
        """Pairs are opened until one has a new name: which is free depends on what else runs on this machine."""
        pairs = [os.openpty()]
        while os.ttyname(pairs[-1][1]) in self.names:
            pairs.append(os.openpty())
        for end in chain.from_iterable(pairs[:-1]):
            os.close(end)
        return pairs[-1]


@pytest.fixture
def h747(files: Path, tmp_path: Path) -> Bench:
    good, _ = build_both("h747", files / "tiny.onnx", files / "tiny.ranges.json", SABOTAGES["reset"])
    return replace(tiny_bench("h747", tmp_path, SAMPLES), image=good)


def cable_run(files: Path, link: Path, *more: object) -> list[object]:
    return arguments(files, "h747", "--port", link, "--no-flash", *more)


def test_a_brown_out_ends_the_run_and_the_next_one_resumes(files: Path, h747: Bench, tmp_path: Path) -> None:
    """The port closes in the middle and comes back under another name; --port is a name that follows it."""
    with powered(h747, tmp_path) as device, LooseCable(device.port, tmp_path / "by-id") as cable:
        cable.pull_after_bytes = 700
        done = hil(*cable_run(files, cable.link), cwd=tmp_path)
        check_failure(done, 6, "by-id", "cable", "the same command resumes", logs=True)
        finished = finished_samples(tmp_path / "results")
        assert 0 < finished < SAMPLES
        wait_until(cable.link.exists)
        again = hil(*cable_run(files, cable.link), cwd=tmp_path)
    assert len(set(cable.names)) == 2
    assert record_of(again)["equal_samples"] == SAMPLES
    assert f"resuming, {finished} of {SAMPLES}" in again.stderr


def test_a_brown_out_survived_by_a_retry_is_called_flaky(files: Path, h747: Bench, tmp_path: Path) -> None:
    with powered(h747, tmp_path) as device, LooseCable(device.port, tmp_path / "by-id") as cable:
        cable.pull_after_bytes = 700
        done = hil(*cable_run(files, cable.link, "--retries", 1), cwd=tmp_path)
    record = record_of(done, 9)
    assert (record["flaky"], record["equal_samples"], record["link"]["attempts"]) == (True, SAMPLES, 2)
    assert "trying again (1 of 1)" in done.stderr


def test_an_unplugged_cable(files: Path, h747: Bench, tmp_path: Path) -> None:
    """For good: the run ends with 6, the next one says that the port is not there, with 3."""
    with powered(h747, tmp_path) as device, LooseCable(device.port, tmp_path / "by-id") as cable:
        cable.pull_after_bytes = 700
        cable.gone_s = 60
        done = hil(*cable_run(files, cable.link), cwd=tmp_path)
        check_failure(done, 6, "cable", logs=True)
        check_failure(hil(*cable_run(files, cable.link), cwd=tmp_path), 3, "by-id", "hil boards", logs=True)
    assert 0 < finished_samples(tmp_path / "results") < SAMPLES


def test_a_port_that_vanishes_while_the_board_computes_is_noticed_at_once(
    files: Path, h747: Bench, tmp_path: Path
) -> None:
    """Not at the deadline, which would say that there was no progress."""
    with powered(h747, tmp_path) as device, LooseCable(device.port, tmp_path / "by-id") as cable:
        cable.gone_s = 60
        running = start_hil(*cable_run(files, cable.link, "--timeout", 900), cwd=tmp_path)
        cable.pull_after_bytes = 500
        _, err = running.communicate()
    assert running.wait() == 6
    assert "the port failed" in err


# ---- what a device says is never trusted ----

HOSTILE_HELLOS: dict[str, Callable[[protocol.Hello], protocol.Hello]] = {
    "no chunks": lambda hello: replace(hello, chunks_per_sample=0),
    "chunks of nothing": lambda hello: replace(hello, chunk_bytes=0),
    "other samples": lambda hello: replace(hello, sample_bytes=0xFFFFFFFF),
    "chunks that do not make a sample": lambda hello: replace(hello, chunks_per_sample=hello.chunks_per_sample + 1),
    "no outputs": lambda hello: replace(hello, output_bytes=0),
}


@pytest.mark.parametrize("name", HOSTILE_HELLOS)
def test_a_hello_that_makes_no_sense(name: str, tmp_path: Path) -> None:
    from tinyhil.errors import LinkError
    from tinyhil.harness.wire.link import Link
    from tinyhil.harness.wire.stream import stream

    bench = tiny_bench("host", tmp_path, 2)
    hello = protocol.decode(protocol.unframe(hello_frame(bench)[:-1]))
    assert isinstance(hello, protocol.Hello)
    senseless = HOSTILE_HELLOS[name](hello)
    with (
        FakeBoard(lambda board: None) as board,
        Link(board.port, 115200) as link,
        pytest.raises(LinkError, match="HELLO makes no sense"),
    ):
        stream(link, senseless, bench.samples, Options(), lambda index, result: None, lambda: None)


def test_no_text_comes_over_the_wire_and_no_path() -> None:
    """Every field of every message from a board is a number, a flag, or bytes that are compared or taken as numbers."""
    from dataclasses import fields
    from typing import get_type_hints

    kinds = (protocol.Hello, protocol.Ack, protocol.Result, protocol.Stats, protocol.Refused, protocol.Crashed)
    found = {hint for kind in kinds for hint in get_type_hints(kind).values()}
    assert all("str" not in str(hint) and "Path" not in str(hint) for hint in found)
    assert sum(len(fields(kind)) for kind in kinds) > 25


def test_control_sequences_do_not_reach_the_terminal(files: Path, tmp_path: Path) -> None:
    """An emulator stands for whatever talks: its last words hold an escape sequence that would clear the screen."""
    boards = yaml.safe_load(board_file(tmp_path, CHIPS["uno"], files / "none").read_text())
    program = Path(boards["chips"]["atmega328p"]["emulator"]["program"])
    program.write_text("#!/bin/sh\nprintf '\\033[2J\\033]0;gone\\007 no such luck\\r' >&2\nexit 1\n")
    done = hil(*arguments(files, "uno"), "--boards-file", tmp_path / "boards.yaml", cwd=tmp_path, emulator=program)
    check_failure(done, 3, "?[2J", "no such luck", logs=True)
    assert not any(ord(character) < 32 and character != "\n" for character in done.stderr)


def test_one_line_stays_short_and_printable() -> None:
    from tinyhil.quoting import LONGEST, printable

    assert printable("a\tb\nc") == "a b c"
    assert printable("\x1b[31mred\x07\r\x00\x9b") == "?[31mred????"
    assert printable("für Größe µ 漢字 …") == "für Größe µ 漢字 …"
    assert printable("‮") == "?"  # turns the direction of what follows
    assert len(printable("x" * 10 * LONGEST)) == LONGEST
