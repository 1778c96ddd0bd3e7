"""Program -> the program for one kind of chip: tables, kernels and orders of weights as its core gains from them.

Passes between lowering and planning. No output changes. Of weights in blocks the constants stay in the order of their
kernels, for the reference; `Tensor.blocks` says how they lie in flash (tinyhil/passes/variants.py has the orders), and
the scratch of a convolution becomes what its blocks need. What a chip has no blocks for stays.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tinyhil.compiler_pass import Pass, Stage, fold
from tinyhil.language.form import Arithmetic, Joined
from tinyhil.language.program import Op, Program, Tensor, walk
from tinyhil.ops import linear
from tinyhil.passes.affine_layers import bias_of_pair, bias_of_rows, records_of_rows, sums_are_below
from tinyhil.passes.binary_layers import with_signs
from tinyhil.passes.code_tables import with_tables
from tinyhil.passes.constant_channels import without_constant_channels
from tinyhil.passes.decided import with_decisions
from tinyhil.passes.folded import folded
from tinyhil.passes.joint_functions import with_joint_functions
from tinyhil.passes.lanes import near_records
from tinyhil.passes.layout import with_input_as_it_is
from tinyhil.passes.linear_channels import with_linear_channels
from tinyhil.passes.linear_sums import with_linear_forms
from tinyhil.passes.many_rows import with_patches
from tinyhil.passes.matrices import with_matrices
from tinyhil.passes.nibbles import with_nibbles
from tinyhil.passes.ranges import without_needless_clipping
from tinyhil.passes.rescalings import LARGEST_SUM, with_records
from tinyhil.passes.softmax_tables import with_softmax_tables
from tinyhil.passes.streams import with_streams
from tinyhil.passes.variants import (
    AVR,
    CORES,
    DSP,
    ROWS_OF_AVR,
    WORD,
    Layer,
    blocks_of,
    can_be_paired,
    is_rescaled,
    left_out,
    variant_of,
)
from tinyhil.references.verify import faults_of_handed_on


def arrange(program: Program, core: str, without: Collection[str] = ()) -> Program:
    """`program` as it is stored and planned on a chip with this core; the same object if nothing changes. `without`:
    names of passes to leave out."""
    return fold(ON_CORE, program, core, without=without) if core in CORES else program


def _for_avr(program: Program, core: str) -> Program:
    return with_streams(program) if core in AVR else program


def _in_blocks(program: Program, core: str) -> Program:
    """Weights as the core's kernels read them, and what these need beside them. On ARM asymmetric layers that have
    blocks get records first, for there are no blocks of others."""
    if core not in AVR:
        program = with_records(program, core in DSP, lambda op: _has_blocks(program, op, core))
    tensors = dict(program.tensors)
    for op in walk(program.body):
        tensors |= _tensors_of(program, op, core)
    if tensors == program.tensors:
        return program
    made = replace(program, tensors=tensors)
    return with_patches(made) if core in DSP else made


def _has_blocks(program: Program, op: Op, core: str) -> bool:
    return bool(_pair(program, op, core) if _is_pair(op) else variant_of(Layer(program, op), core))


def _tensors_of(program: Program, op: Op, core: str) -> dict[str, Tensor]:
    """Those of an operation that the core has otherwise."""
    if _is_pair(op):
        return _pair(program, op, core)
    layer = Layer(program, op)
    row = variant_of(layer, core)
    if row is None or (op.kernel.arithmetic is Arithmetic.AFFINE and not _affine_fits(layer, core)):
        return {}
    blocks = blocks_of(layer, row)
    made = {op.inputs[0]: replace(program.tensors[op.inputs[0]], blocks=blocks)}
    if is_rescaled(layer):
        stored_as = near_records if blocks.lanes else bias_of_rows if core in AVR else records_of_rows
        stored = stored_as(program, op, blocks)
        made[op.inputs[2]] = replace(program.tensors[op.inputs[2]], stored=stored)
    if op.scratch and row.scratch is not None:
        need = row.scratch(layer)
        words, row_words = (-(-count // WORD.storage_bytes) for count in (need.size, need.of_a_row))
        made[op.scratch] = replace(program.tensors[op.scratch], count=words, row_count=row_words, format=WORD)
    return made


def _affine_fits(layer: Layer, core: str) -> bool:
    """An AVR's blocks know asymmetric layers as they are, of small sums; others' only those with records."""
    return core in AVR and sums_are_below(layer.program, layer.op, LARGEST_SUM)


def _is_pair(op: Op) -> bool:
    return op.kernel.joined is Joined.PAIR


def _pair(program: Program, op: Op, core: str) -> dict[str, Tensor]:
    """The weights of both products of a pair, arranged alike; none if one of them can not be."""
    made, both = dict[str, Tensor](), True
    for at, inner in ((0, "inner"), (len(op.inputs) - 2, "more_inner")):
        inputs = op.inputs[at : at + 2]
        alone = replace(op, kernel=linear.DENSE.form, inputs=inputs, params={**op.params, "inner": op.params[inner]})
        layer = Layer(program, alone)
        row = variant_of(layer, core)
        if row is None or inputs[0] in made or row.order(layer).lanes:
            return {}
        skipped = left_out(layer, row) if core in AVR and not is_rescaled(layer) else None
        both = both and row.long_row > 0 and can_be_paired(Layer(program, replace(op, inputs=inputs)))
        made[inputs[0]] = replace(program.tensors[inputs[0]], blocks=replace(row.order(layer), left_out=skipped))
    if core in AVR and "zero" in op.params:
        stored = bias_of_pair(program, op, ROWS_OF_AVR)
        return made | {op.inputs[2]: replace(program.tensors[op.inputs[2]], stored=stored)}
    if both:
        made = {name: replace(t, blocks=replace(t.blocks, paired=True)) for name, t in made.items() if t.blocks}
    return made


SAME = "same integers"
LOWERED = Stage("lowered program, and a core", faults_of_handed_on)
ON_CORE: tuple[Pass[Program], ...] = (
    Pass(
        "constant-channels",
        "asymmetric channels that are always one code are left out",
        LOWERED,
        f"{SAME}; fewer channels, other biases",
        lambda program, _: without_constant_channels(program),
    ),
    Pass(
        "tables",
        "functions of 8-bit operands become tables of their codes",
        LOWERED,
        f"{SAME}; look-ups",
        lambda program, _: with_tables(program),
    ),
    Pass(
        "folds",
        "sums with constants and functions of functions become one table",
        LOWERED,
        f"{SAME}; fewer operations in loops",
        lambda program, _: folded(program),
    ),
    Pass(
        "joint-functions",
        "operations on functions of one byte, as GELU, become one table",
        LOWERED,
        f"{SAME}; one look-up",
        lambda program, _: with_joint_functions(program),
    ),
    Pass(
        "linear-sums",
        "functions of asymmetric sums with constants become linear forms",
        LOWERED,
        f"{SAME}, proven for every code; fewer operations in loops",
        lambda program, _: with_linear_forms(program),
    ),
    Pass(
        "linear-channels",
        "on Cortex-M, a product and a sum with constants of channels become one linear form",
        LOWERED,
        f"{SAME}, proven for every code and channel; one operation less",
        lambda program, core: program if core in AVR else with_linear_channels(program),
    ),
    Pass(
        "ranges",
        "results proven to be within their format are not clipped",
        LOWERED,
        SAME,
        lambda program, _: without_needless_clipping(program),
    ),
    Pass(
        "signs",
        "layers of signs and binary weights count differing bits",
        LOWERED,
        f"{SAME}; weights as bits, scratch for those of the operand",
        lambda program, core: with_signs(program, 8 if core in AVR else 32),
    ),
    Pass(
        "matrices",
        "on DSP cores, index lists that dense kernels outrun are matrices again",
        LOWERED,
        f"{SAME}; more flash",
        lambda program, core: with_matrices(program, core),
    ),
    Pass("streams", "on an AVR, sparse weights become one stream of bytes", LOWERED, SAME, _for_avr),
    Pass(
        "softmax-tables",
        "on Cortex-M, exponentials of bytes in fixed point become one table",
        LOWERED,
        f"{SAME}; look-ups",
        lambda program, core: program if core in AVR else with_softmax_tables(program),
    ),
    Pass(
        "decided",
        "on Cortex-M, products of computed matrices and softmax are decided by integers",
        LOWERED,
        f"{SAME}; scratch for some columns, tables of exponentials",
        lambda program, core: program if core in AVR else with_decisions(program, pairs=core in DSP),
    ),
    Pass(
        "nibbles",
        "on DSP cores, weights of 4 bits lie as their kernel unpacks them",
        LOWERED,
        f"{SAME}; constants in another order, scratch for sums of groups",
        lambda program, core: with_nibbles(program) if core in DSP else program,
    ),
    Pass(
        "blocks",
        "weights lie in flash as the core's kernels read them",
        LOWERED,
        f"{SAME}; constants in another order, scratch as blocks of sums need it",
        _in_blocks,
    ),
    Pass(
        "input",
        "a sample that comes with channels innermost is read as it is",
        LOWERED,
        f"{SAME}; one operation less",
        lambda program, _: with_input_as_it_is(program),
    ),
)
