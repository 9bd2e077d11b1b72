"""The cost here of asking a store by HEADs and lakeFS by pages, and the choice of HEADs that are worth it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ConfigDict

from lakegc_core.policy.safety import ASKING

AGAIN = 4
"""The number of times that pages are asked for, where a HEAD is made once. What is garbage today meets two marks and
two looks, and each asks anew."""

_MEASURED = 500  # requests; fewer say little of what one takes


@dataclass(frozen=True)
class Prices:
    """The number of HEADs of the store, and pages of lakeFS, answered in a second. The defaults are careful guesses."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    heads: float = 1_000.0
    pages: float = 50.0

    def after(self, heads: int, head_seconds: float, pages: int, page_seconds: float) -> Prices:
        """The prices after so many more requests in so many seconds."""
        return Prices(
            heads / head_seconds if heads >= _MEASURED and head_seconds > 0 else self.heads,
            pages / page_seconds if pages >= _MEASURED and page_seconds > 0 else self.pages,
        )

    def heads_in(self, seconds: float) -> int:
        """The number of HEADs that fit into so many seconds, or into ASKING if that is longer."""
        return int(self.heads * max(ASKING.total_seconds(), seconds))


GUESSED = Prices()


@dataclass(frozen=True)
class Choice:
    """The ranks of which HEADs are made. `whole`: of these all that are needed; `part`: of one more rank, so many as
    `most` says. `pending`: ranks that wait for the HEADs of later marks, because their pages take longer."""

    whole: tuple[int, ...]
    part: int | None
    most: int
    pending: tuple[int, ...]

    @property
    def ranks(self) -> tuple[int, ...]:
        return self.whole if self.part is None else (*self.whole, self.part)


def choose(needed: Mapping[int, int], pages: Mapping[int, int], prices: Prices, most: int, budget: int) -> Choice:
    """Choose the HEADs to make, `most` in all, of ranks that take less time so than AGAIN times by their pages, or
    whose pages may be more than the `budget` of pages: these would wait for ever, and no HEAD be measured again. The
    lowest ranks come first, as far as they can be done whole; the rest of `most` goes to the first that cannot.

    `needed`: HEADs, by rank; `pages`: how many pages the entries of a rank take at most.
    """
    again = AGAIN * prices.heads / prices.pages
    worth = [rank for rank in sorted(needed) if pages.get(rank, 0) > min(budget, needed[rank] / again)]
    whole: list[int] = []
    for rank in worth:
        if needed[rank] <= most:
            whole.append(rank)
            most -= needed[rank]
    left = [rank for rank in worth if rank not in set(whole)]
    pending = tuple(rank for rank in left if needed[rank] < again * pages.get(rank, 0))
    return Choice(tuple(whole), left[0] if left and most else None, most, pending)
