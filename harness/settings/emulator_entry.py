"""What an entry of a board file may start: emulators of our own folder, and two programs of others by their names, with
options and values of closed lists. A board file may be somebody else's; it never says what is executed, nor where a
file is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from tinyhil.harness.settings.yaml_file import Record

Upload = Literal["arduino", "sam-ba", "stlink", "serial", "uf2", "nrfutil", "bossac", "cmsis-dap", "none"]
# What an emulator's numbers mean (docs/emulators.md). "function only": outputs are right, times say nothing.
Fidelity = Literal["exact cycles", "exact instructions, modelled cycles", "exact instructions", "function only"]
PROGRAMS = {  # kind: what its program may be; only those of `process` are started by their path
    "process": re.compile(r"emulators/[a-z0-9_]+/(build/)?[a-z0-9_]+(\.js)?"),
    "qemu": re.compile(r"qemu-system-arm"),
    "renode": re.compile(r"renode"),
}
WORD = r"[A-Za-z0-9][A-Za-z0-9_-]*"
NOTHING = ""
ARGUMENTS: dict[str, dict[str, str]] = {  # kind: option and what follows it, a pattern
    "process": {
        "--image": r"\{image\}",
        "--boot": r"\{boot_loader\}",
        "--link": r"\{link\}",
        "--trace": r"\{trace\}",
        "--flash-file": r"\{flash_file\}",
        "--drive": r"\{drive\}",
        "--ram-static": r"\{static_bytes\}",
        "--chip": rf"\{{chip\}}|{WORD}",
        "--supply": rf"\{{supply\}}|{WORD}",
        "--bus": r"[1-9]",
        "--boot0": NOTHING,
        "--no-autoreset": NOTHING,
        "--single-bank": NOTHING,
    },
    "qemu": {"-machine": WORD, "-cpu": WORD, "-icount": r"shift=[0-9]+"},
    "renode": {r"emulators/renode/[a-z0-9_]+\.resc": NOTHING},
}
FLAG = re.compile(  # of a compiler: what chooses a core and nothing else
    r"-m(mcu|cpu|arch|tune|fpu|float-abi)=[A-Za-z0-9][A-Za-z0-9.+_-]*|-m(thumb|arm|relax|call-prologues)|"
    r"-falign-(functions|loops|jumps|labels)(=[0-9]+)?"
)


def _flags(text: str) -> str:
    for word in text.split():
        if not FLAG.fullmatch(word):
            raise ValueError(
                f"{word!r} does not choose a core; known: -mcpu=, -mmcu=, -mfpu=, -mthumb, -falign-loops= ..."
            )
    return text


Machine = Annotated[str, AfterValidator(_flags)]


class Emulator(Record):
    """`process`: a program under emulators/; `{image}` and its like among its arguments are filled in when it is
    started. `qemu`, `renode`: a program in PATH with a driver of its own in harness/boards/."""

    kind: Literal["process", "qemu", "renode"] = "process"
    program: str
    fidelity: Fidelity
    error: Annotated[float, Field(gt=0, lt=1)] | None = None  # largest of modelled cycles (docs/cycle_model.md)
    args: tuple[str, ...]
    foreign_args: tuple[str, ...] = ()  # instead of `args`: firmware of others, which sets the chip up in its own way
    loader_args: tuple[str, ...] = ()  # instead of `args`: erased, in its boot loader
    upload: Upload = "none"  # how that boot loader is flashed
    also: tuple[Upload, ...] = ()  # what it takes, too, where a board's entry says so

    def upload_of(self, board: Upload) -> Upload:
        """How the boot loader of a board that is flashed by `board` is flashed here; none where a probe writes past a
        loader that shows a drive."""
        if board == "cmsis-dap" and self.upload == "uf2":
            return "none"
        return board if board in self.also else self.upload

    def has_loader(self, board: Upload) -> bool:
        """Whether it can be flashed in place of a board that is flashed by `board`."""
        return bool(self.loader_args) and self.upload_of(board) != "none"

    @model_validator(mode="after")
    def _starts_what_is_known(self) -> Emulator:
        if not PROGRAMS[self.kind].fullmatch(self.program):
            raise ValueError(f"program {self.program!r} is none of tinyhil's emulators; see `hil docs emulators`")
        for words in (self.args, self.foreign_args, self.loader_args):
            _check_arguments(self.kind, words)
        return self


def _check_arguments(kind: str, words: tuple[str, ...]) -> None:
    known, rest = ARGUMENTS[kind], list(words)
    while rest:
        option = rest.pop(0)
        follows = next((pattern for name, pattern in known.items() if re.fullmatch(name, option)), None)
        if follows is None:
            raise ValueError(f"argument {option!r} is not known to a {kind}; known: {', '.join(known)}")
        value = rest.pop(0) if rest and follows != NOTHING else NOTHING
        if not re.fullmatch(follows, value):
            raise ValueError(f"argument {option} is followed by {value!r}, which does not match {follows}")


def filled(arguments: tuple[str, ...], values: Mapping[str, object]) -> list[str]:
    """Arguments with the value of each placeholder in its place."""
    return [str(values[word[1:-1]]) if word.startswith("{") else word for word in arguments]
