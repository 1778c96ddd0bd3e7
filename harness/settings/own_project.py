"""What a user's project says in its pyproject.toml, as `hil new` writes it: pytest's plugin and the commands that are
called in its folder mean the same golden records and the same boards."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tinyhil.errors import ConfigError

FILE = Path("pyproject.toml")
GOLDEN, OURS = Path("golden"), Path("results/golden")  # of the plugin; of who has no project


def setting(name: str, folder: Path = Path()) -> str:
    """Of pytest's table in the folder's pyproject.toml; empty if it says nothing. ConfigError for no TOML."""
    path = folder / FILE
    if not path.is_file():
        return ""
    try:
        read = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None
    table = read
    for key in ("tool", "pytest", "ini_options"):
        found = table.get(key)
        table = found if isinstance(found, dict) else {}
    value = table.get(name, "")
    return value if isinstance(value, str) else ""


def golden_folder(folder: Path = Path()) -> Path:
    """Where golden records lie: where the project says, else in `golden` as pytest's plugin has it if that is there,
    else in `results/golden`."""
    named = setting("hil_golden", folder)
    if named:
        return Path(named)
    return GOLDEN if (folder / GOLDEN).is_dir() and not (folder / OURS).is_dir() else OURS


def boards_file(folder: Path = Path()) -> Path | None:
    """Boards and chips of the project's own."""
    named = setting("hil_boards_file", folder)
    return Path(named) if named else None
