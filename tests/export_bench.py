"""Exported libraries in programs of their own: on this computer through ctypes, on emulated boards beside a main."""

from __future__ import annotations

import ctypes
import subprocess
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tinyhil.assignment import Assignment
from tinyhil.codegen.library import STATIC, Library
from tinyhil.formats import named
from tinyhil.formats.codec import storage_dtype
from tinyhil.frontend.load import load_model
from tinyhil.harness.build.pipeline import Compiled, compile_model
from tinyhil.harness.measure.run import known_ranges
from tinyhil.harness.offline.export import library_of, packed
from tinyhil.harness.zoo import find_model

HOST = ("-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-but-set-variable", "-fno-exceptions", "-fno-rtti")


@dataclass(frozen=True, slots=True)
class Exported:
    compiled: Compiled
    library: Library
    files: dict[str, str] = field(repr=False)

    @property
    def prefix(self) -> str:
        return self.library.prefix

    def write(self, folder: Path) -> Path:
        """Unpack it; the folder of its sources."""
        for path, text in self.files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        return folder / self.prefix / "src"


def export(model: str, format_: str, *, arena: str = STATIC, kind: str = "cmake", name: str | None = None) -> Exported:
    source = find_model(model)
    loaded = load_model(source.path)
    ranges = known_ranges(loaded, source, None)
    assert ranges is not None
    compiled = compile_model(loaded, Assignment(named(format_).name), ranges, (), ())
    library = library_of(compiled, source.name, name, arena, source.classes)
    return Exported(compiled, library, packed(kind, library, []))


def unpacked(archive: Path, folder: Path) -> list[str]:
    """Unpack a .zip; the names of its files."""
    with zipfile.ZipFile(archive) as content:
        content.extractall(folder)
        return content.namelist()


class OnHost:
    """A library loaded into this process."""

    def __init__(self, exported: Exported, folder: Path, *flags: str) -> None:
        sources, built = exported.write(folder), folder / f"{exported.prefix}.so"
        command = ["g++", "-std=c++11", "-shared", "-fPIC", *HOST, *flags, f"-I{sources}"]
        subprocess.run([*command, str(sources / f"{exported.prefix}.cpp"), "-o", str(built)], check=True)
        self.exported = exported
        self._library = ctypes.CDLL(str(built))
        words = -(-exported.library.predict_bytes // 4)
        self._arena = [(ctypes.c_uint32 * words)()] if exported.library.arena != STATIC else []

    def call(self, name: str, *arguments: np.ndarray, with_arena: bool = True) -> int:
        function = getattr(self._library, f"{self.exported.prefix}_{name}")
        arena = self._arena if with_arena else []
        return int(function(*arena, *(argument.ctypes.data_as(ctypes.c_void_p) for argument in arguments)))

    def run(self, codes: np.ndarray) -> tuple[int, np.ndarray]:
        """(class, output codes) of one sample of codes."""
        program = self.exported.compiled.program
        out = np.zeros(program.tensors[program.output].count, storage_dtype(program.tensors[program.output].format))
        stored = np.ascontiguousarray(codes.astype(storage_dtype(program.tensors[program.input].format)))
        return self.call("run", stored, out), out.astype(np.int64)

    def predict(self, x: np.ndarray) -> tuple[int, np.ndarray]:
        """(class, outputs) of one real sample."""
        out = np.zeros(self.exported.library.output.count, np.float32)
        return self.call("predict", np.ascontiguousarray(x.reshape(-1), np.float32), out), out

    def quantize(self, x: np.ndarray) -> np.ndarray:
        program = self.exported.compiled.program
        codes = np.zeros(program.tensors[program.input].count, storage_dtype(program.tensors[program.input].format))
        self.call("quantize_input", np.ascontiguousarray(x.reshape(-1), np.float32), codes, with_arena=False)
        return codes.astype(np.int64)
