"""Sessions over clean, damaged, slow and hostile lines, with real firmware on the host and on the emulated Uno."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from boards_under_test import ARM, EMULATED, SMALLEST, each
from wire_bench import (
    Bench,
    Collected,
    FaultyWire,
    make_bench,
    powered,
    run_session,
    tiny_bench,
)

from tinyhil.errors import (
    LinkTimeout,
)
from tinyhil.harness.boards.connection import Connection
from tinyhil.harness.wire import protocol
from tinyhil.harness.wire.link import Link
from tinyhil.harness.wire.protocol import QUIET, STREAM
from tinyhil.harness.wire.retry import RetryTimer
from tinyhil.harness.wire.stream import Options, greet, stream

MODES = {"quiet": QUIET, "stream": STREAM}


@pytest.fixture(scope="session")
def benches(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Bench]:
    """The tiny model on a board with so many samples."""
    made: dict[tuple[str, int], Bench] = {}

    def get(board: str, count: int) -> Bench:
        if (board, count) not in made:
            made[board, count] = tiny_bench(board, tmp_path_factory.mktemp("tiny"), count)
        return made[board, count]

    return get


def har_bench(board: str, count: int) -> Bench:
    """fastgrnn_har on seeded walks: numbers of the right size, meaning nothing."""
    steps = np.random.default_rng(3).normal(0, 0.3, (count, 128, 9))
    return make_bench(board, "fastgrnn_har", np.cumsum(steps, axis=1).astype(np.float32) / 5)


def run_damaged(bench: Bench, logs: Path, mode: int, rate: float, deadline_s: float = 60.0) -> FaultyWire:
    """Stream everything over a wire that damages; returns the wire."""
    collected = Collected()
    with powered(bench, logs) as device, FaultyWire(device.port, rate, seed=11) as wire:
        try:
            stats = run_session(bench, device, wire.port, Options(mode, deadline_s), collected.take)
        except LinkTimeout:
            collected.check(bench)
            raise
        collected.check(bench, stats)
        return wire


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("board", [SMALLEST, "host"])
def test_damage_at_one_per_thousand(
    board: str, mode: str, benches: Callable[[str, int], Bench], tmp_path: Path
) -> None:
    """Each byte, both ways, is dropped with 1e-3 and has a bit flipped with 1e-3. run_damaged checks the results."""
    bench = benches(board, 1500)
    undamaged = len(bench.samples) * (len(bench.samples[0]) + len(bench.outputs[0]) + 30)
    wire = run_damaged(bench, tmp_path, MODES[mode], 1e-3)
    assert wire.flipped > 100
    assert wire.dropped > 100
    assert wire.passed < 3 * undamaged


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("board", each(EMULATED))
def test_windows_survive_damage(board: str, mode: str, tmp_path: Path) -> None:
    """The window is streamed step by step on boards, whose RAM that saves, and sent whole to this computer."""
    wire = run_damaged(har_bench(board, 12), tmp_path, MODES[mode], 1e-3)
    assert wire.flipped + wire.dropped > 20


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("board", [SMALLEST, "host"])
def test_damage_at_one_per_hundred_is_slow_but_never_wrong(
    board: str, mode: str, benches: Callable[[str, int], Bench], tmp_path: Path
) -> None:
    with suppress(LinkTimeout):  # allowed; run_damaged has checked what came before
        run_damaged(benches(board, 100), tmp_path, MODES[mode], 1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_damage_at_three_per_hundred_is_never_wrong(
    seed: int, benches: Callable[[str, int], Bench], tmp_path: Path
) -> None:
    bench, collected = benches("host", 400), Collected()
    with powered(bench, tmp_path) as device, FaultyWire(device.port, 3e-2, seed) as wire:
        try:
            stats = run_session(bench, device, wire.port, Options(seed % 2, 5), collected.take)
            collected.check(bench, stats)
        except LinkTimeout:
            collected.check(bench)


@pytest.mark.slow
def test_sample_numbers_wrap_at_16_bits(benches: Callable[[str, int], Bench], tmp_path: Path) -> None:
    bench, collected = benches("host", 66_000), Collected()
    with powered(bench, tmp_path) as device:
        stats = run_session(bench, device, device.port, Options(STREAM), collected.take)
    collected_samples = stats.samples
    assert collected_samples == 66_000 & 0xFFFF
    assert len(collected.results) == collected.reports == 66_000
    collected.check(bench)


@pytest.mark.parametrize("inputs", [1, 63, 64, 65, 128, 191, 200, 5000])
def test_every_size_of_sample(inputs: int, tmp_path: Path) -> None:
    """Parts of a chunk, whole chunks, one more; 10,000 bytes are more than one burst."""
    bench, collected = tiny_bench("host", tmp_path, 9, inputs), Collected()
    with powered(bench, tmp_path) as device:
        stats = run_session(bench, device, device.port, Options(STREAM), collected.take)
    collected.check(bench, stats)


@pytest.mark.parametrize("board", each(ARM))
def test_samples_beyond_64_kib_and_long_results(board: str, tmp_path: Path) -> None:
    inputs, outputs = (8000, 2) if board == "due" else (33_000, 2)
    for count_in, count_out in ((inputs, outputs), (3, 1500)):
        bench, collected = tiny_bench(board, tmp_path, 3, count_in, count_out), Collected()
        with powered(bench, tmp_path) as device:
            stats = run_session(bench, device, device.port, Options(QUIET), collected.take)
        collected.check(bench, stats)


def test_overhead_on_the_true_wire(tmp_path: Path) -> None:
    """64-byte samples: 73 bytes on the wire for 64 of payload. benchmarks/wire.py measures how full the wire is."""
    bench, collected = tiny_bench("uno", tmp_path, 200), Collected()
    with powered(bench, tmp_path, "true") as device:
        collected.check(bench, run_session(bench, device, device.port, Options(STREAM), collected.take))
        totals = device.finish()
    assert totals["overruns"] == 0
    assert 73 * 200 <= totals["rx_bytes"] < 1.25 * 73 * 200  # a busy host asks more often where the board is


@pytest.mark.parametrize("mode", MODES)
def test_true_uart_and_lifted_give_the_same(mode: str, tmp_path: Path) -> None:
    bench, ticks = har_bench("uno", 2), []
    for uart in ("true", "lifted"):
        collected = Collected()
        with powered(bench, tmp_path, uart) as device:
            stats = run_session(bench, device, device.port, Options(MODES[mode]), collected.take)
        collected.check(bench, stats)
        assert stats.rx_overruns == 0
        ticks.append([collected.results[index].ticks for index in range(2)])
    if mode == "quiet":  # the wire is idle while the clock runs
        assert ticks[0] == ticks[1]


# ---- one slot for whole samples: one result is kept ----

ONE_SLOT_INPUTS = 600  # 1,200 B: a second slot would not pay


@pytest.mark.parametrize("mode", MODES)
def test_one_slot_survives_damage(mode: str, tmp_path: Path) -> None:
    wire = run_damaged(tiny_bench("due", tmp_path, 10, ONE_SLOT_INPUTS), tmp_path, MODES[mode], 1e-3)
    assert wire.flipped + wire.dropped > 10


@pytest.mark.parametrize("mode", MODES)
def test_one_slot_keeps_the_newest_result(mode: str, tmp_path: Path) -> None:
    """It is there until the next sample has come as a whole, and room for that one is first told with the result."""
    bench = tiny_bench("due", tmp_path, 2, ONE_SLOT_INPUTS)
    with powered(bench, tmp_path) as device, Link(device.port, 115200) as link:
        hello = greeted(link, device)
        assert (hello.slots, hello.streamed, hello.result_slots) == (1, False, 1)
        chunks = [range(start, start + hello.chunk_bytes) for start in range(0, hello.sample_bytes, hello.chunk_bytes)]
        link.send(protocol.start(MODES[mode], 5))
        wait_for(link, protocol.Ack)
        for index, sample in enumerate(bench.samples):
            frames = [protocol.data(index, i, sample[at.start : at.stop]) for i, at in enumerate(chunks)]
            link.send(b"".join(frames[:-1]))
            if index:  # a part of the next sample does the result no harm
                link.send(protocol.get_result(index - 1))
                assert wait_for(link, protocol.Result)[0].output == bench.outputs[index - 1]
            link.send(frames[-1])
            (result,) = wait_for(link, protocol.Result)
            assert (result.output, result.position.credit) == (bench.outputs[index], len(chunks))
        link.send(protocol.get_result(0))
        assert wait_for(link, protocol.Refused)[0].type == protocol.GET_RESULT


# ---- one board, many sessions ----


def greeted(link: Link, device: Connection) -> protocol.Hello:
    return greet(link, 5, 0.2, device.alive)


def wait_for(link: Link, kind: type, count: int = 1) -> list:
    """The next `count` messages of this kind; AssertionError if they do not come."""
    found: list = []
    while len(found) < count:
        message = link.receive(2)
        assert message is not None, f"{len(found)} of {count} {kind.__name__}"
        if isinstance(message, kind):
            found.append(message)
    return found


def test_sessions_follow_each_other_without_a_reset(benches: Callable[[str, int], Bench], tmp_path: Path) -> None:
    bench = benches("host", 50)
    with powered(bench, tmp_path) as device:
        for mode in (QUIET, STREAM, QUIET):
            collected = Collected()
            stats = run_session(bench, device, device.port, Options(mode), collected.take, banner_s=0)
            collected.check(bench, stats)


@pytest.mark.parametrize("board", ["host", "uno"])
def test_a_session_left_in_the_middle_does_not_disturb_the_next(board: str, tmp_path: Path) -> None:
    """The Uno waits inside of an inference for steps that never come; START must get it out."""
    bench, collected = har_bench(board, 3), Collected()
    with powered(bench, tmp_path) as device, Link(device.port, 115200) as link:
        hello = greeted(link, device)
        link.send(protocol.start(QUIET, 77))
        wait_for(link, protocol.Ack)
        size = hello.chunk_bytes
        for chunk in range(3):
            link.send(protocol.data(0, chunk, bench.samples[1][chunk * size : (chunk + 1) * size]))
            if hello.streamed:
                wait_for(link, protocol.Ack)
        stats = stream(link, hello, bench.samples, Options(QUIET), collected.take, device.alive)
    collected.check(bench, stats)


def test_a_repeated_start_does_not_start_again(benches: Callable[[str, int], Bench], tmp_path: Path) -> None:
    bench = benches("host", 50)
    with powered(bench, tmp_path) as device, Link(device.port, 115200) as link:
        greeted(link, device)
        link.send(protocol.start(STREAM, 5))
        wait_for(link, protocol.Ack)
        link.send(protocol.start(STREAM, 5) + protocol.data(0, 0, bench.samples[0]))
        (result,) = wait_for(link, protocol.Result)
        assert result.output == bench.outputs[0]
        link.send(protocol.start(STREAM, 5))
        while wait_for(link, protocol.Ack)[0].position.sample != 1:
            pass
        link.send(protocol.request(protocol.FINISH))
        assert wait_for(link, protocol.Stats)[0].samples == 1
        link.send(protocol.start(STREAM, 6))
        assert wait_for(link, protocol.Ack)[-1].position.sample == 0


def test_repeated_and_misplaced_chunks(benches: Callable[[str, int], Bench], tmp_path: Path) -> None:
    """A repeated sample is acknowledged and not computed again, a gap is complained about, a kept result repeated."""
    bench = benches("host", 50)
    send = [protocol.data(index, 0, bench.samples[index]) for index in range(4)]
    with powered(bench, tmp_path) as device, Link(device.port, 115200) as link:
        greeted(link, device)
        link.send(protocol.start(STREAM, 5))
        wait_for(link, protocol.Ack)
        link.send(send[0])
        wait_for(link, protocol.Result)
        link.send(send[0])
        (ack,) = wait_for(link, protocol.Ack)
        assert (ack.position.sample, ack.flags) == (1, 0)
        link.send(send[3])
        (ack,) = wait_for(link, protocol.Ack)
        assert (ack.position.sample, ack.flags) == (1, protocol.RESEND)
        link.send(protocol.data(1, 0, bench.samples[1][:-1]))  # too short: not taken
        link.send(protocol.request(protocol.PING))
        acks = wait_for(link, protocol.Ack)
        assert (acks[-1].position.sample, acks[-1].flags) == (1, protocol.ASKED)
        for index in (1, 2):
            link.send(send[index])
            wait_for(link, protocol.Result)
        for index, known in ((0, False), (1, True), (2, True), (3, False)):
            link.send(protocol.get_result(index))
            if known:
                assert wait_for(link, protocol.Result)[0].output == bench.outputs[index]
            else:
                assert wait_for(link, protocol.Refused)[0].type == protocol.GET_RESULT
        link.send(protocol.request(protocol.FINISH))
        assert wait_for(link, protocol.Stats)[0].samples == 3
        link.send(protocol.request(0x44))
        assert wait_for(link, protocol.Refused)[0].type == 0x44


def test_the_board_keeps_nothing_of_a_frame_it_had_no_room_for(
    benches: Callable[[str, int], Bench], tmp_path: Path
) -> None:
    """More than the credits allow, in one go: what is accepted is whole, the rest is refused."""
    bench = benches("uno", 1500)
    with powered(bench, tmp_path) as device, Link(device.port, 115200) as link:
        greeted(link, device)
        for round_ in range(20):
            link.send(protocol.start(STREAM, 1 + round_))
            wait_for(link, protocol.Ack)
            link.send(b"".join(protocol.data(index, 0, bench.samples[index]) for index in range(12)))
            deadline = time.monotonic() + 0.3
            while time.monotonic() < deadline:
                message = link.receive(0.02)
                if isinstance(message, protocol.Result):
                    assert message.output == bench.outputs[message.sample]


# ---- the retry timer ----


def test_the_retry_timer_follows_the_pace_of_the_board() -> None:
    retry = RetryTimer(1.0, 10.0)
    retry.heard(0.05)
    assert retry.seconds == pytest.approx(0.12)
    for _ in range(100):
        retry.heard(0.001)
    assert retry.seconds < 0.025


def test_the_retry_timer_grows_in_silence_and_learns_nothing_from_the_answer() -> None:
    retry = RetryTimer(1.0, 3.0)
    retry.heard(0.1)
    before = retry.seconds
    retry.silent()
    grown = retry.seconds
    assert grown == pytest.approx(1.25 * before)
    retry.heard(0.0)
    assert retry.seconds == grown
    for _ in range(50):
        retry.silent()
    assert retry.seconds == 3.0
