"""The requests of a clean mark and of a sweep, by what the newest marks counted, and what a store bills for them.

The numbers in the formulas were counted on small repositories over S3; docs/scale.md says how, and what they leave out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from lakegc_core.config.settings import Price
from lakegc_core.judging.canaries import REFS_OF_A_KIND
from lakegc_core.marks.artifacts import Manifest, MarkArtifacts, facts_of
from lakegc_core.marks.catalogue import newest_mark
from lakegc_core.marks.context import RepositoryContext, open_mark
from lakegc_core.marks.shelf import Shelf
from lakegc_core.names import Json, Stage
from lakegc_core.policy.facts import CommitsFacts, CommittedFacts, ExpiredFacts, ListingFacts, StagedFacts
from lakegc_core.policy.safety import Level

_PAGE = 1000  # keys of a page of a list, of one delete, and of a page of lakeFS
_READINGS = 1.6  # of each part of a mark, on average
_THOUSAND = 1000  # requests, for which stores state their prices
_HEADS_SAMPLED, _RANGES_SAMPLED = 5, 5  # at most, to find the paths that are read before and after a sweep
_CANARIES_READ, _CANARIES_ASKED = 11, 24  # of a sweep: reads, and calls of lakeFS, beside those for paths


@dataclass(frozen=True)
class Requests:
    """Requests to the store by kind (`reads`: GET and HEAD), and calls of lakeFS."""

    lists: int
    reads: int
    writes: int
    deletes: int
    lakefs: int

    def money(self, price: Price | None) -> float | None:
        """The amount that the store bills, in the price's currency; None where lakegc.yaml does not say its prices.
        Stores bill a LIST like a write, and no deletes."""
        if price is None or price.per_1000_reads is None or price.per_1000_writes is None:
            return None
        return (price.per_1000_writes * (self.lists + self.writes) + price.per_1000_reads * self.reads) / _THOUSAND


def of_clean_mark(manifests: Mapping[str, Manifest], marks: int) -> Requests:
    """The requests of a mark that reads everything, if all is as it was at a clean mark with these manifests. `marks`:
    those that lie in the home."""
    listed, staged = facts_of(manifests, ListingFacts), facts_of(manifests, StagedFacts)
    commits, read = facts_of(manifests, CommitsFacts), facts_of(manifests, CommittedFacts)
    expired = facts_of(manifests, ExpiredFacts)
    parts = sum(len(each) for manifest in manifests.values() for each in manifest.datasets.values())
    files = read.metaranges + read.ranges + staged.files
    listings = _listings_for_dump(staged)
    pages = expired.pages_asked + (3 + listings) * (commits.branches // _PAGE) + commits.tags // _PAGE + staged.pages
    return Requests(
        lists=32 + 6 * marks + listed.units + listed.objects // _PAGE,
        reads=46 + 9 * marks + files + round(_READINGS * parts) + expired.heads,
        writes=17 + parts + 2 * _parts(manifests, Stage.EXPIRED_ADDRESSES),
        deletes=0,
        lakefs=16 + listings + _refs_asked(commits) + (expired.asked_at is not None) + pages,
    )


def _listings_for_dump(staged: StagedFacts) -> int:
    """The listings of branches that a staged dump takes: before it, and after it if a page of it is empty."""
    return 1 + (staged.pages_with_location < staged.pages)


def _refs_asked(commits: CommitsFacts) -> int:
    """The refs that a mark asks for canaries."""
    return min(REFS_OF_A_KIND, commits.branches) + min(REFS_OF_A_KIND, commits.tags)


def of_sweep(manifests: Mapping[str, Manifest], marks: int, level: Level) -> Requests:
    """The requests of the sweep of a mark with these manifests, if it deletes all that the mark found, within a minute.
    `marks`: as in `of_clean_mark`."""
    staged, commits = facts_of(manifests, StagedFacts), facts_of(manifests, CommitsFacts)
    expired = facts_of(manifests, ExpiredFacts)
    garbage, staged_parts = _parts(manifests, Stage.EXPIRED_ADDRESSES), _parts(manifests, Stage.UNCOMMITTED_ADDRESSES)
    sampled = (3 + _RANGES_SAMPLED + min(_HEADS_SAMPLED, commits.branches)) if level.samples else 0
    sampled += level.samples + _CANARIES_READ if level.samples else 0
    asked = 2 * min(level.samples, expired.expired.objects)
    listings = 2 * _listings_for_dump(staged)
    branches = (8 + listings) * (commits.branches // _PAGE)
    pages = expired.pages_asked + branches + 3 * (commits.tags // _PAGE) + 2 * staged.pages
    return Requests(
        lists=16 + 2 * marks,
        reads=101 + 3 * marks + 10 * garbage + 2 * (staged.files + staged_parts) + sampled + asked + expired.heads,
        writes=29 + 4 * garbage + 2 * staged_parts,
        deletes=garbage + expired.expired.objects // _PAGE,
        lakefs=22 + listings + 3 * level.samples + (_CANARIES_ASKED if level.samples else 0) + pages,
    )


def requests_and_cost(context: RepositoryContext) -> Json:
    """Requests and cost of the next clean mark, and of the sweep of the newest complete mark: the contract of `cost` in
    `lakegc doctor --json`. Empty if there is no complete mark; `sweep` is None if that mark found no garbage."""
    newest = newest_mark(context)
    if newest is None:
        return {}
    marks, price = sum(each.is_begun for each in Shelf.of(context)), context.settings.price
    opened = open_mark(context, newest.mark_id)
    chain = newest.chain()
    clean = _clean_below(newest, chain)
    sweep = of_sweep(chain, marks, opened.level) if facts_of(chain, ExpiredFacts).expired.objects else None
    return {
        "mark_id": newest.mark_id,
        "clean_mark_id": clean.mark_id,
        "currency": price.currency if price else None,
        "clean_mark": _as_json(of_clean_mark(clean.chain(), marks), price),
        "sweep": sweep and _as_json(sweep, price),
    }


def _as_json(requests: Requests, price: Price | None) -> Json:
    return asdict(requests) | {"money": requests.money(price)}


def _clean_below(newest: MarkArtifacts, chain: Mapping[str, Manifest]) -> MarkArtifacts:
    """The clean mark that a mark rests on; the mark itself if it is one."""
    rests_on = facts_of(chain, ListingFacts).rests_on
    return MarkArtifacts(newest.config, rests_on[-1][0], newest.home) if rests_on else newest


def _parts(manifests: Mapping[str, Manifest], stage: Stage) -> int:
    """The number of parts of the stage's own dataset."""
    return len(manifests[stage].datasets.get(stage, ()))
