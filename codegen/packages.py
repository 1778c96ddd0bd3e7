"""What surrounds an exported library: manifests of Arduino, PlatformIO and CMake, an example, notice and read-me."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinyhil.codegen.export_kinds import ARDUINO, CMAKE, PLATFORMIO
from tinyhil.codegen.exported_library import CALLER, SPDX, Library
from tinyhil.quoting import markdown, printable


def package(
    kind: str, library: Library, sources: Mapping[str, str], version: str, about: Sequence[str]
) -> dict[str, str]:
    """Path in the archive -> text. `about`: Markdown on what was measured. LICENSE is for the caller to add."""
    x = library.prefix
    files = {f"src/{path}": text for path, text in sources.items()}
    if kind == ARDUINO:
        files["library.properties"] = _properties(library, version)
        files[f"examples/{x}_sensor/{x}_sensor.ino"] = _sketch(library)
    elif kind == PLATFORMIO:
        files["library.json"] = _manifest(library, version)
        files[f"examples/{x}_sensor/main.cpp"] = _sketch(library).replace(
            "#include <", "#include <Arduino.h>\n#include <", 1
        )
    else:
        files["CMakeLists.txt"] = _cmake_lists(library, version)
        files[f"cmake/{x}-config.cmake"] = _cmake_config(library)
        files["examples/main.c"] = _c_program(library)
    files["NOTICE"] = _notice(library)
    files["README.md"] = _readme(kind, library, about)
    return {f"{x}/{path}": text for path, text in files.items()}


def _notice(library: Library) -> str:
    return (
        f"{SPDX}\n\n{library.prefix}: {printable(library.origin)}.\n\n"
        "Kernels and generated code are those of tinyhil, Apache License 2.0 (LICENSE). The weights come from the\n"
        "model: its licence holds for them.\n"
    )


def _properties(library: Library, version: str) -> str:
    x = library.prefix
    return "\n".join(
        [
            f"# {SPDX}",
            f"name={x}",
            f"version={version}",
            "author=tinyhil",
            "maintainer=tinyhil",
            f"sentence={printable(library.program.name)}: a trained model as integer code.",
            f"paragraph={printable(library.origin)}. Arena {library.predict_bytes} bytes, no heap.",
            "category=Data Processing",
            "architectures=*",
            f"includes={x}.h",
            "",
        ]
    )


def _manifest(library: Library, version: str) -> str:
    import json

    record = {
        "$comment": SPDX,
        "name": library.prefix,
        "version": version,
        "description": f"{printable(library.origin)}. Arena {library.predict_bytes} bytes, no heap.",
        "keywords": ["neural network", "microcontroller"],
        "license": "Apache-2.0",
        "frameworks": "*",
        "platforms": "*",
        "headers": [f"{library.prefix}.h"],
        "build": {"flags": ["-ffp-contract=off"]},
    }
    return json.dumps(record, indent=2) + "\n"


def _cmake_lists(library: Library, version: str) -> str:
    x = library.prefix
    return f"""\
# {SPDX}
cmake_minimum_required(VERSION 3.13)
project({x} VERSION {version} LANGUAGES CXX)
include(GNUInstallDirs)

add_library({x} STATIC src/{x}.cpp)
add_library({x}::{x} ALIAS {x})
target_compile_features({x} PUBLIC cxx_std_11)
target_compile_options({x} PRIVATE -ffp-contract=off -fno-exceptions -fno-rtti -ffunction-sections -fdata-sections)
target_include_directories({x} PUBLIC $<BUILD_INTERFACE:${{CMAKE_CURRENT_SOURCE_DIR}}/src> $<INSTALL_INTERFACE:include>)

install(TARGETS {x} EXPORT {x}-targets ARCHIVE DESTINATION ${{CMAKE_INSTALL_LIBDIR}})
install(FILES src/{x}.h DESTINATION include)
install(FILES LICENSE NOTICE DESTINATION ${{CMAKE_INSTALL_DATADIR}}/{x})
install(EXPORT {x}-targets NAMESPACE {x}:: DESTINATION ${{CMAKE_INSTALL_LIBDIR}}/cmake/{x})
install(FILES cmake/{x}-config.cmake DESTINATION ${{CMAKE_INSTALL_LIBDIR}}/cmake/{x})
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${{CMAKE_CURRENT_BINARY_DIR}}/{x}-config-version.cmake COMPATIBILITY ExactVersion)
install(FILES ${{CMAKE_CURRENT_BINARY_DIR}}/{x}-config-version.cmake DESTINATION ${{CMAKE_INSTALL_LIBDIR}}/cmake/{x})
"""


def _cmake_config(library: Library) -> str:
    return f"# {SPDX}\ninclude(${{CMAKE_CURRENT_LIST_DIR}}/{library.prefix}-targets.cmake)\n"


def _given_arena(library: Library) -> tuple[str, str]:
    """The example's own arena, where the library has none, and how it is passed."""
    if library.arena != CALLER:
        return "", ""
    return f"static uint32_t arena[({library.prefix.upper()}_ARENA_BYTES + 3) / 4];\n", "arena, "


