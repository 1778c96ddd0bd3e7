"""The part of the kernels that one model needs: declarations reached from the names its code uses, file by file.

The kernels keep one shape: everything of `namespace hil` begins in the first column, one declaration after the other. A
declaration is kept if its name is reached and every class that tells an overload or a specialization apart is reached,
too: no object of a class exists unless something that is kept names it. So what is left out could never be chosen, and
the program is the same as with all kernels (tests/test_export_kernels.py).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

FOLDER = "firmware/kernels/"
ALL = "kernels.hpp"
CALLS = {"(": "(", "<": "(<"}  # by what stands behind a name: which functions may be called
NAMESPACES = frozenset({"single", "portable"})  # those within hil
_INCLUDE = re.compile(r'#include "firmware/kernels/(?:\w+/)?(\w+\.hpp)"')
_WORD = re.compile(r"[A-Za-z_]\w*")
_MENTION = re.compile(
    r"(?<![.\w])[A-Za-z_]\w*(?:\s*\(|<)?"
)  # no member of an object; with what follows a function's name
_ROUTINE = re.compile(r'"i"\((\w+)\)')  # that assembler calls
_CONDITION = re.compile(r"#(if|ifdef|ifndef|else|elif|endif)\b")
_OPENS = re.compile(r"#(if|ifdef|ifndef)\b")
_CLASS = re.compile(r"(?:struct|class|union|enum class)\s+(?:alignas\(\w+\)\s+)?(\w+)")
_PARAMETER = re.compile(r"[\w.]\s+(\w+)\s*(?=[,=>])")  # of a template, whatever its type
_FIRST = re.compile(r"^\s*template\s*<[\w. ]*\s(\w+)\s*(?=[,>])")  # of a template, if it has no default
_ATTRIBUTE = re.compile(r"__attribute__\(\(.*?\)\)|alignas\(\w+\)")


@dataclass(frozen=True, slots=True)
class Declaration:
    """Lines of a header that stay or go together. `names` is what they declare, `gates` the classes without which they
    are never chosen, `words` all that they mention."""

    lines: tuple[str, ...]
    names: frozenset[str]
    is_class: bool = False
    gates: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()


@dataclass(slots=True)
class Header:
    """A kernel file in order: its comment, then plain lines (conditions, includes, the namespace) and declarations."""

    comment: list[str]
    items: list[str | Declaration] = field(default_factory=list)

    @property
    def declarations(self) -> Iterator[Declaration]:
        """Those of its items that a subset may leave out, in order."""
        return (item for item in self.items if isinstance(item, Declaration))

    @property
    def conditions(self) -> frozenset[str]:
        """What its conditions mention, macros of other files among them."""
        return _words(item for item in self.items if isinstance(item, str) and _CONDITION.match(item))


def files_of(sources: Mapping[str, str]) -> dict[str, str]:
    """The kernels of a project's sources, by their names alone: in an export they lie in one folder."""
    return {path.rpartition("/")[2]: text for path, text in sources.items() if path.startswith(FOLDER)}


def subset(kernels: Mapping[str, str], used: Iterable[str]) -> dict[str, str]:
    """File name -> text of what `used` (names of `hil::`) needs of `kernels` (file name -> text), in `FOLDER`."""
    headers = {name: _parsed(text) for name, text in kernels.items() if name != ALL}
    reached = _reached(headers, set(used))
    needed = {name for name, header in headers.items() if any(id(item) in reached for item in header.declarations)}
    return {name: _written(headers, name, needed, reached) for name in headers if name in needed}


def entries(kernels: Mapping[str, str], needed: Iterable[str], folder: str) -> list[str]:
    """The lines by which code includes those of the files `needed` that it has to, in the order and under the
    conditions of the file that includes all. They lie in `folder`."""
    wanted, order = set(needed), _INCLUDE.findall(kernels[ALL])
    beyond = wanted - set(order) - _included(kernels, [name for name in order if name in wanted])
    lines = _with_includes(_conditional(kernels, ALL, wanted.intersection(order) | beyond, beyond, {ALL}))
    rest = sorted(beyond.difference(*map(_INCLUDE.findall, lines)))
    lines += [f'#include "{FOLDER}{name}"' for name in rest]
    return [_INCLUDE.sub(rf'#include "{folder}/\1"', line) for line in _without_empty(lines)]


