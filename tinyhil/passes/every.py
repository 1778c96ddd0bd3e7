"""Every pass of the compiler, in the order in which they run: from a model's file to what is written down.

Each stage folds over its own tuple, where its floor is: reading, scales, formats, fusions before and after lowering,
what makes a program one core's, memory, and what is decided when the plan is there. `hil plan --passes` prints them
all, `--without NAME` leaves one out.
"""

from __future__ import annotations

from typing import Any

from tinyhil.compiler.columns import SCALES
from tinyhil.compiler.lower import FITS
from tinyhil.compiler_pass import Pass
from tinyhil.frontend.dead_channels import READ
from tinyhil.fuse import GRAPH_FUSIONS, PROGRAM_FUSIONS
from tinyhil.memplan.arena.passes import MEMORY, ROWS
from tinyhil.passes.arrange import ON_CORE
from tinyhil.passes.laid import LAID
from tinyhil.passes.row_pairs import FOR_TIME

PASSES: tuple[Pass[Any], ...] = (
    *READ,
    *SCALES,
    *FITS,
    *GRAPH_FUSIONS,
    *PROGRAM_FUSIONS,
    *ON_CORE,
    *FOR_TIME,
    ROWS,
    *MEMORY,
    *LAID,
)
