"""The wire, without any input or output: COBS frames with CRC-16/XMODEM, and the messages inside (docs/protocol.md)."""

from __future__ import annotations

import binascii
import struct
from dataclasses import dataclass

VERSION = 2

HELLO_REQUEST, START, DATA, PING, GET_RESULT, FINISH = 0x01, 0x02, 0x03, 0x04, 0x05, 0x06
HELLO, ACK, RESULT, STATS, REFUSED, CRASHED, VALUES, OPERATION = 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88
QUIET, STREAM = 0, 1
STARTED, RESEND, ASKED = 1, 2, 4
NOT_MEASURED = 0xFFFFFFFF
LONGEST_FRAME_BYTES = 66_000  # a result of 65,535 bytes with its head, checksum and stuffing


class BadFrame(ValueError):
    """Bytes between two delimiters that are no frame, or a frame that is no message."""


def cobs_encode(data: bytes) -> bytes:
    """Consistent overhead byte stuffing: no zero byte in the result (Cheshire and Baker, 1999)."""
    out = bytearray()
    blocks = data.split(b"\0")
    for index, block in enumerate(blocks):
        while len(block) >= 254:
            out += b"\xff" + block[:254]
            block = block[254:]
            if not block and index == len(blocks) - 1:
                return bytes(out)
        out.append(len(block) + 1)
        out += block
    return bytes(out)


def cobs_decode(encoded: bytes) -> bytes:
    """Inverse of `cobs_encode`; BadFrame if a block is cut short or holds a zero."""
    if not encoded or 0 in encoded:
        raise BadFrame("empty, or a zero byte inside")
    out = bytearray()
    position = 0
    while position < len(encoded):
        code = encoded[position]
        block = encoded[position + 1 : position + code]
        if len(block) != code - 1:
            raise BadFrame("cut short")
        out += block
        position += code
        if code != 0xFF and position < len(encoded):
            out.append(0)
    return bytes(out)


def frame(message: bytes) -> bytes:
    """`message` as it goes over the wire, delimiter included."""
    return cobs_encode(message + binascii.crc_hqx(message, 0).to_bytes(2, "big")) + b"\0"


def unframe(encoded: bytes) -> bytes:
    """The message of one frame without its delimiter; BadFrame if it is damaged."""
    data = cobs_decode(encoded)
    if len(data) < 3 or binascii.crc_hqx(data, 0) != 0:
        raise BadFrame("checksum")
    return data[:-2]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One end of the model: element size in bytes, binary exponent, shape."""

    element_bytes: int
    exponent: int
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Hello:
    """Who the board is and what it takes."""

    protocol: int
    image_hash: bytes
    clock_hz: int
    sample_bytes: int
    chunk_bytes: int
    chunks_per_sample: int
    output_bytes: int
    slots: int
    streamed: bool
    model_hash: bytes
    input: TensorInfo
    output: TensorInfo

    @property
    def result_slots(self) -> int:
        """How many of its newest results the board keeps; with one slot, room for a sample comes with a result."""
        return 1 if self.slots == 1 and not self.streamed else 2


@dataclass(frozen=True, slots=True)
class Position:
    """The next chunk the board expects, and how many it may be sent from there on."""

    sample: int
    chunk: int
    credit: int


@dataclass(frozen=True, slots=True)
class Ack:
    """How far a board has read, and what it says of itself (docs/protocol.md)."""

    position: Position
    flags: int


@dataclass(frozen=True, slots=True)
class Result:
    """Output of one sample: `ticks` of its timed sections, `saturations` clipped values, raw `output` bytes."""

    sample: int
    ticks: int
    saturations: int
    position: Position
    output: bytes


@dataclass(frozen=True, slots=True)
class Stats:
    """Totals of a session. Watermarks are None where the board can not measure them."""

    samples: int
    stack_bytes: int | None
    heap_bytes: int | None
    saturations: int
    results_crc32: int
    damaged_frames: int
    rx_overruns: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The board could not serve a message of this type."""

    type: int


@dataclass(frozen=True, slots=True)
class Crashed:
    """The processor has faulted: registers, fault status (CFSR of a Cortex-M), the address it could not reach."""

    pc: int
    lr: int
    sp: int
    cause: int
    address: int


@dataclass(frozen=True, slots=True)
class Values:
    """Bytes of tensor number `tensor`, from `offset` on, just computed by a firmware that logs."""

    tensor: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Timed:
    """Operation number `operation` has taken `ticks`; `outside`: those of this sample outside of operations so far."""

    operation: int
    ticks: int
    outside: int


