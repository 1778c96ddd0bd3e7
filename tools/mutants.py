"""Small changes to a module that its tests should notice, drawn at random from all that cosmic-ray knows."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass

# Changes of variables need a list of them; what replaces `is` differs only in what no sane program relies on.
LEFT_OUT = ("Variable", "_Is", "Is_", "IsNot_")
# What forbids, or saves time, and changes nothing where nothing is wrong.
GUARDS = {"strict", "frozen", "slots", "kw_only"}
GUARDING = {"abstractmethod", "cache", "lru_cache"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: the text of the whole module, the lines of the statement it is in, and how it reads."""

    text: str
    lines: range
    change: str


def mutants(source: str, count: int, seed: int) -> list[Mutant]:
    """At most `count` changes of `source`, drawn from all of them; those of annotations and guards alone are none."""
    from cosmic_ray.ast import get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    nodes, places = list(_nodes(get_ast(source))), list[tuple[str, int]]()
    for name in operator_names():
        if not any(part in name for part in LEFT_OUT):
            operator = get_operator(name)()
            count_of = sum(len(list(operator.mutation_positions(node))) for node in nodes)
            places += [(name, occurrence) for occurrence in range(count_of)]
    random.Random(seed).shuffle(places)
    plain, found = _meaning(source), list[Mutant]()
    for name, occurrence in places:
        text = mutate_code(source, get_operator(name)(), occurrence)
        if text is not None and _meaning(text) not in ("", plain):
            found.append(_mutant(source, text))
        if len(found) == count:
            break
    return found


def _nodes(node: object) -> Iterator[object]:
    yield node
    for child in getattr(node, "children", ()):
        yield from _nodes(child)


def _meaning(source: str) -> str:
    """The syntax tree without annotations, which are never evaluated here, and guards; empty for what is no Python."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign | ast.arg):
            node.annotation = ast.Constant(None)
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
            node.decorator_list = [one for one in node.decorator_list if not _is_guard(one)]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and _is_alias(node.targets[0]):
            node.value = ast.Constant(None)
        elif isinstance(node, ast.Call):
            node.keywords = [one for one in node.keywords if one.arg not in GUARDS]
    return ast.dump(tree)


def _is_alias(target: ast.expr) -> bool:
    """Of a type."""
    return isinstance(target, ast.Name) and target.id[0].isupper() and not target.id.isupper()


def _is_guard(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Name) and called.id in GUARDING


def _mutant(source: str, text: str) -> Mutant:
    lines = zip(source.splitlines(), text.splitlines(), strict=False)
    number, old, new = next((n, a, b) for n, (a, b) in enumerate(lines, 1) if a != b)
    return Mutant(text, _statement_at(source, number), f"{old.strip()}  ->  {new.strip()}")


def _statement_at(source: str, line: int) -> range:
    """The lines of the innermost statement around one, without the body of a compound statement."""
    found = range(line, line + 1)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or line):
            body = getattr(node, "body", None)
            end = body[0].lineno if body else (node.end_lineno or line) + 1
            if line < end:
                found = range(node.lineno, max(end, node.lineno + 1))
    return found
