"""Compiles what the first plan and the first search would compile, for `make setup`."""

from __future__ import annotations

import sys

from tinyhil.errors import HilError
from tinyhil.memplan.compiled_cores import backend
from tinyhil.native import default_cache_dir
from tinyhil.search.engine.library import load_engine


def main() -> int:
    """Compile the search engine and the planners at set-up; exit code."""
    try:
        load_engine(default_cache_dir(), notice=lambda line: print(f"setup: {line}"))
    except HilError as error:
        print(f"setup: {error}", file=sys.stderr)
        return error.exit_code
    return 0 if backend() == "compiled" else 1


if __name__ == "__main__":
    sys.exit(main())
