"""Finished samples on disk, the emulator's trace, and a port's end: what the host keeps of a session."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import serial
from wire_bench import FakeBoard

from tinyhil.errors import ConfigError, LinkError, LinkTimeout
from tinyhil.harness.records import partial as partial_module
from tinyhil.harness.records.partial import PartialRun
from tinyhil.harness.wire import link as link_module
from tinyhil.harness.wire import protocol
from tinyhil.harness.wire.link import Link, reason, wait_for_port
from tinyhil.harness.wire.protocol import Damaged, Position, Refused, Result, Splitter
from tinyhil.harness.wire.trace import SampleTrace, TraceReader

TRACE = SampleTrace(10, 20, 19, 22)


def result(sample: int, output: bytes = b"\0\1") -> Result:
    return Result(sample, 5 + sample, 2, Position(1, 0, 1), output)


def leave(run: PartialRun) -> None:
    """As the kernel does when a process dies."""
    run._stream.close()


def test_what_was_added_is_there_again(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    run = PartialRun(folder, "run")
    run.add(0, result(0), None)
    run.add(3, result(3), TRACE)
    assert run.path == folder / "run.partial.jsonl"
    leave(run)
    again = PartialRun(folder, "run")
    assert again.results == run.results
    assert (again.results[3].trace, again.results[3].ticks, again.results[3].saturations) == (TRACE, 8, 2)
    again.keep(3, 2)
    assert list(again.results) == [0]
    again.keep(3, 1)
    assert not again.results
    leave(again)


def test_files_of_the_dead_are_taken_over_and_go(tmp_path: Path) -> None:
    runs = [PartialRun(tmp_path, "run") for _ in range(4)]
    assert [run.path.name for run in runs] == [f"run{n}.partial.jsonl" for n in ("", ".2", ".3", ".4")]
    for number, run in enumerate(runs):
        run.add(number, result(number), None)
    with (tmp_path / "run.2.partial.jsonl").open("a") as torn:
        torn.write('{"sample": 9')
    for dead in (runs[1], runs[3]):
        leave(dead)
    with PartialRun(tmp_path, "run") as heir:
        assert sorted(heir.results) == [1, 3]
        assert heir.path.name == "run.2.partial.jsonl"
        assert {path.name for path in tmp_path.iterdir()} == {f"run{n}.partial.jsonl" for n in ("", ".2", ".3")}
        heir.add(7, result(7), None)
    leave(heir)
    with PartialRun(tmp_path, "run") as third:
        assert sorted(third.results) == [1, 3, 7]
    for run in (runs[0], runs[2], third):
        run.discard()
    assert not list(tmp_path.iterdir())


def test_a_torn_line_takes_no_other_with_it(tmp_path: Path) -> None:
    (tmp_path / "run.partial.jsonl").write_text('{"sample": 9')
    resumed = PartialRun(tmp_path, "run")
    resumed.add(0, result(0), None)
    leave(resumed)
    with PartialRun(tmp_path, "run") as again:
        assert list(again.results) == [0]
    again.discard()


def test_an_empty_file_goes_and_one_of_a_failed_run_stays(tmp_path: Path) -> None:
    with PartialRun(tmp_path, "run") as empty:
        pass
    assert not empty.path.exists()
    assert empty._stream.closed
    failed = PartialRun(tmp_path, "run")
    failed.add(0, result(0), None)
    failed.__exit__(ValueError, ValueError(), None)
    assert failed.path.exists()
    assert failed._stream.closed
    with PartialRun(tmp_path, "run") as resumed:
        assert list(resumed.results) == [0]
        resumed.forget()
        assert not resumed.results
        assert resumed.path.read_text() == ""
    assert not resumed.path.exists()


def test_what_can_not_be_written_is_the_folder_s_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"results folder .*file/x can not be written: Not a directory; .*--results"):
        PartialRun(tmp_path / "file" / "x", "run")

    def locks(stream: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(partial_module, "_lock", locks)
    with pytest.raises(ConfigError, match="No locks available"):
        PartialRun(tmp_path, "run")


def test_a_file_that_goes_while_it_is_claimed_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner has finished and removed it between our opening and our lock."""
    plain, seen = partial_module._lock, list[str]()

    def lock(stream: object) -> None:
        plain(stream)  # type: ignore[arg-type]
        seen.append(stream.name)  # type: ignore[attr-defined]
        if len(seen) == 1:
            Path(seen[0]).unlink()
        elif len(seen) == 2:
            Path(seen[1]).unlink()
            Path(seen[1]).touch()  # another one's

    monkeypatch.setattr(partial_module, "_lock", lock)
    with PartialRun(tmp_path, "run") as run:
        assert run.path.name == "run.3.partial.jsonl"


