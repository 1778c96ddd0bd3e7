"""The framer against the table of vectors in C++, and both decoders against mutated frames."""

from __future__ import annotations

import binascii
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from framing_vectors import LONGEST_FOR_BOARD, cpp_header, vector_names
from uno_bench import build_firmware, run_to_end
from wire_bench import ROOT

from tinyhil.harness.wire.protocol import BadFrame, Splitter, frame, unframe

SOURCES = ROOT / "tests" / "firmware_wire"
FLAGS = ["-std=gnu++14", "-O0", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined,address"]
BATCH_FRAMES = 50_000
UNO_FRAMES = 10_000
LONGEST_MESSAGE = 60


def compile_host(source: str, folder: Path) -> Path:
    program = folder / source.removesuffix(".cpp")
    include = [f"-I{ROOT}", f"-I{folder}"]
    subprocess.run(["g++", *FLAGS, "-fno-sanitize-recover", *include, SOURCES / source, "-o", program], check=True)
    return program


def failing(numbers: list[int]) -> list[str]:
    return [vector_names()[number] for number in numbers]


def test_vectors_in_cpp_on_this_computer(tmp_path: Path) -> None:
    (tmp_path / "vectors.inc").write_text(cpp_header())
    done = subprocess.run([compile_host("vectors_host.cpp", tmp_path)], capture_output=True, text=True, check=True)
    count, *failed = map(int, done.stdout.split())
    assert failing(failed) == []
    assert count == len(vector_names()) > 60


def test_vectors_in_cpp_on_the_uno(tmp_path: Path) -> None:
    (tmp_path / "vectors.inc").write_text(cpp_header())
    lines, _ = run_to_end(build_firmware(tmp_path, "vectors"))
    *failed, count = map(int, lines[0].split())
    assert failing(failed) == []
    assert count == len(vector_names())


def test_a_wrong_vector_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "vectors.inc").write_text(cpp_header().replace("49, 50, 51, 52, 53", "49, 50, 51, 52, 54", 1))
    done = subprocess.run([compile_host("vectors_host.cpp", tmp_path)], capture_output=True, text=True, check=True)
    assert len(done.stdout.split()) == 2


# ---- fuzzing ----


def message(source: random.Random) -> bytes:
    """A type, never zero, and random bytes, a third of the time mostly zeros."""
    body = source.randbytes(source.randrange(LONGEST_MESSAGE))
    kind = bytes((source.randrange(1, 256),))
    return kind + (bytes(byte & -(byte < 60) for byte in body) if source.random() < 0.3 else body)


def mutate(encoded: bytes, source: random.Random) -> bytes:
    """One frame, delimiter included, damaged in one to three of eight ways."""
    data = bytearray(encoded)
    for _ in range(source.choice((1, 1, 1, 2, 3))):
        at = source.randrange(len(data)) if data else 0
        kind = source.randrange(8)
        if not data:
            break
        if kind == 0:
            data[at] ^= 1 << source.randrange(8)
        elif kind == 1:
            del data[at]
        elif kind == 2:
            data.insert(at, data[at])
        elif kind == 3:
            data[at] = source.randrange(256)
        elif kind == 4:
            del data[at : at + source.randrange(1, 20)]
        elif kind == 5:
            data[at:at] = source.randbytes(source.randrange(1, 20))
        elif kind == 6:
            data[at:at] = b"\0"
        else:
            data = data[:-1]  # runs together with the next frame
    return bytes(data)


def mutated_frames(count: int, seed: int) -> tuple[bytes, set[bytes]]:
    """A stream of `count` mutated frames, closed, and the messages they were made of."""
    source = random.Random(seed)
    originals: set[bytes] = set()
    parts = []
    for _ in range(count):
        original = message(source)
        originals.add(original)
        parts.append(mutate(frame(original), source))
    return b"".join(parts) + b"\0", originals


def valid_messages(stream: bytes) -> Iterator[bytes]:
    """What Python's decoder takes, as far as a board takes frames of that length."""
    for encoded in stream.split(b"\0"):
        try:
            found = unframe(encoded)
        except BadFrame:
            continue
        if len(found) <= LONGEST_FOR_BOARD:
            yield found


def split_lengths(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        yield data[at + 1 : at + 1 + data[at]]
        at += 1 + data[at]


def run_together(body: bytes) -> bool:
    """Two valid frames whose delimiter was lost: they pass, and are told by their length (docs/protocol.md)."""
    return any(binascii.crc_hqx(body[:cut], 0) == 0 for cut in range(3, len(body)))


def fuzz(frames: int, program: Path) -> tuple[int, int]:
    """Both decoders over so many mutated frames; returns how many were valid, and how many of those never sent.

    A zero more in front goes unnoticed by a CRC that starts at zero; no message has the type 0, so it is refused.
    """
    valid = wrong = 0
    for seed in range(0, frames, BATCH_FRAMES):
        stream, originals = mutated_frames(min(BATCH_FRAMES, frames - seed), seed)
        done = subprocess.run([program], input=stream, capture_output=True, check=True)
        found = [body[:-2] for body in split_lengths(done.stdout)]
        assert found == list(valid_messages(stream))
        valid += len(found)
        wrong += sum(body not in originals and body[0] != 0 and not run_together(body) for body in found)
    return valid, wrong


def check_fuzz(frames: int, folder: Path) -> None:
    valid, wrong = fuzz(frames, compile_host("fuzz_host.cpp", folder))
    assert valid < 0.2 * frames  # some mutations cancel or only add a delimiter
    assert wrong <= frames / 10_000  # a 16-bit checksum lets one in 65,536 pass


def test_mutated_frames(tmp_path: Path) -> None:
    check_fuzz(20_000, tmp_path)


@pytest.mark.slow
def test_a_million_mutated_frames(tmp_path: Path) -> None:
    check_fuzz(1_000_000, tmp_path)


def test_mutated_frames_on_the_uno(tmp_path: Path) -> None:
    """10,000 of them, as the host's decoder sees them: number and CRC of all that are valid."""
    stream, _ = mutated_frames(UNO_FRAMES, 4)
    answer = len(stream).to_bytes(4, "little") + stream
    lines, _ = run_to_end(build_firmware(tmp_path, "fuzz"), answer=answer)
    expected, crc = 0, 0
    for found in valid_messages(stream):
        body = found + binascii.crc_hqx(found, 0).to_bytes(2, "big")
        crc = binascii.crc_hqx(bytes((len(body),)) + body, crc)
        expected += 1
    assert expected > 100
    assert [int(number) for number in lines[0].split()] == [expected, crc]


def test_the_host_s_splitter_survives_mutations_in_pieces() -> None:
    """Cut anywhere, it finds the same messages, holds no more than one frame, and never raises."""
    stream, _ = mutated_frames(20_000, 9)
    source, splitter, at = random.Random(2), Splitter(), 0
    while at < len(stream):
        size = source.randrange(1, 400)
        splitter.feed(stream[at : at + size])
        assert splitter.held_bytes < 4096
        at += size
    assert splitter.total_bytes == len(stream)
    assert splitter.good_frames + splitter.bad_frames == sum(map(bool, stream.split(b"\0")))
