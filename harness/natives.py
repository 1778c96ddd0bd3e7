"""Compiles what the first plan and the first search would compile (`make setup`): python -m harness.natives."""

from __future__ import annotations

import sys

from harness.assets import asset
from memplan.native import backend
from search.engine import load_engine
from tinyhil.errors import HilError
from tinyhil.native import default_cache_dir


def main() -> int:
    try:
        load_engine(asset("firmware").parent, default_cache_dir(), notice=lambda line: print(f"setup: {line}"))
    except HilError as error:
        print(f"setup: {error}", file=sys.stderr)
        return error.exit_code
    return 0 if backend() == "compiled" else 1


if __name__ == "__main__":
    sys.exit(main())
