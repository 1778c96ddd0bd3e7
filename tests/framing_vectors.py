"""One table of framing vectors: it runs in Python (test_protocol.py) and, generated as a header, in C++ on this
computer and on the emulated Uno (test_faults_framing.py). What is expected comes from the definitions.
"""

from __future__ import annotations

LONGEST_FOR_BOARD = 248  # the firmware counts a frame's bytes, checksum included, up to 250
DAMAGED = None
NON_ZERO = bytes(range(1, 255)) + bytes(range(1, 255))


def crc_by_division(data: bytes) -> int:
    """CRC-16/XMODEM from its definition: the remainder of data * x^16 by x^16 + x^12 + x^5 + 1."""
    remainder = int.from_bytes(data, "big") << 16
    for bit in range(remainder.bit_length() - 1, 15, -1):
        if remainder >> bit & 1:
            remainder ^= 0x11021 << (bit - 16)
    return remainder


def plain_cobs(data: bytes) -> bytes:
    """COBS as its paper describes it: blocks end before a zero, or after 254 bytes without one."""
    out, rest = b"", data + b"\0"
    while rest:
        run = rest[:254].find(b"\0")
        if run < 0:
            out, rest = out + b"\xff" + rest[:254], rest[254:]
            if rest == b"\0":  # the zero that was appended: it is not to be sent
                break
        else:
            out, rest = out + bytes((run + 1,)) + rest[:run], rest[run + 1 :]
    return out


def sealed(message: bytes) -> bytes:
    """A frame by the two definitions above."""
    return plain_cobs(message + crc_by_division(message).to_bytes(2, "big")) + b"\0"


MESSAGES = {
    "one byte": b"\x01",
    "check value": b"123456789",
    "one zero": b"\0",
    "zero first": b"\0\x05\x06",
    "zero last": b"\x05\x06\0",
    "zeros at both ends": b"\0\x05\0\0\x06\0",
    "zeros only": bytes(20),
    "longest for the board": NON_ZERO[:LONGEST_FOR_BOARD],
    **{f"{n} without a zero": NON_ZERO[:n] for n in (251, 252, 253, 254, 255, 506, 507, 508)},
    **{f"{n}, then a zero": NON_ZERO[:n] + b"\0" for n in (245, 252, 253, 254, 255, 507)},
    **{f"a zero, then {n}": b"\0" + NON_ZERO[:n] for n in (245, 252, 253, 254, 255, 507)},
    "zero after 254": NON_ZERO[:254] + b"\0" + NON_ZERO[:254],
}
PING, ACK = b"\x04", b"\x82\1\0\2\0\3\0\0"
STREAMS = {
    "nothing": (b"", []),
    "delimiters in a row": (b"\0\0\0" + sealed(PING) + b"\0\0" + sealed(ACK) + b"\0", [PING, ACK]),
    "two frames back to back": (sealed(ACK) + sealed(PING), [ACK, PING]),
    "no delimiter yet": (sealed(ACK)[:-1], []),
    "a frame begun, then a delimiter, then a frame": (sealed(ACK)[:4] + b"\0" + sealed(PING), [DAMAGED, PING]),
    "one bit flipped": (bytes((sealed(ACK)[0], sealed(ACK)[1] ^ 4)) + sealed(ACK)[2:], [DAMAGED]),
    "code byte too large": (b"\x09\x04\0", [DAMAGED]),
    "code byte too small": (b"\x02" + sealed(PING)[1:], [DAMAGED]),
    "a byte dropped": (sealed(ACK)[:3] + sealed(ACK)[4:], [DAMAGED]),
    "a byte doubled": (sealed(ACK)[:3] + sealed(ACK)[2:], [DAMAGED]),
    "checksum swapped": (plain_cobs(PING + crc_by_division(PING).to_bytes(2, "little")) + b"\0", [DAMAGED]),
    "a checksum of nothing": (plain_cobs(b"\0\0") + b"\0", [DAMAGED]),
    "two bytes": (plain_cobs(b"\x12\x34") + b"\0", [DAMAGED]),
    "text": (b"Hello, world\r\n\0", [DAMAGED]),
    "noise, then a frame": (bytes(range(255, 0, -1)) + b"\0" + sealed(PING), [DAMAGED, PING]),
    # The reason why every message has a length that its receiver checks: a CRC that starts at zero is zero again
    # after a valid frame, so two frames that have lost the delimiter between them pass as one.
    "delimiter lost between two frames": (
        sealed(PING)[:-1] + sealed(ACK),
        [PING + crc_by_division(PING).to_bytes(2, "big") + b"\0" + ACK],
    ),
}


def expected_events(frames: list[bytes | None]) -> bytes:
    """What a board's decoder reports: `-`, or `+`, a length byte and the message with its checksum."""
    events = b""
    for frame in frames:
        if frame is DAMAGED or len(frame) > LONGEST_FOR_BOARD:
            events += b"-"
        else:
            body = frame + crc_by_division(frame).to_bytes(2, "big")
            events += b"+" + bytes((len(body),)) + body
    return events


def cpp_header() -> str:
    """The table as C++: STREAM(name, stream, events) and MESSAGE(name, message, frame) hold arrays in flash."""
    streams = {**STREAMS, **{f"message: {name}": (sealed(message), [message]) for name, message in MESSAGES.items()}}
    lines = ["// Generated from tests/framing_vectors.py."]
    arrays: list[str] = []

    def array(data: bytes) -> str:
        name = f"bytes_{len(arrays)}"
        arrays.append(f"const uint8_t {name}[] IN_FLASH = {{{', '.join(map(str, data)) or '0'}}};")
        return f"{{{name}, {len(data)}}}"

    decode = [f"{{{array(stream)}, {array(expected_events(frames))}}}" for stream, frames in streams.values()]
    encode = [f"{{{array(message)}, {array(sealed(message))}}}" for message in MESSAGES.values()]
    lines += arrays
    lines.append(f"const Vector streams[] IN_FLASH = {{{', '.join(decode)}}};")
    lines.append(f"const Vector messages[] IN_FLASH = {{{', '.join(encode)}}};")
    return "\n".join(lines) + "\n"


def vector_names() -> list[str]:
    """In the order of the header: streams, then the messages as streams, then the messages to encode."""
    return [*STREAMS, *(f"message: {name}" for name in MESSAGES), *(f"encode: {name}" for name in MESSAGES)]
