"""An exported library as one file: a header that any C or C++ file includes, and that one C++ file compiles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from tinyhil.codegen.example_programs import Main, c_program
from tinyhil.codegen.exported_library import SPDX, Library

_INCLUDE = re.compile(r'#\s*include "(?:\w+/)?([\w.]+)"')
_BRANCH = re.compile(r"#\s*(if|el|endif)")


def one_header(library: Library, sources: Mapping[str, str]) -> dict[str, str]:
    """Path -> text. `sources`: those of a library with many files (library_source.py)."""
    x, up = library.prefix, library.prefix.upper()
    files = {path.rsplit("/", 1)[-1]: text for path, text in sources.items()}
    text = [
        files.pop(f"{x}.h").rstrip(),
        "",
        f"/* One C++ file (C++11) says `#define {up}_IMPLEMENTATION` before it includes this, and holds what follows.",
        "   Let it say nothing else: options and macros hold until its end. */",
        f"#if defined({up}_IMPLEMENTATION) && !defined({up}_IMPLEMENTED)",
        f"#define {up}_IMPLEMENTED",
        *_Inlined(up, files).lines(f"{x}.cpp", ()),
        "#endif",
        "",
    ]
    return {f"{x}.h": "\n".join(text)}


def with_comment(header: str, about: Sequence[str]) -> str:
    """The header with these lines as a comment before its first directive."""
    said = [f" * {line}".rstrip().replace("*/", "* /") for line in about]
    before, guard, after = header.partition("#ifndef")
    return "".join([before, "\n".join(["/*", *said, " */", ""]), guard, after])


class _Inlined:
    """Text with files in place of their includes, each once for whatever conditions hold."""

    def __init__(self, up: str, files: Mapping[str, str]) -> None:
        self._up, self._files = up, files
        self._placed: dict[str, list[tuple[int, ...]]] = {}
        self._branch = count()

    def lines(self, name: str, conditions: tuple[int, ...]) -> Iterator[str]:
        """The lines of a file that stands under these branches of conditions."""
        for line in self._files[name].splitlines():
            if found := _BRANCH.match(line):
                outer = conditions if found[1] == "if" else conditions[:-1]
                conditions = outer if found[1] == "endif" else (*outer, next(self._branch))
            included = _INCLUDE.match(line)
            if included is None:
                if line != "#pragma once":
                    yield line
            elif included[1] in self._files and not self._stands(included[1], conditions):
                self._placed.setdefault(included[1], []).append(conditions)
                guard = f"{self._up}_HAS_{included[1].upper().replace('.', '_')}"
                yield from (f"#ifndef {guard}", f"#define {guard}")
                yield from self.lines(included[1], conditions)
                yield "#endif"

    def _stands(self, name: str, conditions: tuple[int, ...]) -> bool:
        """Whether the file stands where these conditions, or fewer of them, hold."""
        return any(conditions[: len(placed)] == placed for placed in self._placed.get(name, ()))


def one_header_example(library: Library, version: str) -> dict[str, str]:
    """The C++ file that holds the code, and a C program beside it."""
    x, up = library.prefix, library.prefix.upper()
    built = f"cc -c -I.. main.c && c++ -I.. main.o {x}.cpp"
    main = Main(built, ("<stdio.h>",), "int main(void)", read='scanf("%f", &sample[n]) != 1')
    return {
        f"examples/{x}.cpp": f'// {SPDX}\n// {version}\n#define {up}_IMPLEMENTATION\n#include "{x}.h"\n',
        "examples/main.c": c_program(library, main),
    }
