"""What a program costs on crossbars: their number, cycles, time and energy, layer by layer.

    crossbars = ceil(inner / S) ceil(outputs / S) ceil(weight bits / cell bits) 2, per group of channels
    cycles    = pixels x (1 + ceil((input bits - 1) / DAC bits))

All crossbars of a layer work at once, a sample's layers one after the other. Energy is counted by event (a row
driven, an array read, a column converted), and each array has its share of its tile's while it works. Power is that of
all arrays at work, each layer on a sample of its own as in ISAAC's pipeline: what the supply must give.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from tinyhil.crossbars.hardware import NOMINAL_ADC_BITS, NOMINAL_ROWS, Hardware
from tinyhil.language.program import Program, executions
from tinyhil.reram.mapping import Matrix, matrix_of, require_held


@dataclass(frozen=True, slots=True)
class LayerCost:
    """One layer on `executions` of its operation per sample; `conversions` and `cycles` are those of all of them."""

    name: str
    weight_bits: int
    input_bits: int
    macs: int
    crossbars: int
    cycles: int
    conversions: int
    latency_us: float
    energy_uj: float


@dataclass(frozen=True)
class Cost:
    """Of one sample; `power_mw` with all layers at work."""

    layers: tuple[LayerCost, ...]
    tiles: int
    power_mw: float

    @cached_property
    def latency_us(self) -> float:
        """Microseconds of all layers, one after the other."""
        return sum(layer.latency_us for layer in self.layers)

    @cached_property
    def energy_uj(self) -> float:
        """Microjoules of all layers."""
        return sum(layer.energy_uj for layer in self.layers)

    @cached_property
    def crossbars(self) -> int:
        """Arrays that hold all layers at once."""
        return sum(layer.crossbars for layer in self.layers)

    @cached_property
    def gops_per_watt(self) -> float:
        """Two operations per product."""
        return 2e-3 * sum(layer.macs for layer in self.layers) / self.energy_uj if self.energy_uj else 0.0


def cost_of(program: Program, hardware: Hardware) -> Cost:
    """ModelError names a layer that crossbars can not hold."""
    require_held(program)
    layers = []
    for op, times in executions(program.body):
        matrix = matrix_of(program, op)
        if matrix is not None:
            layers.append(layer_cost(op.name, matrix, hardware, times))
    return total_cost(layers, hardware)


def total_cost(layers: Iterable[LayerCost], hardware: Hardware) -> Cost:
    """Of a sample that goes through these layers."""
    layers = tuple(layers)
    crossbars = sum(layer.crossbars for layer in layers)
    tiles = -(-crossbars // hardware.crossbars_per_tile)
    return Cost(layers, tiles, crossbars * crossbar_mw(hardware) + tiles * hardware.tile_mw)


def converter_mw(hardware: Hardware) -> float:
    """Of the converter behind an array, with its shift and add."""
    return hardware.adc_mw * 2.0 ** (hardware.adc_bits - NOMINAL_ADC_BITS) + hardware.shift_add_mw


def row_mw(hardware: Hardware) -> float:
    """Power that drives one row of a crossbar."""
    return hardware.dac_mw * (2**hardware.dac_bits - 1) + hardware.sample_hold_mw


def cells_mw(hardware: Hardware) -> float:
    """Of an array being read, with its registers."""
    return hardware.array_mw * (hardware.rows / NOMINAL_ROWS) ** 2 + hardware.registers_mw


def crossbar_mw(hardware: Hardware) -> float:
    """Of one array at work, all its rows and columns in use."""
    return converter_mw(hardware) + hardware.rows * row_mw(hardware) + cells_mw(hardware)


def layer_cost(name: str, matrix: Matrix, hardware: Hardware, times: int = 1) -> LayerCost:
    """What a matrix costs on the accelerator, carried out `times` per sample."""
    h, m = hardware, matrix
    row_blocks, column_blocks = -(-m.inner // h.rows), -(-m.outputs // h.rows)
    columns = h.slices(m.weight_bits) * 2  # of cells per output
    crossbars = m.groups * row_blocks * column_blocks * columns
    cycles = times * m.pixels * h.input_cycles(m.input_bits, signed=m.signed)
    conversions = cycles * m.groups * row_blocks * m.outputs * columns
    driven = cycles * m.groups * m.inner * column_blocks * columns
    active_us = cycles * h.read_ns * 1e-3
    picojoules = (
        conversions * converter_mw(h) / h.adc_gsps  # mW / (conversions/ns) = pJ per conversion
        + driven * row_mw(h) * h.read_ns
        + crossbars * cycles * (cells_mw(h) + h.tile_mw / h.crossbars_per_tile) * h.read_ns
    )
    macs = times * m.pixels * m.groups * m.inner * m.outputs
    energy_uj = picojoules * 1e-6
    return LayerCost(name, m.weight_bits, m.input_bits, macs, crossbars, cycles, conversions, active_us, energy_uj)
