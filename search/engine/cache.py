"""What evaluations leave for later ones: arrays by name, the least recently used forgotten when memory is short."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

CACHE_BYTES = 256 << 20
ENTRY_BYTES = 256  # of an entry besides its numbers


@dataclass(slots=True)
class ArrayCache:
    """Arrays of at most `limit_bytes` in all; 0 keeps nothing."""

    limit_bytes: int = CACHE_BYTES
    _arrays: OrderedDict[Hashable, np.ndarray] = field(default_factory=OrderedDict)
    _bytes: int = 0

    @property
    def bytes(self) -> int:
        """Held now."""
        return self._bytes

    def __contains__(self, key: Hashable) -> bool:
        return key in self._arrays

    def get(self, key: Hashable) -> np.ndarray | None:
        """The array, now the most recently used; None if it was forgotten or never kept."""
        found = self._arrays.get(key)
        if found is not None:
            self._arrays.move_to_end(key)
        return found

    def has_room(self, size_bytes: int) -> bool:
        """Whether an array of this size would be kept at all."""
        return size_bytes <= self.limit_bytes

    def put(self, key: Hashable, array: np.ndarray) -> None:
        """Keep `array`, which must not change any more."""
        if not self.has_room(_size(array)):
            return
        self._bytes += _size(array) - _size(self._arrays.pop(key, None))
        self._arrays[key] = array
        while self._bytes > self.limit_bytes:
            self._bytes -= _size(self._arrays.popitem(last=False)[1])


def _size(array: np.ndarray | None) -> int:
    return 0 if array is None else array.nbytes + ENTRY_BYTES
