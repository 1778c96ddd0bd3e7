"""Operators and kernels, one file per family; the tuples below are the registry."""

from __future__ import annotations

from tinyhil.ops import (
    activation,
    conv,
    elementwise,
    linear,
    movement,
    norm,
    piecewise,
    pool,
    rows,
    reduce,
    scan,
    shape,
    softmax,
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
)
LOOPS: tuple[scan.LoopOperator, ...] = (scan.SCAN,)
KERNELS: tuple[Kernel, ...] = (
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
    *rows.KERNELS,
)

OPERATOR_BY_NAME = {operator.name: operator for operator in OPERATORS}
LOOP_BY_NAME = {loop.name: loop for loop in LOOPS}
KERNEL_BY_NAME = {kernel.name: kernel for kernel in KERNELS}
