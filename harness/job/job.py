"""What was asked for, and everything that it names, loaded once: model, samples, formats, ranges."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Protocol

from tinyhil.compiler.calibrate import Ranges, load_ranges
from tinyhil.errors import ConfigError, DataError
from tinyhil.formats import named
from tinyhil.formats.clipping import METHODS, require_method
from tinyhil.frontend.listing import Model
from tinyhil.frontend.load import load_model
from tinyhil.frontend.ports import Stream
from tinyhil.harness.job.inputs import Inputs, calibrated, load_inputs, read_inputs, training_part
from tinyhil.harness.job.zoo import ModelSource, find_model
from tinyhil.harness.settings.limits import AtLeast, OneOf, require
from tinyhil.language.assignment import Assignment, Conditions, format_name, load_assignment, load_conditions
from tinyhil.language.graph import element_count
from tinyhil.notice import WARNING, Say, telling
from tinyhil.ops.quantize import stated
from tinyhil.preference import BALANCED, PREFERENCES, Wish

MODES, UARTS, LOADS = ("quiet", "stream"), ("lifted", "true"), ("direct", "flash")
CALIBRATED_SAMPLES = 500  # of the training part, where values are looked at, not their ends alone


@dataclass(frozen=True, slots=True)
class Streamed:
    """What is known of a model's states: the options --state and --steps, and a file that shows how many steps a sample
    has. `states` None: found by their names."""

    states: tuple[str, ...] | None = None
    steps: int | None = None
    samples: Path | None = None
    then: Path | None = None
    hop: int = 0
    rounding: str = ""
    every: bool = False

    def of(self, model: Path) -> Stream:
        """For the front end; steps are counted in the samples where they are not said.

        DataError if samples are no whole steps.
        """
        pairs = None if self.states is None else tuple(_pair(text) for text in self.states)
        stream = Stream(pairs, self.steps, self.then, self.hop, self.rounding, self.every)
        if self.steps is not None or self.samples is None or pairs == ():
            return stream
        step = load_model(model, replace(stream, steps=1))  # with one step, to see what a step takes
        if not step.stream:
            return stream
        x = read_inputs(self.samples, step, of_steps=True).x
        row = element_count(step.graph.shapes[step.graph.inputs[0]])
        steps, rest = divmod(x[0].size, row)
        if rest or not steps:
            raise DataError(f"{self.samples}: {x[0].size} numbers per sample, a step of the model takes {row}")
        return replace(stream, steps=steps)


NO_STREAM = Streamed()


def _pair(text: str) -> tuple[str, str]:
    source, equals, result = text.partition("=")
    if not (source and equals and result):
        raise ConfigError(f"--state {text}: must be INPUT=OUTPUT, the names of the model's file")
    return source, result


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for; the fields are the options of `hil run`."""

    board: str
    model: str
    format: str = "fixed16"
    assignment: Path | None = None
    inputs: Path | None = None
    calibrate: Path | None = None
    calibrate_by: Annotated[str, OneOf(METHODS)] | None = None  # None: as the assignment file says, else minmax
    samples: Annotated[int, AtLeast(1)] | None = None
    port: str | None = None
    mode: Annotated[str, OneOf(MODES)] = "quiet"
    prefer: Annotated[str, OneOf(PREFERENCES)] | None = None  # None: as the assignment file says, else balanced
    ram: Annotated[int, AtLeast(1)] | None = None  # bytes for arena and input; None: as much as there is
    uart: Annotated[str, OneOf(UARTS)] = "lifted"
    realtime: bool = False
    load: Annotated[str, OneOf(LOADS)] | None = "direct"  # or flash; None: as how_loaded() says
    emulator: str | None = None
    no_flash: bool = False
    timeout_s: Annotated[float, AtLeast(0.1)] = 30.0
    retries: Annotated[int, AtLeast(0)] = 0
    wait_s: Annotated[float, AtLeast(0)] | None = None  # for a board that is in use; None: as the bench file says
    results: Path = Path("results")
    states: tuple[str, ...] | None = None  # pairs INPUT=OUTPUT
    steps: Annotated[int, AtLeast(1)] | None = None
    drawn: bool = False  # the inputs are noise: how many of their decisions differ says nothing of real ones
    tried: bool = False  # by a search, whose log is no place for advice about a format that nobody has chosen
    called: str = ""  # by what, where its files go with the caller: a command, or a call from Python

    def __post_init__(self) -> None:
        require("run", self)

    @property
    def streamed(self) -> Streamed:
        """What is known of its states, and the file that shows how many steps a sample has."""
        return Streamed(self.states, self.steps, self.inputs or self.calibrate)

    def command(self, verb: str = "run") -> str:
        """The command that repeats it: what differs from the defaults."""
        return command_of(verb, self, Request("", ""), ("results", "drawn", "tried"))


