"""The judgement of the guard `neighbours`: whether enough is known of the other repositories of the same lakeFS.

What a mark knew of them may be settled by the time of its sweep, which asks anew.
"""

from __future__ import annotations

from datetime import timedelta

from lakegc_core.clock import duration
from lakegc_core.policy.evidence import Evidence
from lakegc_core.policy.facts import NeighbourFacts
from lakegc_core.policy.judgements import Finding

_NAMED = 3  # in a sentence
_OF_MARK = " That was at the mark: its sweep asks anew."


def neighbours(evidence: Evidence) -> Finding:
    of_mark = evidence.expired.neighbours
    facts = of_mark if evidence.neighbours is None else evidence.neighbours
    passed, description = well_known(facts, of_mark, strict=evidence.neighbours_strict)
    if passed and evidence.throw_away:
        return True, "A trial asks no other repository: nobody had the time to import anything from here."
    return passed, description + (_OF_MARK if evidence.neighbours is None else "")


def neighbours_stop(evidence: Evidence) -> bool:
    """True if a sweep must not go on without enough known of neighbours."""
    of_mark = evidence.expired.neighbours
    return evidence.neighbours_strict or bool(forgotten(evidence.neighbours or of_mark, of_mark))


def forgotten(facts: NeighbourFacts, of_mark: NeighbourFacts | None) -> list[str]:
    """The neighbours that have marks of which none reads, and of which the mark to be swept noted nothing, as after an
    upgrade: a sweep does not go on. `of_mark`: what that one knew; None without a mark."""
    return sorted({*facts.unread} - {*((of_mark and of_mark.known) or ())})


def well_known(facts: NeighbourFacts, of_mark: NeighbourFacts | None, *, strict: bool) -> Finding:
    """True if enough is known of the other repositories (see `marks.neighbours.what_is_known`); else the sentences of
    `not_known`."""
    if wrong := not_known(facts, of_mark, strict=strict):
        return False, " ".join(wrong)
    if not facts.repositories:
        return True, "No other repository is on this lakeFS."
    asked = facts.repositories - facts.ignored
    ignored = f"{facts.ignored:,} that neighbours.ignore names, and that nobody asks"
    if not asked:
        return True, f"The other repositories of this lakeFS are {ignored}."
    rest = f", besides {ignored}" if facts.ignored else ""
    return True, f"Each of the other {asked:,} repositories of this lakeFS was marked within {_within(facts)}{rest}."


def not_known(facts: NeighbourFacts, of_mark: NeighbourFacts | None, *, strict: bool) -> tuple[str, str] | None:
    """A sentence on what is not known of other repositories, and what to do; None if enough is known. Only on those
    that stop a sweep, if any do. `of_mark`: see `forgotten`."""
    unknown, of_all = facts.unknown, f"of the {facts.repositories:,} other repositories"
    if not unknown:
        return None
    if (lost := forgotten(facts, of_mark)) and not strict:
        return (
            f"{len(lost):,} {of_all} {_have(len(lost))} marks of which none counts, as after an upgrade or by a wrong "
            f"clock, and no mark here noted what was imported from here: {_some(lost, len(lost))}."
        ), _way_out(lost, len(lost))
    told = [f"{name} ({why})" for name, why in facts.named]
    more = f"; and {unknown - len(told):,} more" if unknown > len(told) else ""
    return (
        f"{unknown:,} {of_all} {_have(unknown)} no good mark of the last {_within(facts)}: "
        f"{'; '.join(told)}{more}. What was imported from here looks like garbage."
    ), _way_out([name for name, _ in facts.named], unknown)


def _within(facts: NeighbourFacts) -> str:
    return duration(timedelta(seconds=facts.within))


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _way_out(names: list[str], count: int) -> str:
    """What to do about so many neighbours, of which some are named."""
    return (
        f"Mark {'it' if count == 1 else 'them'} (lakegc mark {names[0]}{', …' if count > 1 else ''}), or say in "
        f"lakegc.yaml which import nothing: neighbours: {{ignore: [{_some(names, count)}]}}."
    )


def _some(names: list[str], count: int) -> str:
    shown = names[:_NAMED]
    return ", ".join([*shown, "…"] if count > len(shown) else shown)
