"""Mutation scores: how many of a sample of small changes to a module its tests notice (`make mutate`).

The tests of a group of modules are collected once and run once, to learn which of them reach which lines. Then each
mutant has a forked process that gives the changed function its new code and runs the tests that reach the change, the
quickest first, until one fails; no file is touched. What changes more than a function's body, or what happens while
modules are imported, is judged by a process that imports the changed module. A mutant counts as killed when a test
fails, nothing can be imported, or the tests take several times as long as without it.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pickle
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tools.mutants import Mutant, mutants

ROOT = Path(__file__).resolve().parent.parent
WARM = ("numpy", "pytest", "hypothesis", "onnx", "onnxruntime", "yaml", "pydantic", "click", "rich.console")
EQUIVALENT = ROOT / "tests" / "equivalent_mutants.txt"
LONGEST_S = 5.0  # tests that take longer judge no mutant
TOGETHER_S = 10.0  # nor do the slowest of those that reach it, beyond this sum
OPTIONS = ("-q", "-s", "-m", "not slow", "-p", "no:cacheprovider", "--assert=plain")


@dataclass(frozen=True, slots=True)
class Group:
    """Modules under a folder, the test files that judge them, that of golden texts first, and which tests of these are
    left out."""

    folder: str
    tests: tuple[str, ...]
    chosen: str = ""

    def modules(self) -> list[str]:
        return [
            f"{self.folder}/{path.name}" for path in sorted((ROOT / self.folder).glob("*.py")) if path.stat().st_size
        ]

    def arguments(self) -> list[str]:
        paths = [str(ROOT / "tests" / f"test_{test}.py") for test in self.tests]
        return [*paths, *(["-k", self.chosen] if self.chosen else [])]


GROUPS = (
    Group("tinyhil/formats", ("format_rules", "formats", "format_codecs", "format_functions", "format_seeds")),
    Group(
        "memplan",
        ("memplan_plans", "memplan", "memplan_mutants", "memplan_planners", "memplan_orders", "memplan_slots"),
    ),
    Group("harness/wire", ("stream_window", "partial", "deadline", "protocol"), "not framer and not uno"),
    *(
        Group(
            folder,
            (
                *("codegen_texts", "chains", "code_tables", "codegen", "constants", "export_kernels", "signs"),
                *("folded", "linear", "constant_channels", "rescalings", "hot_constants", "affine_layers"),
            ),
            "not uno and not host and not sanitizers and not natively and not boards and not transfer_gives"
            " and not same_ and not h747_reads",
        )
        for folder in ("tinyhil/passes", "codegen")
    ),
    Group(
        "memplan/arena",
        (
            *("arena_plans", "arena_parts", "arena", "collapse", "lag", "preference", "regions"),
            *("rows", "rows_shared", "rows_strips", "schedule_proof", "schedules", "views", "verify"),
        ),
        "not natively and not boards and not sanitizers",
    ),
)


@dataclass(frozen=True, slots=True)
class Reach:
    """Which tests reach a line of a module, and what each took in seconds of processor."""

    by_line: dict[int, frozenset[str]]
    seconds: dict[str, float]
    first: str = ""  # the file whose tests judge before all others, however long they take

    def tests(self, lines: Iterable[int]) -> list[str]:
        """Those that reach these lines, in the order in which they judge."""
        at = frozenset[str]().union(*(self.by_line.get(line, frozenset()) for line in lines))
        return self.quickest(at - {""})

    def quickest(self, tests: Iterable[str]) -> list[str]:
        ordered = sorted(tests, key=self.seconds.__getitem__)
        chosen = [test for test in ordered if test.startswith(self.first)] if self.first else []
        total = 0.0
        for test in (one for one in ordered if one not in chosen and self.seconds[one] < LONGEST_S):
            total += self.seconds[test]
            if total > TOGETHER_S:
                break
            chosen.append(test)
        return chosen

    def limit_s(self, tests: Sequence[str]) -> float:
        return 3 + 5 * sum(self.seconds[test] for test in tests)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one mutant: whether the tests that reach it pass; None where that takes importing it."""

    mutant: Mutant
    tests: list[str]
    limit_s: float
    alive: bool | None


# ---- processes

_LOUD = os.dup(2)  # stays what it is where all else is silent


def _say(text: str) -> None:
    os.write(_LOUD, f"{text}\n".encode())


