"""`hil energy`: a model on samples, its operations counted and priced."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tinyhil.compiler.lower import lower
from tinyhil.harness.energy.chips import ChipEnergy, energy_on_chips
from tinyhil.harness.energy.counts import count_operations
from tinyhil.harness.energy.decomposition import InParts, layers_in_parts
from tinyhil.harness.energy.sample_energy import Energy, OperationEnergy, energy_of
from tinyhil.harness.energy.technology import Technology, find_technology
from tinyhil.harness.energy.what_if import Sensitivity, sensitivities
from tinyhil.harness.job.job import Streamed, load_job, method_of, open_model
from tinyhil.harness.settings.config import Boards
from tinyhil.notice import Say
from tinyhil.references.reference import quantize_inputs

ENOUGH_SAMPLES = 20  # to know how many values are zero
AS_LISTS = ("sparse",)  # the fusion that leaves zeros of weights out; here they are counted


@dataclass(frozen=True, slots=True)
class EnergyRequest:
    """What the user asked for; the fields are the options of `hil energy`."""

    model: str
    format: str = "fixed16"
    assignment: Path | None = None
    inputs: Path | None = None
    calibrate: Path | None = None
    calibrate_by: str | None = None
    samples: int = ENOUGH_SAMPLES
    technology: str | None = None
    technologies: Path | None = None
    states: tuple[str, ...] | None = None
    steps: int | None = None

    @property
    def streamed(self) -> Streamed:
        """What is known of its states, and the file that shows how many steps a sample has."""
        return Streamed(self.states, self.steps, self.inputs or self.calibrate)


@dataclass(frozen=True, slots=True)
class EnergyOutcome:
    """`data`: where the samples come from on which zeros were counted."""

    model: str
    format: str
    data: str
    samples: int
    technology_name: str
    technology: Technology
    energy: Energy
    sensitivities: tuple[Sensitivity, ...]
    chips: tuple[ChipEnergy, ...]
    in_parts: tuple[InParts, ...]

    @property
    def printed(self) -> dict[str, Any]:
        """What `--json` prints."""
        found = self.energy
        return {
            "fidelity": "modelled",
            "model": self.model,
            "format": self.format,
            "data": {"name": self.data, "samples": self.samples},
            "technology": {"name": self.technology_name, **self.technology.model_dump()},
            "operations": [_record(operation) for operation in found.operations],
            "input_pj": found.input_pj,
            "constants_off_chip": found.is_off_chip,
            "products": sum(each.operation.executions * each.operation.products for each in found.operations),
            "energy_pj": found.total_pj,
            "energy_zeros_skipped_pj": found.skipping_pj,
            "sensitivity": [asdict(each) for each in self.sensitivities],
            "chips": [_chip_record(each) for each in self.chips],
            "layers_in_parts": [asdict(each) for each in self.in_parts],
        }


def _record(priced: OperationEnergy) -> dict[str, Any]:
    return {
        **asdict(priced.operation),
        "product_pj": priced.product_pj,
        "sram_pj": priced.sram_pj,
        "dram_pj": priced.dram_pj,
        "skipped_pj": priced.skipped_pj,
    }


def _chip_record(found: ChipEnergy) -> dict[str, Any]:
    least, most = found.chip.nj_per_cycle
    return {
        "chip": found.name,
        "fidelity": "joules measured by others, cycles estimated",
        "source": found.chip.source,
        "nj_per_cycle": [least, most],
        "cycles": None if found.cycles is None else asdict(found.cycles),
        "uj": None if found.uj is None else asdict(found.uj),
        "reason": found.reason,
    }


def run_energy(request: EnergyRequest, say: Say, boards: Boards | None = None) -> EnergyOutcome:
    """Count what the integer program of `request` does with the samples, and price it; with `boards` also what it takes
    on chips that others have measured."""
    name, technology = find_technology(request.technology, request.technologies)
    opened = open_model(request.model, say, request.streamed, by=method_of(request.assignment, request.calibrate_by))
    job = load_job(opened, request, say)
    program = lower(opened.model.graph, job.assignment, job.ranges, AS_LISTS)
    codes, _ = quantize_inputs(program, job.inputs.x)
    source = program.tensors[program.input]
    operations, input_bits = count_operations(program, codes), source.count * int(source.format.bits)
    return EnergyOutcome(
        opened.source.name,
        job.assignment.describe(),
        f"{job.inputs.name} ({job.inputs.source})",
        len(codes),
        name,
        technology,
        energy_of(operations, input_bits, technology),
        sensitivities(operations, input_bits, technology),
        energy_on_chips(lower(opened.model.graph, job.assignment, job.ranges), boards) if boards is not None else (),
        tuple(layers_in_parts(operations, technology)),
    )
