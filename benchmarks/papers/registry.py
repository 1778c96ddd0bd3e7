"""Every paper with a module here."""

from __future__ import annotations

from benchmarks.papers import embedded, faces, fp8, minun, squeezenet

PAPERS = (minun.PAPER, fp8.PAPER, squeezenet.PAPER, faces.PAPER, embedded.PAPER)
