"""An engine of somebody else's: which models it reads, where its sources are to be had, and the recipe that makes the
four functions of firmware/bench/hil_bench.h of a model.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from math import prod
from pathlib import Path

from tinyhil.codegen.model import Source
from tinyhil.errors import ConfigError, ModelError
from tinyhil.harness.build.toolchain import Compiler
from tinyhil.harness.engines.port import Port
from tinyhil.harness.job.job import Opened
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.notice import Say
from tinyhil.processes import run

VARIABLE = "HIL_ENGINES"
GIT_S = 20.0


@dataclass(frozen=True, slots=True)
class Task:
    """A model for a board, the checkout `source`, the compilers, and where what is made may be put.

    `tells`: the four functions are to be five, see Built.taps."""

    opened: Opened
    board: BoardSpec
    compiler: Compiler
    source: Path
    cache_dir: Path
    say: Say
    tells: bool = False

    @property
    def model(self) -> Path:
        """The model's file."""
        return self.opened.source.path


@dataclass(frozen=True, slots=True)
class Tap:
    """A tensor that an engine tells of: its name and shape in the model's file."""

    name: str
    port: Port
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """Of its elements."""
        return prod(self.shape) * self.port.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Built:
    """The four functions for a model. `files`: generated ones of the project; `archive`: what is linked to them.

    `beside`: folders of sources that it took beside the checkout; the record holds their hashes.

    `resized`: the same with so many bytes of working memory, where the engine itself says how many it needs
    (`hil_engine_arena_bytes`, an uint32_t that is known once hil_engine_init() has run); None: it is as it will be.

    `taps`: of a task that tells, the tensors that `const void *hil_engine_tensor(uint16_t number)` gives after
    hil_engine_invoke(), in the order in which they are computed; an engine that knows none leaves it empty.
    """

    input: Port
    output: Port
    input_count: int
    output_count: int
    files: Mapping[str, Source] = field(default_factory=dict)
    archive: bytes = b""
    arena_bytes: int | None = None
    beside: tuple[Path, ...] = ()
    resized: Callable[[int], Built] | None = None
    taps: tuple[Tap, ...] = ()


@dataclass(frozen=True, slots=True)
class Engine:
    """`reads`: endings of model files. `get`: what fetches the sources; `folder`, `marker`: how a checkout is known."""

    name: str
    title: str
    licence: str
    reads: tuple[str, ...]
    get: tuple[str, ...]
    folder: str
    marker: str
    build: Callable[[Task], Built]
    package: str | None = None  # of the Python index, which brings the sources

    def checkout(self, given: Path | None) -> Path:
        """The sources: `given`, or a folder of HIL_ENGINES. ConfigError with the lines that fetch them."""
        places = [given] if given else [Path(one) for one in os.environ.get(VARIABLE, "").split(os.pathsep) if one]
        spec = find_spec(self.package) if self.package and not given else None
        places += [Path(spec.origin).parent] if spec is not None and spec.origin else []
        for place in places:
            for folder in (place, place / self.folder):
                if (folder / self.marker).exists():
                    return folder
        where = (
            f"{given}: no {self.marker} there" if given else f"no sources; name them by --engine-source or {VARIABLE}"
        )
        raise ConfigError(f"{self.name}: {where}; get them: {' && '.join(self.get)}")

    def check_reads(self, model: Path) -> None:
        """ModelError for a file of another kind."""
        if model.suffix not in self.reads:
            raise ModelError(f"{model}: {self.name} reads {' and '.join(self.reads)} files; give the model as one")


def version_of(source: Path) -> dict[str, str]:
    """What tells one state of a checkout from another: the hash of its sources, and its commit where it has one."""
    try:
        done = run(["git", "-C", str(source), "rev-parse", "HEAD"], GIT_S)
        top = run(["git", "-C", str(source), "rev-parse", "--show-toplevel"], GIT_S)
        own = top.stdout.strip() == str(source.resolve())
        commit = {"commit": done.stdout.strip()} if done.returncode == 0 and own else {}
    except (OSError, subprocess.TimeoutExpired):
        commit = {}
    return {**commit, "sources_sha256": tree_hash(source)}


@lru_cache
def tree_hash(source: Path) -> str:
    """SHA-256 over the names and contents of the sources below a folder."""
    digest = hashlib.sha256()
    endings = {".c", ".cc", ".cpp", ".h", ".hpp", ".inc", ".py"}
    for path in sorted(source.rglob("*")):
        if path.suffix in endings and path.is_file() and not path.is_symlink():
            digest.update(path.relative_to(source).as_posix().encode() + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
