"""How a sample gets into a board: as a whole, or row by row while the model's outer loop runs."""

from __future__ import annotations

from dataclasses import dataclass

from tinyhil.errors import DoesNotFit
from tinyhil.program import Program, Role

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


def choose_transfer(
    program: Program, arena_bytes: int, ram_bytes: int | None, board: str, *, whole: bool = False
) -> Transfer:
    """Whole samples in two slots where they take at most half of the RAM, else in one, else streamed, else in one.

    `ram_bytes` None: a board without limit; `whole`: in one slot or not at all. DoesNotFit when nothing is left.
    """
    limit = ram_bytes if ram_bytes is not None else 1 << 40
    options = _options(program, limit)
    options = options[-1:] if whole else options
    for transfer in options:
        if transfer.input_bytes + arena_bytes <= limit:
            return transfer
    smallest = min(transfer.input_bytes for transfer in options)
    raise DoesNotFit(
        f"{board}: arena {arena_bytes} B and input {smallest} B exceed {limit} B of RAM by "
        f"{arena_bytes + smallest - limit} B; largest tensors {largest_tensors(program)}; "
        "use a lower width or a larger board"
    )


def _options(program: Program, limit: int) -> list[Transfer]:
    """What could be done, most comfortable first; at least one."""
    sample_bytes = program.tensors[program.input].size_bytes
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
