"""The proof that a schedule is optimal, against every schedule of its space."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from onnx_models import compiled, load, node, samples_for, simple
from test_rows import program_of
from test_schedules import sizes_of

from tinyhil.compiler.lower import lower
from tinyhil.harness.job.job import open_model
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Program
from tinyhil.memplan import Budget
from tinyhil.memplan.arena.placement import Placement, place, smallest
from tinyhil.memplan.arena.proof import bound_of, prove_schedule
from tinyhil.memplan.arena.row_choice import Chosen, Cuts, cut_into

WITHOUT = ("gaps", "order")


def every_cut(cuts: Cuts, at: int = 0) -> Iterator[list[Chosen]]:
    """All ways to go from one operation to the end."""
    if at == len(cuts.program.body):
        yield []
        return
    for (first, end), ways in cuts.parts.items():
        if first == at:
            for rest in every_cut(cuts, end):
                yield from ([(first, end, part.way), *rest] for part in ways)


def planned(program: Program, cuts: Cuts, cut: list[Chosen]) -> Placement:
    loops = [chosen for chosen in cut if chosen[1] - chosen[0] > 1]
    return smallest(cut_into(program, cuts, loops), WITHOUT, "portfolio", Budget())


# input, then (outputs, width of the window): two chains that were planned above what other schedules need
CONVOLUTIONS = {"narrow": ((3, 6, 6), (2, 1), (3, 5), (2, 1)), "wide": ((2, 6, 4), (8, 1), (1, 5), (2, 3))}


def convolutions(shape: tuple[int, ...], *layers: tuple[int, int], folder: Path) -> Program:
    """A chain of convolutions that keep height and width."""
    nodes, constants, channels = [], {}, shape[0]
    for at, (outputs, width) in enumerate(layers):
        ends = f"x{at} w{at}" if at else "x w0"
        out = f"x{at + 1}" if at + 1 < len(layers) else "y"
        nodes.append(node("Conv", ends, out, kernel_shape=[width] * 2, pads=[width // 2] * 4))
        constants[f"w{at}"] = samples_for((outputs, channels, width, width), 1, at)[0]
        channels = outputs
    graph = load(simple(nodes, {"x": (1, *shape)}, constants), folder)
    return compiled(graph, samples_for((1, *shape)), "fixed8")


@pytest.mark.parametrize(("name", "schedules"), [("digits", 8), ("odd", 8), ("gaps", 8), ("narrow", 4), ("wide", 4)])
def test_no_schedule_of_the_space_undercuts_a_bound_of_its_parts(name: str, schedules: int, tmp_path: Path) -> None:
    if name in CONVOLUTIONS:
        program = convolutions(*CONVOLUTIONS[name], folder=tmp_path)
    else:
        program = program_of(name, tmp_path, "fixed8")
    cuts = Cuts(program)
    bounds = {
        (span, part.way): bound_of(program, cuts, span, part) for span, parts in cuts.parts.items() for part in parts
    }
    peaks = []
    for cut in every_cut(cuts):
        found = planned(program, cuts, cut)
        peaks.append(found.plan.peak_bytes)
        assert max(bounds[(first, end), way] for first, end, way in cut) <= found.plan.peak_bytes, cut
    assert len(peaks) >= schedules
    least = min(peaks)
    assert place(program).plan.peak_bytes == least
    proof = prove_schedule(program, least)
    assert proof is not None
    assert all(bounds[span, way] == bound >= least for span, way, bound in proof.bounded)
    assert prove_schedule(program, least + 1) is None  # a byte more is not optimal
    for cut in every_cut(cuts):
        assert any(((first, end), way) in {one[:2] for one in proof.bounded} for first, end, way in cut)


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("MobileNetV1 0.25, 96 x 96", 12_566),
        ("MobileNetV1 0.25, 128 x 128", 18_982),
        ("SqueezeNet 1.1, 224 x 224", 97_920),
    ],
)
def test_published_networks(name: str, peak: int, tmp_path: Path) -> None:
    program = sizes_of(name, tmp_path)
    placed = place(program)
    assert placed.plan.peak_bytes == peak
    assert placed.plan.proven
    assert prove_schedule(program, peak) is not None


def test_nothing_is_proven_where_there_is_one_schedule() -> None:
    opened = open_model("fastgrnn_har", None)
    program = lower(opened.model.graph, Assignment("fixed8"), opened.required_ranges(None))
    placed = place(program)
    assert placed.plan.proven
    assert prove_schedule(program, placed.plan.peak_bytes) is None
