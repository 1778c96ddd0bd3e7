"""Where the data lie that measurements are given and do not download."""

from __future__ import annotations

import os
from pathlib import Path


def given_data() -> Path:
    """The folder HIL_DATA; the program ends with a line where it is not set."""
    found = os.environ.get("HIL_DATA", "")
    if not found or not Path(found).is_dir():
        raise SystemExit(f"HIL_DATA={found}: no folder; set it to the one with models/ and large/ of this measurement")
    return Path(found)
