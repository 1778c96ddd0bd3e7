"""The kernels are C++11: Arduino's cores for AVR and SAM compile libraries as gnu++11."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
COMPILERS = {
    "uno": ["avr-g++", "-mmcu=atmega328p"],
    "due": ["arm-none-eabi-g++", "-mcpu=cortex-m3", "-mthumb"],
    "h747": ["arm-none-eabi-g++", "-mcpu=cortex-m7", "-mthumb", "-mfpu=fpv5-d16", "-mfloat-abi=hard"],
}
# Formats whose tables are made at compile time: a constructor that C++11 can not evaluate would leave them to run time.
USES = """
#include "firmware/kernels/kernels.hpp"
uint32_t hil::saturations;
template <class T> void layer(uint8_t *to, const uint8_t *from, const uint8_t *also) {
    using namespace hil;
    T *const out = reinterpret_cast<T *>(to);
    const T *const w = reinterpret_cast<const T *>(from), *const x = reinterpret_cast<const T *>(also);
    dense<Quire<64, -24, 6>>(out, flash(w), ram(x), 1, 4, 4, Const<0>());
    max_pool<Real>(out, ram(x), Window{1, 4, 4, 2, 2, 2, 2, 2, 2, 0, 0, 1, 1}, Const<0>());
}
template void layer<hil::Posit<8, 0>>(uint8_t *, const uint8_t *, const uint8_t *);
template void layer<hil::Posit<8, 2>>(uint8_t *, const uint8_t *, const uint8_t *);
template void layer<hil::Posit<16, 1>>(uint8_t *, const uint8_t *, const uint8_t *);
template void layer<hil::Minifloat<4, 3, 7, hil::Top::Nan>>(uint8_t *, const uint8_t *, const uint8_t *);
"""


@pytest.mark.parametrize("board", COMPILERS)
def test_kernels_compile_as_cxx11(board: str, tmp_path: Path) -> None:
    source, built = tmp_path / "uses.cpp", tmp_path / "uses.o"
    source.write_text(USES)
    flags = ["-std=gnu++11", "-Os", "-Wall", "-Wextra", "-fno-threadsafe-statics", f"-I{ROOT}", "-c", str(source)]
    done = subprocess.run([*COMPILERS[board], *flags, "-o", str(built)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    tool = COMPILERS[board][0].replace("g++", "nm")
    symbols = subprocess.run([tool, str(built)], capture_output=True, text=True, check=True).stdout
    assert "table" in symbols
    assert "_GLOBAL__sub_I" not in symbols  # nothing is left to do before main
