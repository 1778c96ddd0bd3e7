"""Tables of the width search: results/search/<name>.json, from these docs/measured/search.md.

python -m benchmarks.search peers tight     measures (needs HIL_DATA), one after the other
python -m benchmarks.search --docs          tables into docs/measured/search.md
"""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.search.pages import update_docs, write
from benchmarks.search.tables import TABLES
from tinyhil.errors import HilError
from tools.measured import provenance


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TABLES)}")
    parser.add_argument("--models", help="only these, commas between: printed, not kept")
    parser.add_argument("--evaluations", type=int, help="budget of every search: printed, not kept")
    parser.add_argument("--docs", action="store_true", help="write the tables into docs/measured/search.md")
    arguments = parser.parse_args()
    whole = arguments.models is None and arguments.evaluations is None  # a part of a table is printed, not kept
    measured_at = provenance() if arguments.names and whole else {}
    for name in arguments.names:
        measure, models, evaluations = TABLES[name]
        chosen = tuple(arguments.models.split(",")) if arguments.models else models
        rows: list[dict[str, Any]] = []
        try:
            for row in measure(arguments.evaluations or evaluations, chosen):
                rows.append(row)
        except HilError as error:
            print(f"{name}: {error}", flush=True)
            continue
        if whole:
            write(name, measured_at, rows)
    if arguments.docs:
        update_docs()


if __name__ == "__main__":
    main()
