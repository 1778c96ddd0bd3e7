"""How a sample gets into a board: as a whole, or row by row while the model's outer loop runs."""

from __future__ import annotations

from dataclasses import dataclass

from tinyhil.errors import DoesNotFit
from tinyhil.program import Program

CHUNK_BYTES = 128  # payload of one frame: long enough for the wire, short enough to lose one now and then
MAX_CHUNK_BYTES = 240  # the frame's length is counted in one byte


@dataclass(frozen=True, slots=True)
class Transfer:
    """`slots` buffers for input. Streamed: each holds one chunk of whole rows; else each holds one sample."""

    streamed: bool
    slots: int
    chunk_bytes: int
    steps_per_chunk: int
    step_bytes: int
    sample_bytes: int

    @property
    def input_bytes(self) -> int:
        """RAM the input takes, all slots."""
        return self.slots * (self.chunk_bytes if self.streamed else self.sample_bytes)


def choose_transfer(program: Program, arena_bytes: int, ram_bytes: int | None, board: str) -> Transfer:
    """Whole samples in two slots where they take at most half of the RAM, else in one, else streamed.

    `ram_bytes` None: a board without limit. DoesNotFit when nothing is left for the input.
    """
    sample_bytes = program.tensors[program.input].size_bytes
    chunk = min(sample_bytes, CHUNK_BYTES)
    limit = ram_bytes if ram_bytes is not None else 1 << 40
    for slots in (2, 1):
        if slots * sample_bytes <= limit // 2 and slots * sample_bytes + arena_bytes <= limit:
            return Transfer(False, slots, chunk, 0, 0, sample_bytes)
    loop = program.streamable_loop()
    if loop is not None:
        row = program.tensors[dict(loop.slices)[program.input]]
        steps = max(1, CHUNK_BYTES // row.size_bytes)
        transfer = Transfer(True, 2, steps * row.size_bytes, steps, row.size_bytes, sample_bytes)
        if row.size_bytes <= MAX_CHUNK_BYTES and transfer.input_bytes + arena_bytes <= limit:
            return transfer
    elif sample_bytes + arena_bytes <= limit:
        return Transfer(False, 1, chunk, 0, 0, sample_bytes)
    needed = arena_bytes + (sample_bytes if loop is None else 0)
    raise DoesNotFit(
        f"{board}: arena {arena_bytes} B and input {sample_bytes} B exceed {limit} B of RAM by {max(needed - limit, 1)} B; "
        f"largest tensors {largest_tensors(program)}; use a lower width or a larger board"
    )


def largest_tensors(program: Program) -> str:
    """The three largest tensors in RAM, for messages."""
    in_ram = [t for t in program.tensors.values() if t.role in ("arena", "input")]
    in_ram.sort(key=lambda tensor: -tensor.size_bytes)
    return ", ".join(f"{tensor.name} {tensor.size_bytes} B" for tensor in in_ram[:3])
