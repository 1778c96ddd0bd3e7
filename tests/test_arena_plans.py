"""What memory is planned for in small networks of every kind, as golden text: the operations as they will run, when
each tensor lives, and why no schedule takes less. A change that means to change schedules shows here what it does."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import Golden
from scan_models import SCANS
from test_codegen_texts import of
from test_lag import windows
from test_rows import MODELS, Chain
from test_views import dense_block, gates, slices, twice

from tinyhil.codegen.kernel_calls import name_of
from tinyhil.language.program import Body, Op, Program, Role, walk
from tinyhil.memplan.arena.floor import floor_bytes
from tinyhil.memplan.arena.order import given_peak, reorder
from tinyhil.memplan.arena.placement import Placement, placements
from tinyhil.memplan.arena.placement_preference import chosen, input_bytes
from tinyhil.memplan.arena.proof import prove_schedule
from tinyhil.memplan.arena.regions import main_ram_bytes
from tinyhil.memplan.arena.row_costs import (
    products_again,
    products_of_op,
    products_per_group,
    products_per_row,
    time_lost,
)
from tinyhil.memplan.arena.schedules import cheapest_within, front
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.passes.arrange import arrange
from tinyhil.preference import PREFERENCES, Wish


def head() -> onnx.ModelProto:
    """Many channels before a global mean."""
    chain = Chain(3, 9).conv(6, 3, stride=2).add("Relu").conv(41, 1).add("Relu").conv(41, 3, pad=1, group=41)
    return chain.add("GlobalAveragePool").conv(5, 1).model()


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    **{name: lambda make=make: make().model() for name, make in MODELS.items()},  # type: ignore[misc]
    "windows": lambda: windows().model(),
    "head": head,
    "dense block": dense_block,
    "gates": gates,
    "slices": slices,
    "twice": twice,
    "loop": SCANS["two_states"],
    "loops": SCANS["nested"],
    "two sequences": SCANS["two_sequences"],
    "a start used again": SCANS["start_used_again"],
    "first windows": lambda: Chain(3, 9).conv(3, 3, pad=1, group=3).pool("MaxPool", 2, 2).conv(6, 1).model(),
}
OTHER_FORMATS = {"fire": "fixed16", "head": "fixed8pc", "windows": "int8", "odd": "fixed5", "gaps": "fixed16"}
WISHED = ("digits", "gaps", "loop", "first windows")  # small enough to try many limits


RANGES = ("shift", "bias_shift", "a_shift", "b_shift", "low")  # what depends on ranges: not told


def params(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(found.items()) if name not in RANGES)


def body(items: Body, indent: str = "  ") -> Iterator[str]:
    for item in items:
        if isinstance(item, Op):
            scratch = f" with {item.scratch}" if item.scratch else ""
            call = f"{name_of(item.kernel)}({', '.join(item.inputs)}; {params(item.params)})"
            yield f"{indent}{item.output} = {call}{scratch}"
        else:
            yield f"{indent}{item.name}: {item.count} times, {item.slices}"
            yield from body(item.body, indent + "  ")


def constants(program: Program) -> Iterator[str]:
    """By their digests; whole where they say which rows are made when."""
    for name, codes in program.constants.items():
        whole = np.asarray(codes).astype(np.int64)
        said = whole.tolist() if program.tensors[name].role == Role.TABLE and whole.size <= 64 else ""
        yield f"  {name}: {whole.size} {hashlib.sha256(whole.tobytes()).hexdigest()[:8]} {said}"


def placed(found: Placement) -> Iterator[str]:
    yield from body(found.program.body)
    yield from constants(found.program)
    for buffer in found.problem.buffers:
        usual = (buffer.alignment, buffer.gaps, buffer.offset, buffer.region) == (1, (), None, None)
        special = "" if usual else f": {buffer}"
        yield f"  {buffer.name}: {buffer.size_bytes} B from {buffer.start} to {buffer.end}{special}"
    yield from (f"  {alias}" for alias in found.problem.aliases)


def described(program: Program) -> Iterator[str]:
    plain = problem_of(program)
    yield f"at least {floor_bytes(program)} B, {floor_bytes(program, again=True)} B again"
    yield f"as given {given_peak(program)} B, in another order {given_peak(reorder(program))} B"
    yield f"{len(plain.buffers)} buffers, {len(plain.aliases)} aliases"
    found = placements(program)
    for option in found.options:
        lost = time_lost(option.program, found.layers.program)
        yield f"== {option.plan.peak_bytes} B, {lost:.4f} of the time, proven {option.plan.proven}"
        yield from placed(option)
    yield f"{prove_schedule(program, found.rows.plan.peak_bytes)}"
    schedules = front(program)
    for one in schedules:
        more = products_again(one.placed.program, program)
        yield f"-- {one.peak_bytes} B, {one.more_time:.4f} more time, products {one.more_products:.4f} and {more:.4f}"
    yield from body(schedules[-1].placed.program.body)


def wished(program: Program) -> Iterator[str]:
    """What is chosen under limits and wishes, with the sample beside the arena and in it."""
    given = program.with_input_in_arena() if program.streamable_loop() is None else program
    yield f"input {input_bytes(program)} B, in the arena {input_bytes(given)} B, {main_ram_bytes(given, 10_000, 100)} B"
    peaks = {one.peak_bytes - less for one in front(program) for less in (0, 1)}
    for limit in sorted(peaks):
        found = cheapest_within(program, limit)
        yield f"{limit} B: {found.peak_bytes} B, {found.more_time:.4f} more time"
    for prefer in PREFERENCES:
        for ram in (None, min(peaks), min(peaks) + input_bytes(program), max(peaks) + input_bytes(program), 1 << 20):
            sizes = [chosen(program, Wish(prefer), ram, again=again).plan.peak_bytes for again in (False, True)]
            yield f"{prefer}, {ram} B: {sizes}"
    within = [chosen(program, Wish(ram_bytes=peak + input_bytes(program))).plan.peak_bytes for peak in sorted(peaks)]
    yield f"wished for: {within}"


def costs(program: Program) -> Iterator[str]:
    for op in walk(program.body):
        row, group = products_per_row(program, op), products_per_group(program, op)
        yield f"{op.output}: {products_of_op(program, op)} products, a row {row}, a group {group}"


@pytest.mark.parametrize("name", NETWORKS)
def test_plans(name: str, tmp_path: Path, golden: Golden) -> None:
    lines = list[str]()
    for default in dict.fromkeys(("fixed8", OTHER_FORMATS.get(name, "fixed8"))):
        program = of(NETWORKS[name], default)(tmp_path)
        lines += [f"#### {default}", *described(program)]
        for core in ("", "cortex-m7"):
            lines += [f"#### costs {core}", *costs(arrange(program, core))]
        if name in WISHED and default == "fixed8":
            lines += ["#### wishes", *wished(program)]
    golden.check(f"arena/{name.replace(' ', '-')}.txt", "\n".join(lines) + "\n")
