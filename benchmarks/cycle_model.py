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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tinyhil.errors import HilError
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.engines.firmware_run import Bench, measured
from tinyhil.harness.engines.published import TWICE, Counts
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.run import Clock
from tinyhil.harness.settings.config import load_boards

BOARDS = Path(__file__).with_name("published_boards.yaml")
BOARD_OF = {
    "H7A3": "nucleo_h7a3",
    "F746": "disco_f746",
    "L4R5": "nucleo_l4r5",
    "U575": "nucleo_u575",
    "U385": "nucleo_u385",
    "G0B1": "nucleo_g0b1",
}
SINGLE_BANK = "_single_bank"
CORES = {
    "cortex-m7": "Cortex-M7",
    "cortex-m4": "Cortex-M4",
    "cortex-m33": "Cortex-M33",
    "cortex-m0plus": "Cortex-M0+",
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
    board: str
    measured: float
    clock_hz: float

    @property
    def name(self) -> str:
        return f"{self.round} {self.submitter} {self.system} {self.task}"


@dataclass(frozen=True, slots=True)
class Outcome:
    image: Image
    core: str
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
        board = next((board for name, board in BOARD_OF.items() if name in system), None)
        task = TASKS.get(folder, folder)
        base = results / edition / "closed" / submitter
        throughput = _throughput(base / "results" / system / task / "performance" / "results.txt")
        if board is None or throughput is None or task not in TASKS.values():
            continue
        described = json.loads((base / "systems" / f"{system}.json").read_text(encoding="utf-8-sig"))
        hz = 1e6 * float(re.sub(r"[^\d.]", "", described["Processor(s) Frequencies"]))
        board += SINGLE_BANK if "single bank" in described.get("Hardware Notes", "").lower() else ""
        yield Image(edition, submitter, system, task, path, board, throughput, hz)


def _throughput(results: Path) -> float | None:
    if not results.is_file():
        return None
    found = re.findall(r"(?:Median throughput is|Estimated throughput:)\s+([\d.]+) inf", results.read_text())
    return float(found[-1]) if found else None


def run(image: Image, counts: Counts = TWICE) -> Outcome:
    """As `hil run --firmware` measures it. NotRun."""
    boards = load_boards(BOARDS)
    bench = Bench(boards, default_cache_dir(), lambda line: None, lambda done, total: None, counts)
    with tempfile.TemporaryDirectory() as folder:
        request = Request(f"{image.board}@emulated", "", results=Path(folder))
        try:
            latency = measured(image.path, request, bench, Clock())[0]["latency"]
        except HilError as error:
            raise NotRun(str(error)) from None
    hz = latency["clock_hz"]
    if abs(hz / image.clock_hz - 1) > 0.01:
        raise NotRun(f"its registers say {hz / 1e6:g} MHz, its description {image.clock_hz / 1e6:g} MHz")
    core = CORES[boards.board(image.board).chip.core]
    return Outcome(image, core, latency["instructions"], latency["median"], hz / image.measured)


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
        mine = [o for o in outcomes if o.core == core]
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
    outcomes = []
    for image in wanted:
        try:
            outcomes.append(run(image))
        except NotRun as problem:
            print(f"not run: {image.name}: {problem}", flush=True)
            continue
        o = outcomes[-1]
        print(f"{image.name}: {o.cycles:,.0f} modelled, {o.measured:,.0f} measured, {100 * o.error:+.1f} %", flush=True)
    print(f"\n{table(outcomes)}\n\n{summary(outcomes)}\n{len(wanted) - len(outcomes)} of {len(wanted)} not run")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
