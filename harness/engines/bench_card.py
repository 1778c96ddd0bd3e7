"""What an image says of itself by HIL_BENCH_CARD: words KEY=VALUE between semicolons, which are believed only as far as
they can be true."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tinyhil.errors import ConfigError
from tinyhil.harness.engines.port import Port

NAME = re.compile(r"[\w+()\[\],-][\w .+()\[\],-]{0,79}")  # goes to terminals, `model` into the names of folders


@dataclass(frozen=True, slots=True)
class Card:
    """None: not told. `arena_bytes` are inside of the static data."""

    engine: str | None = None
    version: str | None = None
    model: str | None = None
    input: Port | None = None
    output: Port | None = None
    arena_bytes: int | None = None


def card_of(text: str, path: Path, static_bytes: int) -> Card:
    """The card in the image at `path` with that much static data. ConfigError names the word that can not be true."""
    pairs = (word.partition("=") for word in text.split(";"))
    words = {key.strip(): value.strip() for key, _, value in pairs if key.strip() and value.strip()}
    try:
        engine, version, model = (_name(key, words) for key in ("engine", "version", "model"))
        source, target = (Port.parse(words[key]) if key in words else None for key in ("input", "output"))
        return Card(engine, version, model, source, target, _arena(words, static_bytes))
    except ConfigError as error:
        raise ConfigError(f"{path}: HIL_BENCH_CARD: {error}") from None


def _name(key: str, words: Mapping[str, str]) -> str | None:
    value = words.get(key)
    if value is not None and not NAME.fullmatch(value):
        raise ConfigError(f"{key}={value[:80]!r} is no name; write 80 letters, digits, blanks and .+()[],- at most")
    return value


def _arena(words: Mapping[str, str], static_bytes: int) -> int | None:
    value = words.get("arena")
    if value is not None and not (re.fullmatch("[0-9]{1,9}", value) and int(value) <= static_bytes):
        raise ConfigError(f"arena={value[:80]!r} is no number of bytes inside of {static_bytes} B of static data")
    return None if value is None else int(value)