def _answer(work: Callable[[], Any], limit_s: float = 3600.0) -> Any:
    """What `work` returns in a forked, silent process; None if it ended otherwise, or took longer."""
    with tempfile.TemporaryFile() as file:
        child = os.fork()
        if child == 0:
            try:
                os.setpgid(0, 0)
                resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s) + 1,) * 2)
                silent = os.open(os.devnull, os.O_RDWR)
                for stream in (0, 1, 2):
                    os.dup2(silent, stream)
                pickle.dump(work(), file)
                file.flush()
            except Exception:
                _say(traceback.format_exc())
            finally:
                os._exit(0)
        latest = time.monotonic() + 10 + 4 * limit_s
        while not os.waitpid(child, os.WNOHANG)[0]:
            if time.monotonic() > latest:
                os.killpg(child, signal.SIGKILL)
            time.sleep(0.005)
        file.seek(0)
        data = file.read()
    return pickle.loads(data) if data else None


# ---- where the module's text is changed


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


def name_of(module: str) -> str:
    name = module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return name if name.startswith("tinyhil.") else f"tinyhil.{name}"


def changed_functions(old: CodeType, new: CodeType) -> dict[CodeType, CodeType] | None:
    """The other code of functions outside functions, by the code they had; None if more than they changed."""
    if (old.co_code, old.co_names, len(old.co_consts)) != (new.co_code, new.co_names, len(new.co_consts)):
        return None
    found: dict[CodeType, CodeType] = {}
    for one, other in zip(old.co_consts, new.co_consts, strict=True):
        if one == other and type(one) is type(other):
            continue
        if not isinstance(one, CodeType) or not isinstance(other, CodeType) or one.co_freevars != other.co_freevars:
            return None
        if one.co_flags & 1:  # CO_OPTIMIZED: a function, no body of a class
            found[one] = other
            continue
        within = changed_functions(one, other)
        if within is None:
            return None
        found |= within
    return found


def functions_of(code: CodeType) -> list[CodeType]:
    """Functions outside functions."""
    nested = [one for one in code.co_consts if isinstance(one, CodeType)]
    return [one for part in nested for one in ([part] if part.co_flags & 1 else functions_of(part))]


def lines_of(code: CodeType) -> set[int]:
    """Lines of a function's own body behind its first: the first one is carried out where the function is defined."""
    return {line for _, _, line in code.co_lines() if line is not None and line > code.co_firstlineno}


class _Judge:
    """A plugin of pytest that runs what was collected once for its reach, and in part for every mutant."""

    def __init__(self, first: str, modules: Sequence[str], count: int, seed: int) -> None:
        import coverage

        self._first, self._modules, self._count, self._seed = first, modules, count, seed
        self._sources = {module: (ROOT / module).read_text() for module in modules}
        self._paths = {module: str(ROOT / module) for module in modules}
        self._coverage = coverage.Coverage(
            data_file=None, include=[str(ROOT / one) for one in modules], config_file=False
        )
        self._coverage.start()

    def pytest_runtestloop(self, session: Any) -> bool:
        import gc

        assert not session.testsfailed, "nothing can be collected"
        reach = _answer(lambda: self._measure(session))
        self._coverage.stop()
        if isinstance(reach, str) or reach is None:
            _say(f"without any change: {reach}")
            os._exit(1)
        gc.unfreeze()  # what the tests have frozen would not be seen
        seen, paths = gc.get_objects(), set(self._paths.values())
        self._functions = [one for one in seen if isinstance(one, FunctionType) and one.__code__.co_filename in paths]
        assert self._functions, "no function of these modules can be changed"
        self._caches = [one for one in seen if hasattr(type(one), "cache_clear")]
        self._seconds = next(iter(reach.values())).seconds
        self._items = {item.nodeid: item for item in session.items}
        gc.freeze()  # forks share what nobody looks at
        self.verdicts = {module: self._judged(session, module, reach[module]) for module in self._modules}
        return True

    def _measure(self, session: Any) -> dict[str, Reach] | str:
        seconds: dict[str, float] = {}
        for number, item in enumerate(session.items, 1):
            self._coverage.switch_context(item.nodeid)
            before = os.times()
            item.ihook.pytest_runtest_protocol(
                item=item, nextitem=session.items[number] if session.items[number:] else None
            )
            if session.testsfailed:
                return f"{item.nodeid} fails"
            seconds[item.nodeid] = sum(os.times()[:4]) - sum(before[:4])
        self._coverage.stop()
        data = self._coverage.get_data()
        by_line = {module: data.contexts_by_lineno(str(ROOT / module)) for module in self._modules}
        return {
            module: Reach({line: frozenset(tests) for line, tests in lines.items()}, seconds, self._first)
            for module, lines in by_line.items()
        }

    def _judged(self, session: Any, module: str, reach: Reach) -> list[Verdict]:
        source, found = self._sources[module], list[Verdict]()
        path = self._paths[module]
        plain = compile(source, path, "exec", dont_inherit=True)
        every = reach.tests(reach.by_line) or reach.quickest(reach.seconds)
        reached, same = every[:10], {code: code for code in functions_of(plain)}
        if not _answer(lambda: self._survives(session, path, same, reached), 10 + reach.limit_s(reached)):
            _say(f"{module}: tests fail where nothing is changed: {' '.join(reached)}")
            return []
        for mutant in mutants(source, self._count, self._seed):
            changed = changed_functions(plain, compile(mutant.text, path, "exec", dont_inherit=True))
            lines = {*mutant.lines, *(line for code in changed or () for line in lines_of(code))}  # closures of imports
            imported = changed is None or any("" in reach.by_line.get(line, ()) for line in lines)
            tests = every if imported else reach.tests(mutant.lines)
            limit_s = reach.limit_s(tests)
            alive: bool | None = True
            if changed and tests:
                alive = bool(_answer(partial(self._survives, session, path, changed, tests), limit_s))
            found.append(Verdict(mutant, tests, limit_s, None if imported and alive else alive))
            if found[-1].alive is not False:
                _say(f"  {module} {mutant.lines.start}: {mutant.change} may live; {len(tests)} tests reach it")
        living = sum(one.alive is True for one in found), sum(one.alive is None for one in found)
        _say(f"  {module}: {living[0]} of {len(found)} live, {living[1]} are to be imported")
        return found

    def _survives(self, session: Any, path: str, changed: dict[CodeType, CodeType], tests: Sequence[str]) -> bool:
        for cache in self._caches:
            cache.cache_clear()
        for function in self._functions:
            code = function.__code__
            if code.co_filename == path and code in changed:
                function.__code__ = changed[code]
        items = [self._items[test] for test in tests]
        for number, item in enumerate(items, 1):
            signal.setitimer(signal.ITIMER_PROF, 1 + 5 * self._seconds[item.nodeid])  # what hangs ends here
            item.ihook.pytest_runtest_protocol(item=item, nextitem=items[number] if items[number:] else None)
            if session.testsfailed:
                return False
        return True


