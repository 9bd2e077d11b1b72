"""What it costs here to ask a store by HEADs and lakeFS by pages, and which HEADs are worth it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ConfigDict

from lakegc_core.policy.safety import ASKING

AGAIN = 4
"""Each mark and each look asks for pages anew, and HEADs are made once. What is garbage today meets two of each."""

_MEASURED = 500  # requests; fewer say little of what one takes


@dataclass(frozen=True)
class Prices:
    """How many HEADs of the store, and pages of lakeFS, were answered in a second. The defaults are careful guesses."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    heads: float = 1_000.0
    pages: float = 50.0

    def after(self, heads: int, head_seconds: float, pages: int, page_seconds: float) -> Prices:
        """The same once so many more were made in so many seconds."""
        return Prices(
            heads / head_seconds if heads >= _MEASURED and head_seconds > 0 else self.heads,
            pages / page_seconds if pages >= _MEASURED and page_seconds > 0 else self.pages,
        )

    def heads_in(self, seconds: float) -> int:
        """How many HEADs fit into so many seconds, or into ASKING where that is longer."""
        return int(self.heads * max(ASKING.total_seconds(), seconds))


GUESSED = Prices()


@dataclass(frozen=True)
class Choice:
    """Of which ranks HEADs are made. `whole`: all that are needed; `part`: of one more rank, so many as `most` says.
    `pending`: ranks, `part` among them, that wait for the HEADs of later marks."""

    whole: tuple[int, ...]
    part: int | None
    most: int
    pending: tuple[int, ...]

    @property
    def ranks(self) -> tuple[int, ...]:
        return self.whole if self.part is None else (*self.whole, self.part)


def choose(needed: Mapping[int, int], pages: Mapping[int, int], prices: Prices, most: int) -> Choice:
    """Which HEADs to make, `most` in all: of ranks that take less time so than by their pages, AGAIN times. The least
    come first, as far as they can be done whole; what is left of `most` goes to the first one that cannot.

    `needed`: HEADs, by rank; `pages`: how many pages the entries of a rank take at most.
    """
    again = AGAIN * prices.heads / prices.pages
    worth = [rank for rank in sorted(needed) if needed[rank] < again * pages.get(rank, 0)]
    whole: list[int] = []
    for rank in worth:
        if needed[rank] <= most:
            whole.append(rank)
            most -= needed[rank]
    pending = tuple(rank for rank in worth if rank not in set(whole))
    return Choice(tuple(whole), pending[0] if pending and most else None, most, pending)