@dataclass(frozen=True, slots=True)
class Damaged:
    """Something was sent, but it is no valid frame."""


Message = Hello | Ack | Result | Stats | Refused | Crashed | Values | Timed | Damaged


def decode(message: bytes) -> Message:
    """A message from the board; BadFrame if it is unknown or has the wrong length."""
    body = message[1:]
    try:
        match message[0]:
            case 0x81:
                return _hello(body)
            case 0x82:
                sample, chunk, credit, flags = struct.unpack("<HHHB", body)
                return Ack(Position(sample, chunk, credit), flags)
            case 0x83:
                sample, ticks, saturations, *position = struct.unpack_from("<HIIHHH", body)
                return Result(sample, ticks, saturations, Position(*position), body[16:])
            case 0x84:
                samples, stack, heap, saturations, crc32, damaged, overruns = struct.unpack("<HIIIIHH", body)
                return Stats(samples, _measured(stack), _measured(heap), saturations, crc32, damaged, overruns)
            case 0x85:
                return Refused(*struct.unpack("<B", body))
            case 0x86:
                return Crashed(*struct.unpack("<IIIII", body))
            case 0x87:
                tensor, offset = struct.unpack_from("<HI", body)
                return Values(tensor, offset, body[6:])
            case 0x88:
                return Timed(*struct.unpack("<HII", body))
    except (struct.error, IndexError):
        raise BadFrame(f"message {message[0]:#04x} of {len(message)} bytes") from None
    raise BadFrame(f"unknown message {message[0]:#04x}")


def _measured(value: int) -> int | None:
    return None if value == NOT_MEASURED else value


def _hello(body: bytes) -> Hello:
    version, image, clock, sample, chunk, chunks, output, slots, streamed = struct.unpack_from("<B8sIIHHHBB", body)
    description = body[struct.calcsize("<B8sIIHHHBB") :]
    model_hash, rest = description[:8], description[8:]
    source, rest = _tensor(rest)
    target, rest = _tensor(rest)
    if rest:
        raise BadFrame("HELLO too long")
    limits = (clock, sample, chunk, chunks, output, slots)
    return Hello(version, image, *limits, bool(streamed), model_hash, source, target)


def _tensor(data: bytes) -> tuple[TensorInfo, bytes]:
    element_bytes, exponent, rank = struct.unpack_from("<BbB", data)
    shape = struct.unpack_from(f"<{rank}H", data, 3)
    return TensorInfo(element_bytes, exponent, shape), data[3 + 2 * rank :]


def data(sample: int, chunk: int, payload: bytes) -> bytes:
    """Frame of one chunk of a sample."""
    return frame(struct.pack("<BHH", DATA, sample & 0xFFFF, chunk) + payload)


def start(mode: int, session: int) -> bytes:
    """Frame that begins a session; a board that runs session number `session` (1 to 255) already goes on with it."""
    return frame(bytes((START, mode, session)))


def get_result(sample: int) -> bytes:
    """Frame that asks for a result again."""
    return frame(struct.pack("<BH", GET_RESULT, sample & 0xFFFF))


def request(kind: int) -> bytes:
    """Frame of a message without payload."""
    return frame(bytes((kind,)))


class Splitter:
    """Cuts a byte stream at the delimiters and counts what is not a frame."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._too_long = False
        self.good_frames = 0
        self.bad_frames = 0
        self.total_bytes = 0

    def feed(self, received: bytes) -> list[Message]:
        """The messages completed by `received`, `Damaged` in place of those that are none."""
        self.total_bytes += len(received)
        *complete, rest = received.split(b"\0")
        messages: list[Message] = []
        for part in complete:
            self._keep(part)
            if self._buffer or self._too_long:
                messages.append(self._take())
        self._keep(rest)
        return messages

    @property
    def held_bytes(self) -> int:
        """Of a frame that has not ended."""
        return len(self._buffer)

    def _keep(self, part: bytes) -> None:
        """A line that babbles must not fill the memory: of a frame longer than any of ours nothing is kept."""
        self._too_long |= len(self._buffer) + len(part) > LONGEST_FRAME_BYTES
        if self._too_long:
            self._buffer.clear()
        else:
            self._buffer += part

    def _take(self) -> Message:
        encoded, too_long = bytes(self._buffer), self._too_long
        self._buffer.clear()
        self._too_long = False
        try:
            if too_long:
                raise BadFrame("longer than any message")
            message = decode(unframe(encoded))
            self.good_frames += 1
            return message
        except BadFrame:
            self.bad_frames += 1
            return Damaged()
