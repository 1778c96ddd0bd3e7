"""Floats that become codes of fixed point: by bytes as by the general way, and as the numpy reference."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from wire_bench import ROOT

from tinyhil.formats.codec import quantize
from tinyhil.formats.fixed import Fixed

PROGRAM = """#include "firmware/kernels/kernels.hpp"
#include "firmware/kernels/common/convert.hpp"
#include <cstdio>
namespace hil { uint32_t saturations; }
int main() {
    float x;
    while (std::fread(&x, 4, 1, stdin) == 1) {
        const int16_t codes[] = {hil::quantized<int8_t>(x, EXPONENT), hil::quantized_by_parts<int8_t>(x, EXPONENT),
                                 hil::quantized<int16_t>(x, EXPONENT), hil::quantized_by_parts<int16_t>(x, EXPONENT)};
        std::fwrite(codes, 2, 4, stdout);
    }
}
"""


@pytest.mark.parametrize("exponent", [-9, 0, 4])
def test_bytes_round_as_the_reference(exponent: int, tmp_path: Path) -> None:
    """Ties of both signs, whatever lies beyond the ends, numbers that are nearly none, and none."""
    random = np.random.default_rng(exponent + 20)
    halves = random.integers(-70_000, 70_000, 20_000) / 2
    spread = random.normal(size=20_000) * 2.0 ** random.integers(-30, 30, 20_000)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, np.nextafter(0.5, 0), -np.nextafter(0.5, 1)]
    with np.errstate(over="ignore"):
        x = np.concatenate([np.ldexp(halves, exponent), spread, np.ldexp(special, exponent)]).astype(np.float32)
    (tmp_path / "m.cpp").write_text(PROGRAM)
    command = ["g++", "-O1", "-std=c++14", f"-DEXPONENT={exponent}", f"-I{ROOT}", "m.cpp", "-o", "m"]
    subprocess.run(command, cwd=tmp_path, check=True)
    written = subprocess.run([tmp_path / "m"], input=x.tobytes(), capture_output=True, check=True).stdout
    codes = np.frombuffer(written, np.int16).reshape(len(x), 4)
    for column, bits in ((0, 8), (1, 8), (2, 16), (3, 16)):
        wanted, _ = quantize(x.astype(np.float64), Fixed(bits, exponent))
        np.testing.assert_array_equal(codes[:, column], wanted)
