"""`hil schema`: what files of ours may hold, as JSON Schema, for editors. docs/schemas/ publishes the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pydantic import BaseModel

DIALECT = "https://json-schema.org/draft/2020-12/schema"
PUBLISHED = "https://tinyhil.github.io/tinyhil/schemas"
SET_BY_THE_FILE = ("name", "hal", "emulated_as")  # of chips, where nothing else is said
Schema = dict[str, Any]


def _of(model: type[BaseModel], title: str) -> Schema:
    found: Schema = model.model_json_schema()
    found.pop("description", None)
    for part in (found, *found.get("$defs", {}).values()):
        properties = part.get("properties", {})
        if part.get("additionalProperties") is False and part is found:
            properties["$schema"] = {"type": "string"}
        for one in properties.values():
            one.pop("title", None)
    return {**found, "title": title}


def _boards() -> Schema:
    """`like` gives a chip what it does not say itself; its name is its key."""
    from tinyhil.harness.settings.config import Content

    found = _of(Content, "boards.yaml of tinyhil: chips and boards")
    chip = found["$defs"]["ChipSpec"]
    chip["properties"].pop("name")
    chip["properties"] |= {name: {"type": "string"} for name in SET_BY_THE_FILE[1:]}
    needed = [name for name in chip.pop("required") if name not in SET_BY_THE_FILE]
    chip["anyOf"] = [{"required": ["like"]}, {"required": needed}]
    return found


def _bench() -> Schema:
    from tinyhil.harness.settings.bench_file import Bench

    return _of(Bench, "bench file of tinyhil: the boards on a desk or in a farm")


def _sweep() -> Schema:
    """With the short forms: a name for an entry, one format for a list of one."""
    from tinyhil.harness.sweep.file import SweepFile

    found = _of(SweepFile, "sweep.yaml of tinyhil: models x boards x formats x strategies")
    name = {"type": "string", "minLength": 1}
    for key in ("models", "strategies", "formats"):
        items = found["properties"][key]["items"]
        found["properties"][key]["items"] = {"anyOf": [name, items]}
    return found


def _record() -> Schema:
    from tinyhil.harness.records.schema import Record

    return _of(Record, "record of hil run, profile, bench or golden")


def _search() -> Schema:
    from tinyhil.harness.records.search_schema import Search

    return _of(Search, "record of hil search")


def _assignment() -> Schema:
    """An assignment file names every value's format; what values there are only the model says."""
    from dataclasses import fields

    from tinyhil.formats import FORMATS
    from tinyhil.language.assignment import KINDS, MOST_OFFSET, Conditions

    named = {"type": "string", "description": "a number format, see hil formats", "examples": [f.name for f in FORMATS]}
    kinds = {
        one.name: {"type": {int: "integer", bool: "boolean"}.get(KINDS.get(one.name, str), "string")}
        for one in fields(Conditions)
    }
    offset = {"type": "integer", "minimum": -MOST_OFFSET, "maximum": MOST_OFFSET}
    properties = {
        "$schema": {"type": "string"},
        "default": named,
        "values": {"type": "object", "additionalProperties": named},
        "offsets": {"type": "object", "additionalProperties": offset},
        "found": {"type": "object", "properties": kinds, "additionalProperties": False},
    }
    return {
        "title": "assignment file of tinyhil: a number format for every value",
        "type": "object",
        "properties": properties,
        "required": ["default"],
        "additionalProperties": False,
    }


SCHEMAS: dict[str, Callable[[], Schema]] = {
    "boards": _boards,
    "bench": _bench,
    "sweep": _sweep,
    "assignment": _assignment,
    "record": _record,
    "search": _search,
}


def schema_text(name: str) -> str:
    """The schema of a kind of file, as published."""
    import json

    whole = {"$schema": DIALECT, "$id": f"{PUBLISHED}/{name}.json", **SCHEMAS[name]()}
    return json.dumps(whole, indent=1) + "\n"


@click.command()
@click.argument("name", type=click.Choice(list(SCHEMAS)))
def schema(name: str) -> None:
    """Print the JSON Schema of a kind of file: boards, bench, sweep, assignment, record, search.

    In YAML editors take it from a first line: # yaml-language-server: $schema=FILE
    """
    click.echo(schema_text(name), nl=False)
