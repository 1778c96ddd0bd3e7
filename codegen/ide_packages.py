"""Packages for Arduino and PlatformIO: their manifests, and a sketch."""

from __future__ import annotations

from tinyhil.codegen.example_programs import sketch
from tinyhil.codegen.exported_library import SPDX, Library
from tinyhil.quoting import printable


def arduino(library: Library, version: str) -> dict[str, str]:
    """Path in the package -> text, beside its sources."""
    x = library.prefix
    return {"library.properties": _properties(library, version), f"examples/{x}_sensor/{x}_sensor.ino": sketch(library)}


def platformio(library: Library, version: str) -> dict[str, str]:
    """The same for PlatformIO, whose sketch is C++."""
    program = sketch(library).replace("#include <", "#include <Arduino.h>\n#include <", 1)
    return {"library.json": _manifest(library, version), f"examples/{library.prefix}_sensor/main.cpp": program}


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
