"""Schemas in the editor: VS Code's server for JSON and that of its YAML extension read files that name theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from language_server import Server, missing, started
from test_editors import GOOD

from tinyhil.harness.commands.schema import SCHEMAS, schema_text

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
IN_JSON = {"record", "search"}  # what hil writes; assignments are written in either
# One wrong word in a file that is otherwise right: the kind, the way to it, what is put there, what the server says.
WRONG = [
    ("boards", ("boards", "uno", "bauds"), 9600, "bauds is not allowed"),
    ("boards", ("chips", "sam3x8e", "core"), "z80", "cortex-m3"),
    ("bench", ("boards", "left", "serail"), "1", "serail is not allowed"),
    ("bench", ("locks", "wait_s"), -1, "below the minimum"),
    ("sweep", ("format",), ["fixed8"], "format is not allowed"),
    ("sweep", ("boards",), [], "too few items"),
    ("assignment", ("offsets", "wx"), 99, "above the maximum"),
    ("assignment", ("defualt",), "fixed8", "defualt is not allowed"),
    ("record", ("bit_exact",), "yes", "Incorrect type"),
    ("record", ("latency", "median"), "fast", "Incorrect type"),
    ("search", ("evaluations",), "many", "Incorrect type"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which `hil schema NAME > NAME.json` was typed for each."""
    folder = tmp_path_factory.mktemp("project")
    for name in SCHEMAS:
        (folder / f"{name}.json").write_text(schema_text(name), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Server]]:
    with started("yaml") as of_yaml, started("json") as of_json:
        yield {"yaml": of_yaml, "json": of_json}


def languages(kind: str) -> list[str]:
    return ["json"] if kind in IN_JSON else ["json", "yaml"] if kind == "assignment" else ["yaml"]


def written(folder: Path, name: str, language: str, content: Any) -> Path:
    """A file of its content that names its schema as docs/cli.md says; its name begins with its kind."""
    path, kind = folder / f"{name}.{language}", name.partition("-")[0]
    if language == "json":
        text = json.dumps({"$schema": f"./{kind}.json", **content}, indent=1)
    else:
        text = f"# yaml-language-server: $schema={kind}.json\n{yaml.safe_dump(content, sort_keys=False)}"
    path.write_text(text, encoding="utf-8")
    return path


def spoilt(content: Any, way: tuple[str, ...], value: Any) -> Any:
    """A copy with `value` at the end of the way."""
    copy = json.loads(json.dumps(content))
    at = copy
    for key in way[:-1]:
        at = at.setdefault(key, {})
    at[way[-1]] = value
    return copy


@pytest.mark.parametrize("kind", sorted(SCHEMAS))
def test_nothing_is_said_of_what_is_right(kind: str, folder: Path, servers: dict[str, Server]) -> None:
    for number, content in enumerate(GOOD[kind]):
        for language in languages(kind):
            path = written(folder, f"{kind}-{number}", language, content)
            assert [one["message"] for one in servers[language].diagnostics(path)] == []


@pytest.mark.parametrize(("kind", "way", "value", "words"), WRONG)
def test_a_wrong_word_is_underlined(
    kind: str, way: tuple[str, ...], value: Any, words: str, folder: Path, servers: dict[str, Server]
) -> None:
    """One complaint, in the line where the word is."""
    for language in languages(kind):
        content = spoilt(GOOD[kind][0], way, value)
        path = written(folder, f"{kind}-{way[-1]}", language, content)
        (found,) = servers[language].diagnostics(path)
        assert words in found["message"]
        lines = path.read_text(encoding="utf-8").splitlines()
        said = " ".join(lines[found["range"]["start"]["line"] : found["range"]["end"]["line"] + 1])
        assert way[-1] in said


def test_keys_and_values_are_offered(folder: Path, servers: dict[str, Server]) -> None:
    path = folder / "boards.yaml"
    path.write_text("# yaml-language-server: $schema=boards.json\nboards:\n  mine:\n    \n    reset: \n")
    assert servers["yaml"].diagnostics(path)
    assert {"chip", "usb", "upload"} <= servers["yaml"].offered(path, 3, 4)
    assert "on_open" in servers["yaml"].offered(path, 4, 11)
    path = folder / "mine.json"
    path.write_text('{"$schema": "./assignment.json",\n "default": "fixed8",\n ""}')
    assert servers["json"].diagnostics(path), "a comma and a name are missing"
    assert {"values", "offsets", "found"} <= servers["json"].offered(path, 2, 2)
