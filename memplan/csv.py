"""Problems and plans as CSV in minimalloc's format: `id,lower,upper,size` and, where needed, further columns.

    id,lower,upper,size,alignment,gaps,offset
    b1,0,3,4,1,1-2,8

`lower` and `upper` are the half-open live range; `gaps` are half-open ranges `from-to` separated by blanks.
In a problem `offset` is a fixed offset (empty: none); minimalloc's solutions carry the plan in the same column.
`upper` may also be given as `end` (inclusive), as minimalloc permits, and `lower` as `begin` or `start`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from tinyhil.errors import DataError
from tinyhil.files import read_text
from tinyhil.memplan.problem import Buffer, Plan, Problem, ProblemError

COLUMNS = {
    "id": "id",
    "buffer": "id",
    "buffer_id": "id",
    "lower": "lower",
    "begin": "lower",
    "start": "lower",
    "upper": "upper",
    "end": "end",
    "size": "size",
    "alignment": "alignment",
    "gaps": "gaps",
    "offset": "offset",
}
IGNORED = ("hint",)


def read_problem(path: str | Path) -> Problem:
    """The buffers of a file in one arena without a limit."""
    return parse_problem(read_text(Path(path), "CSV of buffers"), str(path))


def parse_problem(text: str, source: str = "CSV") -> Problem:
    """The problem in a CSV text; DataError names line and remedy."""
    reader = csv.reader(io.StringIO(text))
    try:
        rows = [(reader.line_num, row) for row in reader if any(field.strip() for field in row)]
    except csv.Error as error:
        raise DataError(f"{source} line {reader.line_num}: {error}") from error
    if not rows:
        raise DataError(f"{source}: is empty; the first line must name the columns id,lower,upper,size")
    header = _header(rows[0][1], source)
    buffers = []
    for line, row in rows[1:]:
        if len(row) != len(header):
            raise DataError(f"{source} line {line}: {len(row)} fields, the header has {len(header)}")
        fields = dict(zip(header, (field.strip() for field in row), strict=True))
        try:
            buffers.append(_buffer(fields, f"{source} line {line}"))
        except ProblemError as error:
            raise DataError(f"{source} line {line}: {error}") from error
    try:
        return Problem(tuple(buffers))
    except ProblemError as error:
        raise DataError(f"{source}: {error}") from error


def _header(row: list[str], source: str) -> list[str]:
    names = []
    for field in row:
        name = field.strip().lower()
        if name not in COLUMNS and name not in IGNORED:
            raise DataError(f"{source} line 1: unknown column {field.strip()!r}; known are {', '.join(COLUMNS)}")
        names.append(COLUMNS.get(name, name))
    for needed in ("id", "lower", "size"):
        if names.count(needed) != 1:
            raise DataError(f"{source} line 1: column {needed!r} must be there once; need id,lower,upper,size")
    if names.count("upper") + names.count("end") != 1:
        raise DataError(f"{source} line 1: column 'upper' (or 'end', inclusive) must be there once")
    return names


def _buffer(fields: Mapping[str, str], where: str) -> Buffer:
    end = _number(fields["end"], "end", where) + 1 if "end" in fields else _number(fields["upper"], "upper", where)
    offset = fields.get("offset", "")
    return Buffer(
        name=fields["id"],
        size_bytes=_number(fields["size"], "size", where),
        start=_number(fields["lower"], "lower", where),
        end=end,
        alignment=_number(fields.get("alignment") or "1", "alignment", where),
        offset=_number(offset, "offset", where) if offset else None,
        gaps=tuple(_gap(text, where) for text in fields.get("gaps", "").split()),
    )


def _number(text: str, column: str, where: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise DataError(f"{where}: {column} {text!r} is not an integer") from None


def _gap(text: str, where: str) -> tuple[int, int]:
    start, dash, end = text.partition("-")
    if not dash:
        raise DataError(f"{where}: gap {text!r} is not of the form from-to")
    return _number(start, "gap", where), _number(end, "gap", where)


def write_problem(problem: Problem) -> str:
    """The problem as CSV; columns that are empty throughout are left out."""
    return _write(problem, {b.name: b.offset for b in problem.buffers if b.offset is not None})


def write_plan(problem: Problem, plan: Plan) -> str:
    """The plan as minimalloc writes it: the problem with the offset of every buffer."""
    return _write(problem, plan.offsets)


def _write(problem: Problem, offsets: Mapping[str, int]) -> str:
    columns = ["id", "lower", "upper", "size"]
    columns += ["alignment"] if any(b.alignment != 1 for b in problem.buffers) else []
    columns += ["gaps"] if any(b.gaps for b in problem.buffers) else []
    columns += ["offset"] if offsets else []
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for b in problem.buffers:
        fields = {
            "id": b.name,
            "lower": b.start,
            "upper": b.end,
            "size": b.size_bytes,
            "alignment": b.alignment,
            "gaps": " ".join(f"{start}-{end}" for start, end in b.gaps),
            "offset": offsets.get(b.name, ""),
        }
        writer.writerow([fields[column] for column in columns])
    return out.getvalue()
