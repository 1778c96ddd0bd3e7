"""What is said of a pass of the compiler; `hil plan --passes` lists them all, in the order in which they run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass by name, with its contract: what it looks at (`before`), and what holds of the result (`after`)."""

    name: str
    summary: str
    before: str
    after: str
