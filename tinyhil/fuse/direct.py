"""A copy of the model's input under another scale -> none: what reads its codes reads them where the input lies.

Files of TensorFlow Lite say how the codes of their input are to be taken; what moves or multiplies codes does not care.
"""

from __future__ import annotations

from dataclasses import replace

from tinyhil.fuse.rewriting import program_fusion
from tinyhil.language.program import Loop, Op, Program, Role, reads_of, walk
from tinyhil.ops import KERNEL_OF
from tinyhil.ops.scan import COPY


def _apply(program: Program) -> Program:
    copies = [item for item in program.body if isinstance(item, Op) and _is_copy_of_input(program, item)]
    for copy in copies:
        readers = [op for op in walk(program.body) if copy.output in op.inputs]
        if copy.output != program.output and all(_reads_codes(op, copy.output) for op in readers):
            program = _without(program, copy)
    return program


def _is_copy_of_input(program: Program, op: Op) -> bool:
    if op.kernel != COPY.form or op.inputs[0] != program.input:
        return False
    source, made = (program.tensors[name] for name in (program.input, op.output))
    writers = [other for other in walk(program.body) if other.output == op.output]
    in_loops = [name for loop in program.body if isinstance(loop, Loop) for name in reads_of((loop,))]
    same = source.count == made.count and source.format.c_type == made.format.c_type
    return same and made.role == Role.ARENA and len(writers) == 1 and op.output not in in_loops


def _reads_codes(op: Op, name: str) -> bool:
    codes = KERNEL_OF[op.kernel].codes
    return op.kernel != COPY.form and all(at in codes for at, other in enumerate(op.inputs) if other == name)


def _without(program: Program, copy: Op) -> Program:
    body = []
    for item in program.body:
        if item is copy:
            continue
        if isinstance(item, Op) and copy.output in item.inputs:
            item = replace(item, inputs=tuple(program.input if n == copy.output else n for n in item.inputs))
        body.append(item)
    tensors = {name: tensor for name, tensor in program.tensors.items() if name != copy.output}
    return replace(program, tensors=tensors, body=tuple(body))


DIRECT = program_fusion("direct", "the codes of the input read where they lie", _apply)
