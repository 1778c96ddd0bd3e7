"""The registry of rewrites."""

from __future__ import annotations

from tinyhil.frontend import (
    rewrite_arithmetic,
    rewrite_bits,
    rewrite_blocks,
    rewrite_boxes,
    rewrite_caches,
    rewrite_choices,
    rewrite_deform,
    rewrite_dynamic,
    rewrite_functions,
    rewrite_gradients,
    rewrite_grams,
    rewrite_linear,
    rewrite_masks,
    rewrite_optimized,
    rewrite_places,
    rewrite_planes,
    rewrite_pulp,
    rewrite_quantized,
    rewrite_recurrent,
    rewrite_reductions,
    rewrite_resize,
    rewrite_rnnpool,
    rewrite_scatter,
    rewrite_shapes,
    rewrite_windows,
)
from tinyhil.frontend.builder import Builder
from tinyhil.frontend.listing import Call
from tinyhil.frontend.rewrite import Results, Rewrite, Site, sensible

REWRITES: tuple[Rewrite, ...] = (
    *rewrite_arithmetic.REWRITES,
    *rewrite_functions.REWRITES,
    *rewrite_choices.REWRITES,
    *rewrite_caches.REWRITES,
    *rewrite_masks.REWRITES,
    *rewrite_reductions.REWRITES,
    *rewrite_shapes.REWRITES,
    *rewrite_resize.REWRITES,
    *rewrite_linear.REWRITES,
    *rewrite_places.REWRITES,
    *rewrite_bits.REWRITES,
    *rewrite_scatter.REWRITES,
    *rewrite_planes.REWRITES,
    *rewrite_deform.REWRITES,
    *rewrite_grams.REWRITES,
    *rewrite_boxes.REWRITES,
    *rewrite_windows.REWRITES,
    *rewrite_recurrent.REWRITES,
    *rewrite_quantized.REWRITES,
    *rewrite_dynamic.REWRITES,
    *rewrite_blocks.REWRITES,
    *rewrite_optimized.REWRITES,
    *rewrite_gradients.REWRITES,
    *rewrite_pulp.REWRITES,
    *rewrite_rnnpool.REWRITES,
)
REWRITE_BY_NAME = {rewrite.name: rewrite for rewrite in REWRITES}
DOMAINS = {rewrite.name: rewrite.domain for rewrite in REWRITES if rewrite.domain}  # of operators that ONNX lacks
# what the front end knows besides: bodies and branches are read where the language has them
CONTROL = {
    "If": "computed or constant condition; both branches are computed and one is chosen",
    "Loop": "static trip count",
}


def rewritten(builder: Builder, call: Call) -> Results:
    """Results of the calls that take the place of `call`; None if it stands for itself.

    ModelError for unknown attributes.
    """
    rewrite = REWRITE_BY_NAME.get(call.op)
    if rewrite is None:
        return None
    site = Site(builder, call)
    results = sensible(site, lambda: rewrite.apply(site))
    if results is not None:
        for attribute in call.attrs:
            if attribute not in rewrite.attributes:
                raise site.refuse(f"attribute '{attribute}' is not supported", "export without it")
    return results
