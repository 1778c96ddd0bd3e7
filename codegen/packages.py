"""What surrounds an exported library: one row a kind of package, and the notice and read-me that all have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tinyhil.codegen.cmake_packages import cmake, esp_idf, pico_sdk, zephyr
from tinyhil.codegen.export_kinds import ARDUINO, CMAKE, ESP_IDF, HEADER, MICROPYTHON, PICO_SDK, PLATFORMIO, ZEPHYR
from tinyhil.codegen.exported_library import CALLER, SPDX, STATIC, Library
from tinyhil.codegen.ide_packages import arduino, platformio
from tinyhil.codegen.micropython_package import micropython
from tinyhil.codegen.one_header import one_header, one_header_example, with_comment
from tinyhil.errors import ConfigError
from tinyhil.quoting import markdown, printable


def in_src(library: Library, sources: Mapping[str, str]) -> dict[str, str]:
    """The sources as they are, in a folder of their own."""
    return {f"src/{path}": text for path, text in sources.items()}


@dataclass(frozen=True, slots=True)
class Package:
    """A kind of package. `use`: how its user gets it into a program (Markdown); `around`: path -> text of what lies
    beside the sources, which `sources` places. `own_memory`: its C code brings the arena, no user can. `source`: the
    file that a compiler takes, `header`: the folder of the header; `has_main`: a computer runs examples/main.c."""

    use: str
    around: Callable[[Library, str], dict[str, str]]
    sources: Callable[[Library, Mapping[str, str]], dict[str, str]] = in_src
    own_memory: bool = False
    source: str = "{x}/src/{x}.cpp"
    header: str = "{x}/src"
    has_main: bool = False


PACKAGES = {
    ARDUINO: Package(
        "Arduino IDE: Sketch, Include Library, Add .ZIP Library. Then `#include <{x}.h>`; the example is under\n"
        "File, Examples, {x}.",
        arduino,
    ),
    PLATFORMIO: Package(
        "Unpack it into `lib/` of a PlatformIO project, or name the archive under `lib_deps`. Then\n"
        "`#include <{x}.h>`; `examples/{x}_sensor/main.cpp` is a program for `src/`.",
        platformio,
    ),
    CMAKE: Package(
        "Unpack it, `cmake -S {x} -B build && cmake --build build && cmake --install build --prefix PREFIX`, then\n"
        "`find_package({x} REQUIRED)` and `target_link_libraries(app PRIVATE {x}::{x})`; or `add_subdirectory({x})`.",
        cmake,
        has_main=True,
    ),
    PICO_SDK: Package(
        "Unpack it beside a project of the Pico's SDK; behind `pico_sdk_init()`: `add_subdirectory({x})` and\n"
        "`target_link_libraries(app {x})`. `examples/` is such a project (`PICO_SDK_PATH` says where the SDK is):\n"
        "`cmake -S {x}/examples -B build -DPICO_BOARD=pico && cmake --build build`; its `main.c` answers by UART\n"
        "and USB.",
        pico_sdk,
    ),
    ZEPHYR: Package(
        "A module of Zephyr: name its folder in `ZEPHYR_EXTRA_MODULES` (or in your manifest) and set `CONFIG_{up}=y`;\n"
        "`samples/{x}` does both: `west build -b BOARD {x}/samples/{x}`; its `main.c` prints the class of a sample of\n"
        "zeros.",
        zephyr,
    ),
    ESP_IDF: Package(
        "A component of ESP-IDF: unpack it into `components/` of a project, `REQUIRES {x}` in its `CMakeLists.txt`.\n"
        "`examples/{x}` is such a project: `idf.py -C {x}/examples/{x} build`; its `main.c` prints the class of a\n"
        "sample of zeros.",
        esp_idf,
    ),
    MICROPYTHON: Package(
        "A native module of MicroPython: `make ARCH=armv6m MPY_DIR=...` (the source tree of your MicroPython; armv6m\n"
        "is a Pico, armv7emsp a Nano 33 BLE, XIAO nRF52840 or Pico 2) makes `{x}.mpy`: copy it to the board and\n"
        "`import {x}`. `example.py` shows the calls; arguments are arrays: `array('f', ...)` for real numbers.",
        micropython,
        own_memory=True,
    ),
    HEADER: Package(
        'One file: `#include "{x}.h"` declares the functions, in C and C++; one C++ file of yours says\n'
        "`#define {up}_IMPLEMENTATION` before it and nothing else, and holds the code.",
        one_header_example,
        one_header,
        source="{x}/examples/{x}.cpp",
        header="{x}",
        has_main=True,
    ),
}


def source_of(kind: str, library: Library) -> Library:
    """The library as this kind of package needs its sources; ConfigError for an arena that it can not have."""
    if not PACKAGES[kind].own_memory:
        return library
    if library.arena != STATIC:
        raise ConfigError(f"--arena {library.arena}: a package for {kind} has its own memory; leave it out")
    return replace(library, arena=CALLER)


def package(
    kind: str, library: Library, sources: Mapping[str, str], version: str, about: Sequence[str]
) -> dict[str, str]:
    """Path in the archive -> text. `about`: Markdown on what was measured, for the read-me; in a header that may lie
    alone, too. LICENSE is for the caller to add."""
    row = PACKAGES[kind]
    files = {**row.sources(library, sources), **row.around(library, version)}
    if kind == HEADER and about:
        files[f"{library.prefix}.h"] = with_comment(files[f"{library.prefix}.h"], about)
    files["NOTICE"] = _notice(library)
    files["README.md"] = _readme(kind, library, about)
    return {f"{library.prefix}/{path}": text for path, text in files.items()}


def _notice(library: Library) -> str:
    return (
        f"{SPDX}\n\n{library.prefix}: {printable(library.origin)}.\n\n"
        "Kernels and generated code are those of tinyhil, Apache License 2.0 (LICENSE). The weights come from the\n"
        "model: its licence holds for them.\n"
    )


_READ_ME = """\
<!-- {spdx} -->
# {x}

