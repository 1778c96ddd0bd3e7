"""The registry of rewrites."""

from __future__ import annotations

from tinyhil.frontend import (
    rewrite_arithmetic,
    rewrite_functions,
    rewrite_masks,
    rewrite_quantized,
    rewrite_recurrent,
    rewrite_reductions,
    rewrite_resize,
    rewrite_rnnpool,
    rewrite_shapes,
)
from tinyhil.frontend.rewrite import Rewrite

REWRITES: tuple[Rewrite, ...] = (
    *rewrite_arithmetic.REWRITES,
    *rewrite_functions.REWRITES,
    *rewrite_masks.REWRITES,
    *rewrite_reductions.REWRITES,
    *rewrite_shapes.REWRITES,
    *rewrite_resize.REWRITES,
    *rewrite_recurrent.REWRITES,
    *rewrite_quantized.REWRITES,
    *rewrite_rnnpool.REWRITES,
)
REWRITE_BY_NAME = {rewrite.name: rewrite for rewrite in REWRITES}
DOMAINS = {rewrite.name: rewrite.domain for rewrite in REWRITES if rewrite.domain}  # of operators that ONNX lacks
# what the front end knows besides: bodies and branches are read where the language has them
CONTROL = {
    "If": "computed or constant condition; both branches are computed and one is chosen",
    "Loop": "static trip count",
}
