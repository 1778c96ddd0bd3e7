"""Files that `--dist loadfile` gives to one worker, as if they were one: they parse the same sources."""

from __future__ import annotations

from pathlib import Path

from xdist.scheduler.loadfile import LoadFileScheduling

OF_SOURCES = ("docstrings", "editors", "kernel_names", "layers", "lint", "planted_files", "processes")
TOGETHER = dict.fromkeys(OF_SOURCES, "sources")


class Together(LoadFileScheduling):
    """Like its parent, but for these files."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return TOGETHER.get(Path(file).stem.removeprefix("test_"), file)
