"""Packages that CMake builds: alone, with the Pico's SDK, in Zephyr and in ESP-IDF."""

from __future__ import annotations

from tinyhil.codegen.example_programs import Main, c_program
from tinyhil.codegen.exported_library import SPDX, Library
from tinyhil.quoting import printable

_PLAIN = Main(
    "find_package({x} REQUIRED), target_link_libraries(app PRIVATE {x}::{x})",
    ("<stdio.h>",),
    "int main(void)",
    read='scanf("%f", &sample[n]) != 1',
)
_PICO = Main(
    "cmake -S examples -B build -DPICO_BOARD=pico && cmake --build build; numbers come by UART or USB",
    ("<stdio.h>", '"pico/stdlib.h"'),
    "int main(void)",
    "    stdio_init_all();\n",
    'scanf("%f", &sample[n]) != 1',
    forever=True,
)
_ZEPHYR = Main("west build -b BOARD {x}/samples/{x}", ("<stdio.h>",), "int main(void)")
_ESP = Main("idf.py build in {x}/examples/{x}", ("<stdio.h>",), "void app_main(void)")


def cmake(library: Library, version: str) -> dict[str, str]:
    """Path in the package -> text, beside its sources."""
    targets = f"include(${{CMAKE_CURRENT_LIST_DIR}}/{library.prefix}-targets.cmake)"
    return {
        "CMakeLists.txt": _cmake_lists(library, version),
        f"cmake/{library.prefix}-config.cmake": f"# {SPDX}\n{targets}\n",
        "examples/main.c": c_program(library, _PLAIN),
    }


def pico_sdk(library: Library, version: str) -> dict[str, str]:
    """A library for `add_subdirectory` behind `pico_sdk_init()`, and a project of the SDK that does so."""
    x = library.prefix
    lists = f"""\
# {SPDX}
# {x} {version}, for a project of the Pico's SDK: add_subdirectory({x}), target_link_libraries(app {x})
add_library({x} STATIC src/{x}.cpp)
target_compile_features({x} PRIVATE cxx_std_11)
target_compile_options({x} PRIVATE -ffp-contract=off -fno-exceptions -fno-rtti -ffunction-sections -fdata-sections)
target_include_directories({x} PUBLIC src)
"""
    example = f"""\
# {SPDX}
cmake_minimum_required(VERSION 3.13)
include($ENV{{PICO_SDK_PATH}}/external/pico_sdk_import.cmake)
project({x}_example C CXX ASM)
pico_sdk_init()
add_subdirectory(${{CMAKE_CURRENT_LIST_DIR}}/.. {x})
add_executable({x}_example main.c)
target_link_libraries({x}_example pico_stdlib {x})
pico_enable_stdio_uart({x}_example 1)
pico_enable_stdio_usb({x}_example 1)
pico_add_extra_outputs({x}_example)
"""
    return {
        "CMakeLists.txt": lists,
        "examples/CMakeLists.txt": example,
        "examples/main.c": c_program(library, _PICO),
    }


def zephyr(library: Library, version: str) -> dict[str, str]:
    """A module with its option of Kconfig, and a sample."""
    x, up = library.prefix, library.prefix.upper()
    lists = f"""\
# {SPDX}
# {x} {version}
if(CONFIG_{up})
  zephyr_library_named({x})
  zephyr_library_sources(src/{x}.cpp)
  zephyr_library_compile_options(-ffp-contract=off)
  zephyr_include_directories(src)
endif()
"""
    kconfig = f"""\
# {SPDX}
config {up}
\tbool "{x}: a trained model as integer code"
\tselect CPP
\thelp
\t  {printable(library.origin)}. Arena {library.predict_bytes} bytes, no heap.
"""
    sample = f"""\
# {SPDX}
cmake_minimum_required(VERSION 3.20.0)
list(APPEND ZEPHYR_EXTRA_MODULES ${{CMAKE_CURRENT_SOURCE_DIR}}/../..)
find_package(Zephyr REQUIRED HINTS $ENV{{ZEPHYR_BASE}})
project({x}_sample)
target_sources(app PRIVATE src/main.c)
"""
    about = (
        f"# {SPDX}\nsample:\n  name: {x}\ntests:\n  sample.{x}:\n    harness: console\n    harness_config:\n"
        '      type: one_line\n      regex:\n        - "^[0-9-]+$"\n'
    )
    return {
        "zephyr/module.yml": f"# {SPDX}\nname: {x}\nbuild:\n  cmake: .\n  kconfig: Kconfig\nsamples:\n  - samples\n",
        "CMakeLists.txt": lists,
        "Kconfig": kconfig,
        f"samples/{x}/CMakeLists.txt": sample,
        f"samples/{x}/prj.conf": f"# {SPDX}\nCONFIG_{up}=y\n",
        f"samples/{x}/sample.yaml": about,
        f"samples/{x}/src/main.c": c_program(library, _ZEPHYR),
    }


def esp_idf(library: Library, version: str) -> dict[str, str]:
    """A component, and a project that uses it."""
    x = library.prefix
    component = f"""\
# {SPDX}
idf_component_register(SRCS src/{x}.cpp INCLUDE_DIRS src)
target_compile_options(${{COMPONENT_LIB}} PRIVATE -ffp-contract=off)
"""
    manifest = f"""\
# {SPDX}
version: "{version}"
description: "{x}: a trained model as integer code"
license: Apache-2.0
dependencies:
  idf: ">=4.4"
"""
    project = f"""\
# {SPDX}
cmake_minimum_required(VERSION 3.16)
set(EXTRA_COMPONENT_DIRS ${{CMAKE_CURRENT_LIST_DIR}}/../..)
include($ENV{{IDF_PATH}}/tools/cmake/project.cmake)
project({x}_example)
"""
    return {
        "CMakeLists.txt": component,
        "idf_component.yml": manifest,
        f"examples/{x}/CMakeLists.txt": project,
        f"examples/{x}/main/CMakeLists.txt": f"# {SPDX}\nidf_component_register(SRCS main.c REQUIRES {x})\n",
        f"examples/{x}/main/main.c": c_program(library, _ESP),
    }


def _cmake_lists(library: Library, version: str) -> str:
    x = library.prefix
    return f"""\
# {SPDX}
cmake_minimum_required(VERSION 3.13)
project({x} VERSION {version} LANGUAGES CXX)
include(GNUInstallDirs)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND CMAKE_SOURCE_DIR STREQUAL PROJECT_SOURCE_DIR)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()
add_library({x} STATIC src/{x}.cpp)
add_library({x}::{x} ALIAS {x})
target_compile_features({x} PRIVATE cxx_std_11)
target_compile_options({x} PRIVATE -ffp-contract=off -fno-exceptions -fno-rtti -ffunction-sections -fdata-sections)
target_compile_options({x} PRIVATE $<$<CONFIG:>:-O2>)  # in a project that names no build type
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
