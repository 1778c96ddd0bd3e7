"""Two .tflite files as one model: what the first gives is what the second takes, in one loop over one stream.

The first makes rows, the second takes some of them at a time: sound becomes features, features become decisions. One
step of the whole is one of the second; within it the first runs once for each row, with its states, as a loop of its
own. Where the first takes windows that overlap, `hop` is how many numbers of a window are new: a step then takes
these alone, and the rest is a state that begins with zeros.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tinyhil import files
from tinyhil.errors import ModelError
from tinyhil.frontend.builder import Builder
from tinyhil.frontend.listing import Call, Model
from tinyhil.frontend.ports import Fill, Port, Stream, connect
from tinyhil.frontend.rewrite_quantized import KINDS
from tinyhil.frontend.rewrites import rewritten
from tinyhil.frontend.tflite import port_of, rounding_notes, state_port
from tinyhil.frontend.tflite_file import read_file, whole
from tinyhil.frontend.tflite_operators import OPERATORS
from tinyhil.frontend.tflite_reader import Reader
from tinyhil.frontend.tflite_records import File, Tensor
from tinyhil.frontend.tflite_signal import WHOLE as OF_WHOLES
from tinyhil.language.graph import element_count
from tinyhil.ops.quantize import codes_format

OVERLAP = "overlap"


@dataclass(frozen=True, slots=True)
class Part:
    """One of the two files, with one input and one output; its states are called after it."""

    file: File
    stem: str
    sha256: str

    @property
    def source(self) -> Tensor:
        """What it takes."""
        return self.file.tensors[self.file.inputs[0]]

    @property
    def result(self) -> Tensor:
        """What it gives."""
        return self.file.tensors[self.file.outputs[0]]

    def held(self) -> list[Port]:
        """Its states."""
        ports = [state_port(self.file.tensors[state.read], state) for state in self.file.states]
        return [replace(port, name=f"{self.stem}.{port.name}") for port in ports]

    def add(self, builder: Builder, value: str, states: Sequence[str]) -> tuple[str, list[str]]:
        """The model on `value` of its input, codes or real numbers: its result, and what its states become."""
        reader = Reader(self.file, OPERATORS, OF_WHOLES, builder)
        reader.take(self.file.inputs[0], value)
        names = [state.name for state in self.file.states]
        reader.held.update(zip(names, states, strict=True))
        (result,) = reader.results(True)
        return result, [reader.held[name] for name in names]


def load_pair(first: Path, stream: Stream) -> Model:
    """The model of `first` and then `stream.then`; ModelError where these do not fit, or one of them is damaged."""
    assert stream.then is not None
    front, network = (_part(path, stream.rounding) for path in (first, stream.then))
    name = f"{front.stem}_{network.stem}"
    try:
        _require_fit(front, network)
        return whole(lambda: _model(front, network, stream, first.with_name(name)))
    except ModelError as error:
        raise ModelError(f"{first} then {stream.then}: {' '.join(str(error).split())}") from None


def _part(path: Path, runtime: str) -> Part:
    if path.suffix.lower() != ".tflite":
        raise ModelError(f"{path}: two models are joined as .tflite files; convert it")
    data = files.read_bytes(path, "model", files.MOST_MODEL_BYTES, ModelError)
    try:
        file = replace(read_file(data), runtime=runtime)
    except ModelError as error:
        raise ModelError(f"{path}: {' '.join(str(error).split())}") from None
    if len(file.inputs) != 1 or len(file.outputs) != 1:
        counts = f"{len(file.inputs)} inputs and {len(file.outputs)} outputs"
        raise ModelError(f"{path}: {counts}; one of each can be joined")
    return Part(file, path.stem, hashlib.sha256(data).hexdigest())


def _require_fit(front: Part, network: Part) -> None:
    """Numbers of one kind and scale, whole rows of them; codes of no scale are those of the network's."""
    given, taken = front.result, network.source
    rows, rest = divmod(element_count(taken.shape), element_count(given.shape))
    if rest or not rows:
        raise ModelError(
            f"'{given.name}' of {front.stem} has {element_count(given.shape)} numbers, '{taken.name}' of "
            f"{network.stem} takes {element_count(taken.shape)}, which is no multiple; give models that fit"
        )
    grids = [(t.scales, t.zeros) for t in (given, taken)]
    same = all((a is None) == (b is None) and (a is None or np.array_equal(a, b)) for a, b in zip(*grids, strict=True))
    if given.kind != taken.kind or not (given.scales is None or same):
        raise ModelError(
            f"'{given.name}' of {front.stem} is {given.kind}, '{taken.name}' of {network.stem} {taken.kind} of another "
            "scale; convert them with one"
        )