def _conditional(
    kernels: Mapping[str, str], file: str, wanted: Collection[str], beyond: Collection[str], seen: set[str]
) -> list[str]:
    """Conditions and includes of `file`: those of the files `wanted`, and in place of others what these include of the
    files `beyond`, whose own conditions may lie there."""
    lines: list[str] = []
    for line in kernels[file].split("\n"):
        include = _INCLUDE.match(line)
        if include and include[1] in wanted:
            lines.append(line)
        elif include and include[1] not in seen:
            seen.add(include[1])
            lines += _conditional(kernels, include[1], beyond, beyond, seen)
        elif _CONDITION.match(line):
            lines.append(line)
    return lines


def _with_includes(lines: Iterable[str]) -> list[str]:
    """Without conditions around no include."""
    found, begun = list[str](), list[int]()
    for line in lines:
        if _OPENS.match(line):
            begun.append(len(found))
        found.append(line)
        if line.startswith("#endif"):
            begin = begun.pop()
            if not any(map(_INCLUDE.match, found[begin:])):
                del found[begin:]
    return found


def _included(kernels: Mapping[str, str], names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    todo = list(names)
    while todo:
        for name in _INCLUDE.findall(kernels[todo.pop()]):
            if name not in found:
                found.add(name)
                todo.append(name)
    return found


@functools.cache
def _parsed(text: str) -> Header:
    lines = text.split("\n")
    start = next(index for index, line in enumerate(lines) if line.startswith("#pragma once"))
    header, at = Header(lines[:start]), start + 1
    pending: list[str] = []
    macros: dict[str, tuple[list[str], str]] = {}
    inside: tuple[str, ...] = ()  # namespaces within hil
    while at < len(lines):
        line, end = lines[at], at
        if line.startswith("//"):
            pending.append(line)
            at += 1
            continue
        if line.startswith(("#define", "#undef")):
            while lines[end].endswith("\\"):
                end += 1
            header.items.append(_macro(lines[at : end + 1], pending, macros))
        elif not line or line.startswith(("#", "namespace ", "}")):
            inside = _namespaces(inside, line)
            header.items.append(line)
        else:
            called = re.match(r"([A-Z]\w+)\((.*)\)$", line)
            end = at if called else _end_of(lines, at)
            found = _invocation(called, macros) if called else _declared(lines[at : end + 1])
            words = _words([*lines[at : end + 1], *inside])
            if called:  # a macro may call what it is given, be it in assembler
                words |= {f"{name}{end}" for name in _WORD.findall(called[2]) for end in "(<"}
            item = Declaration((*pending, *lines[at : end + 1]), found.names, found.is_class, found.gates, words)
            header.items.append(replace(item, gates=item.gates | set(inside)))
        pending, at = [], end + 1
    return header


def _namespaces(inside: tuple[str, ...], line: str) -> tuple[str, ...]:
    opened = re.match(r"namespace (\w+) \{", line)
    if opened and opened[1] != "hil":
        return (*inside, opened[1])
    return inside[:-1] if line.startswith("}") else inside


def _macro(lines: list[str], comment: list[str], macros: dict[str, tuple[list[str], str]]) -> Declaration:
    match = re.match(r"#\w+\s+(\w+)(?:\(([^)]*)\))?", lines[0])
    assert match is not None
    if lines[0].startswith("#define") and match[2]:
        body = " ".join(line.rstrip("\\") for line in lines)[match.end() :]
        macros[match[1]] = ([parameter.strip() for parameter in match[2].split(",")], body)
    return Declaration((*comment, *lines), frozenset({match[1]}), words=_words(lines))


def _invocation(called: re.Match[str], macros: Mapping[str, tuple[list[str], str]]) -> Declaration:
    """What a macro declares, given these arguments."""
    parameters, body = macros[called[1]]
    values = re.split(r",\s*(?![^<(]*[>)])", called[2], maxsplit=len(parameters) - 1)
    for parameter, value in zip(parameters, values, strict=True):
        body = re.sub(rf"(?:##)?\b{parameter}\b(?:##)?|(?<=_##){parameter}\b", value.strip().replace("\\", ""), body)
    body = body.replace("##", "")
    parts, start, depth = [], 0, 0
    if "{" not in body:  # it calls macros that declare
        parts = [_invocation(inner, macros) for inner in _calls(body) if inner[1] in macros]
    for index, letter in enumerate(body):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "}" and depth == 0:
            parts.append(_declared([body[start : index + 1].strip()]))
            start = index + 1
    names = frozenset(name for part in parts for name in part.names)
    return Declaration((), names, gates=frozenset(gate for part in parts for gate in part.gates))


def _calls(body: str) -> Iterator[re.Match[str]]:
    """The calls of macros behind each other, with what is in their parentheses."""
    at = 0
    while opened := re.compile(r"[A-Z]\w+\(").search(body, at):
        end, depth = opened.end(), 1
        while depth and end < len(body):
            depth += {"(": 1, ")": -1}.get(body[end], 0)
            end += 1
        found = re.match(r"([A-Z]\w+)\((.*)\)$", body[opened.start() : end])
        if found is not None:
            yield found
        at = end


def _end_of(lines: list[str], at: int) -> int:
    """The last line of the declaration that begins in line `at`."""
    depth = 0
    for index in range(at, len(lines)):
        line = lines[index].split("//")[0].rstrip()
        if line.startswith("#"):
            continue
        depth += line.count("{") - line.count("}")
        if depth == 0 and line.endswith((";", "}")):
            return index
    raise ValueError(f"kernels: no end of {lines[at]!r}")


def _words(lines: Iterable[str]) -> frozenset[str]:
    """What lines mention: names, and names with `(` where they may be those of functions, with `<` where these
    are given a template's parameters."""
    found = set()
    for line in lines:
        if line.startswith("using ") and "=" not in line:  # of a function, from a namespace within ours
            found |= {f"{_WORD.findall(line)[-1]}{end}" for end in "(<"}
        found |= {f"{name}(" for name in _ROUTINE.findall(line)}
        for mention in _MENTION.findall(line.split("//")[0]):
            name = mention.rstrip("(< \t")
            found |= {name, *(f"{name}{end}" for end in CALLS.get(mention[-1], ""))}
    return frozenset(found)


def _declared(lines: list[str]) -> Declaration:
    """Names and gates of one declaration."""
    text = _ATTRIBUTE.sub("", " ".join(line.split("//")[0] for line in lines if not line.startswith("#")))
    head = re.split(r"[{;]", text, maxsplit=1)[0].strip()
    parameters: set[str] = set()
    first = ""
    while (rest := _without_template(head).strip()) != head:
        opened = head.removesuffix(rest)
        parameters |= set(_PARAMETER.findall(opened))
        first, head = first or "".join(_FIRST.findall(opened)[:1]), rest
    if head.startswith("enum"):
        return Declaration((), _words([text]))
    if head.startswith("using"):
        words = _WORD.findall(head)
        return Declaration((), frozenset({words[1]} if "=" in head else {words[-1], f"{words[-1]}(", f"{words[-1]}<"}))
    found = _CLASS.match(head)
    if found:
        special = head[found.end() :].lstrip().startswith("<")
        own = head[found.end() :].split(" : ")[0] if special else ""
        return Declaration((), frozenset({found[1]}), True, frozenset(_WORD.findall(own)) - parameters)
    member = re.search(r"(\w+)(?:<[^=(]*>)?::\w+\s*(?:\w+\s*)?(?:=|$)", head)
    if member and "(" not in head.split("=")[0]:
        return Declaration((), frozenset({member[1]}))
    called = re.search(r"(\w+)\s*\(", head)
    if called:
        by_arguments = set(_WORD.findall(head[called.end() :]))
        explicit = first and first not in by_arguments  # no argument says it: the call is name<...>
        return Declaration(
            (), frozenset({f"{called[1]}{'<' if explicit else '('}"}), gates=frozenset(by_arguments - parameters)
        )
    return Declaration((), frozenset(_WORD.findall(part)[-1] for part in _variables(text)))


def _variables(text: str) -> list[str]:
    """The declarators of `constexpr int first = 1, second = 2;`."""
    return [re.split(r"[={;]", part)[0] for part in text.split(",") if _WORD.search(re.split(r"[={;]", part)[0])]


def _without_template(head: str) -> str:
    """`head` without its first `template <...>`; parameters name no classes that would have to exist."""
    match = re.match(r"\s*template\s*<", head)
    if not match:
        return head
    depth = 1
    for index in range(match.end(), len(head)):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(head[index], 0)
        if depth == 0:
            return head[index + 1 :]
    return head


def _reached(headers: Mapping[str, Header], used: set[str]) -> set[int]:
    """Identities of the declarations that are kept."""
    waiting = [item for header in headers.values() for item in header.declarations]
    classes = {name for item in waiting if item.is_class for name in item.names} | NAMESPACES
    names, reached = {f"{name}{end}" for name in used for end in ("", "(", "<")}, set()
    asked = {
        id(item): conditions
        for header in headers.values()
        for conditions in [header.conditions]
        for item in header.declarations
    }
    grown = True
    while grown:
        grown = False
        for item in [item for item in waiting if id(item) not in reached]:
            if item.names & names and not (item.gates & classes) - names:
                reached.add(id(item))
                names |= item.words | asked[id(item)]
                grown = True
    chosen = [item for item in waiting if id(item) in reached]
    return reached - {id(item) for item in waiting if _names_nothing(item, chosen)}


def _names_nothing(item: Declaration, reached: list[Declaration]) -> bool:
    """Whether it is `using inner::function;` of a function that is not kept."""
    match = re.match(r"using (\w+)::\w+;", item.lines[-1])
    return match is not None and not any(match[1] in one.gates and item.names & one.names for one in reached)


def _written(headers: Mapping[str, Header], name: str, needed: set[str], reached: set[int]) -> str:
    header = headers[name]
    lines: list[str] = []
    for item in header.items:
        if isinstance(item, Declaration):
            lines += item.lines if id(item) in reached else ()
            continue
        include = _INCLUDE.match(item)
        lines += _includes(headers, include[1], needed, {name}) if include else [item]
    return "\n".join([*header.comment, "#pragma once", *_without_empty(lines)]).rstrip() + "\n"


def _includes(headers: Mapping[str, Header], name: str, needed: set[str], seen: set[str]) -> list[str]:
    """The file, or in place of one that nothing is left of what it included."""
    if name in seen:
        return []
    seen.add(name)
    if name in needed:
        return [f'#include "{name}"']
    lines: list[str] = []
    for item in headers[name].items:
        if isinstance(item, Declaration):
            continue
        include = _INCLUDE.match(item)
        if include:
            lines += _includes(headers, include[1], needed, seen)
        elif _CONDITION.match(item):
            lines.append(item)
    return lines


def _without_empty(lines: list[str]) -> list[str]:
    """Without conditions around nothing and without blank lines one after the other."""
    changed = True
    while changed:
        changed, result = False, list[str]()
        for line in lines:
            previous = next((at for at in range(len(result) - 1, -1, -1) if result[at].strip()), None)
            if line.startswith("#endif") and previous is not None and _OPENS.match(result[previous]):
                del result[previous:]
                changed = True
            elif (
                line.startswith(("#endif", "#elif", "#else"))
                and previous is not None
                and result[previous].startswith("#else")
            ):
                del result[previous:]
                result.append(line)
                changed = True
            elif line.strip() or (result and result[-1].strip()):
                result.append(line)
        lines = result
    return lines