def test_traces_add_up_sections_without_what_an_empty_one_costs(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    reader = TraceReader(path)
    assert reader.sample(0) is None

    def write(*lines: tuple[int, ...], end: str = "\n") -> None:
        with path.open("a") as file:
            file.write("\n".join(" ".join(map(str, line)) for line in lines) + end)

    last = 1 << 31
    write((0x7FFFFFFF, 0, 0, 0, 0), (0x7FFFFFFF | last, 1, 2, 3, 4))
    write((0, 10, 20, 30, 40), (0 | last, 111, 222, 333, 444))
    assert reader.sample(0) == SampleTrace(100, 200, 300, 400)
    assert reader.sample(1) is None
    write((0, 200, 300, 400, 500), (0 | last, 211, 322, 433, 544))  # a second section of the same sample
    write((1, 300, 400, 500, 600), end="\n214748")  # a line that is not there yet
    assert reader.sample(0) == SampleTrace(110, 220, 330, 440)
    write(end=f"{str(1 | last)[6:]} 302 405 508 611\n")
    assert reader.sample(1) == SampleTrace(1, 3, 5, 7)
    write((0x7FFFFFFF, 0, 0, 0, 0), (0x7FFFFFFF | last, 0, 0, 0, 1), (0, 0, 0, 0, 0), (0 | last, 9, 9, 9, 9))
    assert reader.sample(0) == SampleTrace(9, 9, 9, 8)  # a reset
    assert reader.sample(1) is reader.sample(9) is None
    path.write_text(f"0 0 0 0 0\n{last} 1 2 3 4\n")
    assert TraceReader(path).sample(0) == SampleTrace(1, 2, 3, 4)


# ---- the port


def test_why_a_port_failed_is_said_once() -> None:
    assert reason(OSError(errno.ENOENT, "x")) == "No such file or directory"
    assert (
        reason(serial.SerialException("could not open port: [Errno 13] Permission denied: 'x'")) == "Permission denied"
    )
    assert reason(ValueError("two\n  lines")) == "two lines"
    assert reason(ValueError()) == "ValueError"


def test_a_port_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now, looked = [0.0], list[float]()
    monkeypatch.setattr(link_module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(link_module.time, "sleep", lambda s: now.__setitem__(0, now[0] + s))
    monkeypatch.setattr(link_module.os.path, "exists", lambda port: looked.append(now[0]) or now[0] > 0.5)
    wait_for_port("/dev/x", 2.0)
    assert 0.5 < now[0] < 0.6
    now[0] = 0.0
    wait_for_port("/dev/x", 0.3)
    assert 0.3 <= now[0] < 0.35
    looked.clear()
    for port in (None, "socket://x"):
        wait_for_port(port, 2.0)
    assert not looked


class Port:
    """In place of pyserial's: what it is asked for, and how it fails."""

    def __init__(self, replies: list[bytes | Exception]) -> None:
        self.replies, self.limits, self.sent = replies, list[float](), list[bytes]()

    def __setattr__(self, name: str, value: object) -> None:
        if name == "write_timeout":
            self.limits.append(value)  # type: ignore[arg-type]
        object.__setattr__(self, name, value)

    @property
    def in_waiting(self) -> int:
        return len(self.replies[0]) if self.replies and isinstance(self.replies[0], bytes) else 0

    def read(self, count: int) -> bytes:
        found = self.replies.pop(0) if self.replies else b""
        if isinstance(found, Exception):
            raise found
        assert count == max(1, len(found))
        return found

    def write(self, data: bytes) -> None:
        self.sent.append(data)
        if self.replies and isinstance(self.replies[0], Exception):
            raise self.replies.pop(0)

    def close(self) -> None:
        self.sent.append(b"closed")


def opened(monkeypatch: pytest.MonkeyPatch, *replies: bytes | Exception) -> tuple[Link, Port, dict[str, object]]:
    port, options = Port(list(replies)), dict[str, object]()

    def open_port(name: str, **given: object) -> Port:
        options.update(given, name=name)
        return port

    monkeypatch.setattr(link_module.serial, "serial_for_url", open_port)
    return Link("/dev/x", 115200), port, options


def test_messages_come_in_order_and_silence_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = protocol.frame(b"\x85\x01") + protocol.frame(b"\x85\x02")
    link, port, options = opened(monkeypatch, b"", refused, b"\1\2\0")
    assert (options["baudrate"], options["timeout"], options["exclusive"]) == (115200, 0.02, True)
    assert link.describe_silence() == "nothing was received"
    with link:
        assert [link.receive(9.0) for _ in range(3)] == [Refused(1), Refused(2), Damaged()]
        assert link.bad_frames == 1
        assert link.receive(0.0) is None
        assert link.describe_silence() == f"{len(refused) + 3} bytes, 2 valid frames"
        assert link.deadline(3.0).seconds == 3.0
    assert port.sent == [b"closed"]


def test_babble_is_refused_before_the_first_frame_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    link, _, _ = opened(monkeypatch, b"\1" * 4095 + b"\0", b"\1")
    assert link.receive(1.0) == Damaged()
    with pytest.raises(LinkError, match="/dev/x: babbles: 4097 bytes and no valid frame"):
        link.receive(1.0)
    link, _, _ = opened(monkeypatch, protocol.frame(b"\x85\x01"), b"\1" * 9000 + b"\0")
    assert [link.receive(1.0) for _ in range(2)] == [Refused(1), Damaged()]


def test_a_flood_behind_a_frame_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    flood = [b"\1" * link_module.MOST_READ_BYTES] * 4
    link, _, _ = opened(monkeypatch, protocol.frame(b"\x85\x01"), *flood, b"\1")
    assert link.receive(1.0) == Refused(1)
    with pytest.raises(LinkError, match="/dev/x: babbles: 65537 bytes and no valid frame"):
        link.receive(600.0)


def test_a_port_that_fails_says_while_doing_what(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = OSError(errno.EIO, "x")
    link, _, _ = opened(monkeypatch, gone, gone, serial.SerialTimeoutException())
    with pytest.raises(LinkError, match=r"/dev/x: the port failed while receiving \(Input/output error\)"):
        link.receive(1.0)
    with pytest.raises(LinkError, match="while sending"):
        link.send(b"x")
    with pytest.raises(LinkTimeout, match=r"/dev/x: the port takes no bytes for 2\.5 s"):
        link.send(b"x", 2.4)


def test_write_limits_change_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    link, port, options = opened(monkeypatch)
    assert options["write_timeout"] == 5.0
    for seconds in (5.0, 4.9, 4.8, 4.6, 0.1, -3.0, 70.0):
        link.send(b"x", seconds)
    assert port.limits == [4.5, 0.5, 5.0]
    assert port.sent == [b"x"] * 7
    with FakeBoard(lambda board: None) as board, Link(board.port, 115200) as real:
        real.send(b"x", 1.0)


def test_a_frame_too_long_is_damaged_and_nothing_of_it_kept() -> None:
    splitter = Splitter()
    most = protocol.LONGEST_FRAME_BYTES
    assert splitter.feed(b"\1" * (most - 1)) == splitter.feed(b"\1") == []
    assert splitter.held_bytes == most
    assert splitter.feed(b"\1") == []
    assert splitter.held_bytes == 0
    assert splitter.feed(b"\1\0" + protocol.frame(b"\x85\x07")) == [Damaged(), Refused(7)]
    assert (splitter.good_frames, splitter.bad_frames) == (1, 1)
    assert splitter.total_bytes == most + 1 + 2 + len(protocol.frame(b"\x85\x07"))
