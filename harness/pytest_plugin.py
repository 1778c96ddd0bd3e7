"""pytest plugin: hold models to golden records on boards (docs/regression.md).

    pytest --board uno --board due

gives every test that takes the fixture `board` one run per board. Loaded through the entry point `pytest11` in every
pytest of the environment, so nothing of weight is imported before a test asks for a board.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tinyhil.harness.boards.locate import Place
    from tinyhil.harness.measure.golden import Bench, Order
    from tinyhil.harness.records.compare import Difference
    from tinyhil.harness.records.view import Record

PROPERTY = "hil"
NO_FIGURES = ("test", "emulator", "golden", "differences")
MARKERS = (
    "hil_boards(*names): run on these boards only",
    "hil_physical: run on attached boards only",
    "hil_emulated: run on emulated boards only",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the plugin."""
    group = parser.getgroup("hil", "boards")
    group.addoption("--board", action="append", default=[], metavar="NAME", help="board to test on, may be repeated")
    group.addoption(
        "--board-port", action="append", default=[], metavar="NAME=PORT", help="serial port of a board, may be repeated"
    )
    group.addoption(
        "--hil-samples", type=_at_least_one, default=None, metavar="N", help="only the first N samples of each model"
    )
    group.addoption(
        "--hil-resets", type=_at_least_one, default=3, metavar="N", help="boots of a physical board for its times"
    )
    group.addoption("--hil-update", action="store_true", help="write golden records instead of comparing with them")
    group.addoption("--hil-json", type=Path, default=None, metavar="PATH", help="write all results as JSON")
    group.addoption("--hil-summary", type=Path, default=None, metavar="PATH", help="write all results as Markdown")
    parser.addini("hil_boards", "boards to test on without --board", type="args", default=[])
    parser.addini("hil_golden", "folder of the golden records, relative to rootdir", default="golden")
    parser.addini("hil_boards_file", "boards and chips beside those known, relative to rootdir", default="")


def _at_least_one(text: str) -> int:
    """UsageError of pytest for what is no whole number of at least 1."""
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(text)


def pytest_configure(config: pytest.Config) -> None:
    """Markers of the plugin; refuses what is no NAME=PORT."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    ports(config)  # complains about what is no NAME=PORT
    for option, written in (("--hil-json", as_json), ("--hil-summary", as_summary)):
        path = config.getoption(option)
        if path is not None and not hasattr(config, "workerinput"):
            config.pluginmanager.register(ResultsFile(path, written), option)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `board` runs on each board asked for."""
    definitions = metafunc._arg2fixturedefs.get("board", ())
    if (
        not definitions or definitions[-1].func.__module__ != __name__
    ):  # parametrized or defined by the tests themselves
        return
    names = chosen_boards(metafunc.config)
    only = [name for marker in metafunc.definition.iter_markers("hil_boards") for name in marker.args]
    names = [name for name in names if not only or name in only]
    metafunc.parametrize("board", names or [None], ids=names or ["none"], indirect=True)


def _update(config: pytest.Config) -> str:
    """The command that writes golden records, of what was asked for: without its options others would be written."""
    return shlex.join(["pytest", *map(str, config.invocation_params.args), "--hil-update"])


def chosen_boards(config: pytest.Config) -> list[str]:
    """Those of --board, else those of the ini file, each once."""
    return list(dict.fromkeys(config.getoption("--board") or config.getini("hil_boards")))


def ports(config: pytest.Config) -> dict[str, str]:
    """Board -> port of the options --board-port. UsageError for what is no NAME=PORT."""
    pairs = [option.partition("=") for option in config.getoption("--board-port")]
    for name, _, port in pairs:
        if not name or not port:
            raise pytest.UsageError("--board-port takes NAME=PORT")
    return {name: port for name, _, port in pairs}


@pytest.fixture
def board(request: pytest.FixtureRequest) -> BoardUnderTest:
    """The board of this run of the test; skipped if none was chosen."""
    if request.param is None:
        pytest.skip("no board chosen for this test: pytest --board uno")
    found = BoardUnderTest(request.param, request.config, request.node)
    for marker, wanted in (("hil_physical", False), ("hil_emulated", True)):
        if request.node.get_closest_marker(marker) and found.is_emulated != wanted:
            pytest.skip(f"{found.name} is {'emulated' if found.is_emulated else 'physical'}")
    return found


