"""How a sample gets into a board: as a whole, or row by row while the model's outer loop runs."""

from __future__ import annotations

from dataclasses import dataclass

from tinyhil.errors import DoesNotFit
from tinyhil.language.program import Program, Role, walk
from tinyhil.preference import LATENCY, LEAST, RAM, Wish

CHUNK_BYTES = 128  # payload of one frame: long enough for the wire, short enough to lose one now and then
MAX_CHUNK_BYTES = 240  # the frame's length is counted in one byte
LARGE_SAMPLE_BYTES = 1024  # a second slot for a larger one pays only if it fills while the first is read


@dataclass(frozen=True, slots=True)
class Transfer:
    """`slots` buffers for input. Streamed: each holds one chunk of whole rows; else each holds one sample. `in_arena`:
    the one slot is where the plan has put the sample, and the next one is not received before the result is there."""

    streamed: bool
    slots: int
    chunk_bytes: int
    steps_per_chunk: int
    step_bytes: int
    sample_bytes: int
    in_arena: bool = False

    @property
    def input_bytes(self) -> int:
        """RAM the input takes beside the arena, all slots."""
        if self.in_arena:
            return 0
        return self.slots * (self.chunk_bytes if self.streamed else self.sample_bytes)


def belongs_in_arena(program: Program, beside: Transfer | None) -> bool:
    """Whether the sample goes into the arena: where it would have the only slot beside it, or where nothing fits
    (`beside` None) and rows of it can not be streamed; not beside crossbars, which read it as a whole. `program` is
    the one that was to be planned."""
    if any(op.crossbar is not None for op in walk(program.body)):
        return False
    if beside is None:
        return program.streamable_loop() is None
    return not beside.streamed and beside.slots == 1 and not beside.in_arena


def choose_transfer(
    program: Program,
    arena_bytes: int,
    ram_bytes: int | None,
    board: str,
    wish: Wish | None = None,
    room_bytes: int | None = None,
    most_bytes: int | None = None,
) -> Transfer:
    """Rows of the input if that takes less than a sample; whole samples in two slots where they pay and take at most
    half of the RAM, else in one. For the least latency whole samples, as long as they take at most half.

    `ram_bytes` None: a board without limit. `room_bytes`: what is surely left for arena and input there; what takes
    more is the least there is. `most_bytes`: what `--ram` can be there. DoesNotFit when nothing is left for the input.
    """
    limit = ram_bytes if ram_bytes is not None else 1 << 40
    options = _options(program, limit)
    wish = wish or Wish()
    if wish.whole:
        options = options[-1:]
    elif ram_bytes is not None:
        options = _in_order(options, wish)
    smallest = min(transfer.input_bytes for transfer in options)
    room = limit if room_bytes is None else min(limit, room_bytes)
    for transfer in options:
        taken = transfer.input_bytes + arena_bytes
        if taken <= room or (transfer.input_bytes == smallest and taken <= limit):
            return transfer
    what = "with the input exceeds" if program.input_in_arena else f"and input {smallest} B exceed"
    asked, needed = wish.ram_bytes == limit, arena_bytes + smallest
    more = f"--ram {needed}" if asked and (most_bytes is None or needed <= most_bytes) else "a larger board"
    raise DoesNotFit(
        f"{board}: arena {arena_bytes} B {what} {limit} B of {'--ram' if asked else 'RAM'} by "
        f"{needed - limit} B; largest tensors {largest_tensors(program)}; "
        f"use a lower width or {more}"
    )


def _in_order(options: list[Transfer], wish: Wish) -> list[Transfer]:
    """What is preferred first; the order of `options` is that of comfort."""
    if wish.prefer in (RAM, LEAST):
        return sorted(options, key=lambda transfer: transfer.input_bytes)
    if wish.prefer == LATENCY:
        return options

    def is_wasteful(transfer: Transfer) -> bool:
        streams = any(other.streamed and other.input_bytes < transfer.sample_bytes for other in options)
        second = transfer.slots > 1 and transfer.sample_bytes > LARGE_SAMPLE_BYTES and not wish.overlapped
        return not transfer.streamed and (streams or second)

    return sorted(options, key=is_wasteful)


def _options(program: Program, limit: int) -> list[Transfer]:
    """What could be done, most comfortable first; at least one."""
    sample_bytes = program.tensors[program.input].size_bytes
    if program.input_in_arena:
        return [Transfer(False, 1, min(sample_bytes, CHUNK_BYTES), 0, 0, sample_bytes, in_arena=True)]
    whole = [Transfer(False, slots, min(sample_bytes, CHUNK_BYTES), 0, 0, sample_bytes) for slots in (2, 1)]
    options = [transfer for transfer in whole if transfer.input_bytes <= limit // 2]
    loop = program.streamable_loop()
    if loop is not None:
        row_bytes = program.tensors[dict(loop.slices)[program.input]].size_bytes
        steps = max(1, CHUNK_BYTES // row_bytes)
        if row_bytes <= MAX_CHUNK_BYTES:
            options.append(Transfer(True, 2, steps * row_bytes, steps, row_bytes, sample_bytes))
    return [*options, whole[1]]


def largest_tensors(program: Program) -> str:
    """The three largest tensors in RAM, for messages."""
    in_ram = [t for t in program.tensors.values() if t.role in (Role.ARENA, Role.INPUT)]
    in_ram.sort(key=lambda tensor: -tensor.size_bytes)
    return ", ".join(f"{tensor.name} {tensor.size_bytes} B" for tensor in in_ram[:3])