def _sketch(library: Library) -> str:
    x, up = library.prefix, library.prefix.upper()
    declared, passed = _given_arena(library)
    head = f"""\
// {SPDX}
// A sensor on the analog pins, the model, and the built-in LED: lit while the class is WANTED.
#include <{x}.h>

const int WANTED = 0;
const unsigned long PERIOD_MS = 20;  // as the model was trained
{declared}static float result[{up}_OUTPUTS];
static unsigned long due;

// One channel in the unit the model was trained with: replace it by that of your sensor.
static float read_channel(int channel) {{
    return (analogRead(A0 + channel % 6) - 512) / 512.0f;
}}

"""
    shown = "            digitalWrite(LED_BUILTIN, found == WANTED ? HIGH : LOW);\n            Serial.println(found);\n"
    if library.loop:
        return head + (
            "void setup() {\n    pinMode(LED_BUILTIN, OUTPUT);\n    Serial.begin(115200);\n"
            f"    {x}_begin({passed.removesuffix(', ')});\n}}\n\n"
            "void loop() {\n    if (millis() - due < PERIOD_MS) return;\n    due += PERIOD_MS;\n"
            f"    float row[{up}_STEP_INPUTS];\n"
            f"    for (int channel = 0; channel < {up}_STEP_INPUTS; ++channel) row[channel] = read_channel(channel);\n"
            + (f"    {x}_step({passed}row);\n" if library.endless else f"    if ({x}_step({passed}row) > 0) return;\n")
            + f"    const int found = {x}_finish({passed}result);\n"
            + shown.replace("            ", "    ")
            + ("}\n" if library.endless else f"    {x}_begin({passed.removesuffix(', ')});\n}}\n")
        )
    return head + (
        f"static float sample[{up}_INPUTS];\n\n"
        "void setup() {\n    pinMode(LED_BUILTIN, OUTPUT);\n    Serial.begin(115200);\n}\n\n"
        "void loop() {\n"
        f"    for (int n = 0; n < {up}_INPUTS; ++n) sample[n] = read_channel(n);\n"
        f"    const int found = {x}_predict({passed}sample, result);\n"
        + shown.replace("            ", "    ")
        + "    while (millis() - due < PERIOD_MS) {\n    }\n    due += PERIOD_MS;\n}\n"
    )


def _c_program(library: Library) -> str:
    x, up = library.prefix, library.prefix.upper()
    declared, passed = _given_arena(library)
    return f"""\
/* {SPDX} */
/* find_package({x} REQUIRED), target_link_libraries(app PRIVATE {x}::{x}) */
#include <stdio.h>
#include "{x}.h"

{declared}static float sample[{up}_INPUTS], result[{up}_OUTPUTS];

int main(void) {{
    int n;
    for (n = 0; n < {up}_INPUTS; ++n) {{
        if (scanf("%f", &sample[n]) != 1) return 1;
    }}
    printf("%d\\n", {x}_predict({passed}sample, result));
    return 0;
}}
"""


_USE = {
    ARDUINO: "Arduino IDE: Sketch, Include Library, Add .ZIP Library. Then `#include <{x}.h>`; the example is under\n"
    "File, Examples, {x}.",
    PLATFORMIO: "Unpack it into `lib/` of a PlatformIO project, or name the archive under `lib_deps`. Then\n"
    "`#include <{x}.h>`.",
    CMAKE: "Unpack it, `cmake -S {x} -B build && cmake --build build && cmake --install build --prefix PREFIX`, then\n"
    "`find_package({x} REQUIRED)` and `target_link_libraries(app PRIVATE {x}::{x})`; or `add_subdirectory({x})`.",
}
_READ_ME = """\
<!-- {spdx} -->
# {x}

{origin}. A library that stands alone: weights, calls and the kernels they need; no heap, no variables but its arena, no
`main`. C and C++ (C++11 or newer for its one source). Every name begins with its own, so several such libraries fit in
one program.

{use}

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


def _readme(kind: str, library: Library, about: Sequence[str]) -> str:
    x, up, program = library.prefix, library.prefix.upper(), library.program
    whose = "static" if library.arena != CALLER else "the caller's, first argument of every function"
    real = f"{library.predict_bytes} B with the integers of real inputs (`{up}_ARENA_BYTES`)"
    made_for = f"{library.board} ({library.core})" if library.board else "any processor"
    rows = [
        ("made for", made_for),
        ("input", f"{list(program.input_shape)}, {library.input.format}"),
        ("output", f"{list(program.output_shape)}, {library.output.format}"),
        ("arena", f"{library.run_bytes} B for a run on integers (`{up}_RUN_BYTES`), {real}; {whose}"),
    ]
    if library.class_names:
        rows.insert(3, ("classes", ", ".join(map(markdown, library.class_names))))
    text = _READ_ME.format(
        spdx=SPDX,
        x=x,
        origin=markdown(library.origin),
        use=_USE[kind].format(x=x),
        rows="\n".join(f"| {name} | {value} |" for name, value in rows),
        arena=_passed(library)["arena"],
        streaming=_STREAMING.format(x=x, up=up, **_passed(library)) if library.loop else "",
    )
    return "\n".join([text, *about, ""])
