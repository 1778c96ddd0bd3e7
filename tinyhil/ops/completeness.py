"""What a new operator or kernel must have besides its record: named as soon as `tinyhil.ops` is imported.

Registries are visible tuples, so what is forgotten in one of them would be found when some model first needs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

from tinyhil.formats.format import Domain
from tinyhil.language.kernel import Kernel
from tinyhil.ops.operator import Operator
from tinyhil.ops.real_functions import FUNCTIONS, RealFunction

INIT, REAL_FUNCTIONS = "tinyhil/ops/__init__.py", "tinyhil/ops/real_functions.py"


class IncompleteOperator(ImportError):
    """A defect of the sources: what is missing, and where it belongs."""


def require_complete(modules: Sequence[ModuleType], operators: Sequence[Operator], kernels: Sequence[Kernel]) -> None:
    """IncompleteOperator names everything that the `modules` of operators define and no registry has."""
    missing = [*_unimported(modules), *_unregistered(modules, operators, kernels), *_doubled(operators, kernels)]
    for operator in operators:
        missing += _missing(operator)
    if missing:
        raise IncompleteOperator("; ".join(dict.fromkeys(missing)))


def _unimported(modules: Sequence[ModuleType]) -> Iterator[str]:
    """Of files in this folder, whose operators nobody would miss."""
    known = {module.__name__.rpartition(".")[2] for module in modules} | {"__init__"}
    for name in sorted({path.stem for path in Path(__file__).parent.glob("*.py")} - known):
        yield f"tinyhil/ops/{name}.py is not imported by {INIT}, which lists its OPERATORS and KERNELS"


def _unregistered(
    modules: Sequence[ModuleType], operators: Sequence[Operator], kernels: Sequence[Kernel]
) -> Iterator[str]:
    known = {operator.name for operator in operators}, {kernel.form for kernel in kernels}
    for module in modules:
        where = module.__name__.replace(".", "/") + ".py"
        for item in _items(module):
            if isinstance(item, Operator) and item.name not in known[0]:
                yield f"operator '{item.name}' of {where} is not among the OPERATORS of {INIT}"
            if isinstance(item, Kernel) and item.form not in known[1]:
                yield f"kernel '{item.form}' of {where} is not among the KERNELS of {where}, or these not of {INIT}"


def _items(module: ModuleType) -> Iterator[object]:
    """What the names of a module stand for, tuples part by part."""
    for value in vars(module).values():
        yield from value if isinstance(value, tuple) else (value,)


def _doubled(operators: Sequence[Operator], kernels: Sequence[Kernel]) -> Iterator[str]:
    for what, names in (("operator", [o.name for o in operators]), ("kernel", [str(k.form) for k in kernels])):
        for name, count in Counter(names).items():
            if count > 1:
                yield f"{what} '{name}' is defined {count} times"


def _missing(operator: Operator) -> Iterator[str]:
    where = f"operator '{operator.name}'"
    if operator.is_view:
        return
    for domain in set(Domain) - set(operator.lower):
        yield f"{where} has nothing that lowers it in the {domain} domain; by_domain() gives one for each"
    computes = any(isinstance(lower, RealFunction) for lower in operator.lower.values())
    if computes and operator.name not in FUNCTIONS:
        yield (
            f"{where} is computed in single precision, of which FUNCTIONS of {REAL_FUNCTIONS} has no form: add its "
            "name, numpy function and parameters there, its kernel to firmware/kernels/common/single_ops.hpp, and the "
            "engine's to batch_functions.hpp and, in the same order, KERNELS of batch.cpp"
        )
