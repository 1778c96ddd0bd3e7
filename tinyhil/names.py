"""Names that nothing has yet."""

from __future__ import annotations

from collections.abc import Container
from itertools import count


def free_name(wish: str, *taken: Container[str], mark: str = ".") -> str:
    """`wish` if none of `taken` holds it; otherwise numbered behind `mark`, from 2 on."""
    names = (wish if copy == 1 else f"{wish}{mark}{copy}" for copy in count(1))
    return next(name for name in names if not any(name in names_there for names_there in taken))
