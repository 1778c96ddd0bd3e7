"""`hil diff A B`: two engines layer by layer: which tensor differs first, by how much, whose rounding it is; the float
model judges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tinyhil import files
from tinyhil.codegen.benchmark import codes_at
from tinyhil.errors import ConfigError
from tinyhil.frontend.tflite_file import read_file
from tinyhil.frontend.tflite_records import File, Tensor
from tinyhil.harness.engines.engine_tensors import EngineTensor, float_tensors, name_in, tensors_of
from tinyhil.harness.engines.firmware_run import Bench
from tinyhil.harness.engines.rounding_rules import explained
from tinyhil.harness.engines.tflite_ends import MOST_MODEL_BYTES, port_of
from tinyhil.harness.job.inputs import load_inputs
from tinyhil.harness.job.job import Request, open_model
from tinyhil.language.graph import Graph
from tinyhil.references.evaluate import shape_inputs

if TYPE_CHECKING:
    from rich.console import Console

Tensors = Mapping[str, EngineTensor]
CLOSE = 1e-5  # of a tensor's largest number: floats that are added in another order
VIEWS = ("RESHAPE", "SQUEEZE")


@dataclass(frozen=True, slots=True)
class TensorPair:
    """One tensor of two engines: how many elements differ, the largest difference in `step`s of their codes (in real
    numbers where step is None), and how far each is from the float model (root of the mean square, in real numbers)."""

    tensor: str
    elements: int
    different: int
    largest: float
    step: float | None
    errors: tuple[float, float]


@dataclass(frozen=True, slots=True)
class EngineDiff:
    """`first` is None where all are equal; `rounding`: for each engine the rules that give all its codes of the first
    tensor that differs, None where no rule is known for such a layer."""

    engines: tuple[str, str]
    model: str
    board: str
    sample: int
    tensors: tuple[TensorPair, ...]
    first: TensorPair | None
    rounding: Mapping[str, tuple[str, ...]] | None

    def as_json(self) -> dict[str, Any]:
        """With `equal` for all tensors."""
        return {**asdict(self), "equal": self.first is None}


def diff_engines(
    engines: tuple[str, str], source: Path | None, request: Request, sample: int, bench: Bench
) -> EngineDiff:
    """Both compute sample number `sample` of the request's inputs on its board. HilError of what failed; ConfigError
    where they have no tensor in common."""
    computed = [tensors_of(one, source, request, sample, bench) for one in engines]
    opened = open_model(request.model, None, request.streamed)
    x = load_inputs(opened.source, request.inputs, None, opened.model).x[sample : sample + 1]
    floats = float_tensors(opened.model.graph, shape_inputs(opened.model.graph, x))
    names = [name for name in floats if name in computed[0] and name in computed[1]]
    if not names:
        raise ConfigError(f"{engines[0]} and {engines[1]} name no tensor alike; give both the same file")
    pairs = tuple(_pair(name, computed[0][name], computed[1][name], floats[name]) for name in names)
    first = next((pair for pair in pairs if pair.different), None)
    rounding = None
    if first is not None and opened.source.path.suffix == ".tflite":
        content = read_file(files.read_bytes(opened.source.path, "model", MOST_MODEL_BYTES))
        rounding = _rounding(first.tensor, engines, computed, content, opened.model.graph, x)
    return EngineDiff(engines, opened.source.name, request.board, sample, pairs, first, rounding)


def _pair(name: str, left: EngineTensor, right: EngineTensor, judge: np.ndarray) -> TensorPair:
    step = left.step if left.step is not None and left.step == right.step else None
    apart = np.abs(left.reals.astype(np.float64) - right.reals)
    most = apart.max(initial=0.0)
    limit = step / 2 if step is not None else CLOSE * float(np.abs(judge).max(initial=0.0))
    errors = [float(np.sqrt(np.square(one.reals.astype(np.float64) - judge).mean())) for one in (left, right)]
    largest = float(most / step) if step is not None else float(most)
    return TensorPair(name, apart.size, int((apart > limit).sum()), largest, step, (errors[0], errors[1]))


def _rounding(
    name: str,
    engines: tuple[str, str],
    computed: list[dict[str, EngineTensor]],
    content: File,
    graph: Graph,
    x: np.ndarray,
) -> dict[str, tuple[str, ...]] | None:
    """What the layer reads is alike in both: the first that differs is what it writes."""
    number = next((n for n, tensor in enumerate(content.tensors) if name_in(graph, tensor.name) == name), None)
    one = next((one for one in content.operations if number in one.outputs), None)
    if one is None or number is None:
        return None
    target, at = content.tensors[number], one.inputs[0]
    while name_in(graph, content.tensors[at].name) not in computed[0] and (view := _view_of(content, at)) is not None:
        at = view
    source = content.tensors[at]
    read = name_in(graph, source.name)
    if at in content.inputs:
        codes = port_of(source, codes=codes_at(graph, "FromCodes") is not None).codes(x.reshape(-1)).astype(np.int64)
    elif read in computed[0]:
        codes = _codes(computed[0][read].reals, source)
    else:
        return None
    made = explained(content, target.name, codes)
    if not made:
        return None
    have = [_codes(each[name].reals, target) for each in computed]
    rules = [tuple(rule for rule, wanted in made.items() if np.array_equal(wanted, mine)) for mine in have]
    return dict(zip(engines, rules, strict=True))


def _view_of(content: File, number: int) -> int | None:
    """The tensor whose codes another one has in another shape."""
    maker = next((one for one in content.operations if number in one.outputs), None)
    return maker.inputs[0] if maker is not None and maker.op in VIEWS else None


def _codes(reals: np.ndarray, tensor: Tensor) -> np.ndarray:
    """Of a tensor of the graph, in the order of the file: channels innermost."""
    shape = tensor.shape
    assert tensor.scales is not None
    assert tensor.zeros is not None
    if len(shape) == 4:
        reals = reals.reshape(shape[0], shape[3], *shape[1:3]).transpose(0, 2, 3, 1)
    return np.rint(reals.reshape(-1) / np.float64(tensor.scales[0])).astype(np.int64) + int(tensor.zeros[0])


def lines(found: EngineDiff) -> list[str]:
    """What people are computed below the table."""
    equal = sum(pair.different == 0 for pair in found.tensors)
    said = [f"{equal} of {len(found.tensors)} tensors equal (sample {found.sample})"]
    if found.first is None:
        return said
    one = found.first
    unit = "" if one.step is None else " units"
    apart = f"{one.different} of {one.elements} elements, by {one.largest:.3g}{unit} at most"
    said.append(f"first to differ: '{one.tensor}': {apart}")
    nearer = found.engines[0] if one.errors[0] < one.errors[1] else found.engines[1]
    verdict = "both are as far" if one.errors[0] == one.errors[1] else f"{nearer} is nearer"
    said.append(f"to the float model there: {one.errors[0]:.4g} and {one.errors[1]:.4g}: {verdict}")
    if found.rounding is None:
        return [*said, "whose rounding: no rule is known for such a layer"]
    for engine, rules in found.rounding.items():
        said.append(f"{engine}: {'; '.join(rules) or 'no rule known here gives its codes'}")
    return said


def print_pairs(found: EngineDiff, console: Console) -> None:
    """One row per tensor that two engines have, in the order of the model."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=None)
    for title in ("tensor", "elements", "different", "largest", *(f"{one} from float" for one in found.engines)):
        table.add_column(title, justify="left" if title == "tensor" else "right", overflow="fold")
    for pair in found.tensors:
        largest = f"{pair.largest:.3g}" + ("" if pair.step is None else " units")
        row = (str(pair.elements), str(pair.different), largest, *(f"{error:.4g}" for error in pair.errors))
        table.add_row(Text(pair.tensor), *row)
    console.print(table)
