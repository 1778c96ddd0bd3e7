"""Engines of others beside ours, as `hil compare --engines` measures them: the networks and boards of a page.

    python -m benchmarks.engines [--only PATTERN] [--again | --tensors | --merge FILE]

Writes results/engines.json, which docs/measured/peers.md shows (python -m tools.docs). Needs HIL_DATA with `models/`
and `tflite/microwakeword/`, and HIL_ENGINES with the checkouts that `hil engines` names. What the table holds is not
measured again, only ours beside an engine that is new there; each row has its commit. --again measures rows, too, of
commits since which what they depend on has changed. Whatever ends it, the same command goes on: rows are written
network by network and board by board, into what the file holds by then, so that two may run on different --only at
once. --tensors asks which tensor each engine has otherwise first, on this computer, for rows that do not know it.
--merge puts in the rows of another clone's table that are of sources as they are here.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from benchmarks.given import given_data
from tinyhil.errors import ConfigError
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.engines.comparison import BESIDE, Contest, first_tensor, measure, rows_of
from tinyhil.harness.engines.firmware_run import Bench
from tinyhil.harness.engines.registry import engine_named
from tinyhil.harness.engines.standing import OURS, Row
from tinyhil.harness.offline.convert import convert_model
from tinyhil.harness.settings.config import load_boards
from tools.measured import RESULTS, provenance, write
from tools.stale import BOARDS as MEASURED_BY

ROOT = Path(__file__).resolve().parent.parent
BOARDS = ("h747", "nucleo_l4r5", "nucleo_u575", "due", "nucleo_g0b1", "pico", "pico2", "nano33ble")  # one of each chip
SMALL_TOO = ("uno", *BOARDS)
PUBLISHED_ON = ("h747",)  # for what TinyMaix has milliseconds of an STM32H750, with that core and those caches
ENGINES = ("tinyhil", "cmsis-nn", "tflm", "executorch", "tinymaix", "onnx2c", "emlearn")
SAMPLES = 2
NAME = "engines"
DEPENDS = (*MEASURED_BY, "harness/engines")


@dataclass(frozen=True, slots=True)
class Network:
    """`quantized`: a .tflite file of int8, None: ours computes int8 of its own making; `floats`: the same in float32;
    `rewritten`: not as it is but as `hil convert` writes it. A network with states computes its first step."""

    name: str
    quantized: Path | None
    floats: Path | None
    samples: int = SAMPLES
    boards: tuple[str, ...] = BOARDS
    rewritten: bool = False

    @property
    def engines(self) -> tuple[str, ...]:
        """Those that read one of its files."""
        has = {ending for ending, file in ((".tflite", self.quantized), (".onnx", self.floats)) if file is not None}
        return tuple(name for name in ENGINES if name == OURS or has & set(engine_named(name).reads))


def networks() -> Sequence[Network]:
    """MLPerf Tiny's, a wake word, small ones of the zoo, scikit-learn's of iris, and those of TinyMaix' checkout, where
    there is one."""
    mlperf = given_data() / "models"

    def of(name: str, stem: str, floats: str | None, samples: int = SAMPLES) -> Network:
        other = None if floats is None else mlperf / f"mlperftiny_{stem}{floats}"
        rewritten = other is not None and other.suffix != ".onnx"
        return Network(name, mlperf / f"mlperftiny_{stem}_int8.tflite", other, samples, rewritten=rewritten)

    nabu = given_data() / "tflite" / "microwakeword" / "v2_okay_nabu.tflite"
    found = [
        of("ad01", "ad_autoencoder", ".onnx"),
        of("kws01", "kws_dscnn", ".onnx"),
        of("ic01", "ic_resnet8", ".onnx"),
        of("vww01", "vww_mobilenetv1_025_96", ".onnx"),
        of("sww01", "sww_streaming", None),
        of("ic02", "ic02_resnet_large", "_fp32.tflite", samples=1),
        Network("okay_nabu", nabu, None, samples=1),
        Network("digits_mlp", None, _of_zoo("digits_mlp"), boards=SMALL_TOO),
        Network("digits_cnn", None, _of_zoo("digits_cnn"), boards=SMALL_TOO),
        Network("iris_mlp", None, ROOT / "tests/scikit_learn/mlp_str.onnx", boards=SMALL_TOO, rewritten=True),
    ]
    try:
        small = engine_named("tinymaix").checkout(None) / "tools" / "tflite"
    except ConfigError:
        return found
    files = small / "mnist_valid_q.tflite", small / "mnist_valid_f.tflite"
    digits = Network("mnist", *files, boards=SMALL_TOO, rewritten=True)
    pictures = Network("cifar10", small / "cifar10_q.tflite", small / "cifar10_f.tflite", rewritten=True)
    files = small / "vww96_q.tflite", small / "vww96_f.tflite"
    persons = Network("vww96", *files, samples=1, boards=PUBLISHED_ON, rewritten=True)
    return [digits, pictures, persons, *found]


def _of_zoo(name: str) -> Path:
    return ROOT / "models" / name / f"{name}.onnx"


def _files(network: Network, work: Path) -> str:
    """As `--models` takes them, under the network's name."""
    found = []
    if network.quantized is not None:
        found.append(work / f"{network.name}.tflite")
        found[-1].write_bytes(network.quantized.read_bytes())
    if network.floats is not None:
        found.append(work / f"{network.name}.onnx")
        if network.rewritten:
            convert_model(str(network.floats), found[-1])
        else:
            found[-1].write_bytes(network.floats.read_bytes())
    return BESIDE.join(map(str, found))


