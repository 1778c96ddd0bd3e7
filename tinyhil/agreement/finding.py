"""What is further from the float model than its formats explain."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """A tensor that is further from the float model than its formats explain: its worst element."""

    tensor: str
    node: str
    format: str
    error: float
    allowed: float
    elements: int

    def __str__(self) -> str:
        return (
            f"tensor '{self.tensor}' (node '{self.node}', {self.format}): off by {self.error:.3g} where its formats "
            f"explain {self.allowed:.3g}, in {self.elements} elements"
        )