def judged_by_patches(group: Group, modules: Sequence[str], count: int, seed: int) -> dict[str, list[Verdict]]:
    """Verdicts per module."""
    import pytest

    judge = _Judge(f"tests/test_{group.tests[0]}.py", modules, count, seed)
    with tempfile.TemporaryDirectory() as folder:
        pytest.main([*OPTIONS, f"--basetemp={folder}/t", *group.arguments()], plugins=[judge])
    return judge.verdicts


def survives_import(module: str, mutant: Mutant, tests: Sequence[str]) -> bool:
    """Whether `tests` pass in a process that imports the mutant in its module's place."""
    import pytest

    sys.meta_path.insert(0, _Mutated(name_of(module), ROOT / module, mutant.text))
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(ROOT / test) for test in tests]
        return int(pytest.main([*OPTIONS, "-x", f"--basetemp={folder}/t", *paths])) == 0


def main() -> None:
    """Print a score per module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="files, or the folder of a group (all)")
    parser.add_argument("--sample", type=int, default=20, help="mutants of each module (20)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT)]
    for name in WARM:
        importlib.import_module(name)
    for group in GROUPS:
        wanted = options.modules
        modules = [one for one in group.modules() if not wanted or one in wanted or group.folder in wanted]
        if modules:
            _print_scores(group, modules, options.sample, options.seed)


def _print_scores(group: Group, modules: Sequence[str], count: int, seed: int) -> None:
    equivalent = {line.rpartition("  # ")[0] for line in EQUIVALENT.read_text().splitlines()}
    verdicts = _answer(lambda: judged_by_patches(group, modules, count, seed), 14400.0)
    if verdicts is None:
        raise SystemExit(f"{group.folder}: its tests fail without any change")
    for module, judged in verdicts.items():
        alive, same = list[str](), 0
        for one in judged:
            alone = partial(survives_import, module, one.mutant, one.tests)
            if one.alive or (one.alive is None and _answer(alone, 10 + one.limit_s)):
                same += f"{module}: {one.mutant.change}" in equivalent
                alive += [f"  {one.mutant.lines.start}: {one.mutant.change}  [{len(one.tests)} tests]"]
        counted = len(judged) - same
        killed = len(judged) - len(alive)
        part = f"{100 * killed / counted:.0f} %" if counted else "nothing to change"
        print(f"| `{module}` | {len(judged)} | {killed} | {same} | {part}", *alive, sep="\n", flush=True)


if __name__ == "__main__":
    main()
