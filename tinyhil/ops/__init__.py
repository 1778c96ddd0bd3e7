"""Operators and kernels, one file per family; the tuples below are the registry."""

from __future__ import annotations

from tinyhil.ops import (
    activation,
    affine,
    batched,
    channels,
    compare,
    conv,
    curve,
    distance,
    division,
    elementwise,
    exponential,
    gathered,
    index,
    linear,
    movement,
    norm,
    normalize,
    piecewise,
    pool,
    reduce,
    repeat,
    residual,
    rows,
    scan,
    shape,
    single,
    slope,
    softmax,
    sparse,
    upsample,
)
from tinyhil.ops.operator import Kernel, Operator

OPERATORS: tuple[Operator, ...] = (
    *linear.OPERATORS,
    *elementwise.OPERATORS,
    *activation.OPERATORS,
    *shape.OPERATORS,
    *conv.OPERATORS,
    *pool.OPERATORS,
    *movement.OPERATORS,
    *softmax.OPERATORS,
    *piecewise.OPERATORS,
    *reduce.OPERATORS,
    *norm.OPERATORS,
    *exponential.OPERATORS,
    *division.OPERATORS,
    *compare.OPERATORS,
    *index.OPERATORS,
    *curve.OPERATORS,
    *normalize.OPERATORS,
    *upsample.OPERATORS,
    *batched.OPERATORS,
    *slope.OPERATORS,
    *distance.OPERATORS,
    *gathered.OPERATORS,
    *residual.OPERATORS,
)
LOOPS: tuple[scan.LoopOperator, ...] = (scan.SCAN, repeat.REPEAT)
KERNELS: tuple[Kernel, ...] = (
    *single.KERNELS,
    *affine.KERNELS,
    *channels.KERNELS,
    *linear.KERNELS,
    *elementwise.KERNELS,
    *activation.KERNELS,
    *scan.KERNELS,
    *conv.KERNELS,
    *pool.KERNELS,
    *movement.KERNELS,
    *softmax.KERNELS,
    *piecewise.KERNELS,
    *reduce.KERNELS,
    *exponential.KERNELS,
    *division.KERNELS,
    *compare.KERNELS,
    *index.KERNELS,
    *curve.KERNELS,
    *normalize.KERNELS,
    *upsample.KERNELS,
    *batched.KERNELS,
    *slope.KERNELS,
    *distance.KERNELS,
    *sparse.KERNELS,
    *gathered.KERNELS,
    *residual.KERNELS,
    *rows.KERNELS,
)

OPERATOR_BY_NAME = {operator.name: operator for operator in OPERATORS}
LOOP_BY_NAME = {loop.name: loop for loop in LOOPS}
SINGLE_LOWER = single.LOWER
AFFINE_LOWER = affine.LOWER
KERNEL_BY_NAME = {kernel.name: kernel for kernel in KERNELS}
