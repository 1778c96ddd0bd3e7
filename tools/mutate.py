"""Mutation scores: how many of a sample of small changes to a module its tests notice (`make mutate`).

The changes are cosmic-ray's; a forked process that has imported what tests need runs them on each, with changed text
in the module's place, so that no file is touched and a mutant costs little more than its tests. A mutant counts as
killed when a test fails, nothing can be imported, or the tests take several times as long as without it.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
WARM = ("numpy", "pytest", "hypothesis", "onnx", "onnxruntime", "yaml", "pydantic", "click", "rich.console")
# Changes of variables need a list of them; what replaces `is` differs only in what no sane program relies on.
LEFT_OUT = ("Variable", "_Is", "Is_", "IsNot_")
# Module -> its test files, and which of their tests are left out because they compile or run whole models.
TARGETS: dict[str, tuple[tuple[str, ...], str]] = {
    "memplan/bound.py": (("test_memplan.py", "test_memplan_mutants.py"), ""),
    "memplan/check.py": (("test_memplan.py", "test_memplan_mutants.py"), ""),
    "tinyhil/formats/fixed.py": (("test_formats.py",), ""),
    "tinyhil/formats/minifloat.py": (("test_formats.py", "test_format_codecs.py"), ""),
    "harness/wire/stream.py": (("test_stream.py", "test_stream_refusals.py"), "not damage and not 64_kib"),
    "codegen/chains.py": (("test_chains.py",), "not sanitizers and not uno"),
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: the operator of cosmic-ray, which of the places it applies to, and the text of the whole module."""

    operator: str
    occurrence: int
    text: str

    def difference(self, source: str) -> str:
        """The first line that is another one."""
        lines = zip(source.splitlines(), self.text.splitlines(), strict=False)
        number, old, new = next((n, a, b) for n, (a, b) in enumerate(lines, 1) if a != b)
        return f"{number}: {old.strip()}  ->  {new.strip()}"


class _Mutated(MetaPathFinder, SourceLoader):  # type: ignore[misc]
    """Imports one module from the text of a mutant."""

    def __init__(self, name: str, path: Path, text: str) -> None:
        self._name, self._path, self._text = name, path, text

    def find_spec(self, name: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        return spec_from_file_location(name, self._path, loader=self) if name == self._name else None

    def get_filename(self, fullname: str) -> str:
        return str(self._path)

    def get_data(self, path: str | bytes | os.PathLike[str]) -> bytes:
        return self._text.encode()


def mutants(source: str, count: int, seed: int) -> list[Mutant]:
    """At most `count` changes of `source`, drawn from all of them; those of annotations alone are none."""
    from cosmic_ray.ast import get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    root, places = get_ast(source), list[tuple[str, int]]()
    for name in operator_names():
        if not any(part in name for part in LEFT_OUT):
            operator = get_operator(name)()
            count_of = sum(len(list(operator.mutation_positions(node))) for node in _nodes(root))
            places += [(name, occurrence) for occurrence in range(count_of)]
    random.Random(seed).shuffle(places)
    plain, found = _meaning(source), list[Mutant]()
    for name, occurrence in places:
        text = mutate_code(source, get_operator(name)(), occurrence)
        if text is not None and _meaning(text) != plain:
            found.append(Mutant(name, occurrence, text))
        if len(found) == count:
            break
    return found


def _nodes(node: object) -> Iterator[object]:
    yield node
    for child in getattr(node, "children", ()):
        yield from _nodes(child)


def _meaning(source: str) -> str:
    """The syntax tree without annotations, which are never evaluated here; empty for what is no Python."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign | ast.arg):
            node.annotation = ast.Constant(None)
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
    return ast.dump(tree)


def survives(module: str, text: str, limit_s: float) -> bool:
    """Whether its tests pass with `text` in the place of `module`, within `limit_s` of processor."""
    child = os.fork()
    if child == 0:
        _run(module, text, limit_s)
    latest = time.monotonic() + 20 * limit_s
    while time.monotonic() < latest:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _run(module: str, text: str, limit_s: float) -> None:
    """In a process of its own, which ends with pytest's exit code."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s) + 1,) * 2)
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silent, stream)
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT)]
    name = module.removesuffix(".py").replace("/", ".")
    name = name if name.startswith("tinyhil.") else f"tinyhil.{name}"
    sys.meta_path.insert(0, _Mutated(name, ROOT / module, text))
    import pytest

    tests, chosen = TARGETS[module]
    paths = [*(str(ROOT / "tests" / test) for test in tests), *(["-k", chosen] if chosen else [])]
    try:
        # plain asserts: pytest would read modules of ours, too, to rewrite theirs
        options = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "--assert=plain"]
        code = int(pytest.main([*options, *paths]))
    except BaseException:
        code = 1
    os._exit(code)


def score(module: str, count: int, seed: int) -> tuple[int, int]:
    """How many of at most `count` mutants of `module` are killed, and how many there were; survivors are printed."""
    source = (ROOT / module).read_text()
    before = os.times()
    if not survives(module, source, 600.0):
        raise SystemExit(f"{module}: {' '.join(TARGETS[module][0])} fail without any change")
    spent = os.times()
    limit_s = 5 + 4 * (spent.children_user - before.children_user + spent.children_system - before.children_system)
    tried = mutants(source, count, seed)
    alive = 0
    for number, mutant in enumerate(tried, 1):
        if survives(module, mutant.text, limit_s):
            alive += 1
            print(f"  {number} survives: {mutant.difference(source)}", flush=True)
    return len(tried) - alive, len(tried)


def main() -> None:
    """Print a score per module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", default=list(TARGETS), choices=[*TARGETS, []], metavar="MODULE")
    parser.add_argument("--sample", type=int, default=40, help="mutants of each module (40)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for name in WARM:
        importlib.import_module(name)
    for module in options.modules or TARGETS:
        killed, tried = score(module, options.sample, options.seed)
        print(f"{module}: {killed} of {tried} killed, {100 * killed / tried:.0f} %", flush=True)


if __name__ == "__main__":
    main()
