"""Tensors over several memories as compiler and board have them: arrays of their own, linked where the plan says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from arena_machine import compiled_cases
from kernel_cases import SANITIZED, first_difference, run_natively
from onnx_models import samples_for
from test_regions import SIDE, spread_small, wide_model

from tinyhil.compiler.calibrate import calibrate, save_ranges
from tinyhil.errors import BuildError
from tinyhil.frontend.onnx import load_onnx
from tinyhil.harness.build.image import check_arena, check_fits
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.record import make_record
from tinyhil.harness.measure.run import run
from tinyhil.harness.settings.config import load_boards
from tinyhil.memplan.arena.regions import arrays


def test_generated_code_keeps_to_the_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each region an array of its own, under the sanitizers."""
    import kernel_cases

    from tinyhil.codegen.model import emit_model
    from tinyhil.memplan.arena.transfer import Transfer
    from tinyhil.passes.hot import Target
    from tinyhil.passes.laid import laid_out

    wide = spread_small(tmp_path)
    inputs = np.random.default_rng(1).integers(-128, 128, (4, 36))
    text = emit_model(laid_out(wide.program, wide.plan), [Target("host", Transfer(False, 1, 36, 0, 0, 36))], bytes(8))
    for symbol, size in arrays(wide.plan).items():
        assert f"uint8_t {symbol}[{size}];" in text["model/model.cpp"]
    monkeypatch.setattr(kernel_cases, "ARENA", kernel_cases.re.compile(r"alignas\(4\) uint8_t hil_arena\[(\d+)\];\n"))
    cases = compiled_cases([wide], [inputs], monkeypatch)
    assert first_difference(cases, run_natively(cases, tmp_path, *SANITIZED)) == ""


def test_the_h747_runs_what_its_largest_memory_can_not_hold(tmp_path: Path) -> None:
    path = tmp_path / "wide.onnx"
    path.write_bytes(wide_model().SerializeToString())
    model, x = load_onnx(path), samples_for((1, 1, SIDE * SIDE), 1)
    np.save(tmp_path / "x.npy", x)
    save_ranges(path.with_suffix(".ranges.json"), calibrate(model.graph, x, {"name": "test"}), model.sha256)
    request = Request(
        board="h747", model=str(path), format="fixed8", inputs=tmp_path / "x.npy", calibrate=tmp_path / "x.npy",
        results=tmp_path,
    )  # fmt: skip
    outcome = run(request, load_boards(), tmp_path / "cache", lambda line: None, lambda done, total: None)
    record = make_record(outcome)
    assert record["bit_exact"]
    peaks = record["plan"]["peaks"]
    assert sum(peaks.values()) == record["plan"]["peak_bytes"] > 524_288
    assert peaks["sram"] > 0
    assert peaks["arena"] > 0
    assert set(record["plan"]["regions"].values()) == {region for region, size in peaks.items() if size}
    starts = {"hil_arena": 0x24000000, "hil_arena_dtcm": 0x20000000, "hil_arena_sram": 0x30000000}
    for symbol, size in arrays(outcome.compiled.plan).items():
        assert outcome.image.symbol(symbol).size_bytes == size
        assert starts[symbol] <= outcome.image.symbol(symbol).address < starts[symbol] + 0x80000
    check_fits(outcome.image, outcome.board)
    wrong = {symbol: size + 4 for symbol, size in arrays(outcome.compiled.plan).items()}
    with pytest.raises(BuildError, match="planned"):
        check_arena(outcome.image, wrong)
