"""How long to wait before asking a board again: learnt from how long it takes to say anything."""

from __future__ import annotations

from dataclasses import dataclass

SHORTEST_S = 0.02  # a busy host schedules no more finely


@dataclass(slots=True)
class RetryTimer:
    """`seconds` is what to wait now: twice the longest wait of late, at most `longest_s`.

    Silence makes it a quarter longer: on a wire a lost frame is no sign of congestion. The answer after a repeated
    question teaches nothing (Karn's rule: it may belong to either).
    """

    seconds: float
    longest_s: float
    peak_s: float = 0.0
    asked_again: bool = False

    def heard(self, waited_s: float) -> None:
        """A message came after `waited_s`."""
        if self.asked_again:
            self.asked_again = False
            return
        self.peak_s = max(waited_s, 0.95 * self.peak_s)
        self.seconds = min(2 * self.peak_s + SHORTEST_S, self.longest_s)

    def silent(self) -> None:
        """Nothing came; the question was asked again."""
        self.asked_again = True
        self.seconds = min(1.25 * self.seconds, self.longest_s)
