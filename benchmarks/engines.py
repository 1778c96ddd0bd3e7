"""Engines of others beside ours, as `hil compare --engines` measures them: the networks and boards of a page.

    python -m benchmarks.engines [--only PATTERN] [--again | --tensors | --merge FILE]

Writes results/engines.json, which docs/measured/peers.md shows (python -m tools.docs). Needs HIL_DATA with `models/`
and `tflite/microwakeword/`, and HIL_ENGINES with the checkouts that `hil engines` names. Of the digits and the
FastGRNN there are only floats: quantized_files.py writes what engines of int8 read, fastgrnn_calls.py is one of them.
What the table holds is not measured again, only ours beside an engine that is new there; each row has its commit.
--again measures rows, too, of commits since which what they depend on has changed. Whatever ends it, the same command
goes on: rows are written network by network and board by board, into what the file holds by then, so that two may run
on different --only at once. --tensors asks which tensor each engine has otherwise first, on this computer, for rows
that do not know it. --merge puts in the rows of another clone's table that are of sources as they are here.
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

import numpy as np
import onnx
from onnx import numpy_helper

from benchmarks import fastgrnn_calls, quantized_files
from benchmarks.given import given_data
from benchmarks.peers import fastgrnn_as_scan
from tinyhil.data import load
from tinyhil.errors import ConfigError
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.engines import registry
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
CALLS, CALLS_ON = "cmsis-nn-calls", "fastgrnn"  # an engine of one network
ENGINES = ("tinyhil", "cmsis-nn", CALLS, "tflm", "executorch", "tinymaix", "onnx2c", "emlearn")
SAMPLES, DIGITS, WINDOWS = 2, 100, 20
NAME = "engines"
DEPENDS = (*MEASURED_BY, "harness/engines")


@dataclass(frozen=True, slots=True)
class Network:
    """`quantized`: a .tflite file of int8; `floats`: the same in float32, of which ours computes int8 of its own making
    where there is no other file, or `own`; `rewritten`: not as it is but as `hil convert` writes it; `inputs`: samples
    by the ending of the file that takes them, None: noise. A network with states computes its first step."""

    name: str
    quantized: Path | None
    floats: Path | None
    samples: int = SAMPLES
    boards: tuple[str, ...] = BOARDS
    rewritten: bool = False
    own: bool = False
    inputs: Mapping[str, Path] | None = None

    @property
    def engines(self) -> tuple[str, ...]:
        """Those that read one of its files."""
        has = {ending for ending, file in ((".tflite", self.quantized), (".onnx", self.floats)) if file is not None}
        there = [name for name in ENGINES if name != CALLS or self.name == CALLS_ON]
        return tuple(name for name in there if name == OURS or has & set(engine_named(name).reads))


def networks(work: Path) -> Sequence[Network]:
    """MLPerf Tiny's, a wake word, small ones of the zoo, scikit-learn's of iris, a FastGRNN, and those of TinyMaix'
    checkout, where there is one. `work`: where files that are made of others are put."""
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
        _digits("digits_mlp", quantized_files.digits_mlp, (64,), work),
        _digits("digits_cnn", quantized_files.digits_cnn, (8, 8), work),
        _fastgrnn(work),
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


def _digits(
    name: str, written: Callable[[Sequence[np.ndarray], np.ndarray], bytes], takes: Sequence[int], work: Path
) -> Network:
    """Of the zoo, its codes those of the training part, of which the written file `takes` this shape."""
    floats, found = ROOT / "models" / name / f"{name}.onnx", load("digits")
    weights = [numpy_helper.to_array(one).astype(np.float64) for one in onnx.load(floats).graph.initializer]
    shape = len(found.x_train), 1, *found.x_train.shape[-2:]
    quantized = work / f"{name}_int8.tflite"
    quantized.write_bytes(written(weights, found.x_train.reshape(shape).astype(np.float64)))
    assert found.y_test is not None
    inputs = _inputs(work / name, found.x_test, found.y_test, quantized_files.grid_of(found.x_train), takes)
    return Network(name, quantized, floats, DIGITS, SMALL_TOO, inputs=inputs)


def _fastgrnn(work: Path) -> Network:
    """That of peers.py, its codes those of its windows; ours reads a Scan, others a WHILE."""
    source = given_data() / "models" / "peer_bench"
    weights = {name: np.asarray(one, np.float64) for name, one in np.load(source / "rnn.npz").items()}
    x, y = (np.load(source / f"har_{name}.npy") for name in ("x", "y"))
    quantized, floats = work / f"{CALLS_ON}_int8.tflite", work / f"{CALLS_ON}_scan.onnx"
    quantized.write_bytes(quantized_files.fastgrnn(weights, x))
    onnx.save(fastgrnn_as_scan(source / "rnn.npz"), floats)
    vars(registry)["ENGINES"] = (*registry.ENGINES, fastgrnn_calls.engine(CALLS, weights, x))  # for this process
    inputs = _inputs(work / CALLS_ON, x, y, quantized_files.grid_of(x), x.shape[1:])
    return Network(CALLS_ON, quantized, floats, WINDOWS, SMALL_TOO, own=True, inputs=inputs)


def _inputs(
    stem: Path, x: np.ndarray, y: np.ndarray, grid: quantized_files.Grid, takes: Sequence[int]
) -> Mapping[str, Path]:
    """Samples as each language takes them: reals, and their codes in the shape that the written file `takes`."""
    codes = quantized_files.codes_of(x, grid).astype(np.float32)
    made = {".onnx": x.astype(np.float32), ".tflite": codes.reshape(-1, *takes)}
    files = {ending: stem.with_name(f"{stem.name}{ending}.npz") for ending in made}
    for ending, samples in made.items():
        np.savez(files[ending], x=samples, y=y)
    return files


def _files(network: Network, work: Path) -> str:
    """As `--models` takes them, under the network's name; ours reads the first."""
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
    return BESIDE.join(map(str, reversed(found) if network.own else found))


def briefly(why: str) -> str:
    """Why a cell could not be measured, without this computer's folders, addresses and logs."""
    why = re.sub(r": the firmware crashed: .*|\d{4}-\d\d-\d\d [\d.-]+ ", "", why)
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
    files, cells = _files(network, work), []
    for engine in engines:
        inputs = _taken(network, files, engine)
        contest = Contest((engine,), (files,), (board,), None, inputs, network.samples, results=work / "results")
        cells += measure(contest, bench)
    other = {"equal": None} if network.own else {}  # codes of another making are not expected to be equal
    return [{**row, "why": briefly(row["why"]), **other} for row in rows_of(cells)]


def _taken(network: Network, files: str, engine: str) -> Path | None:
    """The samples for an engine, in the language that it reads."""
    if network.inputs is None:
        return None
    endings = [Path(one).suffix for one in files.split(BESIDE)]
    reads = endings if engine == OURS else engine_named(engine).reads
    return network.inputs[next(one for one in endings if one in reads)]


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
        for network in networks(work):
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