@dataclass(frozen=True, slots=True)
class BoardUnderTest:
    """What a test does with a board. Failures are one line each, without a trace."""

    name: str
    config: pytest.Config
    node: pytest.Item

    @property
    def port(self) -> str | None:
        """Where the board is attached; None for an emulated one and for the host."""
        return self._place().port

    @property
    def is_emulated(self) -> bool:
        """No port was found or given."""
        return self.port is None

    def run(self, model: str | Path, **options: Any) -> Record:
        """The record of running `model`, which must not be invalid (docs/results.md).

        `options`: the fields of `Order`: format, assignment, inputs, and so on. Paths start at pytest's rootdir.
        """
        from tinyhil.harness.measure.golden import measure
        from tinyhil.harness.records.verdict import gate_line

        with _in_one_line():
            record = measure(self._order(model, options), self._bench(), self.config.getoption("--hil-samples"))
        self._report(record, None, [])
        if line := gate_line(record):
            pytest.fail(line, pytrace=False)
        return _viewed(record)

    def check(self, model: str | Path, **options: Any) -> Record:
        """As `run`, and nothing may differ from the model's golden record; --hil-update writes it."""
        from tinyhil.harness.measure.golden import check_or_update, describe, said_of

        order = self._order(model, options)
        with _in_one_line():
            found = check_or_update(
                order,
                self.config.rootpath / self.config.getini("hil_golden"),
                self._bench(),
                samples=self.config.getoption("--hil-samples"),
                resets=self.config.getoption("--hil-resets"),
                update=self.config.getoption("--hil-update"),
            )
        said = said_of(found)
        self._report(found.record, found.path, said)
        if self.config.getoption("--hil-update") and not found.differences:
            for line in said:
                warnings.warn(pytest.PytestWarning(f"{found.path}: written, but {line}"), stacklevel=2)
        if found.missing:
            pytest.fail(f"{found.path}: no golden record yet; write it: {_update(self.config)}", pytrace=False)
        failing = [difference for difference in found.differences if difference.fails]
        if failing:
            pytest.fail(describe(found, f"read the change; if it is meant: {_update(self.config)}"), pytrace=False)
        return _viewed(found.record)

    def firmware(self, image: str | Path, model: str | Path = "", **options: Any) -> Record:
        """The record of an image of somebody else's (docs/engines.md), of which nothing may differ from its golden one;
        --hil-update writes that. `options`: inputs, samples. Paths start at pytest's rootdir."""
        from tinyhil.harness.engines import regression
        from tinyhil.harness.engines.firmware_run import Bench
        from tinyhil.harness.job.job import Request

        root, own = self.config.rootpath, self._bench()
        path = root / image
        if options.get("inputs") is not None:
            options["inputs"] = root / options["inputs"]
        with _in_one_line():
            request = Request(self.name, str(model), port=own.port, **options)
            bench = Bench(own.boards, own.cache_dir, own.say, lambda done, total: None)
            record = regression.measure(path, request, bench)
            place = regression.path_of(record, path, root / self.config.getini("hil_golden"))
            if self.config.getoption("--hil-update"):
                regression.write(place, record)
            found = regression.differences(place, record) if place.is_file() else []
        self._report(record, place, found)
        if not place.is_file():
            pytest.fail(f"{place}: no golden record yet; write it: {_update(self.config)}", pytrace=False)
        if found:
            text = "\n".join(f"{place}: {line}" for line in found)
            pytest.fail(f"{text}\nread the change; if it is meant: {_update(self.config)}", pytrace=False)
        return _viewed(record)

    def _order(self, model: str | Path, options: Mapping[str, Any]) -> Order:
        from tinyhil.harness.measure.golden import Order
        from tinyhil.harness.settings.arguments import request

        paths = {key: os.fspath(value) if isinstance(value, os.PathLike) else value for key, value in options.items()}
        with _in_one_line():
            return request("hil", Order, {**paths, "board": self.name, "model": os.fspath(model)})

    def _bench(self) -> Bench:
        from tinyhil.harness.build.toolchain import default_cache_dir
        from tinyhil.harness.measure.golden import Bench
        from tinyhil.harness.settings.bench_file import default_bench
        from tinyhil.harness.settings.config import load_boards

        with _in_one_line():
            own = self.config.getini("hil_boards_file")
            boards = load_boards(self.config.rootpath / own if own else None, default_bench())
        port = ports(self.config).get(self.name)
        return Bench(boards, default_cache_dir(), lambda line: None, port, self.config.rootpath)

    def _place(self) -> Place:
        from tinyhil.harness.measure.golden import place_of

        with _in_one_line():
            return place_of(self.name, self._bench())

    def _report(self, record: Mapping[str, Any], golden: Path | None, differences: Sequence[Difference | str]) -> None:
        """For JUnit (a property of the test case) and for --hil-json; of firmware that is not ours its own words."""
        from tinyhil.harness.records.figures import at_worst

        result = {
            "test": self.node.nodeid,
            "board": record["board"],
            "emulator": record["emulator"],
            "model": record["model"],
            "format": record.get("format") or record.get("output") or "",
            "samples": record["samples"],
            "bit_exact": record.get("bit_exact"),
            "median": record["latency"]["median"],
            "unit": record["latency"]["unit"],
            "flash_bytes": record["flash_bytes"],
            "static_bytes": record["memory"].get("static_bytes"),
            "stack_bytes": record["memory"].get("stack_bytes"),
            "ram_bytes": record["memory"].get("total_bytes"),
            "ram_at_worst_bytes": at_worst(record["memory"]),
            "stack_limit_bytes": record["memory"].get("stack_limit_bytes"),
            "stack_limit_unknown": record["memory"].get("stack_limit_unknown"),
            "accuracy": record["accuracy"],
            "verdict": record.get("verdict"),
            "golden": golden.relative_to(self.config.rootpath).as_posix() if golden else None,
            "differences": [str(difference) for difference in differences],
        }
        self.node.user_properties.append((PROPERTY, json.dumps(result)))
        figures = {key: value for key, value in result.items() if key not in NO_FIGURES and value is not None}
        self.node.user_properties += [(f"{PROPERTY}.{key}", str(value)) for key, value in figures.items()]


