"""The kernels an exported library brings are all it needs: with all kernels there are, the program is the same."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.export_bench import Exported, export
from tinyhil.codegen.kernel_subset import ALL, entries, files_of, subset
from tinyhil.harness.build.pipeline import runtime_sources
from tinyhil.harness.offline.export_sizes import PROCESSORS, measure

slow = pytest.mark.slow
CASES = [
    ("digits_cnn", "fixed8", "uno"),
    pytest.param("digits_cnn", "int8", "h747", marks=slow),
    pytest.param("fastgrnn_har", "fixed16", "uno", marks=slow),
    ("fastgrnn_har", "fixed8", "due"),
    ("fastgrnn_har", "posit8es0", "uno"),
    pytest.param("fastgrnn_har", "posit16es1", "h747", marks=slow),
    pytest.param("fastgrnn_har", "fp8e4m3", "due", marks=slow),
    ("fastgrnn_har", "float16", "h747"),
    pytest.param("fastgrnn_har", "nf4", "uno", marks=slow),
    ("fastgrnn_har", "int16x8", "due"),
    pytest.param("protonn_usps10", "fixed16", "uno", marks=slow),
    pytest.param("bonsai_usps10", "posit8es1", "due", marks=slow),
    pytest.param("lenet5_mnist", "fixed8pc", "due", marks=slow),
]


def all_kernels() -> dict[str, str]:
    """File name -> text."""
    return files_of(runtime_sources())


def contents(sources: Path, exported: Exported, board: str) -> list[tuple[str, str]]:
    """(name, size) of everything in a program that predicts; what nobody calls is left out, the order may differ."""
    processor = next(found for found in PROCESSORS if board in found.name.lower())
    measure(exported.library, processor, sources, "predict")
    tool = processor.compiler.replace("g++", "nm")
    listing = subprocess.run([tool, "-CS", sources / "program.elf"], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^[0-9a-f]+ ([0-9a-f]+) \w (.*)$", listing, re.MULTILINE)
    return sorted((re.sub(r"\.\d+\b", "", name), size) for size, name in found)


@pytest.mark.parametrize(("model", "format_", "board"), CASES)
def test_all_kernels_make_the_same_code(model: str, format_: str, board: str, tmp_path: Path) -> None:
    exported = export(model, format_)
    sources = exported.write(tmp_path)
    few = contents(sources, exported, board)
    assert len(few) > 10
    own, source = f"{exported.prefix}_kernels", sources / f"{exported.prefix}.cpp"
    kernels = all_kernels()
    for name, text in kernels.items():
        text = re.sub(r'"firmware/kernels/(?:\w+/)?(\w+\.hpp)"', r'"\1"', text).replace(
            "namespace hil", f"namespace {own}"
        )
        (sources / own / name).write_text(text.replace("hil::", f"{own}::"))
    text = re.sub(
        rf'(?<=HIL_UNCOUNTED\n)(?:#include "{own}/\w+\.hpp"\n|#ifn?def __\w+\n|#else\n|#endif\n(?=#))+',
        f'#include "{own}/{ALL}"\n#include "{own}/convert.hpp"\n',
        source.read_text(),
    )
    assert text.count("#include") == 3
    source.write_text(text)
    assert contents(sources, exported, board) == few
    bytes_ = sum(len(text) for path, text in exported.files.items() if "_kernels/" in path)
    assert bytes_ < 0.7 * sum(map(len, kernels.values()))


def test_every_declaration_of_the_kernels_has_a_name() -> None:
    """Whoever uses everything gets everything: nothing of the kernels is beyond the parser."""
    kernels = all_kernels()
    words = set(re.findall(r"\w+", "\n".join(kernels.values())))
    subsets = subset(kernels, words | {f"{word}_rows" for word in words} | {f"single_{word}" for word in words})
    assert set(subsets) == set(kernels) - {ALL}
    for name, text in subsets.items():
        before = [line for line in kernels[name].splitlines() if line and not line.startswith(("//", "#include"))]
        after = [line for line in text.splitlines() if line and not line.startswith(("//", "#include"))]
        assert after == before, name


@pytest.mark.parametrize(
    ("model", "format_"), [("digits_mlp", "fixed8"), ("fastgrnn_har", "fixed16"), ("digits_cnn", "int8")]
)
def test_no_kernel_is_brought_that_nothing_calls(model: str, format_: str) -> None:
    """Kernels are told from helpers of the same name: they are called with their accumulator."""
    text = "\n".join(export(model, format_).files.values())
    kernels = set(re.findall(r"template <class Acc, class Out[^;{]*?\bvoid (\w+)\(", text))
    assert len(kernels) > 1
    assert kernels - set(re.findall(r"\b(\w+)<", text)) == set()


def test_a_file_of_another_core_stays_under_its_condition() -> None:
    """It is reached by a name alone, and what would include it where it belongs is not needed."""
    main = '#pragma once\n#include "firmware/kernels/common/main.hpp"\n'
    chosen = '#pragma once\n#ifdef __AVR__\n#include "firmware/kernels/avr/other.hpp"\n#endif\nnamespace hil {\n}\n'
    other = "#pragma once\nnamespace hil {\ninline int unit() { return missing(); }\n}\n"
    kernels = {ALL: main, "main.hpp": chosen, "other.hpp": other}
    assert entries(kernels, ["other.hpp"], "own") == ["#ifdef __AVR__", '#include "own/other.hpp"', "#endif"]
