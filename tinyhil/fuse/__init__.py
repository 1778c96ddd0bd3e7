"""Fusion: several operators become one that needs less memory or time. One file each; the tuples are the registry.

`GRAPH_FUSIONS` rewrite a graph whose formats are decided, `PROGRAM_FUSIONS` a lowered program. Each can be left out by
name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tinyhil.formats.format import Format
from tinyhil.fuse import bias, clamp, direct, distance, exponent, gathered, limits, pair, residual, sparse
from tinyhil.fuse.rewriting import GraphFusion, ProgramFusion
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program
from tinyhil.references.verify import checked

GRAPH_FUSIONS: tuple[GraphFusion, ...] = (
    bias.BIAS,
    distance.DISTANCE,
    exponent.EXPONENT,
    gathered.GATHERED,
    pair.PAIR,
    residual.RESIDUAL,
    limits.ACTIVATION,
    clamp.CLAMP,
)
PROGRAM_FUSIONS: tuple[ProgramFusion, ...] = (sparse.SPARSE, direct.DIRECT)
NAMES = (*(fusion.name for fusion in GRAPH_FUSIONS), *(fusion.name for fusion in PROGRAM_FUSIONS))

# Left out unless asked for.
LEFT_OUT: frozenset[str] = frozenset()


def fuse_graph(graph: Graph, formats: Mapping[str, Format], without: Collection[str] = LEFT_OUT) -> Graph:
    """`graph` with the fusions that its `formats` permit."""
    for fusion in GRAPH_FUSIONS:
        if fusion.name not in without:
            graph = checked(fusion.apply(graph, formats), fusion.name)
    return graph


def fuse_program(program: Program, without: Collection[str] = LEFT_OUT) -> Program:
    """`program` with the fusions that pay."""
    for fusion in PROGRAM_FUSIONS:
        if fusion.name not in without:
            program = checked(fusion.apply(program), fusion.name)
    return program
