"""What all tests share: the option to rewrite golden files, and reproducible property tests."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib
import importlib.util
import itertools
import os
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import direct_build
import in_memory
import pytest
from given_data import absent, folder_of, ships
from hypothesis import HealthCheck, settings
from sweeps import beside_the_diagonals
from together import Together
from xdist.remote import Producer

settings.register_profile(
    "tinyhil", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tinyhil")

# Flashing an emulated Uno takes 2.5 s, and most tests are not about it; those that are ask for it.
os.environ.setdefault("HIL_LOAD", "direct")
# Every pass of the compiler leaves what the next one may rely on.
os.environ["HIL_VERIFY"] = "1"
os.environ[direct_build.SWITCH] = direct_build.BARE  # compilers alone, without PlatformIO around them
os.environ["HIL_HEARTBEAT_S"] = "0"  # a busy machine must not add lines
# Of the workers and of what tests start: threads of BLAS that wait for one another keep the processor busy (Makefile).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# As containers have it: every process of ours would compile all that it imports, which is half of what it takes.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    bytecode = Path(__file__).resolve().parent.parent / ".pytest_cache" / "bytecode"
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(bytecode))

GOLDEN = Path(__file__).resolve().parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden/ from what is generated now")
    parser.addoption("--a-tenth", metavar="COMMIT", help="of the chosen tests a tenth, drawn by the commit's hash")
    parser.addoption(
        "--at-most-s", type=float, metavar="S", help="tests that would begin later are skipped, and said so"
    )
    parser.addoption("--at-most-lacking", type=int, metavar="N", help="the run fails if more tests lack their data")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    lines = Path(__file__).with_name("slow.txt").read_text().splitlines()
    slow = tuple(line for line in lines if not line.startswith("#"))
    for item in items:
        if item.nodeid.rpartition("tests/")[2].startswith(slow):
            item.add_marker(pytest.mark.slow)
        names = data_of(item)
        if not ships(*names):
            item.add_marker(pytest.mark.unshipped)
            missing = absent(*names)
            if missing:
                item.add_marker(pytest.mark.skip(reason=f"HIL_DATA has no {missing[0]}"))
    for item in beside_the_diagonals(item for item in items if not item.get_closest_marker("slow")):
        item.add_marker(pytest.mark.slow)
    chosen, drawn_by = list(items), config.getoption("--a-tenth")
    if drawn_by:
        ranks = {item: hashlib.sha256(f"{drawn_by} {item.nodeid}".encode()).digest() for item in items}
        chosen = sorted((item for item in items if ranks[item][0] % 10 == 0), key=lambda item: ranks[item])
        config.hook.pytest_deselected(items=[item for item in items if ranks[item][0] % 10])
    items[:] = chosen


STARTED_S = time.monotonic()


def pytest_runtest_setup(item: pytest.Item) -> None:
    at_most_s = item.config.getoption("--at-most-s")
    if at_most_s is not None and time.monotonic() - STARTED_S > at_most_s:
        pytest.skip(f"not begun: {at_most_s:g} s are used up")


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """What skips proves nothing: without data, as on a stranger's machine, no more must skip than CI says."""
    at_most, worker = session.config.getoption("--at-most-lacking"), hasattr(session.config, "workerinput")
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter and not worker else []
    lacking = sum("HIL_DATA has no" in str(report.longrepr) for report in skipped)
    if reporter and at_most is not None and lacking > at_most:
        reporter.write_line(f"\n{lacking} tests lack data, at most {at_most} may: it is shipped, or they go")
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
    if reporter and not worker and session.testsfailed:
        reporter.write_line(f"\nwhat the tests have written: {in_memory.keep()}")
    return (yield)


def data_of(item: pytest.Item) -> list[str]:
    """The files that a test says it reads (given_data.py)."""
    return [name for mark in item.iter_markers("data") for name in mark.args]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """HIL_DATA is there for those that ask for data, PlatformIO builds for those that ask for it, fixtures included."""
    if names := data_of(item):
        os.environ["HIL_DATA"] = str(folder_of(*names))
    os.environ[direct_build.SWITCH] = "" if item.get_closest_marker("platformio") else direct_build.BARE
    try:
        return (yield)
    finally:
        os.environ.pop("HIL_DATA", None)


def pytest_collection(session: pytest.Session) -> None:
    """Of a new checkout's 370 files every second worker begins with the last: each is compiled by one of two."""
    worker = getattr(session.config, "workerinput", {"workerid": "gw0"})["workerid"]
    if int(worker.removeprefix("gw")) % 2 and not session.config.option.file_or_dir:
        for path in sorted(Path(__file__).parent.glob("test_*.py"), reverse=True):
            with contextlib.suppress(Exception, pytest.skip.Exception):  # collecting says so
                importlib.import_module(path.stem)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Together | None:
    """Some files are one to `--dist loadfile`."""
    return Together(config, log) if config.getoption("dist") == "loadfile" else None


gc.set_threshold(100_000, 20, 100)  # collecting 9,000 tests takes 6.7 s of processor instead of 10.9


def pytest_collection_finish() -> None:
    gc.freeze()  # what is there now stays: thousands of tests, and the modules


@pytest.fixture(scope="session")
def state_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders for what `hil` remembers of boards."""
    folder = tmp_path_factory.mktemp("state")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def _no_memory_of_boards(state_folders: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Pseudo terminals are named again and again: what one test's board did must not be held against the next one's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(next(state_folders)))


@pytest.fixture
def pytorch() -> None:
    """For slow tests that learn: PyTorch and the learners they are compared with."""
    if not all(map(importlib.util.find_spec, ("torch", "stable_baselines3"))):
        pytest.skip("needs the extra `slow`, which make test-slow installs")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(request.config.getoption("--update-golden"))


class Golden:
    """Compares texts with the files under tests/golden/."""

    def __init__(self, update: bool) -> None:
        self._update = update

    def check(self, name: str, text: str) -> None:
        path = GOLDEN / name
        if self._update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.is_file(), f"{path.name} is missing: pytest --update-golden"
        assert text == path.read_text(), f"{path.name} differs: read the change, then pytest --update-golden"