def briefly(why: str) -> str:
    """Why a cell could not be measured, without this computer's folders, addresses and logs."""
    why = re.sub(r": the firmware crashed: .*", "", why)
    return re.sub(r"; (largest|log): .*", "", re.sub(r" of /\S+|(?:/[\w.+-]+)+/", "", why))


def known(file: Path | None = None) -> list[Row]:
    """Rows of the table, or of that of another clone, each with the commit that it was measured at."""
    file = file or RESULTS / f"{NAME}.json"
    found = json.loads(file.read_text()) if file.is_file() else {"rows": [], "provenance": {}}
    return [{"commit": found["provenance"]["commit"], **row} for row in found["rows"]]


@lru_cache
def is_as_now(commit: str) -> bool:
    """Nothing that a row depends on differs between a commit, if this clone has it, and what is checked out."""
    command = ["git", "diff", "--quiet", commit, "HEAD", "--", *DEPENDS]
    return subprocess.run(command, cwd=ROOT, capture_output=True).returncode == 0


def missing(network: Network, board: str, rows: Sequence[Row], *, again: bool) -> tuple[str, ...]:
    """Engines without a row, `again`: or with one that is not as now, and ours beside them."""
    places = [row for row in rows if (row["network"], row["board"]) == (network.name, board)]
    have = {row["engine"] for row in places if not again or is_as_now(row["commit"])}
    new = [engine for engine in network.engines if engine not in have]
    return tuple(dict.fromkeys((OURS, *new))) if new else ()


@contextmanager
def _alone() -> Iterator[None]:
    """While no other process of this command changes the table."""
    folder = os.open(RESULTS, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def keep(changed: Callable[[list[Row]], list[Row]], measured_at: dict[str, str]) -> None:
    """Change the table as it is by now: each cell once, the later row, sorted."""

    def place(row: Row) -> tuple[str, int, int]:
        return row["network"], SMALL_TOO.index(row["board"]), ENGINES.index(row["engine"])

    with _alone():
        latest = {place(row): row for row in changed(known())}
        rows = [latest[key] for key in sorted(latest)]
        commits = " ".join(dict.fromkeys(row["commit"] for row in rows))
        write(NAME, {**measured_at, "commit": commits}, rows)


def _measured(network: Network, board: str, engines: tuple[str, ...], work: Path, bench: Bench) -> list[Row]:
    contest = Contest(engines, (_files(network, work),), (board,), samples=network.samples, results=work / "results")
    return [{**row, "why": briefly(row["why"])} for row in rows_of(measure(contest, bench))]


def _first_tensors(network: Network, work: Path, bench: Bench) -> dict[str, str]:
    """Engine -> the first tensor of a network that it has otherwise than ours, of the engines that have rows."""
    files = _files(network, work)
    contest = Contest(network.engines, (files,), ("host",), samples=network.samples, results=work / "results")
    own = [row for row in known() if row["network"] == network.name and not row["why"]]
    first = {row["engine"]: row["first"] for row in own if row["first"]}
    for engine in sorted({row["engine"] for row in own} - {OURS, *first}):
        first[engine] = briefly(first_tensor(contest, files, engine, bench))
    return first


def _with_first(network: Network, first: Mapping[str, str], rows: list[Row]) -> list[Row]:
    """All rows, those of a network with the first tensor that their engines have otherwise."""

    def with_first(row: Row) -> Row:
        is_its = row["network"] == network.name and not row["why"]
        return {**row, "first": first.get(row["engine"], "")} if is_its else row

    return [with_first(row) for row in rows]


def _joined(measured: Sequence[Row], rows: list[Row]) -> list[Row]:
    return [*rows, *measured]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="regular expression: `network board` that it matches")
    parser.add_argument("--again", action="store_true", help="measure what has changed since it was measured, too")
    parser.add_argument("--tensors", action="store_true", help="only the first tensors that differ, of networks")
    parser.add_argument("--merge", type=Path, metavar="FILE", help="only take over rows of another clone's table")
    options = parser.parse_args()
    measured_at = provenance()
    if options.merge is not None:
        keep(partial(_joined, [row for row in known(options.merge) if is_as_now(row["commit"])]), measured_at)
        return
    bench = Bench(load_boards(), default_cache_dir(), lambda line: print(line, flush=True), lambda done, total: None)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for network in networks():
            if options.tensors and re.search(options.only, network.name):
                first = _first_tensors(network, work, bench)
                keep(partial(_with_first, network, first), measured_at)
            for board in network.boards if not options.tensors else ():
                engines = missing(network, board, known(), again=options.again)
                if engines and re.search(options.only, f"{network.name} {board}"):
                    found = _measured(network, board, engines, work, bench)
                    keep(partial(_joined, [{**row, "commit": measured_at["commit"]} for row in found]), measured_at)


if __name__ == "__main__":
    main()
