"""What is fed with anything: bytes in, and either all is well or it is refused in one line.

`python tests/fuzz.py TARGET` draws them by coverage; `tests/fuzz/TARGET/` holds what it found worth keeping, and
`test_fuzz_corpora.py` feeds it again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from record_consumers import consume

from tinyhil.errors import HilError
from tinyhil.frontend import tflite, tflite_pair
from tinyhil.frontend.load import load_model
from tinyhil.harness.energy.technology import find_technology
from tinyhil.harness.records.partial import PartialLine
from tinyhil.harness.search.cost_table import Fact
from tinyhil.harness.settings.bench_file import parse_bench
from tinyhil.harness.settings.config import Boards, load_boards, parse_boards
from tinyhil.harness.sweep.file import read_sweep
from tinyhil.harness.sweep.work import Finished
from tinyhil.harness.wire.protocol import Splitter, frame
from tinyhil.language.assignment import load_assignment, load_conditions
from tinyhil.language.graph import Graph, element_count
from tinyhil.references.evaluate import evaluate
from tinyhil.sealed import MARK, Damaged, sealed, unsealed, whole_lines
from tinyhil.search.journal import Said
from tinyhil.search.trial import DeviceLine, TrialLine

READ_LATER = (tflite, tflite_pair)  # imported where a file is read: only what is imported here is instrumented
MOST_ELEMENTS = 5000  # of a model that is run
BESIDE = Path(__file__).parent / "records" / "profile.json"


@cache
def folder() -> Path:
    """For files of this process."""
    return Path(tempfile.mkdtemp(prefix="hil-fuzz-"))


def wire(data: bytes) -> None:
    """What a board may send, in one piece and byte by byte: the same messages, and little is held back."""
    whole, by_byte = Splitter(), Splitter()
    found = whole.feed(data)
    assert found == [message for byte in data for message in by_byte.feed(bytes((byte,)))]
    assert whole.held_bytes == by_byte.held_bytes <= len(data)
    Splitter().feed(frame(data))


def model(suffix: str) -> Callable[[bytes], None]:
    """A model file, read and run if it is small."""

    def feed(data: bytes) -> None:
        path = folder() / f"m{suffix}"
        path.write_bytes(data)
        graph = load_model(path).graph
        if sum(element_count(shape) for shape in graph.all_shapes().values()) <= MOST_ELEMENTS:
            with np.errstate(all="ignore"):
                evaluate(graph, np.ones((2, *graph.shapes[graph.inputs[0]]), np.float32))

    return feed


def records(data: bytes) -> None:
    """A record through every consumer."""
    path = folder() / "x.json"
    path.write_bytes(data)
    consume(path, BESIDE)


def lines(data: bytes) -> None:
    """Lines of every file that interrupted work goes on from, with the sums that they have, and with right ones."""
    kinds = (PartialLine, TrialLine, DeviceLine, Fact, Said, Finished)
    for kind in kinds:
        list(whole_lines(Path("x.jsonl"), data.split(b"\n"), kind))
        body = data.decode("utf-8", "replace").strip().partition(MARK)[0].removesuffix("}")
        try:
            unsealed(resealed(body), kind)
        except Damaged:
            continue


def resealed(body: str) -> str:
    """A line of a text without its end, whatever it is."""
    end = sealed({"x": 0}).partition(MARK)[2]
    import hashlib

    return f'{body}{MARK}{hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[: len(end) - 2]}"}}'


@cache
def known() -> tuple[Boards, Graph]:
    """The boards, and a model that assignments are for."""
    graph = load_model(Path(__file__).parent.parent / "examples" / "vibration" / "models" / "vibration.onnx").graph
    return load_boards(), graph


def yaml(data: bytes) -> None:
    """A text for each reader of YAML."""
    boards, graph = known()
    path = folder() / "x.yaml"
    path.write_bytes(data)
    text = data.decode("utf-8", "replace")
    readers: tuple[Callable[[], object], ...] = (
        lambda: load_assignment(path, graph),
        lambda: load_conditions(path),
        lambda: parse_boards(text, path),
        lambda: parse_bench(text, path, boards.names),
        lambda: read_sweep(path, boards),
        lambda: find_technology(None, path),
    )
    for read in readers:
        refused(read)


def refused(read: Callable[[], object]) -> None:
    """Whether it is does not matter: if so, in words."""
    try:
        read()
    except HilError as error:
        assert str(error)  # noqa: PT017


TARGETS: dict[str, Callable[[bytes], None]] = {
    "wire": wire,
    "onnx": model(".onnx"),
    "tflite": model(".tflite"),
    "dsl": model(".dsl"),
    "records": records,
    "lines": lines,
    "yaml": yaml,
}


def feed(target: str, data: bytes) -> bool:
    """Whether the target took it; whatever but a refusal is raised."""
    try:
        TARGETS[target](data)
    except HilError:
        return False
    return True
