"""Gradients of Softmax and of its loss, as com.microsoft has them: what files that train a last layer are made of."""

from __future__ import annotations

import numpy as np

from tinyhil.frontend.rewrite import MICROSOFT, Results, Rewrite, Site


def _softmax_grad(site: Site) -> Results:
    """y (dy - sum(dy y)) along the axis, of dy and y."""
    dy, y = site.input(0), site.input(1)
    axis = site.axis(-1, len(site.shape(y)))
    axes = site.constant("axes", [axis], np.int64)
    total = site.make("ReduceSum", site.make("Mul", dy, y), axes, keepdims=1)
    return site.last("Mul", y, site.make("Sub", dy, total))


def _loss_grad(site: Site) -> Results:
    """(exp(log probabilities) - 1 at the label) / samples (mean) times the gradient of the loss, which PULP leaves
    out."""
    *given, scores, labels = [name for name in site.call.inputs if name]
    shape, reduction = site.shape(scores), site.attr("reduction", "mean")
    if len(given) > 1 or len(shape) != 2 or reduction not in ("mean", "sum"):
        what = f"{len(site.call.inputs)} operands of {list(shape)}, reduction {reduction}"
        raise site.refuse(what, "scores (samples, classes) without weights, mean or sum are supported")
    places = site.constant("classes", np.arange(shape[1])[None], np.int64)
    column = site.make("Reshape", labels, site.constant("column", [shape[0], 1], np.int64))
    wanted = site.make("Cast", site.make("Equal", column, places), to=1)
    difference = site.make("Sub", site.make("Exp", scores), wanted)
    share = site.constant("share", 1 / shape[0] if reduction == "mean" else 1.0)
    if not given:
        return site.last("Mul", difference, share)
    return site.last("Mul", site.make("Mul", difference, share), given[0])


REWRITES = (
    Rewrite("SoftmaxGrad", "as Mul, ReduceSum and Sub", _softmax_grad, ("axis",), MICROSOFT),
    Rewrite("SoftmaxCrossEntropyLossGrad", "as Exp and Sub; no weights", _loss_grad, ("reduction",), MICROSOFT),
)
