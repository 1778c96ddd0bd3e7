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

from tinyhil.memplan.arena.floor import floor_bytes
from tinyhil.memplan.arena.order import given_peak, reorder
from tinyhil.memplan.arena.placement import Placement, placements
from tinyhil.memplan.arena.proof import prove_schedule
from tinyhil.memplan.arena.row_costs import products_again, time_lost
from tinyhil.memplan.arena.schedules import front
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.program import Loop, Op, Program, Role


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
}
OTHER_FORMATS = {"fire": "fixed16", "head": "fixed8pc", "windows": "int8"}


RANGES = ("shift", "bias_shift", "a_shift", "b_shift", "low")  # what depends on ranges: not told


def params(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(found.items()) if name not in RANGES)


def body(items: tuple[Op | Loop, ...], indent: str = "  ") -> Iterator[str]:
    for item in items:
        if isinstance(item, Op):
            scratch = f" with {item.scratch}" if item.scratch else ""
            yield f"{indent}{item.output} = {item.kernel}({', '.join(item.inputs)}; {params(item.params)}){scratch}"
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


@pytest.mark.parametrize("name", NETWORKS)
def test_plans(name: str, tmp_path: Path, golden: Golden) -> None:
    lines = list[str]()
    for default in dict.fromkeys(("fixed8", OTHER_FORMATS.get(name, "fixed8"))):
        lines += [f"#### {default}", *described(of(NETWORKS[name], default)(tmp_path))]
    golden.check(f"arena/{name.replace(' ', '-')}.txt", "\n".join(lines) + "\n")
