"""The compiled cores: built once with the system's C compiler, kept in the user's cache.

A C file and ctypes rather than numba (100 MB of dependencies, seconds of start-up) or an extension module (needs a
compiler at install). Without a compiler the Python form does the same search some hundred times slower, and says so.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import warnings
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path

import numpy as np

from tinyhil.errors import BuildError
from tinyhil.memplan.blocks import FOUND, NO_MEMORY, Instance, Result, Search
from tinyhil.memplan.eject_core import Limits, Movables
from tinyhil.memplan.problem import Buffer
from tinyhil.memplan.skyline_core import Crowd, Numbers, Weighing
from tinyhil.native import Library, compiled, default_cache_dir

SOURCES = tuple(
    Path(__file__).with_name(f"{name}_core.c") for name in ("search", "order", "placing", "skyline", "cover", "eject")
)
LIBRARY = Library(
    "the planner's core", "memplan", SOURCES, ("-O2", "-std=gnu11", "-ffp-contract=off", "-shared", "-fPIC")
)

MOST_ORDERED = 64  # blocks of the search over orders: BLOCKS in order_core.c
BUFFERS_PER_BUCKET = 100  # fewer: long-lived buffers are in too many buckets; more: each search is longer
MOST_BUCKETS = 50  # of one buffer, on average


class _Instance(ctypes.Structure):
    _fields_ = (
        ("blocks", ctypes.c_int64),
        ("sections", ctypes.c_int64),
        *((name, ctypes.POINTER(ctypes.c_int64)) for name in ("piece_start", "first", "last", "size")),
        *((name, ctypes.POINTER(ctypes.c_int64)) for name in ("alignment", "high")),
        *((name, ctypes.c_int64) for name in ("height", "max_nodes", "rule", "tie")),
        ("max_seconds", ctypes.c_double),
    )


def backend() -> str:
    """Which form searches on this machine: "compiled" or "python"."""
    return "compiled" if _library() is not None else "python"


def search_compiled(instance: Instance, search: Search) -> Result | None:
    """The compiled search; None when there is no compiled core here (native.backend() says so)."""
    library = _library()
    if library is None:
        return None
    count = len(instance.alignment)
    numbers = (search.height, search.max_nodes, search.rule, search.tie)
    record = _Instance(count, instance.sections, *_arrays(instance), *numbers, search.max_seconds or 0.0)
    offsets = (ctypes.c_int64 * max(1, count))()
    nodes = ctypes.c_int64()
    state = library.memplan_search(ctypes.byref(record), offsets, ctypes.byref(nodes))
    return Result(state, tuple(offsets[:count]) if state == 1 else (), nodes.value)


class _Orders(ctypes.Structure):
    _fields_ = (
        ("blocks", ctypes.c_int64),
        *((name, ctypes.POINTER(ctypes.c_int64)) for name in ("piece_start", "first", "last", "size")),
        *((name, ctypes.POINTER(ctypes.c_int64)) for name in ("alignment", "high", "low", "previous")),
        *((name, ctypes.c_int64) for name in ("most_sets", "most_work")),
        ("max_seconds", ctypes.c_double),
    )


def orders_compiled(
    instance: Instance, previous: Sequence[int], limits: tuple[int, int], seconds: float | None
) -> Result | None:
    """The search over orders, with sets listed for nodes; None when there is no compiled core here.

    `previous`: offsets of blocks that keep their order, -1 of the others; `limits`: sets of a clique, of all.
    """
    library = _library()
    if library is None:
        return None
    count = len(instance.alignment)
    arrays = (*_arrays(instance), _array(instance.low), _array(previous))
    record = _Orders(count, *arrays, *limits, seconds or 0.0)
    offsets, spent = _array([0] * count), ctypes.c_int64()
    state = library.memplan_orders(ctypes.byref(record), offsets, ctypes.byref(spent))
    return Result(state, tuple(offsets[:count]) if state == 1 else (), spent.value)


def _arrays(instance: Instance) -> list[ctypes.Array[ctypes.c_int64]]:
    values = (instance.piece_start, instance.first, instance.last, instance.size, instance.alignment, instance.high)
    return [_array(numbers) for numbers in values]


class _Cover(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("buffers", "height")),
        *((name, ctypes.POINTER(ctypes.c_int64)) for name in ("units", "section_start", "section")),
        *((name, ctypes.POINTER(ctypes.c_int64)) for name in ("row_start", "row")),
    )


def cover_compiled(
    table: Sequence[tuple[int, Sequence[int], Sequence[int]]],
    size: tuple[int, int],
    choices: int,
    seconds: float | None,
) -> tuple[int, list[int], int] | None:
    """Exact cover by dancing links (see cover_core.c): state, the unit at which each buffer starts, rows chosen.

    `table`: units, sections and permitted starts of each buffer; `size`: sections, height in units. None when there is
    no compiled core here.
    """
    library = _library()
    if library is None:
        return None
    units, sections, rows = zip(*table, strict=True)
    columns = (units, *_joined(sections), *_joined(rows))
    record = _Cover(len(table), size[1], *(_array(column) for column in columns))
    starts, chosen = _array([0] * len(table)), ctypes.c_int64()
    state = library.memplan_cover(
        ctypes.byref(record),
        ctypes.c_int64(size[0]),
        ctypes.c_int64(choices),
        ctypes.c_double(seconds or 0.0),
        starts,
        ctypes.byref(chosen),
    )
    return state, list(starts), chosen.value


def _joined(lists: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Where each list begins in the list of all, and that list."""
    return [0, *accumulate(map(len, lists))], [number for one in lists for number in one]