def method_of(assignment: Path | None, by: str | None = None) -> str:
    """How ranges are cut: `by`, else as the assignment file says, else by their ends."""
    return by or _found(assignment).calibrate_by or METHODS[0]


def preference_of(assignment: Path | None, prefer: str | None = None, usual: str = BALANCED) -> str:
    """What counts in planning: `prefer`, else as the assignment file says, else `usual`."""
    return prefer or _found(assignment).prefer or usual


def preferred(
    assignment: Path | None, prefer: str | None, ram_bytes: int | None = None, usual: str = BALANCED
) -> str | None:
    """What a plan of memory is of; None where `--ram` or the arena of an assignment file chooses the schedule."""
    if ram_bytes is not None or wish_for(assignment, prefer).arena_bytes is not None:
        return None
    return preference_of(assignment, prefer, usual)


def wish_for(assignment: Path | None, prefer: str | None = None) -> Wish:
    """What counts in planning, and for how many bytes of arena products are computed again: `prefer`, else as the
    assignment file says."""
    found = Conditions() if prefer else _found(assignment)
    return Wish(preference_of(assignment, prefer), arena_bytes=found.arena, input_apart=bool(found.input_apart))


def _found(assignment: Path | None) -> Conditions:
    return Conditions() if assignment is None else load_conditions(assignment)


def say_other_ranges(assignment: Path | None, ranges: Ranges, say: Say) -> None:
    """Where the assignment was found with ranges of other samples: its scales, so its figures, are others here. Not of
    those that training, or a correction, has made with the weights: they belong to these."""
    then, now = _found(assignment), conditions(ranges)
    if then.calibrated_sha256 is None or then.calibrated_sha256 == now.calibrated_sha256 or "by" in ranges.source:
        return
    named_alike = (then.calibrated_samples, then.calibrated_on) == (now.calibrated_samples, now.calibrated_on)
    here = "others" if named_alike else str(now.calibrated_samples)
    say(
        f"{WARNING}{assignment}: found with ranges of {then.calibrated_samples} samples of {then.calibrated_on}, here "
        f"they are of {here} of {now.calibrated_on}: flash and latency may differ; give search and run one --calibrate"
    )


def conditions(ranges: Ranges, wish: Wish | None = None) -> Conditions:
    """Under which an answer found with these ranges holds."""
    source = ranges.source
    count, digest = source.get("samples"), source.get("sha256")
    return Conditions(
        None if wish is None else wish.prefer,
        ranges.by,
        str(source["name"]) if "name" in source else None,
        count if isinstance(count, int) else None,
        str(digest) if digest is not None else None,
        metadata.version("tinyhil"),
        None if wish is None else wish.arena_bytes,
        None if wish is None else wish.input_apart or None,
    )


OPTIONS = {
    "timeout_s": "timeout",
    "wait_s": "wait",
    "set_": "set",
    "also": "board",
}  # fields named otherwise than their option


