"""Every error a user can meet: one line that says what, where, limit and remedy, and an exit code.

Exit codes are a public interface (docs/cli.md): a script tells a bad model from a dead board by them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

EXIT_OK = 0
EXIT_GATE = 1
EXIT_USAGE = 2
EXIT_NO_BOARD = 3
EXIT_BUILD = 4
EXIT_FLASH = 5
EXIT_LINK = 6
EXIT_CRASH = 7
EXIT_WRONG_FIRMWARE = 8
EXIT_FLAKY = 9
EXIT_DEFECT = 70  # EX_SOFTWARE of sysexits.h
EXIT_INTERRUPTED = 130
OWN_CODE = "code_of_the_user_"  # how names of modules begin that are loaded from files of the user's own


class HilError(Exception):
    """Base of all errors shown to the user; `exit_code` is what the process returns."""

    exit_code = EXIT_USAGE


class ModelError(HilError):
    """The model file is damaged, uses something unsupported, or holds values that are not finite."""


class DataError(HilError):
    """A data set or input file is missing, damaged or of the wrong shape."""


class ConfigError(HilError):
    """boards.yaml, an assignment file or a command-line value is wrong."""


class Infeasible(ConfigError):
    """No assignment keeps to the limits that were given: the model does not fit into them. `least`: the
    option of the limit that is exceeded, and the least found in its unit; None: several limits exclude each other."""

    exit_code = EXIT_BUILD

    def __init__(self, message: str, least: tuple[str, float] | None = None) -> None:
        super().__init__(message)
        self.least = least


class TrainingError(HilError):
    """Training ran into values that are not finite, or a loss that explodes."""

    exit_code = EXIT_GATE


class BoardError(HilError):
    """No such board, none attached, several candidates, or the board is busy."""

    exit_code = EXIT_NO_BOARD


class SchedulerError(BoardError):
    """Nobody answers where the scheduler of a farm should be."""


class BuildError(HilError):
    """A tool is missing, the compiler failed, or the image could not be produced."""

    exit_code = EXIT_BUILD


class DoesNotFit(BuildError):
    """The image or its RAM exceeds the chip. `what` does, without the remedy; `over`: which memory, and by how many
    bytes, where a linked image is meant."""

    def __init__(self, what: str, over: tuple[str, int] | None = None, remedy: str = "") -> None:
        super().__init__(f"{what}; {remedy}" if remedy else what)
        self.what, self.over = what, over


class FlashError(HilError):
    """The image could not be loaded into the board."""

    exit_code = EXIT_FLASH


class LinkError(HilError):
    """The serial link failed, babbles, or carries frames that make no sense."""

    exit_code = EXIT_LINK


class LinkTimeout(LinkError):
    """The board did not answer within the deadline of the stage."""


class BoardDiffers(HilError):
    """A board computed other integers than the reference."""

    exit_code = EXIT_GATE


class DeviceCrashed(HilError):
    """The firmware faulted or reset in the middle of a run; `pc` is where, if that is known."""

    exit_code = EXIT_CRASH

    def __init__(self, message: str, pc: int | None = None) -> None:
        super().__init__(message)
        self.pc = pc


class WrongFirmware(HilError):
    """The board runs another image than the one just built."""

    exit_code = EXIT_WRONG_FIRMWARE


def nearest(word: str, names: Iterable[str], also: Mapping[str, str] | None = None) -> str | None:
    """The name that was meant, if one is near: by its letters, by its beginning or end, or by another word for it
    (`also`: word -> name)."""
    words = {**{name.lower(): name for name in names}, **{key.lower(): name for key, name in (also or {}).items()}}
    asked = word.lower()
    near = [key for key in words if key == asked] or difflib.get_close_matches(asked, words, 1)
    near = near or [key for key in words if min(len(asked), len(key)) > 2 and key.startswith((asked, asked[:6]))]
    return words[near[0]] if near else None


def did_you_mean(word: str, names: Iterable[str], also: Mapping[str, str] | None = None) -> str:
    """'did you mean X? ', or nothing."""
    found = nearest(word, names, also)
    return "" if found is None else f"did you mean {found}? "
