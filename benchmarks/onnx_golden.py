"""How many ONNX files of a folder give the outputs that lie beside them: network.onnx, inputs.npz, outputs.npz.

    python -m benchmarks.onnx_golden FOLDER [--all]

The float reference computes them; floats have to be within 1e-3 of the largest output, whole numbers equal, or half of
one from what lies beside a float that the file declares (`rounded`). Constants that the inputs hold, too, are left out.
One line for each file that does not (`--all`: for every file), counts at the end; exits with 1 if one file that is read
differs.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx

from tinyhil.errors import HilError
from tinyhil.frontend.onnx import load_onnx
from tinyhil.frontend.ports import Stream
from tinyhil.language.graph import element_count
from tinyhil.references.evaluate import evaluate

EQUAL, ROUNDED, DIFFERENT, REFUSED, ALONE = "equal", "rounded", "differs", "refused", "without outputs"
FLOAT_ERROR = 1e-3  # of the largest magnitude


def verdict(folder: Path) -> tuple[str, str]:
    """What becomes of the network in `folder`, and why."""
    try:
        graph = load_onnx(folder / "network.onnx", Stream(())).graph
    except HilError as error:
        return REFUSED, str(error).removeprefix(f"{folder / 'network.onnx'}: ")
    given, wanted = (_arrays(folder / name) for name in ("inputs.npz", "outputs.npz"))
    if given is None or wanted is None:
        return ALONE, ""
    given = given[: element_count(graph.shapes[graph.inputs[0]])]  # what follows are the file's own constants
    x = given.reshape(1, *graph.shapes[graph.inputs[0]]) if given.size else given
    got = evaluate(graph, x.astype(np.float32)).reshape(-1)
    if got.size != wanted.size:
        return DIFFERENT, f"{got.size} numbers, not {wanted.size}"
    is_whole = bool((wanted == np.rint(wanted)).all())
    is_finite = np.isfinite(wanted) & np.isfinite(got)  # padding may be infinite
    limit = 0.0 if is_whole else FLOAT_ERROR * float(np.abs(wanted[is_finite]).max(initial=1e-6))
    near = np.abs(np.where(is_finite, got - np.where(is_finite, wanted, 0), np.inf)) <= limit
    wrong = int((~(near | (got == wanted))).sum())
    if wrong and is_whole and _declares_floats(folder / "network.onnx") and bool((np.abs(got - wanted) <= 0.5).all()):
        return ROUNDED, "the outputs beside it are whole numbers, the file declares a float"
    return (DIFFERENT, f"{wrong} of {wanted.size} numbers") if wrong else (EQUAL, "")


def _declares_floats(path: Path) -> bool:
    kinds = {info.type.tensor_type.elem_type for info in onnx.load(path, load_external_data=False).graph.output}
    return kinds == {onnx.TensorProto.FLOAT}


def _arrays(path: Path) -> np.ndarray | None:
    if not path.is_file():
        return None
    with np.load(path) as data:
        return np.concatenate([np.asarray(data[name], np.float64).reshape(-1) for name in data])


def main() -> int:
    """Prints a line for each file and the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--all", action="store_true", help="a line for equal files, too")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    for path in sorted(arguments.folder.rglob("network.onnx")):
        try:
            kind, reason = verdict(path.parent)
        except (ValueError, LookupError) as error:
            kind, reason = DIFFERENT, f"inputs do not fit: {error}"
        counts[kind] += 1
        if arguments.all or kind != EQUAL:
            print(f"{path.parent.relative_to(arguments.folder)}: {kind}{f': {reason}' if reason else ''}", flush=True)
    print(", ".join(f"{counts[kind]} {kind}" for kind in (EQUAL, ROUNDED, DIFFERENT, REFUSED, ALONE) if counts[kind]))
    return 1 if counts[DIFFERENT] else 0


if __name__ == "__main__":
    sys.exit(main())
