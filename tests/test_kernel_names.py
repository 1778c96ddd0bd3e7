"""A kernel is asked for its features: nobody but codegen/kernel_calls.py knows what they are called together.

What is asked of a name is a field of `Form` that is missing; a literal is a `Kernel` of tinyhil/ops/ not imported.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

import pytest
from sources import nodes
from test_layers import FILES, ROOT, imports

from tinyhil.codegen.kernel_calls import name_of, template_of
from tinyhil.language.form import Arithmetic, Form, Joined, Limit, Weights
from tinyhil.ops import KERNEL_OF, KERNELS

MADE_IN = ("tinyhil/ops/", "tinyhil/language/form.py", "codegen/kernel_calls.py")
SEES_KERNELS = (
    "tinyhil.language.program",
    "tinyhil.language.form",
    "tinyhil.language.kernel",
    "tinyhil.ops",
    "tinyhil.references.reference",
)
OTHERS = {  # words that mean something else there
    "harness/fit/features.py": {"dense"},  # a kind of layer that is priced
    "search/engine/library.py": {"log"},  # where values are logged
    "tinyhil/frontend/dsl_writer.py": {"exp", "relu", "sigmoid", "tanh"},  # functions of its language
    "tinyhil/frontend/functions.py": {"exp", "relu", "sigmoid", "tanh"},
    "tinyhil/frontend/rewrite_arithmetic.py": {"reciprocal"},  # a tensor's name
    "tinyhil/fuse/clamp.py": {"clamp"},  # the fusion
    "tools/format_plots.py": {"log"},  # an axis
}
PARAMS = {name for kernel in KERNELS for name in (*kernel.params, *(kernel.struct[1] if kernel.struct else ()))}
NAMES = {word for kernel in KERNELS for word in (name_of(kernel.form), kernel.form.base)} - PARAMS
ASKED, FORMS_OF = ("kernel", "form", "base"), ("whole", "bare", "on_codes")
OF_TEXT = set(dir(str)) - set(dir(object)) - {"count", "index"}


def faults(nodes: Iterable[ast.AST], others: Collection[str] = ()) -> Iterator[str]:
    """Names of kernels as literals, and what is done with a name or a field as with text."""
    for item in nodes:
        if isinstance(item, ast.Constant) and isinstance(item.value, str) and item.value in NAMES - set(others):
            yield f"{item.lineno}: the literal {item.value!r}"
        if isinstance(item, ast.Attribute) and item.attr in OF_TEXT and is_asked(item.value):
            yield f"{item.lineno}: .{item.attr} of {ast.unparse(item.value)}"
        if isinstance(item, ast.Compare):
            sides = (item.left, *item.comparators)
            literal = any(
                isinstance(one, ast.Constant) and isinstance(one.value, str) for s in sides for one in parts(s)
            )
            if literal and any(is_asked(side) for side in sides):
                yield f"{item.lineno}: {ast.unparse(item)}"
        if isinstance(item, ast.Subscript) or (isinstance(item, ast.BinOp) and isinstance(item.op, ast.Add)):
            sides = (item.left, item.right) if isinstance(item, ast.BinOp) else (item.value,)
            if any(is_asked(side) for side in sides):
                yield f"{item.lineno}: {ast.unparse(item)}"


def parts(side: ast.expr) -> list[ast.expr]:
    """The elements of a tuple, a list or a set; the expression else."""
    return side.elts if isinstance(side, (ast.Tuple, ast.List, ast.Set)) else [side]


def is_asked(value: ast.expr) -> bool:
    """Whether an expression is a kernel's form, its base or its name."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return (
            value.func.id in ("name_of", "str")
            and bool(value.args)
            and (value.func.id != "str" or is_asked(value.args[0]))
        )
    if not isinstance(value, ast.Attribute):
        return False
    return value.attr in ASKED or (value.attr in FORMS_OF and is_asked(value.value))


def test_nobody_asks_a_name() -> None:
    found = dict[str, list[str]]()
    for path in FILES:
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(MADE_IN) and any(module.startswith(SEES_KERNELS) for module in imports(path)):
            found[name] = list(faults(nodes(path), OTHERS.get(name, ())))
    assert len(found) > 100
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "line",
    [
        'kernel = op.kernel.replace("affine", "rescaled")',
        'is_conv = op.kernel.base.startswith(CONV.form.base)',
        'base = name_of(op.kernel).removesuffix("_rows")',
        'LAYERS = ("dense", "dense_bias")',
        'makes = op.kernel in ("what", "ever")',
        'is_pair = "pair" in op.kernel.base',
        'kernel = kernel.form + suffix',
        'last = str(op.kernel)[-4:]',
        'kernel = TO + op.kernel.base',
    ],
)  # fmt: skip
def test_the_rule_has_teeth(line: str) -> None:
    assert list(faults(ast.walk(ast.parse(line))))


def test_one_name_for_one_kernel() -> None:
    assert len({name_of(form) for form in KERNEL_OF}) == len(KERNEL_OF) == len(KERNELS)


@pytest.mark.parametrize(
    ("form", "name", "template"),
    [
        (Form("dense", bias=True, joined=Joined.SUM, limit=Limit.CLIP), "dense_bias_sum_clip", "dense_bias_sum"),
        (
            Form("conv", Arithmetic.CODED_CHANNELS, limit=Limit.RELU, rows=True),
            "conv_channels_coded_relu_rows",
            "conv_channels_rows",
        ),
        (
            Form("dense", weights=Weights.LISTS, bias=True, limit=Limit.RELU),
            "sparse_dense_bias_relu",
            "sparse_dense_bias",
        ),
        (Form("softmax", Arithmetic.SINGLE), "single_softmax", "single_softmax"),
        (Form("dense", Arithmetic.FACTORED, joined=Joined.PAIR), "dense_factored_pair", "dense_factored_pair"),
        (Form("max_pool", Arithmetic.CODES, rows=True), "max_pool_codes_rows", "max_pool_codes_rows"),
    ],
)
def test_names_are_made_of_features(form: Form, name: str, template: str) -> None:
    assert form in KERNEL_OF
    assert name_of(form) == name
    assert template_of(form) == f"hil::{template}"
