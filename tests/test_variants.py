"""Orders of weights are rows of one table: each has its template, and layers on every core it names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.test_arm_halves import networks
from tests.test_arm_halves import program_of as of_halves
from tests.test_arm_kernels import convolutions, dense, depthwise, lines, matrices, program_of, residual
from tinyhil.language.program import Program, walk
from tinyhil.passes.arrange import arrange
from tinyhil.passes.variants import CORES, VARIANTS, Layer, variant_of

KERNELS = Path(__file__).resolve().parent.parent / "firmware" / "kernels"


def programs(folder: Path) -> Iterator[Program]:
    for number, (_, chain) in enumerate((*convolutions(), *depthwise(), *matrices(), *lines())):
        yield program_of(chain, folder, ("fixed8", "int8")[number % 2])
    for number, (_, chain) in enumerate(networks()):
        yield of_halves(
            chain, folder, *(("fixed16", "fixed16"), ("fixed16", "fixed8"), ("fixed8", "fixed16"))[number % 3]
        )
    yield of_halves(dense(8, 6, rows=3), folder, "fixed16", "fixed16")
    yield of_halves(residual(), folder, "fixed8", "binary")


def test_every_row_has_its_template_and_known_cores() -> None:
    assert len(set(VARIANTS)) == len(VARIANTS)
    assert [row for row in VARIANTS if not (KERNELS / row.template).is_file() or not set(row.cores) <= set(CORES)] == []


def test_every_row_is_the_first_that_fits_some_layer_of_each_of_its_cores(tmp_path: Path) -> None:
    taken = set()
    for program in programs(tmp_path):
        for core in CORES:
            arranged = arrange(program, core)
            for op in walk(arranged.body):
                row = variant_of(Layer(arranged, op), core)
                taken |= {(core, VARIANTS.index(row))} if row is not None else set()
    assert {(core, number) for number, row in enumerate(VARIANTS) for core in row.cores} == taken
