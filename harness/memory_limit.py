"""A limit of the address space (`ulimit -v`): numpy's OpenBLAS answers it with exit(1), as if a gate had failed.

So where there is a limit a child tries first, and afterwards OpenBLAS has what it asks for, once, for one thread.
"""

from __future__ import annotations

import os

from tinyhil.errors import ConfigError
from tinyhil.processes import succeeds


def prepare() -> None:
    """Nothing without a limit; ConfigError if numpy can not work within it."""
    try:
        import resource
    except ImportError:  # Windows
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if not succeeds(_multiply):
        raise ConfigError(f"numpy can not work within an address space of {limit >> 20} MB; raise the limit: ulimit -v")
    _multiply()


def _multiply() -> None:
    """OpenBLAS takes its memory at its first product of matrices, and keeps it."""
    import numpy as np

    square = np.ones((256, 256), np.float32)
    np.matmul(square, square)