def _model(front: Part, network: Part, stream: Stream, path: Path) -> Model:
    window, hop = element_count(front.source.shape), stream.hop or element_count(front.source.shape)
    if not 0 < hop <= window:
        raise ModelError(f"--hop {hop}: windows of {front.stem} have {window} numbers")
    rows = element_count(network.source.shape) // element_count(front.result.shape)
    source = replace(port_of(front.source), name=front.source.name, shape=(rows, hop))
    overlap = [replace(source, name=f"{front.stem}.{OVERLAP}", shape=(window - hop,))] if hop < window else []
    held, others = [*overlap, *front.held()], network.held()
    lasting = [port.name for port in (*held, *others)]

    def start() -> tuple[Builder, Fill]:
        builder = Builder(rewritten)

        def fill(values: Mapping[str, str]) -> tuple[str, ...]:
            features, after = _features(builder, front, values[source.name], [values[port.name] for port in held], held)
            joined = _shaped(builder, features, network.source.shape, f"{network.stem}.taken")
            result, states = network.add(builder, joined, [values[port.name] for port in others])
            return (result, *after, *states)

        return builder, fill

    names = [network.result.name, *(f"{name}.next" for name in lasting)]
    said = replace(stream, states=tuple((name, f"{name}.next") for name in lasting))
    builder, ends = connect(start, [source, *held, *others], names, said)
    graph, listing = builder.finish(path.name, ends)
    digest = hashlib.sha256(f"{front.sha256}{network.sha256}{hop}".encode()).hexdigest()
    notes = [*ends.notes, *(rounding_notes(front.file) or rounding_notes(network.file))]
    return Model(graph, path, digest, listing, notes=tuple(notes), stream=ends.stream)


def _features(
    builder: Builder, front: Part, windows: str, states: list[str], held: Sequence[Port]
) -> tuple[str, list[str]]:
    """Rows (count, numbers) of the first model, one for each row of `windows`, and what its states become."""
    wishes = [*(f"{port.name}.now" for port in held), f"{front.stem}.row"]

    def body(names: tuple[str, ...]) -> tuple[str, ...]:
        *before, row = names
        for name, port in zip(before, held, strict=True):
            _declare(builder, name, port.kind)
        _declare(builder, row, front.source.kind)
        latest: list[str] = []
        if held and held[0].name.endswith(f".{OVERLAP}"):
            row, after = _lapped(builder, before.pop(0), row, front.stem)
            latest = [after]
        result, after_states = front.add(builder, _shaped(builder, row, front.source.shape, f"{row}.window"), before)
        flat = _shaped(builder, result, (element_count(front.result.shape),), f"{front.stem}.flat")
        return (*latest, *after_states, flat)

    outputs = (*(f"{port.name}.after" for port in held), f"{front.stem}.rows")
    call = Call("Scan", f"{front.stem}.rows", (*states, windows), outputs, {"num_scan_inputs": 1})
    *after, features = builder.loop(call, wishes, body)
    _declare(builder, features, front.result.kind)
    return features, after


def _declare(builder: Builder, name: str, kind: str) -> None:
    if kind in KINDS:
        builder.pinned[name] = codes_format(*KINDS[kind])


def _lapped(builder: Builder, before: str, row: str, stem: str) -> tuple[str, str]:
    """The whole window, and what of it the next one begins with."""
    (window,) = builder.add(Call("Concat", f"{stem}.window", (before, row), (f"{stem}.window",), {"axis": 0}))
    (hop,), (size,) = builder.shapes[row], builder.shapes[window]
    ends = [builder.constant(f"{stem}.{what}", np.array([at])) for what, at in (("from", hop), ("to", size), ("of", 0))]
    (latest,) = builder.add(Call("Slice", f"{stem}.kept", (window, *ends), (f"{stem}.kept",)))
    return window, latest


def _shaped(builder: Builder, value: str, shape: Sequence[int], name: str) -> str:
    if builder.shapes[value] == tuple(shape):
        return value
    wanted = builder.constant(f"{name}.shape", np.array(shape, np.int64))
    return builder.add(Call("Reshape", f"{name}.shaped", (value, wanted), (name,)))[0]
