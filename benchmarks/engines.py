"""Engines of others beside ours, as `hil compare --engines` measures them: the networks and boards of a page.

    python -m benchmarks.engines [--only PATTERN]

Writes results/engines.json, which docs/measured/peers.md shows (python -m tools.docs). Needs HIL_DATA with `models/`
and HIL_ENGINES with the checkouts that `hil engines` names. What a table of the same commit holds is not
measured again.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.given import given_data
from tinyhil.errors import ConfigError
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.engines.comparison import BESIDE, Contest, measure, rows_of
from tinyhil.harness.engines.firmware_run import Bench
from tinyhil.harness.engines.registry import engine_named
from tinyhil.harness.engines.standing import Row
from tinyhil.harness.offline.convert import convert_model
from tinyhil.harness.settings.config import load_boards
from tools.measured import RESULTS, provenance, write

BOARDS = ("h747", "nucleo_l4r5", "nucleo_u575", "due", "nucleo_g0b1")
INT8 = ("tinyhil", "cmsis-nn", "tflm")
SAMPLES = 2
NAME = "engines"


@dataclass(frozen=True, slots=True)
class Network:
    """`floats`: the same in float32, of a .tflite file written as .onnx."""

    name: str
    quantized: Path
    floats: Path | None
    engines: tuple[str, ...]


def networks() -> Sequence[Network]:
    """MLPerf Tiny's, and the small ones of TinyMaix' checkout, where there is one."""
    mlperf = given_data() / "models"

    def of(name: str, stem: str, floats: str | None, *more: str) -> Network:
        other = None if floats is None else mlperf / f"mlperftiny_{stem}{floats}"
        return Network(name, mlperf / f"mlperftiny_{stem}_int8.tflite", other, (*INT8, *more))

    found = [
        of("ad01", "ad_autoencoder", ".onnx", "onnx2c", "emlearn"),
        of("kws01", "kws_dscnn", ".onnx", "onnx2c", "tinymaix"),
        of("ic01", "ic_resnet8", ".onnx", "onnx2c"),
        of("vww01", "vww_mobilenetv1_025_96", ".onnx", "onnx2c", "tinymaix"),
        of("sww01", "sww_streaming", None),
        of("ic02", "ic02_resnet_large", "_fp32.tflite", "onnx2c"),
    ]
    try:
        small = engine_named("tinymaix").checkout(None) / "tools" / "tflite"
    except ConfigError:
        return found
    both = ("onnx2c", "tinymaix")
    digits = Network("mnist", small / "mnist_valid_q.tflite", small / "mnist_valid_f.tflite", (*INT8, *both))
    pictures = Network("cifar10", small / "cifar10_q.tflite", small / "cifar10_f.tflite", (*INT8, *both))
    return [digits, pictures, *found]


def _files(network: Network, work: Path) -> str:
    """As `--models` takes them, under the network's name."""
    quantized = work / f"{network.name}.tflite"
    quantized.write_bytes(network.quantized.read_bytes())
    if network.floats is None:
        return str(quantized)
    floats = work / f"{network.name}.onnx"
    if network.floats.suffix == ".onnx":
        floats.write_bytes(network.floats.read_bytes())
    else:
        convert_model(str(network.floats), floats)
    return f"{quantized}{BESIDE}{floats}"


def briefly(why: str) -> str:
    """Why a cell could not be measured, without this computer's folders and logs."""
    return re.sub(r"; (largest|log): .*", "", re.sub(r" of /\S+|(?:/[\w.+-]+)+/", "", why))


def known(measured_at: Mapping[str, str]) -> list[Row]:
    """Rows of a table of the same commit."""
    file = RESULTS / f"{NAME}.json"
    found = json.loads(file.read_text()) if file.is_file() else None
    return found["rows"] if found and found["provenance"]["commit"] == measured_at["commit"] else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="regular expression: `network board` that it matches")
    options = parser.parse_args()
    measured_at = provenance()
    rows = known(measured_at)
    bench = Bench(load_boards(), default_cache_dir(), lambda line: print(line, flush=True), lambda done, total: None)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for network in networks():
            for board in BOARDS:
                done = any((row["network"], row["board"]) == (network.name, board) for row in rows)
                if done or not re.search(options.only, f"{network.name} {board}"):
                    continue
                contest = Contest(
                    network.engines,
                    (_files(network, work),),
                    (board,),
                    samples=SAMPLES,
                    results=work / "results",
                    tensors=True,
                )
                rows += [{**row, "why": briefly(row["why"])} for row in rows_of(measure(contest, bench))]
                write(NAME, measured_at, rows)


if __name__ == "__main__":
    main()
