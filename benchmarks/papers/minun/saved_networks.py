"""The networks of `networks.ROWS`, as trained, in trained/: another processor or another torch would train others.

python -m benchmarks.papers.minun.saved_networks [NAME...]   trains what is missing, or these anew (torch, HIL_DATA)
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np

from benchmarks.papers.minun import networks
from tinyhil.errors import DataError

FOLDER = Path(__file__).resolve().parent / "trained"
TRAINING = Path(__file__).resolve().parents[3] / "models" / "training"


def file_of(name: str) -> Path:
    """Where the network of a row is kept: by the row's numbers and the files that make a network of them."""
    row = networks.ROWS[name]
    files = (TRAINING / f"{file}.py" for file in ("fit", "graphs", "nets", name.split("_")[0]))
    sources = [path.read_bytes() for path in (Path(networks.__file__), *files)]
    numbers = [row.data.__name__ if key == "data" else value for key, value in asdict(row).items()]
    key = hashlib.sha256(b"".join([repr(numbers).encode(), *sources])).hexdigest()[:12]
    return FOLDER / f"{name}-{key}.onnx"


def trained(name: str, folder: Path) -> Path:
    """The ONNX file of a row in a folder of its own within `folder`, with NAME.npz (to test) and NAME_train.npz beside
    it; raises DataError without its data, or where what trains it has changed since."""
    found = file_of(name)
    if not found.is_file():
        raise DataError(f"{found.name} is not there; type: python -m benchmarks.papers.minun.saved_networks {name}")
    path = folder / found.stem / f"{name}.onnx"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        (x, y), (x_test, y_test) = networks.ROWS[name].data()
        np.savez(path.with_suffix(".npz"), x=x_test, y=y_test)
        np.savez(path.with_name(f"{name}_train.npz"), x=x, y=y)
        shutil.copy(found, path)
    return path


def train(name: str) -> Path:
    """Train the network of a row and keep it, in place of what was kept of it."""
    row = networks.ROWS[name]
    (x, y), _ = row.data()
    content = networks.network(name, row, x, y).SerializeToString()
    for old in FOLDER.glob(f"{name}-*.onnx"):
        old.unlink()
    found = file_of(name)
    found.write_bytes(content)
    return found


if __name__ == "__main__":
    for each in sys.argv[1:] or [name for name in networks.ROWS if not file_of(name).is_file()]:
        print(train(each))
