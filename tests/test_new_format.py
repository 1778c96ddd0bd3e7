"""A new number format, as docs/tutorials/own.md says it is made: a made-up family, in a copy of the sources.

Squares: seven bits of a sign and m stand for m * m. What is left out of either file is named by whoever misses it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hil_command import typed_lines

from tests.wire_bench import ROOT

PAGE = (ROOT / "docs" / "tutorials" / "own.md").read_text()
PYTHON = '''"""Squares: sign and m of six bits stand for m * m, to nearest."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from tinyhil.formats.format import CODED, Domain, Format, NamedFormat
from tinyhil.formats.rounding import magnitudes

TITLE = "Squares"


@dataclass(frozen=True, slots=True)
class Square(Format):
    exponent: int = 0

    @property
    def bits(self) -> int:
        return 7

    @property
    def domain(self) -> Domain:
        return CODED

    @property
    def c_type(self) -> str:
        return "hil::Square<7>"

    @property
    def largest(self) -> float:
        return 63.0 * 63

    @property
    def smallest(self) -> float:
        return 1.0

    @property
    def granule(self) -> int:
        return 0

    def decode(self, codes):
        m = (codes & 63).astype(np.float64)
        return np.where(codes & 64, -m * m, m * m) + 0.0

    def encode(self, values, residue=None):
        size, rest = magnitudes(values, residue)
        size = np.where(np.isnan(size), 0.0, size)
        middles = np.arange(64) * np.arange(1, 65) + 0.5  # between m * m and its successor; a tie goes down
        m = np.searchsorted(middles, size, side="left")
        m = m + ((m < 64) & (size == middles[np.minimum(m, 63)]) & (rest > 0))
        codes = np.minimum(m, 63)
        return np.where((np.asarray(values) < 0) & (codes > 0), codes | 64, codes), (m > 63) | np.isnan(values)

    def fitted(self, magnitude):
        return fit(magnitude)

    def __str__(self):
        return f"square7 * 2^{self.exponent}"


def fit(magnitude):
    return Square(0 if magnitude == 0 else int(np.frexp(magnitude)[1]) - 11)


