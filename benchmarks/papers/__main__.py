"""The experiments of the papers this project answers to, run again: ours beside theirs.

python -m benchmarks.papers --list
python -m benchmarks.papers                  all of them, one after the other
python -m benchmarks.papers NAME             measures what is missing, keeps it in results/papers/NAME.json,
                                             writes docs/papers/NAME.md, its figures and docs/papers/README.md
python -m benchmarks.papers NAME --only P    of these only the cells whose keys begin with P
python -m benchmarks.papers NAME --quick     a cut-down form on real data, seconds; keeps nothing
python -m benchmarks.papers --docs           writes all pages anew from what is kept

From a clean tree, most of it with HIL_DATA. A run that was killed goes on behind its last finished cell.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial

from benchmarks.papers import pages, record
from benchmarks.papers.registry import PAPERS
from tinyhil.errors import HilError
from tools.measured import provenance


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", choices=[paper.name for paper in PAPERS])
    parser.add_argument("--list", action="store_true", help="names, titles, finished cells")
    parser.add_argument("--quick", action="store_true", help="the cut-down form")
    parser.add_argument(
        "--again", metavar="PREFIX", help="measure the cells of this prefix ('': all) anew, but for this commit's"
    )
    parser.add_argument("--only", metavar="PREFIX", default="", help="measure what is missing of this prefix")
    parser.add_argument("--docs", action="store_true", help="write pages only")
    arguments = parser.parse_args()
    chosen = [paper for paper in PAPERS if arguments.name in (None, paper.name)]
    if arguments.list:
        for paper in PAPERS:
            done, count = len(record.read(paper.name)), len(list(paper.cells()))
            print(f"{paper.name:<12} {done} of {count} cells  {paper.title}")
        return 0
    if arguments.docs:
        pages.write(chosen, PAPERS)
        return 0
    if arguments.name is None and (arguments.again is not None or arguments.only):
        parser.error("--again and --only are of one paper: give its name")
    for paper in chosen:
        if arguments.quick:
            print(paper.body({cell.key: cell.measure() for cell in paper.quick()}))
            continue
        say = partial(print, flush=True)
        record.measure(paper.name, paper.cells(), provenance, say, only=arguments.only, again=arguments.again)
        pages.write([paper], PAPERS)
        print(paper.body(record.rows_of(record.read(paper.name))))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HilError as error:
        print(f"papers: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
