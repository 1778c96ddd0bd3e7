"""What the figures of a sweep are misread without stands beside them, of cells that were finished before, too."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from hil_command import hil

from tinyhil import data
from tinyhil.harness.sweep.work import as_keys

NO_SAMPLE = "warning: no sample of 20 searched tells fixed8 from fixed16"


def test_a_search_s_warning_is_a_line_below_the_table(tmp_path: Path) -> None:
    digits = data.load("digits", allow_download=False)
    np.savez(tmp_path / "train.npz", x=digits.x_train[:20], y=digits.y_train[:20])
    np.savez(tmp_path / "test.npz", x=digits.x_test[:40], y=digits.y_test[:40])
    (tmp_path / "s.yaml").write_text(
        "models: [{model: digits_mlp, inputs: test.npz, calibrate: train.npz}]\nboards: [host]\n"
        "formats: [[fixed8, fixed16], fixed8]\nsearch: {ram: 1000, evaluations: 2}\n"
    )
    for _ in range(2):  # computed, then read
        done = hil("sweep", "s.yaml", "--json", "--md", "table.md", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        searched, run = json.loads(done.stdout)["cells"]
        assert [NO_SAMPLE in line for line in searched["warnings"]] == [True]
        assert "`calibrate`" in searched["warnings"][0], "which is what searches see, not --inputs"
        assert run["warnings"] == []
        for text in (done.stderr, (tmp_path / "table.md").read_text()):
            assert f"digits_mlp on host, fixed8, fixed16 by lagrange: {NO_SAMPLE}" in text


def test_options_are_named_as_the_file_has_them() -> None:
    order = {"search": {"inputs": "x", "calibrate": "y"}}
    assert as_keys("--flash 3, --prefer ram; --inputs, --baud", order) == (
        "search: {flash: 3}, run: {prefer: ram}; `calibrate`, --baud"
    )
    assert as_keys("--ram 3 --inputs", {"search": None}) == "run: {ram: 3} `inputs`"