NAMED = (NamedFormat("square7", 7, "sign and a square", fit),)
'''
CPP = """// Squares: sign and m of six bits stand for m * m.
#pragma once
#include "firmware/kernels/common/element.hpp"

namespace hil {

template <int Bits>
struct Square {
    static constexpr int bits = Bits;
    static constexpr int mantissa_bits = 12;
    static constexpr int granule = 0;
    static constexpr int top = 12;
    static constexpr bool is_small = false;
    using Code = typename CodeOf<Bits>::type;
    Code code;

    static Square nan() { return ++saturations, Square{0}; }
    static constexpr Real decode(Code c) { return Real((c & 64 ? -1 : 1) * int32_t(c & 63) * (c & 63), 0); }
    static Real unpack(Square x) { return decode(x.code); }
    explicit operator float() const { return to_float(*this); }

    static Square pack(Parts x) {
        if (x.top == 0 || x.exponent < -1) return {0};
        // twice the number, its fraction in one bit: compared with odd numbers, that decides
        const bool huge = x.exponent > 20;
        const uint32_t twice = huge ? 1u << 22 : x.top >> (30 - x.exponent);
        const bool more = huge || x.sticky || (x.exponent < 30 && (x.top << (x.exponent + 2)) != 0);
        uint32_t m = 0;
        while (m < 64 && (twice > 2 * m * (m + 1) + 1 || (twice == 2 * m * (m + 1) + 1 && more))) ++m;
        if (m > 63) ++saturations, m = 63;
        return {static_cast<Code>(m | (x.negative && m != 0 ? 64 : 0))};
    }
};

template <int B> struct IsElement<Square<B>> : ElementTrait<Square<B>> {};
template <int B> struct IsSpecial<Square<B>> { static constexpr bool value = true; };

}  // namespace hil
"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with the two files, and the two lines that name them."""
    copy = tmp_path_factory.mktemp("sources")
    for name in ("tinyhil", "codegen", "harness", "memplan", "search", "train", "firmware", "models", "emulators"):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("boards.yaml", "platformio.ini"):
        shutil.copy(ROOT / name, copy / name)
    (copy / "tinyhil/formats/square.py").write_text(PYTHON)
    (copy / "firmware/kernels/common/square.hpp").write_text(CPP)
    _line(copy / "tinyhil/formats/__init__.py", "    *affine.NAMED,\n", "    *square.NAMED,\n")
    _line(copy / "tinyhil/formats/__init__.py", "import affine, ", "square, ")
    _line(
        copy / "firmware/kernels/common/quire.hpp",
        "#pragma once\n",
        '#include "firmware/kernels/common/square.hpp"\n',
    )
    return copy


def _line(path: Path, after: str, line: str) -> None:
    text = path.read_text()
    assert text.count(after) == 1
    path.write_text(text.replace(after, after + line))


def run(sources: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-P", "-m", "tinyhil.harness.cli", *arguments]
    return subprocess.run(command, cwd=sources, env=environment, capture_output=True, text=True, timeout=1200)


@pytest.mark.parametrize("board", ["host", "due"])
def test_two_files_and_two_lines_are_a_format(sources: Path, board: str) -> None:
    done = run(
        sources, "run", "--board", board, "--model", "digits_mlp", "--format", "square7", "--samples", "20", "--json"
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["bit_exact"]
    assert record["disagreements"] <= 4  # of 20 decisions


def test_a_search_judges_it_as_the_reference_does(sources: Path) -> None:
    """It says nothing of `rounding`, so the batch engine rounded as fixed point: 4 of 5 decisions were wrong."""
    asked = ("search", "--model", "digits_mlp", "--formats", "square7,fixed16", "--arena", "60", "--samples", "60")
    found = []
    for evaluator in ("engine", "reference"):
        options = ("--evaluations", "4", "--evaluator", evaluator, "--results", f"results_{evaluator}", "--json")
        done = run(sources, *asked, *options)
        assert done.returncode == 0, done.stderr
        assert ("runs in numpy (rounding to square7" in done.stderr) == (evaluator == "engine")
        found.append(json.loads(done.stdout)["search"])
    assert found[0] == found[1]
    assert found[0]["disagreements"] <= 12


@pytest.mark.slow
def test_the_whole_tutorial_is_typed(sources: Path) -> None:
    """Its commands as they stand, with its strategy and its board."""
    (strategy,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (sources / "uniform.py").write_text(strategy)
    (board,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (sources / "my_boards.yaml").write_text(board)
    typed = typed_lines(PAGE)
    assert [line.split()[1] for line in typed] == ["run", "formats", "search", "run"]
    for line in typed:
        done = run(sources, *shlex.split(line, comments=True)[1:])
        assert done.returncode == 0, (line, done.stderr)
        assert "hil run" not in line or re.search("^bit-exact +yes", done.stdout, re.MULTILINE)
        assert "hil search" not in line or "uniform" in done.stdout


def test_what_the_python_file_lacks_is_named(sources: Path) -> None:
    path = sources / "tinyhil/formats/square.py"
    path.write_text(PYTHON.replace("def fitted", "def fitting").replace("def smallest", "def least"))
    done = subprocess.run(
        [sys.executable, "-P", "-c", "from tinyhil.formats.square import Square; Square()"],
        env=os.environ | {"PYTHONPATH": str(sources)},
        capture_output=True,
        text=True,
    )
    path.write_text(PYTHON)
    assert re.search("abstract methods '?fitted'?, '?smallest'?", done.stderr)


NEEDED = ("bits", "mantissa_bits", "granule", "top", "is_small", "Code", "decode", "unpack", "pack", "nan")
CAST = "explicit operator float"


@pytest.mark.parametrize("name", [*NEEDED, CAST])
def test_what_the_cpp_file_lacks_is_named(tmp_path: Path, name: str) -> None:
    other = {
        "Code": CPP.replace("Code", "Stored").replace("StoredOf", "CodeOf"),
        CAST: CPP.replace(CAST, "float other"),
    }
    text = other.get(name) or re.sub(rf"\b{name}\b(?! x)", f"{name}_elsewhere", CPP)
    (tmp_path / "square.cpp").write_text(text + 'static_assert(hil::IsElement<hil::Square<7>>::value, "");\n')
    command = ["g++", "-std=c++11", "-fsyntax-only", "-I", str(ROOT), str(tmp_path / "square.cpp")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert f"an element type needs `{name}`" in done.stderr


def test_the_page_and_the_header_name_them_all() -> None:
    header = (ROOT / "firmware/kernels/common/element.hpp").read_text()
    assert re.findall(r"an element type needs `([\w ]+)`", header) == [*NEEDED, CAST, "pack_top"]
    assert all(re.search(rf"`{name}\b", PAGE) for name in (*NEEDED, CAST))
