"""Value names of a model -> names and comments that C++ takes, whatever the exporter wrote."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tinyhil.names import free_name

_KEYWORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class
compl concept const constexpr const_cast continue decltype default delete do double dynamic_cast
else enum explicit export extern false float for friend goto if import inline int long module
mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public
register reinterpret_cast requires restrict return short signed sizeof static static_assert
static_cast struct switch template this thread_local throw true try typedef typeid typename typeof
union unsigned using virtual void volatile wchar_t while xor xor_eq
"""
_OURS = "input output run model hil hil_arena hil_arena_dtcm hil_arena_sram main std"
_PREDEFINED = "arm avr i386 linux unix"  # macros of gcc in its gnu modes
_RESERVED = frozenset(f"{_KEYWORDS} {_OURS} {_PREDEFINED}".split())
_TYPE_OR_COUNTER = re.compile(r"u?int\w*_t|step\d+|hil_\w+|n(_\d+)?|\w+_n")  # and what generated code calls its own
_LIKE_A_MACRO = re.compile(r"[A-Z0-9_]{2,}")  # avr/io.h alone defines a thousand of them


def identifiers(names: Iterable[str]) -> dict[str, str]:
    """A C++ name for each of `names`, all different: the name itself as far as the language allows."""
    taken: set[str] = set()
    result = {}
    for original in names:
        result[original] = free_name(_clean(original), taken, mark="_")
        taken.add(result[original])
    return result


def _clean(name: str) -> str:
    clean = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "t"
    clean = f"v{clean}" if clean[0].isdigit() else clean
    if clean in _RESERVED or _TYPE_OR_COUNTER.fullmatch(clean) or _LIKE_A_MACRO.fullmatch(clean):
        return f"{clean}_"
    return clean


def comment(text: str) -> str:
    """`text` as one line that can not end or continue a comment."""
    return re.sub(r"[^\w .,:;/()\[\]<>=+*^-]", "_", text, flags=re.ASCII)
