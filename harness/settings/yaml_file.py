"""YAML files as checked data: every fault at once, each at its line and column (boards.yaml, a user's bench file)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from tinyhil import files
from tinyhil.errors import ConfigError, nearest


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{text!r} is not one line of printable text")
    return text


Line = Annotated[str, AfterValidator(_one_line)]  # it is shown on terminals and written into files of others
NonEmpty = Annotated[Line, StringConstraints(min_length=1)]
PositiveInt = Annotated[int, Field(gt=0)]
Location = tuple[str | int, ...]
Fault = tuple[int, int, str]
MAX_DEPTH = 8  # twice what such a file needs


class Record(BaseModel):
    """Base of everything read from such a file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


Content = TypeVar("Content", bound=Record)


def read_text(source: Path, what: str) -> str:
    """The text of a YAML file of bounded size; ConfigError if it can not be read."""
    return files.read_text(source, what, files.MOST_YAML_BYTES, ConfigError)


def parse(
    text: str,
    source: Path,
    model: type[Content],
    prepare: Callable[[Any, yaml.Node], list[Fault]] = lambda data, root: [],
    check: Callable[[Content, yaml.Node], list[Fault]] = lambda content, root: [],
) -> Content:
    """The text as a `model`; ConfigError with one `file:line:col: message` line per fault.

    `prepare` may complete the plain data (its faults end the reading), `check` looks for faults that a single field
    does not show.
    """
    root = _compose(text, source)
    faults: list[Fault] = []
    data = _plain(root, faults)
    if isinstance(data, dict):
        data.pop("$schema", None)  # an editor's
    unquoted = list(_unquoted_usb_ids(root))
    unprepared = prepare(data, root)
    faults += unprepared
    content = None
    try:
        content = None if unprepared else model.model_validate(data)
    except ValidationError as error:
        said = {(line, col) for line, col, _ in unquoted}
        found = [(*mark(root, e["loc"]), _wording(e) + _belongs(model, e)) for e in _own(error.errors())]
        faults += [fault for fault in found if fault[:2] not in said]
    if content:
        faults += check(content, root)
    faults += unquoted
    if faults or not content:
        raise ConfigError("\n".join(f"{source.name}:{line}:{col}: {m}" for line, col, m in sorted(set(faults))))
    return content


def _compose(text: str, source: Path) -> yaml.Node:
    try:
        root = files.compose_yaml(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise ConfigError(f"{source.name}{where}: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{source.name}: {error}") from error
    if root is None:
        raise ConfigError(f"{source.name}:1:1: the file is empty")
    return root


def _fault(node: yaml.Node, message: str) -> Fault:
    return node.start_mark.line + 1, node.start_mark.column + 1, message


def _plain(node: yaml.Node, faults: list[Fault], depth: int = 0) -> Any:
    """The node as dicts, tuples (pydantic is strict) and scalars; what YAML permits and we do not becomes a fault."""
    if depth > MAX_DEPTH:
        faults.append(_fault(node, "nested too deeply (an alias that contains itself?)"))
        return None
    if isinstance(node, yaml.MappingNode):
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                faults.append(_fault(key_node, "a key must be a word"))
                continue
            key = _scalar(key_node, faults)
            if key in result:
                faults.append(_fault(key_node, f"duplicate key {key}"))
            else:
                result[key] = _plain(value_node, faults, depth + 1)
        return result
    if isinstance(node, yaml.SequenceNode):
        return tuple(_plain(item, faults, depth + 1) for item in node.value)
    return _scalar(node, faults)


def _scalar(node: yaml.Node, faults: list[Fault]) -> Any:
    try:
        return files.yaml_scalar(node)
    except ValueError as error:
        faults.append(_fault(node, str(error)))
        return None


def _children(node: yaml.Node) -> Iterator[tuple[str | int, yaml.Node, yaml.Node]]:
    """(key, the node to point at, the value) of a mapping or sequence."""
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            yield str(key_node.value), key_node, value_node
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield index, item, item


def mark(root: yaml.Node, location: Location) -> tuple[int, int]:
    """Line and column of the deepest existing node on the way to `location`: the value, or the key of a mapping."""
    node, point = root, root
    for step in location:
        found = next(((p, v) for key, p, v in _children(node) if key == step), None)
        if found is None:
            break
        point, node = found
    if isinstance(node, yaml.ScalarNode):
        point = node
    return point.start_mark.line + 1, point.start_mark.column + 1


def _unquoted_usb_ids(node: yaml.Node, depth: int = 0) -> Iterator[Fault]:
    """YAML reads 0043 as an octal number and 2341:43 as sexagesimal: identities must be quoted."""
    for key, _, value in _children(node) if depth <= MAX_DEPTH else ():
        if key != "usb":
            yield from _unquoted_usb_ids(value, depth + 1)
            continue
        for item in (value, *(item for _, _, item in _children(value))):
            if isinstance(item, yaml.ScalarNode) and item.style not in ("'", '"'):
                yield _fault(item, f'quote the USB identity: "{item.value}" (VID:PID, as in "2341:0043")')


def _wording(error: Any) -> str:
    location = ".".join(str(step) for step in error["loc"] if step != "[key]")
    kind, given = str(error["type"]), error["input"]
    message = str(error["msg"]).removeprefix("Value error, ")
    if kind == "missing":
        message = "missing"
    elif kind == "extra_forbidden":
        message = "unknown key"
    elif kind == "tuple_type":
        message = f"must be a list: [{given}]" if isinstance(given, str | int | float) else "must be a list: [a, b]"
    elif kind.startswith(("dict_", "model_")):
        message = "must be a mapping: {key: value}"
    return f"{location}: {message}" if location else message


def _own(errors: Sequence[Any]) -> Iterator[Any]:
    """Without a list that is said to be short since an entry of it has a fault."""
    places = [error["loc"] for error in errors]
    for error in errors:
        size = len(error["loc"])
        inside = any(len(place) > size and place[:size] == error["loc"] for place in places)
        if not (error["type"] == "too_short" and inside):
            yield error


def _entry(kind: Any, location: Sequence[str | int]) -> Any:
    """The model that takes what stands at a place below a field of this kind; None if none is known there."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if location and (fields := getattr(kind, "model_fields", None)) is not None:
        return _entry(fields[location[0]].annotation, location[1:]) if location[0] in fields else None
    inner = get_args(kind)
    if location and inner:  # an item of a list, a value of a mapping, what may be absent
        deeper = location if type(None) in inner else location[1:]
        return _entry(inner[1] if get_origin(kind) is dict else inner[0], deeper)
    return next((one for one in (kind, *inner) if hasattr(one, "model_fields")), None)


def _belongs(model: type[BaseModel], error: Any) -> str:
    """Of an unknown key at the top of a file: the keys that take it, else the one that is near; of one in an entry that
    has a name this."""
    if error["type"] != "extra_forbidden":
        return ""
    key, kinds = str(error["loc"][-1]), {name: field.annotation for name, field in model.model_fields.items()}
    if len(error["loc"]) > 1:
        near = nearest(key, getattr(_entry(model, error["loc"][:-1]), "model_fields", ()))
        return f"; `{near}`?" if near else ""
    into = [name for name, kind in kinds.items() if key in getattr(kind, "model_fields", ())]
    if into:
        return f"; it stands in `{'` or `'.join(into)}`: `{into[0]}: {{{key}: ...}}`"
    near = nearest(key, kinds)
    return f"; `{near}`?" if near else f"; known: {', '.join(kinds)}"