class _Order(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("count", "best_fit")),
        ("seconds", ctypes.c_double),
        *((name, ctypes.POINTER(ctypes.c_int64)) for name in ("first", "start", "end", "size", "alignment", "offset")),
    )


def place_compiled(buffers: Sequence[Buffer], fit: str = "first", seconds: float | None = None) -> list[int] | None:
    """Offsets in this order (see placing_core.c; after `seconds` the lowest ones); None when there is no compiled
    core here. All sizes are positive, no offset is fixed. MemoryError if its tables find no room."""
    library = _library()
    if library is None:
        return None
    sections = [buffer.sections for buffer in buffers]
    first = [0, *accumulate(map(len, sections))]
    starts, ends = zip(*(section for parts in sections for section in parts), strict=True) if buffers else ((0,), (1,))
    sizes, alignments = [b.size_bytes for b in buffers], [b.alignment for b in buffers]
    arrays = [_array(numbers) for numbers in (first, starts, ends, sizes, alignments, [0] * len(buffers))]
    record = _Order(len(buffers), int(fit == "best"), seconds or 0.0, *arrays)
    origin, horizon = min(starts), max(ends)
    few = MOST_BUCKETS * len(buffers) * (horizon - origin) // max(1, sum(ends) - sum(starts))
    span = (origin, horizon, 1 + min(len(buffers) // BUFFERS_PER_BUCKET, few))
    if not library.memplan_place(ctypes.byref(record), *map(ctypes.c_int64, span)):
        raise MemoryError("memplan: no memory to place the buffers")
    return list(arrays[-1])[: len(buffers)]


class _Ejection(ctypes.Structure):
    _fields_ = (
        ("count", ctypes.c_int64),
        *((name, ctypes.POINTER(ctypes.c_int64)) for name in ("size", "alignment", "fixed")),
        ("meets", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("height", "most_steps", "largest")),
        ("seed", ctypes.c_uint64),
        ("max_seconds", ctypes.c_double),
    )


def eject_compiled(movables: Movables, offsets: Sequence[int], limits: Limits) -> tuple[list[int] | None, int] | None:
    """What eject_core.eject_python gives; None when there is no compiled core here. MemoryError if its tables find no
    room."""
    library = _library()
    if library is None:
        return None
    meets = np.ascontiguousarray(movables.meets, np.uint8)
    arrays = [_array(numbers) for numbers in (movables.size, movables.alignment, movables.fixed)]
    numbers = (limits.height, limits.steps, limits.largest, limits.seed, limits.seconds or 0.0)
    record = _Ejection(len(offsets), *arrays, meets.ctypes.data, *numbers)
    found, steps = _array(offsets), ctypes.c_int64()
    state = library.memplan_eject(ctypes.byref(record), found, ctypes.byref(steps))
    if state == NO_MEMORY:
        raise MemoryError("memplan: ejection got no memory for its tables")
    return list(found)[: len(offsets)] if state == FOUND else None, steps.value


class _Crowd(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("count", "sections")),
        *((name, ctypes.c_void_p) for name in ("first", "last", "size", "alignment", "by_last")),
        *((name, ctypes.c_void_p) for name in ("from_first", "from_last", "before")),
        *((name, ctypes.c_double) for name in ("gap_cost", "fillable")),
        ("offset", ctypes.c_void_p),
    )


def fill_compiled(crowd: Crowd, weighing: Weighing) -> Numbers | None:
    """Offsets of the buffers (see skyline_core.py); None when there is no compiled core here. MemoryError if its tables
    find no room."""
    library = _library()
    if library is None:
        return None
    offset = np.zeros(len(crowd.size), np.int64)
    columns = (crowd.first, crowd.last, crowd.size, crowd.alignment, crowd.by_last, crowd.from_first, crowd.from_last)
    arrays = [np.ascontiguousarray(column, np.int64) for column in columns]
    pointers = [array.ctypes.data for array in (*arrays, weighing.before)]
    numbers = (weighing.gap_cost, weighing.fillable)
    record = _Crowd(len(offset), len(weighing.before) - 1, *pointers, *numbers, offset.ctypes.data)
    if not library.memplan_fill(ctypes.byref(record)):
        raise MemoryError("memplan: no memory to place the buffers")
    return offset


def _array(numbers: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * max(1, len(numbers)))(*numbers)


@cache
def _library() -> ctypes.CDLL | None:
    if os.environ.get("HIL_MEMPLAN_CORE") == "python":
        return None
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        warnings.warn("memplan: no C compiler found; the search runs in Python, slowly (install gcc)", stacklevel=2)
        return None
    try:
        path = compiled(LIBRARY, compiler, default_cache_dir(), lambda line: None)
    except BuildError as error:
        warnings.warn(f"memplan: {error}; the search runs in Python, slowly", stacklevel=2)
        return None
    library = ctypes.CDLL(str(path))
    return library
