"""Operations that the batch engine leaves to numpy: called from its threads with the tensors of one block."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinyhil.language.arithmetic import load
from tinyhil.language.program import Op, Program, Role
from tinyhil.ops import KERNEL_OF
from tinyhil.search.engine.numbers import BATCH, NUMBERS, codes_of, kind_of, numbers_of


class ByNumpy:
    """What the engine calls: the number of an operation, where the tensors are, each sample's saturations so far.

    An exception can not leave such a call: `check` raises it afterwards.
    """

    def __init__(self, program: Program, ops: Sequence[Op]) -> None:
        self._program, self._ops = program, ops
        self._numbers = {name: index for index, name in enumerate(program.tensors)}
        self._failure: Exception | None = None

    def __call__(self, number: int, tensors: Any, counts: Any) -> None:
        try:
            self._execute(self._ops[number], tensors, np.ctypeslib.as_array(counts, (BATCH,)))
        except Exception as error:
            self._failure = error

    def check(self) -> None:
        """Raise what numpy raised while C++ had called it."""
        if self._failure is not None:
            raise self._failure

    def _execute(self, op: Op, tensors: Any, counts: np.ndarray) -> None:
        kernel, out = KERNEL_OF[op.kernel], self._program.tensors[op.output].format
        operands = [self._operand(op, index, tensors) for index in range(len(op.inputs))]
        with np.errstate(all="ignore"):
            codes, clipped = kernel.execute(op, operands, out)
        made = self._batch(op.output, tensors)
        made[:] = numbers_of(np.broadcast_to(codes, made.T.shape), out).T
        counts += clipped.sum(axis=1).astype(np.int32)

    def _operand(self, op: Op, index: int, tensors: Any) -> np.ndarray:
        name = op.inputs[index]
        tensor = self._program.tensors[name]
        if name in self._program.constants:
            codes = self._program.constants[name][None]
        else:
            codes = codes_of(self._batch(name, tensors).T.astype(np.float64), tensor.format)
        if tensor.role == Role.TABLE or index in KERNEL_OF[op.kernel].codes:
            return codes
        return load(codes, tensor.format, op.domain)

    def _batch(self, name: str, tensors: Any) -> np.ndarray:
        """(elements, BATCH) of a tensor in the engine's memory."""
        tensor = self._program.tensors[name]
        dtype = np.dtype(NUMBERS[kind_of(tensor.format)])
        size = tensor.count * BATCH * dtype.itemsize
        memory = (ctypes.c_char * size).from_address(tensors[self._numbers[name]])
        return np.frombuffer(memoryview(memory), dtype).reshape(tensor.count, BATCH)
