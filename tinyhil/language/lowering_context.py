"""What the operators' `lower` functions may ask and do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tinyhil.errors import ModelError
from tinyhil.formats.codec import quantize
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import AFFINE, CODED, INTEGER, SINGLE, Domain, Format
from tinyhil.language.arithmetic import load
from tinyhil.language.form import Form
from tinyhil.language.graph import Graph, Node, Shape, element_count
from tinyhil.language.kernel import REAL, Kernel
from tinyhil.language.program import Loop, Op, Role, Tensor
from tinyhil.names import free_name

MAX_ACCUMULATOR_BITS = 63
LowerNode = Callable[[Node, "Lowering"], None]


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a kernel sees of a tensor: numbers in units of 2**exponent, in the integer domain of lowest..highest."""

    exponent: int
    lowest: int
    highest: int
    bits: int
    is_integer: bool = True


def loaded(fmt: Format) -> Loaded:
    """Coded and single operands keep their own unit and have no bounds that matter. Numbers without a sign are seen as
    what has one: bounds are those of the lowest number."""
    if fmt.is_binary_point:
        unsigned = fmt.lowest == 0
        return Loaded(fmt.exponent, fmt.lowest or -fmt.highest - 1, fmt.highest, fmt.bits + unsigned)
    if fmt.domain != INTEGER:
        return Loaded(fmt.exponent, -1, 1, 2, False)
    largest = int(fmt.largest * 2.0**-fmt.granule)
    return Loaded(fmt.exponent + fmt.granule, -largest, largest, largest.bit_length() + 1)


def domain_of(formats: Iterable[Format]) -> Domain:
    """The widest domain of `formats`: single over coded over integer; affine only among its like, else single."""
    domains = {fmt.domain for fmt in formats}
    if AFFINE in domains:
        return AFFINE if domains == {AFFINE} else SINGLE
    return SINGLE if SINGLE in domains else CODED if CODED in domains else INTEGER


def _states_and_reads(graph: Graph) -> tuple[set[str], Counter[str]]:
    """States of loops, as their bodies see them, and how often each value is read."""
    reads = Counter(name for level in graph.levels() for name in level.outputs)
    states = set[str]()
    for node in graph.walk():
        reads.update(node.inputs)
        if node.body is not None:
            states.update(node.body.inputs[: len(node.inputs) - int(node.attrs["num_scan_inputs"])])
    return states, reads


