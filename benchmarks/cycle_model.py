"""Modelled cycles of the emulated ARM boards beside cycles measured on real ones.

    python -m benchmarks.cycle_model --results DIR [--only PATTERN] [--table FILE]

DIR holds public results of MLPerf Tiny (mlcommons' tiny_results_v1.1 to v1.3, each in a folder named v1.1 to v1.3):
firmware images of submitters, and the median throughput of each on its board. An image runs in emulators/cortexm, is
spoken to by its own protocol, and its cycles per inference are compared with clock / throughput.
Nothing of DIR is kept.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil.errors import HilError
from tinyhil.harness.boards.process import ProcessBoard
from tinyhil.harness.build.emulators import compiled_emulator
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.mlperf.benchmarks import BENCHMARKS
from tinyhil.harness.mlperf.runner_protocol import Device
from tinyhil.harness.settings.config import load_boards

CHIPS = {
    "H7A3": "stm32h7a3",
    "F746": "stm32f746",
    "L4R5": "stm32l4r5-foreign",
    "U575": "stm32u575-foreign",
    "U385": "stm32u385",
    "G0B1": "stm32g0b1-foreign",
}
CORES = {
    "stm32h7a3": "Cortex-M7",
    "stm32f746": "Cortex-M7",
    "stm32l4r5-foreign": "Cortex-M4",
    "stm32u575-foreign": "Cortex-M33",
    "stm32u385": "Cortex-M33",
    "stm32g0b1-foreign": "Cortex-M0+",
}
TASKS = {
    "anomaly_detection": "ad",
    "image_classification": "ic",
    "keyword_spotting": "kws",
    "visual_wake_words": "vww",
    "streaming_wakeword": "sww",
}
# Images by which something was decided (docs/cycle_model.md); the model is judged by the others.
FIT = (
    r"v1.2 \S+ (NUCLEO_H7A3ZI|DISCO_F746NG)\S* ad",
    r"v1.2 STMicroelectronics NUCLEO_L4R5ZI ",
    r"v1.2 bosch NUCLEO_L4R5ZI_int8\S* ad",
    r"v1.1 bosch NUCLEO_U575ZI (kws|vww|ad)",
    r"v1.2 bosch NUCLEO_U575ZI_int8 ad",
    r"v1.2 STMicroelectronics NUCLEO_U575ZI_Q ic",
    r"v1.2 bosch NUCLEO_G0B1RE_int8 ad",
)
INFERENCES, WARM_UP = 2, 1
BUDGET = 2_000_000_000  # instructions; the slowest image needs a fifth
BUDGET_SPENT = "instruction budget"  # as the emulator says
ANSWER_S = 600.0
SLACK_CYCLES = 4000  # around the inferences, between the two timestamps
FLASH_BASE = 0x08000000


class NotRun(Exception):
    """Why an image could not be measured."""


@dataclass(frozen=True, slots=True)
class Image:
    """`measured`: inferences per second by the submission; `clock_hz`: by its description."""

    round: str
    submitter: str
    system: str
    task: str
    path: Path
    chip: str
    measured: float
    clock_hz: float
    options: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.round} {self.submitter} {self.system} {self.task}"


@dataclass(frozen=True, slots=True)
class Outcome:
    image: Image
    instructions: float
    cycles: float
    measured: float

    @property
    def fitted(self) -> bool:
        return any(re.match(pattern, self.image.name) for pattern in FIT)

    @property
    def error(self) -> float:
        """Of the model, as a fraction of what was measured."""
        return self.cycles / self.measured - 1


def images(results: Path) -> Iterator[Image]:
    """The images below `results` whose board is emulated and whose measurement lies beside them."""
    for path in sorted(results.glob("v*/closed/*/code/*/**/*")):
        parts = path.relative_to(results).parts
        if path.suffix not in (".bin", ".hex") or "nergy" in path.name:
            continue
        edition, _, submitter, _, system, folder = parts[:6]
        chip = next((chip for name, chip in CHIPS.items() if name in system), None)
        task = TASKS.get(folder, folder)
        base = results / edition / "closed" / submitter
        measured = _throughput(base / "results" / system / task / "performance" / "results.txt")
        if chip is None or measured is None or task not in TASKS.values():
            continue
        described = json.loads((base / "systems" / f"{system}.json").read_text(encoding="utf-8-sig"))
        hz = 1e6 * float(re.sub(r"[^\d.]", "", described["Processor(s) Frequencies"]))
        options = ("--single-bank",) if "single bank" in described.get("Hardware Notes", "").lower() else ()
        yield Image(edition, submitter, system, task, path, chip, measured, hz, options)


def _throughput(results: Path) -> float | None:
    if not results.is_file():
        return None
    found = re.findall(r"(?:Median throughput is|Estimated throughput:)\s+([\d.]+) inf", results.read_text())
    return float(found[-1]) if found else None


def binary(path: Path) -> bytes:
    """The bytes of an image from the start of flash; Intel HEX is unpacked. NotRun."""
    if path.suffix == ".bin":
        return path.read_bytes()
    image, upper = bytearray(), 0
    for number, line in enumerate(path.read_text("ascii").split(), 1):
        record = bytes.fromhex(line[1:])
        if sum(record) & 0xFF:
            raise NotRun(f"line {number} of the HEX file has a wrong checksum")
        count, kind, data = record[0], record[3], record[4:-1]
        if kind == 4:
            upper = int.from_bytes(data) << 16
        elif kind == 0:
            at = upper + int.from_bytes(record[1:3]) - FLASH_BASE
            image.extend(b"\xff" * max(0, at + count - len(image)))
            image[at : at + count] = data
    return bytes(image)


def run(image: Image, emulator: Path, seed: int = 0) -> Outcome:
    """Two inferences after one for the caches. NotRun."""
    benchmark = next(b for b in BENCHMARKS if b.id.startswith(image.task))
    raw = np.random.default_rng(seed).integers(0, 256, benchmark.count, np.uint8)
    data = raw.tobytes() if benchmark.values is not None else (raw / np.float32(64) - 2).astype("<f4").tobytes()
    problem = ""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with ProcessBoard(_command(image, emulator, folder), folder / "log", ANSWER_S) as board:
            try:
                with Device(board, 115200) as device:
                    device.greeting(ANSWER_S)
                    device.name()
                    device.load(data)
                    device.infer(INFERENCES, WARM_UP, ANSWER_S)
            except HilError as error:
                problem = str(error)
            totals = board.finish()
        fault = next((event for event in board.events if event["event"] == "fault"), None)
        if fault is not None:
            raise NotRun(f"{fault['why']} at pc {fault['pc']}")
        if totals.get("why") == BUDGET_SPENT:
            raise NotRun(f"no end within {BUDGET:,} instructions")
        if problem:
            raise NotRun(problem)
        return _outcome(image, folder / "lines", totals)


def _command(image: Image, emulator: Path, folder: Path) -> list[str]:
    (folder / "image.bin").write_bytes(binary(image.path))
    files = {"--image": "image.bin", "--link": "port", "--lines": "lines"}
    given = [part for option, name in files.items() for part in (option, str(folder / name))]
    return [str(emulator), "--chip", image.chip, *given, "--no-autoreset", "--budget", str(BUDGET), *image.options]


def _outcome(image: Image, lines: Path, totals: Mapping[str, Any]) -> Outcome:
    """Between the end of the line with the first timestamp and the start of that with the second."""
    hz = totals["clock_hz"]
    if abs(hz / image.clock_hz - 1) > 0.01:
        raise NotRun(f"its registers say {hz / 1e6:g} MHz, its description {image.clock_hz / 1e6:g} MHz")
    said = [line.split(" ", 4) for line in lines.read_text().splitlines()]
    first = next(i for i, words in enumerate(said) if words[4].startswith("m-infer-start"))
    laps = [words for words in said[first:] if words[4].startswith("m-lap-us")][:2]
    cycles, instructions = (int(laps[1][i]) - int(laps[0][i + 2]) for i in (0, 1))
    own = (int(laps[1][4].rsplit("-", 1)[1]) - int(laps[0][4].rsplit("-", 1)[1])) * hz / 1e6
    if abs(own - cycles) > SLACK_CYCLES + 0.01 * cycles:
        raise NotRun(f"its own clock says {own:,.0f} cycles, the emulator {cycles:,}")
    return Outcome(image, instructions / INFERENCES, cycles / INFERENCES, hz / image.measured)


def table(outcomes: list[Outcome]) -> str:
    """A line for each system, a column for each task: modelled cycles and their error in per cent."""
    cells: dict[str, dict[str, str]] = {}
    for o in outcomes:
        system, _, task = o.image.name.rpartition(" ")
        fitted = ", fit" if o.fitted else ""
        cells.setdefault(system, {})[task] = f"{o.cycles:,.0f} ({100 * o.error:+.1f}{fitted})"
    tasks = sorted({task for line in cells.values() for task in line})
    rows = [f"| system | {' | '.join(tasks)} |", "|---|" + "---|" * len(tasks)]
    rows += [f"| {name} | {' | '.join(line.get(task, '') for task in tasks)} |" for name, line in cells.items()]
    return "\n".join(rows)


def summary(outcomes: list[Outcome]) -> str:
    lines = []
    for core in dict.fromkeys(CORES.values()):
        mine = [o for o in outcomes if CORES[o.image.chip] == core]
        for which, chosen in (("all", mine), ("not fitted", [o for o in mine if not o.fitted])):
            errors = [100 * abs(o.error) for o in chosen]
            if errors:
                middle = statistics.median(errors)
                lines.append(
                    f"{core}, {which}: {len(errors)} images, median error {middle:.1f} %, worst {max(errors):.1f} %"
                )
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True, help="folder with v1.1, v1.2, v1.3")
    parser.add_argument("--only", default="", help="regular expression: images whose name it matches")
    options = parser.parse_args(arguments)
    wanted = [image for image in images(options.results) if re.search(options.only, image.name)]
    if not wanted:
        print(f"{options.results}: no image whose board is emulated and whose measurement is there", file=sys.stderr)
        return 2
    emulator = compiled_emulator(load_boards().board("nucleo_l4r5").chip, default_cache_dir(), print)
    outcomes = []
    for image in wanted:
        try:
            outcomes.append(run(image, emulator))
        except NotRun as problem:
            print(f"not run: {image.name}: {problem}", flush=True)
            continue
        o = outcomes[-1]
        print(f"{image.name}: {o.cycles:,.0f} modelled, {o.measured:,.0f} measured, {100 * o.error:+.1f} %", flush=True)
    print(f"\n{table(outcomes)}\n\n{summary(outcomes)}\n{len(wanted) - len(outcomes)} of {len(wanted)} not run")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
