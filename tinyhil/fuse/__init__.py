"""Fusion: several operators become one that needs less memory or time. One file each; the tuples are the registry.

`GRAPH_FUSIONS` rewrite a graph whose formats are decided, `PROGRAM_FUSIONS` a lowered program. Each can be left out by
name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tinyhil.compiler_pass import Pass, fold
from tinyhil.formats.format import Format
from tinyhil.fuse import bias, clamp, direct, distance, exponent, gathered, limits, pair, residual, sparse
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program

GRAPH_FUSIONS: tuple[Pass[Graph], ...] = (
    bias.BIAS,
    distance.DISTANCE,
    exponent.EXPONENT,
    gathered.GATHERED,
    pair.PAIR,
    residual.RESIDUAL,
    limits.ACTIVATION,
    clamp.CLAMP,
)
PROGRAM_FUSIONS: tuple[Pass[Program], ...] = (sparse.SPARSE, direct.DIRECT)
NAMES = (*(fusion.name for fusion in GRAPH_FUSIONS), *(fusion.name for fusion in PROGRAM_FUSIONS))


def fuse_graph(graph: Graph, formats: Mapping[str, Format], without: Collection[str] = ()) -> Graph:
    """`graph` with the fusions that its `formats` permit."""
    return fold(GRAPH_FUSIONS, graph, formats, without=without)
