"""What Python callers are told: arguments, not options of commands, and no files that are none of theirs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tinyhil
from tinyhil.errors import HilError
from tinyhil.harness.python.wording import in_python


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "a.onnx: no calibrated ranges; give --calibrate inputs.npz",
            "a.onnx: no calibrated ranges; call .calibrate(x)",
        ),
        ("/tmp/tinyhil-ab_1/tmpx/samples.npz: inputs have shape [3]", "x: inputs have shape [3]"),
        ("/tmp/tinyhil-ab_1/model.onnx: no node", "model.onnx: no node"),
        ("a limit is needed; give --ram BYTES, or --board NAME", "a limit is needed; give ram=BYTES, or board=NAME"),
        ("16 of 40 differ; try --format float32 (0 of 16)", "16 of 40 differ; try formats='float32' (0 of 16)"),
        ("take --arena 14400 or --single-bank", "take arena=14400 or single_bank"),
        ("fits; `hil run --board host` starts it", "fits; `hil run --board host` starts it"),
    ],
)
def test_words(message: str, expected: str) -> None:
    assert in_python(message) == expected


def test_no_call_speaks_of_options_or_of_temporary_files(tmp_path: Path) -> None:
    model, x = tinyhil.load("digits_mlp"), np.zeros((4, 3), np.float32)
    path = tmp_path / "net.onnx"
    path.write_bytes(model.opened.source.path.read_bytes())
    own = tinyhil.load(path)
    calls = (
        lambda: own.compile("fixed8"),
        lambda: own.calibrate(x),
        lambda: own.run("host"),
        lambda: own.search(ram=100),
        lambda: model.search(x=x, ram=100),
        lambda: model.search(),
        lambda: model.run("host", x),
        lambda: model.profile("host", x),
        lambda: own.export("cmake", tmp_path / "x.zip"),
    )
    messages = []
    for call in calls:
        with pytest.raises(HilError) as caught:
            call()
        messages.append(str(caught.value))
    assert not [line for line in messages if " --" in line.split("`")[0] or "tinyhil-" in line]
