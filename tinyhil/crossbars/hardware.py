"""The accelerator as numbers: crossbars, converters and tiles. Values and their sources are in boards.yaml."""

from __future__ import annotations

from dataclasses import dataclass

from tinyhil.errors import ConfigError

MOST_ROWS, MOST_CELL_BITS, MOST_DAC_BITS, MOST_ADC_BITS = 1024, 8, 8, 16
NOMINAL_ROWS = 128  # of the array that `array_mw` is the power of
NOMINAL_ADC_BITS = 8  # of the converter that `adc_mw` is the power of


@dataclass(frozen=True, slots=True)
class Hardware:
    """Arrays of `rows` x `rows` cells of `cell_bits`, inputs driven `dac_bits` at a time, columns read in `adc_bits`.

    `cycle_ns`: one read of an array; `adc_gsps`: conversions per nanosecond of the one converter that an array's
    columns share. Powers are those of one unit while it works; `tile_mw` is spent per tile in use all the time.
    """

    rows: int
    cell_bits: int
    dac_bits: int
    adc_bits: int
    cycle_ns: float
    adc_gsps: float
    adc_mw: float
    dac_mw: float
    array_mw: float
    sample_hold_mw: float
    shift_add_mw: float
    registers_mw: float
    tile_mw: float
    crossbars_per_tile: int

    def __post_init__(self) -> None:
        limits = {
            "rows": MOST_ROWS,
            "cell_bits": MOST_CELL_BITS,
            "dac_bits": MOST_DAC_BITS,
            "adc_bits": MOST_ADC_BITS,
        }
        for name, most in limits.items():
            if not 1 <= getattr(self, name) <= most:
                raise ConfigError(f"crossbars: {name} {getattr(self, name)} is out of range, 1 to {most} are modelled")

    @property
    def read_ns(self) -> float:
        """One cycle: the array, or its converter if that takes longer for all columns."""
        return max(self.cycle_ns, self.rows / self.adc_gsps)

    def input_cycles(self, bits: int, *, signed: bool = True) -> int:
        """Cycles that drive one input of `bits`: its magnitude bits, then, if it is `signed`, the sign."""
        return signed + -(-(bits - signed) // self.dac_bits)

    def slices(self, bits: int) -> int:
        """Cells next to each other that hold one weight of `bits`."""
        return -(-bits // self.cell_bits)


def column_bits(rows: int, cell_bits: int, dac_bits: int) -> int:
    """Bits of the largest sum of a column in one cycle: 8 for 128 rows of one bit, driven by one bit."""
    return (rows * (2**cell_bits - 1) * (2**dac_bits - 1)).bit_length()
