"""Tables of the width search: results/search/<name>.json, from these docs/measured/search.md.

python -m benchmarks.search                 measures all (needs HIL_DATA), one after the other, and writes the page
python -m benchmarks.search peers tight     some of them
python -m benchmarks.search --docs          the page only
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from benchmarks.search.pages import update_docs, write
from benchmarks.search.tables import TABLES
from tinyhil.errors import HilError
from tools.measured import provenance


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TABLES)} (all)")
    parser.add_argument("--models", help="only these, commas between: printed, not kept")
    parser.add_argument("--evaluations", type=int, help="budget of every search: printed, not kept")
    parser.add_argument("--docs", action="store_true", help="write docs/measured/search.md only")
    arguments = parser.parse_args()
    whole = arguments.models is None and arguments.evaluations is None  # a part of a table is printed, not kept
    names, exit_code = [] if arguments.docs else arguments.names or list(TABLES), 0
    measured_at = provenance() if names and whole else {}
    for name in names:
        measure, models, evaluations = TABLES[name]
        chosen = tuple(arguments.models.split(",")) if arguments.models else models
        rows: list[dict[str, Any]] = []
        try:
            for row in measure(arguments.evaluations or evaluations, chosen):
                rows.append(row)
        except HilError as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            exit_code = error.exit_code
            continue
        if whole:
            write(name, measured_at, rows)
    if whole:
        update_docs()
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
