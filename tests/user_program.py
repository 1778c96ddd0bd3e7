"""A small program of a user: typed strictly against the installed package, and run with every supported Python."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

import tinyhil
from tinyhil.errors import HilError

Samples = npt.NDArray[np.float32]


def measured(model: tinyhil.Model, board: str, x: Samples) -> tinyhil.Record:
    compiled: tinyhil.Compiled = model.compile("fixed8", board=board)
    print(f"{compiled.format}: {compiled.arena_bytes} B, proven {compiled.proven}, {len(compiled.sources)} files")
    return compiled.run(x=x)


def differences(a: tinyhil.Record, b: tinyhil.Record) -> list[str]:
    return [str(found.text) for found in tinyhil.compare(a, b)]


def main() -> None:
    x: Samples = np.random.default_rng(0).uniform(0, 16, (4, 8, 8)).astype(np.float32)
    model = tinyhil.load("digits_mlp", say=print)
    first, again = measured(model, "host", x), measured(model, "host", x)
    plain: Mapping[str, object] = first.to_dict()
    assert first.bit_exact
    assert plain["samples"] == 4
    assert not any("outputs" in text for text in differences(first, again))
    with tempfile.TemporaryDirectory() as folder:
        out: Path = model.export("cmake", Path(folder) / "digits.zip", "fixed8")
        assert out.is_file()
    try:
        model.run("nothing", x)
    except HilError as error:
        code: int = error.exit_code
        print(f"{type(error).__name__} {code}: {error}")


if __name__ == "__main__":
    main()