def command_of(verb: str, request: Any, usual: Any, left_out: Sequence[str] = ()) -> str:
    """`hil VERB` with an option for every field of `request` that differs from those of `usual`; what it was `called`
    by, if it says so."""
    if request.called:
        return str(request.called)
    words = ["hil", verb]
    for field in fields(request):
        value = getattr(request, field.name)
        is_usual = field.name != "model" and value == getattr(usual, field.name)  # no command has a usual model
        if field.name in left_out or is_usual or value is None:
            continue
        option = "--" + OPTIONS.get(field.name, field.name).replace("_", "-")
        for one in value if isinstance(value, list | tuple) else (value,):
            words += [option] if one is True else [option, str(one)]
    return shlex.join(words)


@dataclass(frozen=True, slots=True)
class Opened:
    """A model that was named: where it comes from, what its file holds, and how it is to be calibrated."""

    source: ModelSource
    model: Model
    by: str = METHODS[0]  # how ranges are cut (tinyhil/formats/clipping.py)

    def __post_init__(self) -> None:
        require_method(self.by)

    def assignment(self, file: Path | None, format_: str) -> Assignment:
        """The assignment in `file`, else `format_` for all values."""
        if file is not None:
            return load_assignment(file, self.model.graph)
        return Assignment(named(format_).name)

    def calibrates(self, calibration: Path | None) -> bool:
        """Whether there are ranges without inputs to fall back on. Those beside a model do not say what lies within
        them, which all but minmax have to see."""
        if calibration is not None:
            return True
        if self.by != METHODS[0]:
            return self.source.dataset is not None
        return self.source.ranges is not None and self.source.ranges.is_file()

    def known_ranges(self, calibration: Path | None) -> Ranges | None:
        """Ranges observed on the samples in `calibration`, else those that lie beside the model, else None.

        DataError names the calibration file.
        """
        if calibration is not None:
            data = read_inputs(calibration, self.model)
            try:
                return calibrated(self.model, data.x, {"name": data.name}, self.by)
            except DataError as error:
                raise DataError(f"{calibration}: {error}") from None
        if not self.calibrates(None):
            return None
        if self.by == METHODS[0]:
            assert self.source.ranges is not None
            return load_ranges(self.source.ranges, self.model.sha256)
        assert self.source.dataset is not None
        found = training_part(self.source.name, self.source.dataset, "--calibrate")
        thin = found.x_train[:: max(1, len(found.x_train) // CALIBRATED_SAMPLES)]
        return calibrated(self.model, thin, {"name": found.name, "split": "train"}, self.by)

    def learned(self) -> bool:
        """Whether the ranges beside the model are no samples', but those that `hil train` or `hil calibrate --out` has
        made with its weights."""
        path = self.source.ranges
        return path is not None and path.is_file() and "by" in load_ranges(path, self.model.sha256).source

    def required_ranges(self, calibration: Path | None) -> Ranges:
        """Ranges where there are no inputs to fall back on; DataError if none are known, but for a model that states
        all formats itself."""
        known = self.known_ranges(calibration) or self.ranges_that_do_not_matter()
        if known is None:
            why = "no calibrated ranges" if self.by == METHODS[0] else f"'{self.by}' looks at values, none are known"
            raise DataError(f"{self.source.path}: {why}; give --calibrate inputs.npz")
        return known

    def ranges_that_do_not_matter(self) -> Ranges | None:
        """Any, where the model states the format of every tensor, as a quantized one may."""
        from tinyhil.compiler.lower import lower

        graph, formats = self.model.graph, Assignment(Request("", "").format)
        if not (graph.pinned or any(stated(node) for node in graph.walk())):
            return None
        near, far = (lower(graph, formats, Ranges.any_of(graph, largest)) for largest in (1.0, 1000.0))
        same = all(tensor.format == far.tensors[name].format for name, tensor in near.tensors.items())
        return Ranges.any_of(graph) if same else None

    def stated_format(self) -> str:
        """The name of the format that the file states for all values; empty where it leaves them open."""
        from tinyhil.compiler.lower import lower

        ranges, usual = self.ranges_that_do_not_matter(), Assignment(Request("", "").format)
        return "" if ranges is None else format_name(usual, lower(self.model.graph, usual, ranges))

    def ranges_for(self, inputs: Inputs, calibration: Path | None, say: Say) -> Ranges:
        """Known ranges, or any where they do not matter, else from the first half of the inputs (said). Said, too:
        where those that were learned make way for `calibration`."""
        looks = "" if self.by == METHODS[0] else f"'{self.by}' looks at values"
        if (calibration is not None or looks) and self.learned():
            why = looks or f"calibrating on {calibration}"
            keep = "; without --calibrate it does" if calibration is not None and not looks else ""
            say(f"{WARNING}{why}: {self.source.ranges}, made with the weights, does not count{keep}")
        known = self.known_ranges(calibration) or self.ranges_that_do_not_matter()
        if known is not None:
            return known
        x = inputs.x if inputs.all_x is None else inputs.all_x
        half = max(1, len(x) // 2)
        why = looks or "no calibrated ranges"
        say(f"{why}: calibrating on the first {half} of {len(x)} inputs (choose others: --calibrate)")
        return calibrated(self.model, x[:half], {"name": inputs.name}, self.by)


class Asked(Protocol):
    """What every request for a job says: which samples, and what formats and ranges the model has on them."""

    @property
    def inputs(self) -> Path | None:
        """A file of samples; None: those of the model's data set."""

    @property
    def samples(self) -> int | None:
        """At most so many; None: all."""

    @property
    def assignment(self) -> Path | None:
        """A file of formats by tensor; None: `format` for all."""

    @property
    def format(self) -> str:
        """A number format's name."""

    @property
    def calibrate(self) -> Path | None:
        """A file of samples to observe ranges on; None: as `Opened.ranges_for` finds them."""


@dataclass(frozen=True, slots=True)
class Job:
    """A model with the samples it is to run on, its formats and ranges."""

    opened: Opened
    inputs: Inputs
    assignment: Assignment
    ranges: Ranges


def open_model(
    name: str,
    say: Say | None = None,
    streamed: Streamed = NO_STREAM,
    without: Collection[str] = (),
    by: str = METHODS[0],
    endless: bool = False,
) -> Opened:
    """The model of the zoo, or in the file; `say` is told what its front end has to say of it. `streamed`:
    what is known of its states. `without`: passes of the front end to leave out. `by`: how its ranges are cut.
    `endless`: a model that speaks shows its newest letter alone, not those of all steps of a sample.

    Raises ModelError if there is none, or if it can not be read.
    """
    source = find_model(name)
    streamed = replace(streamed, then=source.then, hop=source.hop, rounding=source.rounding)
    if source.text is not None:
        streamed = replace(streamed, steps=streamed.steps or source.text.steps, every=not endless)
    model = load_model(source.path, streamed.of(source.path), without)
    if say is not None:
        for note in model.notes:
            say(f"{source.name}: {note}")
    return Opened(source, model, by)


def load_job(opened: Opened, request: Asked, say: Say) -> Job:
    """Samples, formats and ranges of a request; ConfigError or DataError where one of them can not be had."""
    with telling(say):
        inputs = load_inputs(opened.source, request.inputs, request.samples, opened.model)
    if inputs.message:
        say(inputs.message)
    is_chosen = request.assignment is not None or request.format != Request("", "").format
    if is_chosen and (stated := opened.stated_format()):
        say(f"{opened.source.name}: the file states the formats of all values, {stated}: none is chosen here")
    assignment, ranges = (
        opened.assignment(request.assignment, request.format),
        opened.ranges_for(inputs, request.calibrate, say),
    )
    say_other_ranges(request.assignment, ranges, say)
    return Job(opened, inputs, assignment, ranges)
