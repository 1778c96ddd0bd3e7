"""Every paper with a module here."""

from __future__ import annotations

from benchmarks.papers import minun

PAPERS = (minun.PAPER,)
