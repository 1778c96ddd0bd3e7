"""Every kernel that makes rows, in every domain of arithmetic and on every kind of element, against the reference."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from kernel_cases import Case, first_difference, run_natively, run_on_board
from onnx_models import load
from test_kernels_formats import inputs
from test_rows import Chain, runs

from tinyhil.compiler.calibrate import Ranges, calibrate
from tinyhil.compiler.lower import lower, tied_values
from tinyhil.errors import ModelError
from tinyhil.formats import FORMATS
from tinyhil.formats.format import CODED, INTEGER, SINGLE, Format
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.form import Arithmetic, Form, Limit
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program, walk
from tinyhil.memplan.arena.row_wise import row_wise
from tinyhil.ops import rows
from tinyhil.ops.code_table import CODE_TABLE
from tinyhil.passes.code_tables import with_tables

Made = tuple[Graph, Ranges, np.ndarray]
# one of each kind of element
KINDS = ("fixed5", "fixed8", "fixed12", "fixed16", "fixed32", "posit8es0", "posit16es1", "posit32es2", "fp8e4m3")
KINDS += ("fp4e2m1", "float32", "bfloat16", "float16", "nf4", "int8", "int16x8", "fixed8pc", "fp8e4m3pc")
TABLED = ("fixed5", "fixed8", "posit8es0", "fp4e2m1", "int8")
TABLE_ROWS = replace(CODE_TABLE.form, rows=True)
FEW = ("fixed8", "fixed16", "posit8es0", "float32", "int8")
MIXTURES, MOST_SEEDS = 24, 200


def pooled(chain: Chain, op: str = "AveragePool") -> Chain:
    return chain.pool(op, 2, 2)


def joined(op: str, after: str = "", bias: int = 1) -> Chain:
    """An addition of what came two layers before, or another operation of two planes."""
    chain = Chain(1, 8).conv(2, 3, pad=1).add("Relu")
    begin = chain.last
    chain.conv(2, 3, pad=1, bias=bias).add(op, begin)
    return (chain.add(*after.split(maxsplit=1)) if after else chain).conv(1, 2)


def of_pictures() -> Chain:
    """Channels last: the axes change places before the first layer."""
    chain = Chain(3, 8).add("Transpose", perm=[0, 3, 1, 2])
    chain.shape = (1, 8, 7, 3)
    return chain.conv(2, 3, pad=1).add("Relu").conv(1, 2)


JOINED = tuple(
    partial(joined, op, after, bias)
    for op, after, bias in itertools.product(("Add", "Sub", "Mul"), ("", "Relu", "Clip low high"), (0, 1))
    if bias or op == "Add"
)
CHAINS = (
    *JOINED,
    of_pictures,
    lambda: pooled(Chain(1, 8).conv(2, 3, pad=1).add("Relu")).add("HardSwish").conv(2, 2, bias=0),
    lambda: Chain(2, 8).conv(2, 3, pad=1, group=2, bias=0).add("Relu").pool("AveragePool", 3, 1, pad=1).add("Abs"),
    lambda: pooled(Chain(1, 9).conv(2, 2, bias=0).add("Clip", "low high"), "MaxPool").add("HardSigmoid").conv(1, 2),
    lambda: pooled(Chain(1, 7).conv(2, 3, pad=1).add("Clip", "low high").add("LeakyRelu"), "MaxPool"),
    lambda: pooled(Chain(1, 9), "MaxPool").add("Relu").pool("AveragePool", 2, 1).add("Clip", "low high"),
    lambda: pooled(Chain(1, 8).conv(2, 3, pad=1, bias=0).add("Sigmoid"), "MaxPool").add("Tanh").conv(1, 2),
    lambda: pooled(Chain(1, 9), "MaxPool").add("HardSwish").add("Clip", "lowest highest").pool("MaxPool", 2, 1),
    lambda: pooled(Chain(1, 8).conv(1, 3), "AveragePool").add("Relu").pool("AveragePool", 3, 1, pad=1).add("Relu"),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Made]:
    found = []
    for index, chain in enumerate(CHAINS):
        begun = chain()
        begun.constants |= {"low": np.float32(-0.4), "high": np.float32(0.7)}
        begun.constants |= {"lowest": np.float32(-50), "highest": np.float32(50)}
        graph = load(begun.model(), tmp_path_factory.mktemp(f"chain{index}"))
        x = np.random.default_rng(index).normal(size=(16, *graph.shapes["x"])).astype(np.float32)
        found.append((graph, calibrate(graph, x, {}), x))
    return found


def same(program: Program) -> Program:
    return program


def by_rows(program: Program) -> Program:
    """With every chain made row by row, whether or not it pays."""
    for chain in runs(program):
        program = row_wise(program, chain) or program
    return program


def case(
    name: str, assignment: Assignment, network: Made, arranged: Callable[[Program], Program] = same
) -> Case | None:
    """None where the families do not go together. `arranged`: what is done for a core between lowering and rows."""
    graph, ranges, x = network
    try:
        program = by_rows(arranged(lower(graph, assignment, ranges)))
    except ModelError as error:
        if "asymmetric" not in str(error):
            raise
        return None
    return Case(name, program, inputs(program.tensors[program.input].format, x, 1)[::4])


def tabled(networks: list[Made], names: tuple[str, ...]) -> list[Case]:
    """Programs whose functions of bytes are tables of codes by the time they are made row by row."""
    cases = [
        case(f"{name} {at} tables", Assignment(name), made, with_tables)
        for name in names
        for at, made in enumerate(networks)
    ]
    return [made for made in cases if made is not None and any(kernel == TABLE_ROWS for kernel, _ in covered([made]))]


def uniform(networks: list[Made], names: tuple[str, ...]) -> list[Case]:
    cases = [case(f"{name} {at}", Assignment(name), made) for name in names for at, made in enumerate(networks)]
    return [made for made in cases if made is not None]


def mixtures(networks: list[Made], wanted: int) -> list[Case]:
    """A format of its own for every value, of any family."""
    found: list[Case] = []
    for seed in range(MOST_SEEDS):
        network = networks[seed % len(networks)]
        random = np.random.default_rng(seed)
        mix = {group[0]: str(random.choice([fmt.name for fmt in FORMATS])) for group in tied_values(network[0])}
        made = case(f"mix {seed}", Assignment("fixed16", mix), network)
        if made is not None and covered([made]):
            found.append(made)
        if len(found) == wanted:
            break
    return found


def moved(network: Made) -> list[Case]:
    """Pictures that change their format as they become planes."""
    pairs = (("float32", "bfloat16"), ("posit16es1", "posit8es0"))
    cases = [case(f"{one} to {other}", Assignment(one, {"v0": other}), network) for one, other in pairs]
    return [made for made in cases if made is not None]


def covered(cases: list[Case]) -> set[tuple[Form, str]]:
    """(kernel of rows, domain it computes in)"""
    ops = (op for case in cases for op in walk(case.program.body))
    return {(op.kernel, op.domain) for op in ops if op.kernel.rows}


def possible() -> set[tuple[Form, str]]:
    """Every kernel of rows in every domain it has; what only ARM chips have is in test_arm_kernels.py."""
    found = set()
    for form, base in rows.BASE.items():
        if base in rows.RESCALED_CONV:
            continue
        if base.codes or not base.coded or form.limit is Limit.CLIP:  # codes of asymmetric integers, tables, clamps
            domains = {INTEGER}
        else:
            domains = {INTEGER, SINGLE} | ({CODED} if base.coded != SINGLE else set())
        if form.arithmetic is Arithmetic.CODED_CHANNELS:  # a scale per channel of coded weights
            domains.remove(INTEGER)
        found |= {(replace(form, rows=True), domain) for domain in domains}
    return found


def first_with(sort_of: Callable[[Format], object], cases: list[Case]) -> list[Case]:
    """Those with a kernel that no case before has in that domain and on formats of that sort."""
    known: set[tuple[Form, str, object]] = set()
    found = []
    for case in cases:
        ops = [op for op in walk(case.program.body) if op.kernel.rows]
        has = {(op.kernel, op.domain, sort_of(case.program.tensors[op.output].format)) for op in ops}
        found += [case] if has - known else []
        known |= has
    return found


CHOSEN = {
    "fewest": partial(first_with, lambda fmt: None),
    "families": partial(first_with, lambda fmt: (type(fmt), fmt.storage_bytes)),
    "all": list,
}


@pytest.mark.parametrize(
    "chosen", [name if name == "fewest" else pytest.param(name, marks=pytest.mark.slow) for name in CHOSEN]
)
def test_every_kernel_in_every_domain_natively(chosen: str, made: list[Made], tmp_path: Path) -> None:
    cases = CHOSEN[chosen](
        uniform(made[len(JOINED) :], KINDS)
        + uniform(made[: len(JOINED)], FEW)
        + tabled(made[len(JOINED) :], TABLED)
        + mixtures(made, MIXTURES)
        + moved(made[len(JOINED)])
    )
    assert possible() <= covered(cases)
    assert first_difference(cases, run_natively(cases, tmp_path)) == ""


def test_unsigned_values_beside_coded_weights_natively(made: list[Made], tmp_path: Path) -> None:
    cases = []
    for weights, values in itertools.product(("posit6es3", "posit16es1", "fp4e2m1"), ("fixed4u", "fixed8u")):
        for at, network in enumerate(made[:2]):
            constants = network[0].all_constants()
            mix = {group[0]: values for group in tied_values(network[0]) if group[0] not in constants}
            cases.append(case(f"{weights} {values} {at}", Assignment(weights, mix), network))
    found = [one for one in cases if one is not None]
    assert len(found) == len(cases)
    assert first_difference(found, run_natively(found, tmp_path)) == ""


@pytest.mark.slow
def test_more_mixtures_natively(made: list[Made], tmp_path: Path) -> None:
    cases = mixtures(made, MOST_SEEDS)
    assert len(cases) > MOST_SEEDS // 2
    assert first_difference(cases, run_natively(cases, tmp_path)) == ""


@pytest.mark.parametrize(
    ("board", "names"),
    [
        ("uno", ("float32",)),
        pytest.param("due", ("int16x8", "posit8es0", "bfloat16"), marks=pytest.mark.slow),
        pytest.param("h747", ("float16", "fp8e4m3", "fixed32"), marks=pytest.mark.slow),
        pytest.param("uno", ("posit16es1",), marks=pytest.mark.slow),
        pytest.param("uno", ("fp8e4m3",), marks=pytest.mark.slow),
    ],
)
def test_on_boards(board: str, names: tuple[str, ...], made: list[Made], tmp_path: Path) -> None:
    networks = made[:1] if board == "uno" else made[:3]
    cases = uniform(networks, names) + tabled(networks, names)
    assert first_difference(cases, run_on_board(cases, load_boards().board(board), tmp_path / "cache")) == ""