def _viewed(record: Mapping[str, Any]) -> Record:
    """Attributes or items, as Python calls give it."""
    from tinyhil.harness.records.view import Record

    return Record(record)


@contextmanager
def _in_one_line() -> Iterator[None]:
    """An error of ours fails the test with its one line, which names settings of pytest for options that it lacks."""
    from tinyhil.errors import HilError
    from tinyhil.harness.python.wording import in_a_project

    try:
        yield
    except HilError as error:
        raise pytest.fail.Exception(
            f"{in_a_project(str(error))} (exit code {error.exit_code})", pytrace=False
        ) from None


class ResultsFile:
    """Collects what tests reported, from all workers if there are several, and writes it at the end."""

    def __init__(self, path: Path, written: Callable[[list[dict[str, Any]]], str]) -> None:
        self._path, self._written = path, written
        self._results: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the measurements that a finished test left as its properties."""
        if report.when == "call":
            texts = [str(text) for name, text in report.user_properties if name == PROPERTY]
            self._results += [{**json.loads(text), "outcome": report.outcome} for text in texts]

    def pytest_sessionfinish(self) -> None:
        """Write the file, its folder too."""
        from tinyhil import files

        self._path.parent.mkdir(parents=True, exist_ok=True)
        files.write_text(self._path, self._written(self._results))


def as_json(results: list[dict[str, Any]]) -> str:
    """Results as a JSON document."""
    return json.dumps({"schema_version": 1, "results": results}, indent=1) + "\n"


def as_summary(results: list[dict[str, Any]]) -> str:
    """A line per test and board, for $GITHUB_STEP_SUMMARY, and what differs from golden records."""
    from tinyhil.harness.records.bench_stats import ticks_text
    from tinyhil.quoting import markdown

    titles = ("test", "board", "model", "format", "verdict", "accuracy", "median", "RAM", "flash", "outcome")
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    notes = []
    for result in results:
        accuracy = "" if result["accuracy"] is None else f"{100 * result['accuracy']:.2f} % of {result['samples']}"
        ram = result["static_bytes"] if result["ram_bytes"] is None else result["ram_bytes"]
        size = ["" if one is None else f"{one:,} B" for one in (ram, result["flash_bytes"])]
        if result["ram_at_worst_bytes"] is not None:  # which a gate holds
            size[0] += f" (at worst {result['ram_at_worst_bytes']:,} B)"
        median = f"{ticks_text(result['median'])} {result['unit']}"
        names = (result["test"], result["board"], result["model"], result["format"], result["verdict"] or "")
        lines.append("| " + " | ".join(map(markdown, (*names, accuracy, median, *size, result["outcome"]))) + " |")
        notes += [f"- {markdown(result['test'])}: {markdown(difference)}" for difference in result["differences"]]
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"
