"""What a new operator lacks is named when `tinyhil.ops` is imported, not when a model first needs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest

from tinyhil import ops
from tinyhil.formats.format import INTEGER
from tinyhil.language.form import Form
from tinyhil.language.kernel import Kernel
from tinyhil.ops import KERNELS, OPERATORS, curve
from tinyhil.ops.completeness import IncompleteOperator, require_complete
from tinyhil.ops.operator import Operator, by_domain

SOFTPLUS = next(operator for operator in OPERATORS if operator.name == "Softplus")
SOFTSIGN = replace(SOFTPLUS, name="Softsign")
KERNEL = replace(KERNELS[0], form=Form("softsign"))
Registries = tuple[dict[str, object], Sequence[Operator], Sequence[Kernel]]
LACKS: dict[str, tuple[Registries, str]] = {
    "a form in single precision": (({}, (*OPERATORS, SOFTSIGN), KERNELS), "FUNCTIONS of tinyhil/ops/real_functions.py"),
    "a line in OPERATORS": (({"OPERATORS": (SOFTSIGN,)}, OPERATORS, KERNELS), "'Softsign' of softsign.py is not among"),
    "a line in KERNELS": (({"SOFTSIGN": KERNEL}, OPERATORS, KERNELS), "kernel 'softsign' of softsign.py is not among"),
    "a domain": (
        ({}, (*OPERATORS, replace(SOFTSIGN, lower={INTEGER: SOFTPLUS.lower[INTEGER]})), KERNELS),
        "nothing that lowers it in the",
    ),
    "a name of its own": (({}, (*OPERATORS, SOFTPLUS), KERNELS), "operator 'Softplus' is defined 2 times"),
    "a kernel's own name": (({}, OPERATORS, (*KERNELS, KERNELS[0])), "is defined 2 times"),
}


@pytest.mark.parametrize("what", LACKS)
def test_what_is_missing_is_named(what: str) -> None:
    (module, operators, kernels), said = LACKS[what]
    written = cast(ModuleType, SimpleNamespace(__name__="softsign", **module))
    with pytest.raises(IncompleteOperator, match=said):
        require_complete([written], operators, kernels)


def test_what_there_is_is_complete() -> None:
    require_complete(ops._MODULES, OPERATORS, KERNELS)


def test_a_file_that_nobody_imports_is_named() -> None:
    """Its operators were in no registry, and nothing said so."""
    modules = [module for module in ops._MODULES if module is not curve]
    with pytest.raises(IncompleteOperator, match=r"tinyhil/ops/curve\.py is not imported by tinyhil/ops/__init__\.py"):
        require_complete(modules, OPERATORS, KERNELS)


def test_an_operator_of_its_own_integers_needs_no_function() -> None:
    """One kernel in all domains."""
    lower = SOFTPLUS.lower[INTEGER]
    require_complete(
        ops._MODULES, (*OPERATORS, replace(SOFTSIGN, lower=by_domain(lambda *given: lower(*given)))), KERNELS
    )
