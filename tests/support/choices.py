"""Picks out of random bytes: much faster than to ask hypothesis for every pick, and it shrinks as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Option = TypeVar("Option")


class Choices:
    """A source of picks; once the bytes are used up, the first option is picked for ever."""

    def __init__(self, data: bytes) -> None:
        self._data, self._next = data, 0

    @property
    def spent(self) -> bool:
        """True once the bytes are used up."""
        return self._next >= len(self._data)

    def below(self, bound: int) -> int:
        if self.spent:
            return 0
        self._next += 1
        return self._data[self._next - 1] % bound

    def of(self, options: Sequence[Option]) -> Option:
        return options[self.below(len(options))]

    def some(self, options: Sequence[Option]) -> list[Option]:
        bits = self.below(256) | self.below(256) << 8 | self.below(256) << 16
        return [option for place, option in enumerate(options) if bits >> place & 1]