class Lowering:
    """What the operators' `lower` functions may ask and do. Lives for one call of `lower()`."""

    def __init__(
        self,
        graph: Graph,
        formats: Mapping[str, Format],
        kernels: Mapping[Form, Kernel],
        lower_node: LowerNode,
        magnitude: Callable[[str], float],
        zeros: Mapping[str, float],
    ) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.body: list[Op | Loop] = []
        self._formats = formats
        self._shapes = graph.all_shapes()
        self._floats = graph.all_constants()
        self._steps = graph.steps
        self._alias: dict[str, str] = {}
        self._kernels = kernels
        self._magnitude = magnitude
        self._zeros = zeros
        self._lower_node = lower_node
        self._states = _states_and_reads(graph)

    def shape(self, value: str) -> Shape:
        """Of a value of the graph, for one sample."""
        return self._shapes[value]

    def count(self, value: str) -> int:
        """Elements of a value of the graph, for one sample."""
        return element_count(self._shapes[value])

    def format(self, value: str) -> Format:
        """What the assignment gives a value of the graph, its exponent chosen."""
        return self._formats[value]

    def constant(self, value: str) -> np.ndarray | None:
        """The float array behind `value` if it is known at compile time."""
        return self._floats.get(value)

    def steps(self, value: str) -> np.ndarray | None:
        """The scales of the integers constant `value` was made of, broadcast to its shape; None if it has none."""
        steps = self._steps.get(value)
        return None if steps is None else np.broadcast_to(steps, self._shapes[value])

    def tensor(self, value: str) -> str:
        """Name of the run-time tensor that holds `value`, views resolved."""
        while value in self._alias:
            value = self._alias[value]
        return value

    def operand(self, value: str) -> str:
        """Tensor of `value`, constant or not; a constant is quantized and registered on first use."""
        constant = self.constant(value)
        if constant is None:
            return self.tensor(value)
        return self.add_constant(value, constant, self.format(value))

    def magnitudes(self, tensor: str) -> np.ndarray:
        """Absolute values of a constant tensor, flat, as kernels see them in the domain of its format."""
        fmt = self.tensors[tensor].format
        return np.abs(load(self.constants[tensor], fmt, fmt.domain))

    def add_constant(self, value: str, array: np.ndarray, fmt: Format) -> str:
        """Quantize `array` in kernel order into `fmt`; the same data under the same value is stored once."""
        integers = quantize(array.reshape(-1), fmt)[0]
        name, copies = value, 1
        while name in self.tensors or (name != value and name in self._shapes):
            stored = self.constants.get(name)
            if stored is not None and self.tensors[name].format == fmt and np.array_equal(stored, integers):
                return name
            copies += 1
            name = f"{value}.{copies}"
        self.tensors[name] = Tensor(name, integers.size, fmt, Role.CONSTANT)
        self.constants[name] = integers
        return name

    def add_codes(self, name: str, codes: np.ndarray, fmt: Format) -> str:
        """Register a constant whose codes are known; `name` is a wish, equal ones are stored once."""
        for known, stored in self.constants.items():
            if known.endswith(".table") and self.tensors[known].format == fmt and np.array_equal(stored, codes):
                return known
        tensor = self.scratch(name, codes.size, fmt)
        self.tensors[tensor.name] = replace(tensor, role=Role.CONSTANT)
        self.constants[tensor.name] = codes
        return tensor.name

    def add_table(self, name: str, entries: np.ndarray) -> str:
        """Register a shared look-up table of unsigned 16-bit entries."""
        while name in self._shapes:  # a value of the model has this name
            name += "_"
        if name not in self.tensors:
            self.tensors[name] = Tensor(name, entries.size, Fixed(16, 0), Role.TABLE)
            self.constants[name] = entries
        return name

    def define(self, value: str, role: Role = Role.ARENA) -> Tensor:
        """The tensor that holds run-time `value`."""
        tensor = Tensor(value, self.count(value), self.format(value), role, zeros=self._zeros.get(value, 0.0))
        self.tensors[value] = tensor
        return tensor

    def scratch(self, name: str, count: int, fmt: Format) -> Tensor:
        """A run-time tensor the model has no value for; `name` is a wish."""
        name = free_name(name, self.tensors, self._shapes)
        self.tensors[name] = Tensor(name, count, fmt, Role.ARENA)
        return self.tensors[name]

    def alias(self, value: str, target: str) -> None:
        """`value` is another name for `target`."""
        self._alias[value] = target

    def is_spent(self, value: str) -> bool:
        """Whether `value` is a loop's state, or a view of one, whose one reader may write into its memory."""
        states, reads = self._states
        while reads[value] == 1 and value in self._alias:
            value = self._alias[value]
        return reads[value] == 1 and value in states

    def loaded(self, value: str) -> Loaded:
        """What kernels see of `value`."""
        return loaded(self._formats[value])

    def observed(self, value: str) -> float:
        """The largest magnitude of `value`, in calibration if it is computed, in units of its format."""
        constant = self.constant(value)
        largest = self._magnitude(value) if constant is None else float(np.abs(constant).max(initial=0.0))
        return math.ldexp(largest, -self._formats[value].exponent)

    def domain(self, values: Sequence[str]) -> Domain:
        """The domain in which an operation on `values` computes: the widest of theirs."""
        return domain_of(self._formats[value] for value in values)

    def emit(self, node: Node, op: Op) -> None:
        """Append an operation in the domain of its operands, after checking that its accumulator exists.

        ModelError if there is no kernel or no accumulator.
        """
        kernel = self._kernels[op.kernel]
        tensors = [self.tensors[name] for name in op.inputs]
        same = self._is_one_grid([*tensors, self.tensors[op.output]], kernel)
        on_codes = self._kernels.get(op.kernel.on_codes)
        if on_codes is not None and same and not op.params.get("shift"):
            params = {name: value for name, value in op.params.items() if name != "shift"}
            op, kernel = replace(op, kernel=on_codes.form, params=params), on_codes
        domain = domain_of(t.format for i, t in enumerate(tensors) if t.role != Role.TABLE and i not in kernel.codes)
        if (
            SINGLE in (domain, op.domain)
            or domain == AFFINE
            or (kernel.coded == SINGLE and (domain == CODED or self.tensors[op.output].format.domain == AFFINE))
        ):  # which holds every code of 16 bits and less
            domain = SINGLE
        if domain != INTEGER and not kernel.coded:
            raise ModelError(f"node '{node.name}' ({node.op}): no kernel for operands in {tensors[-1].format}")
        if domain == INTEGER and op.accumulator_bits > MAX_ACCUMULATOR_BITS:
            raise ModelError(
                f"node '{node.name}' ({node.op}): exact sums need {op.accumulator_bits} bits, the limit is "
                f"{MAX_ACCUMULATOR_BITS}; operands of very different scale: use 8 bits for one of them"
            )
        self.body.append(replace(op, domain=domain))

    @staticmethod
    def _is_one_grid(tensors: Iterable[Tensor], kernel: Kernel) -> bool:
        """Whether all have the same format, so that codes can be moved as they are. Only integers and asymmetric
        integers may be compared as codes; integers have kernels of their own that lose nothing."""
        formats = {tensor.format for tensor in tensors if tensor.role != Role.TABLE}
        if len(formats) != 1:
            return False
        domain = formats.pop().domain
        return domain == AFFINE or (domain != INTEGER and kernel.coded == REAL)

    def append(self, item: Op | Loop) -> None:
        """Add to the end of the body; emit() does so for a node's operation."""
        self.body.append(item)

    def lower_body(self, graph: Graph) -> list[Op | Loop]:
        """Lower the nodes of one level into a list of its own."""
        outer, self.body = self.body, []
        for node in graph.nodes:
            self._lower_node(node, self)
        inner, self.body = self.body, outer
        return inner