{origin}. A library that stands alone: weights, calls and the kernels they need; no heap, no variables but its arena, no
`main`. C and C++ (C++11 or newer for its one source). Every name begins with its own, so several such libraries fit in
one program.

{use}

{by_hand}

| | |
|---|---|
{rows}

`{x}_predict({arena}in, out)` takes and gives real numbers and returns the class; `{x}_run` is the same on integers,
equal to the reference bit for bit; `{x}_quantize_input` and `{x}_dequantize_output` lie between them. One call at a
time per arena.
{streaming}"""
_STREAMING = """\
Row by row: `{x}_begin({only})`, {up}_STEPS times `{x}_step({arena}row)`, `{x}_finish({arena}out)`: no sample has to be
in RAM as a whole.
"""


def _passed(library: Library) -> dict[str, str]:
    """What comes before the arguments of a function of the library, and what stands where it has none."""
    return {"arena": "arena, ", "only": "arena"} if library.arena == CALLER else {"arena": "", "only": ""}


_APART = ("-ffunction-sections", "-fdata-sections")  # so that a linker leaves out what nobody calls (-Wl,--gc-sections)
_ON_A_COMPUTER = ("g++", "-std=c++11", "-O2")
_COMPILED = "Compiled by hand, beside the unpacked folder: `{compiler} -c -I{header} {source}`"
_RUN = """\
; with the example, which reads
{count} numbers and prints their class: `gcc -O2 -c -I{header} {x}/examples/main.c && g++ main.o {x}.o -o main`,
`seq {count} | ./main`"""
_BY_CMAKE = (
    "; by CMake: `cmake -S {x} -B build -DCMAKE_SYSTEM_NAME=Generic -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY "
    '-DCMAKE_CXX_COMPILER={compiler} -DCMAKE_CXX_FLAGS="{flags}"`'
)


def _by_hand(kind: str, library: Library) -> str:
    """Lines for a shell that compile the library, and run the example where this computer can."""
    row, x = PACKAGES[kind], library.prefix
    compiler = (*library.compiler, "-std=gnu++11", "-Os", *_APART) if library.compiler else _ON_A_COMPUTER
    names = {"x": x, "source": row.source.format(x=x), "header": row.header.format(x=x), "count": library.input.count}
    text = _COMPILED.format(compiler=" ".join(compiler), **names)
    if library.compiler:
        text += ", linked with `-Wl,--gc-sections`"
        how = {"x": x, "compiler": library.compiler[0], "flags": " ".join(library.compiler[1:])}
        text += _BY_CMAKE.format(**how) if kind == CMAKE else ""
    return text + (_RUN.format(**names) if row.has_main and not library.compiler else "") + "."


def _columns(library: Library) -> str:
    """What comes before the format of an input whose columns have scales of their own."""
    return " after each column's own offset and scale" if library.program.columns is not None else ""


def _readme(kind: str, library: Library, about: Sequence[str]) -> str:
    x, up, program = library.prefix, library.prefix.upper(), library.program
    whose = "static" if library.arena != CALLER else "the caller's, first argument of every function that computes"
    real = f"{library.predict_bytes} B with the integers of real inputs (`{up}_ARENA_BYTES`)"
    made_for = (
        f"{library.board} ({library.core}); others: export it without --board" if library.board else "any processor"
    )
    rows = [
        ("made for", made_for),
        ("input", f"{list(program.input_shape)}, {library.input.format}{_columns(library)}"),
        ("output", f"{list(program.output_shape)}, {library.output.format}"),
        ("arena", f"{library.run_bytes} B for a run on integers (`{up}_RUN_BYTES`), {real}; {whose}"),
    ]
    if library.class_names:
        rows.insert(3, ("classes", ", ".join(map(markdown, library.class_names))))
    text = _READ_ME.format(
        spdx=SPDX,
        x=x,
        origin=markdown(library.origin),
        use=PACKAGES[kind].use.format(x=x, up=up),
        by_hand=_by_hand(kind, library),
        rows="\n".join(f"| {name} | {value} |" for name, value in rows),
        arena=_passed(library)["arena"],
        streaming=_STREAMING.format(x=x, up=up, **_passed(library)) if library.loop else "",
    )
    return "\n".join([text, *about, ""])
