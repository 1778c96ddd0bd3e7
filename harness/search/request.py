"""What the user asked a search for: the options of `hil search`, and which of them an earlier answer depends on."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from tinyhil.errors import ConfigError
from tinyhil.formats.clipping import METHODS
from tinyhil.harness.job.job import Streamed, command_of
from tinyhil.harness.settings.limits import AtLeast, OneOf, require
from tinyhil.preference import BALANCED, PREFERENCES, RAM
from tinyhil.preference import LEAST as LEAST_RAM
from tinyhil.search.accelerator import AcceleratorLimits
from tinyhil.search.costs import Limits

OBJECTIVES = ("ram", "latency", "flash", "accuracy")
# Fields of a request that a key need not hold: what they name is hashed itself (the model's file, samples, ranges,
# formats, the strategy as it was made), they say how long to search, who computes, or what becomes of the answer.
HASHED_BY_CONTENT = ("model", "inputs", "held_out", "calibrate", "samples", "formats", "strategy", "set_")
NO_ANSWER = (
    "evaluations",
    "seconds",
    "target",
    "finalists",
    "evaluator",
    "wait_s",
    "out",
    "plot",
    "results",
    "workers",
    "called",
)
UNKEYED = frozenset({*HASHED_BY_CONTENT, *NO_ANSWER})
# Beside them those on which no score depends, but which trials there are, and what of RAM and costs they need.
UNSCORED = UNKEYED | {
    *("seed", "board", "also", "on_device", "every", "device_samples", "port", "prefer", "ram", "arena", "latency_us"),
    *("energy_uj", "crossbars", "cost", "flash", "minimize", "pareto", "levels", "points", "more_time", "own"),
}

LEAST = 1e-12  # of what must be more than nothing


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What the user asked for; the fields are the options of `hil search`. `ram` None: what the board has. `also`: more
    boards that the one assignment is to serve. `pareto`: what limits are swept over, at so many `levels` each.
    `more_time`: percent of the modelled time for which products may be computed again to keep a limit of RAM.
    `weights`: formats that weights alone may have, too. `workers`: processes that share a journal; None: no journal.
    `fine_tune`: whether weights are trained for an assignment before it is judged. `own`: whether what is no worse
    than the strategy's answer leaves it the answer. `called`: by what, if not by the command."""

    model: str
    ram: Annotated[int, AtLeast(1)] | None = None
    strategy: str = "lagrange"
    set_: tuple[str, ...] = ()
    formats: str | None = None
    weights: str | None = None
    evaluations: Annotated[int, AtLeast(1)] | None = None
    seconds: Annotated[float, AtLeast(0)] | None = None
    target: Annotated[int, AtLeast(0)] | None = None
    samples: Annotated[int, AtLeast(1)] | None = None
    seed: Annotated[int, AtLeast(0)] = 0
    inputs: Path | None = None
    held_out: Path | None = None
    calibrate: Path | None = None
    calibrate_by: Annotated[str, OneOf(METHODS)] = "minmax"
    evaluator: Annotated[str, OneOf(("engine", "reference"))] = "engine"
    board: str | None = None
    also: tuple[str, ...] = ()
    on_device: bool = False
    every: Annotated[int, AtLeast(1)] | None = None
    finalists: Annotated[int, AtLeast(1)] = 3
    device_samples: Annotated[int, AtLeast(1)] = 50
    latency_us: Annotated[float, AtLeast(LEAST)] | None = None
    energy_uj: Annotated[float, AtLeast(LEAST)] | None = None
    crossbars: Annotated[int, AtLeast(1)] | None = None
    cost: Annotated[float, AtLeast(LEAST)] | None = None
    flash: Annotated[int, AtLeast(1)] | None = None
    arena: Annotated[int, AtLeast(1)] | None = None
    minimize: Annotated[str, OneOf(("ram", "flash", "latency"))] | None = None
    pareto: str | None = None
    levels: Annotated[int, AtLeast(2)] = 5
    prefer: Annotated[str, OneOf(PREFERENCES)] = ""  # as `__post_init__` says
    points: Annotated[float, AtLeast(0)] = 0.5
    more_time: Annotated[float, AtLeast(0)] = 50.0
    port: str | None = None
    wait_s: Annotated[float, AtLeast(0)] | None = None
    out: Path | None = None
    plot: Path | None = None
    results: Path = Path("results")
    states: tuple[str, ...] | None = None
    steps: Annotated[int, AtLeast(1)] | None = None
    workers: Annotated[int, AtLeast(1)] | None = None
    fine_tune: bool = False
    own: bool = False
    called: str = ""

    def __post_init__(self) -> None:
        if not self.prefer:
            wanted = {self.minimize, *(self.pareto or "").replace(" ", "").split(",")}
            is_fast = self.latency_us is not None or "latency" in wanted
            is_small = self.ram is not None or self.arena is not None or "ram" in wanted
            object.__setattr__(self, "prefer", BALANCED if is_fast and not is_small else RAM)

    @property
    def streamed(self) -> Streamed:
        """What is known of its states, and the file that shows how many steps a sample has."""
        return Streamed(self.states, self.steps, self.inputs or self.calibrate)

    def check(self) -> None:
        """ConfigError for options that make no sense, alone or together, or a folder that is not there."""
        needs = {
            "--on-device": self.on_device,
            "--every": self.every,
            "--latency-us": self.latency_us,
            "--flash": self.flash,
            "--energy-uj": self.energy_uj,
            "--crossbars": self.crossbars,
            "--cost": self.cost,
            f"--minimize {self.minimize}": self.minimize in ("flash", "latency"),
            f"--pareto {self.pareto}": bool({"flash", "latency"} & set(self.objectives)),
        }
        missing = [name for name, given in needs.items() if given]
        if missing and self.board is None:
            raise ConfigError(f"search: {missing[0]} needs a board; give --board NAME, see `hil boards`")
        require("search", self)
        self._check_pareto()
        if self.weights is not None and self.strategy != "lagrange":
            raise ConfigError("search: --weights is for chips and --strategy lagrange; leave it out")
        if self.ram is None and self.arena is None and self.board is None and not self.pareto:
            raise ConfigError("search: a limit is needed; give --ram BYTES, or --board NAME for all the board has")
        if self.ram is not None and self.arena is not None:
            raise ConfigError("search: --ram and --arena exclude each other; --arena counts the arena alone")
        self._check_boards()
        if self.held_out is not None and self.inputs is None:
            raise ConfigError("search: --held-out needs --inputs, the samples to search on")
        for option, path in (("--out", self.out), ("--plot", self.plot)):
            if path is not None and not path.parent.is_dir():
                raise ConfigError(f"search: {option} {path}: there is no folder {path.parent}; make it first")
        if self.plot is not None and find_spec("matplotlib") is None:
            raise ConfigError("search: --plot needs matplotlib; type: pip install 'tinyhil[plot]'")

    @property
    def objectives(self) -> tuple[str, ...]:
        """What `pareto` names; ConfigError unless these are two or three of what there is."""
        if self.pareto is None:
            return ()
        names = tuple(name.strip() for name in self.pareto.split(","))
        if not 2 <= len(names) <= 3 or len(set(names)) < len(names) or not set(names) <= set(OBJECTIVES):
            raise ConfigError(f"search: --pareto {self.pareto}: give two or three of {','.join(OBJECTIVES)}")
        return names

    def _check_pareto(self) -> None:
        """ConfigError for options that ask for one answer."""
        if self.pareto is None:
            return
        for option, given in (("--minimize", self.minimize), ("--target", self.target), ("--every", self.every)):
            if given is not None:
                raise ConfigError(f"search: {option} and --pareto exclude each other: one is for one answer")
        if self.out is not None and self.out.exists() and not self.out.is_dir():
            raise ConfigError(f"search: --out {self.out} is a file; with --pareto name a folder, for a file per point")

    def _check_boards(self) -> None:
        """ConfigError for options that are for one board only."""
        if not self.also:
            return
        names = [self.board or "", *self.also]
        if len(set(names)) < len(names):
            raise ConfigError(f"search: --board {max(names, key=names.count)} is given twice; name each board once")
        for option, given in (("--port", self.port), ("--every", self.every), ("--minimize", self.minimize)):
            if given is not None:
                raise ConfigError(f"search: {option} is for one board; give one --board, or leave {option} out")

    @property
    def limits(self) -> Limits:
        """Microseconds and bytes of flash of the board; None: no limit."""
        return Limits(self.latency_us, self.flash)

    def command(self) -> str:
        """The command that repeats it, or the call from Python that it was."""
        return command_of("search", self, SearchRequest(self.model), ("results", "plot"))

    @property
    def computes_again(self) -> bool:
        """Whether a candidate that needs more RAM than the limit may compute products again; not where several boards
        have one schedule each but one file."""
        return self.more_time > 0 and self.prefer != LEAST_RAM and not self.also

    @property
    def accelerator_limits(self) -> AcceleratorLimits:
        """Microseconds, microjoules, crossbars and relative cost; None: no limit."""
        return AcceleratorLimits(self.latency_us, self.energy_uj, self.crossbars, self.cost)

    @property
    def uses_board(self) -> bool:
        """Whether the board itself is wanted, not only what it would take: elsewhere its emulator measures."""
        return self.on_device or self.every is not None or self.costs or self.port is not None

    @property
    def costs(self) -> bool:
        """Whether latency or flash count."""
        wanted = {self.minimize, *self.objectives}
        return bool(self.limits) or bool(wanted & {"flash", "latency"})
