"""In what a statement of a sweep differs from the one that its artifacts give, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from lakegc_core.names import Json

MOST = 10
"""Parts, branches or addresses that are named of each kind; the others are counted."""

_ARTIFACTS = {
    "mark": "the mark",
    "rules": "the mark and sweeps/{}/report.json",
    "plan": "sweeps/{}/plan.json",
    "accepted": "sweeps/{0}/plan.json and sweeps/{0}/report.json",
}
"""The artifacts from which keys of a statement come; all others come from the report."""


def parts_of(stated: Json) -> list[str] | None:
    """The names of the parts that a journal has by its statement; None if they do not stand there as lakegc writes
    them."""
    parts = stated["outcomes"].get("parts") if isinstance(stated.get("outcomes"), dict) else None
    return parts if isinstance(parts, list) and all(isinstance(each, str) for each in parts) else None


def unread_of(report: Json, key: str, differs: list[str]) -> frozenset[str]:
    """The files that did not read when a sweep was closed, by its report, which lies at `key`. If they do not stand
    there as lakegc writes them, that is added to what `differs`."""
    told = report.get("unread") or []
    if isinstance(told, list) and all(isinstance(each, str) for each in told):
        return frozenset(told)
    differs.append(f"{key} does not name what did not read (`unread`): lakegc did not write it so")
    return frozenset()


def differing(stated: Json, again: Json, without: Sequence[str]) -> Iterator[str]:
    """Sentences on the keys of a statement in which it is not what its artifacts give."""
    for name in sorted({*stated, *again} - {"outcomes", *without}):
        if stated.get(name) != again.get(name):
            place = _ARTIFACTS.get(name, "sweeps/{}/report.json").format(again["sweep"])
            yield f"`{name}` of the statement is not that of {place}"
    was, now = stated["outcomes"], again["outcomes"]
    if was == now:
        return
    if was["root"] == now["root"]:
        yield "`outcomes` of the statement is not that of the journal, although the root is the same"
        return
    told = f"the journal has {now['rows']:,} outcomes with root {now['root']}"
    yield f"{told}, the statement says {was['rows']:,} with root {was['root']}"
    yield from some(_branches(was["branches"], now["branches"]))
    for outcome in sorted({*was["by_outcome"], *now["by_outcome"]}):
        counts = (each["by_outcome"].get(outcome, 0) for each in (now, was))
        there, said = counts
        if there != said:
            yield f"the journal has {there:,} outcomes `{outcome}`, the statement says {said:,}"


def _branches(was: Mapping[str, Sequence[object]], now: Mapping[str, Sequence[object]]) -> Iterator[str]:
    for branch in sorted({*was, *now}):
        rows = [each.get(branch, [0, ""]) for each in (was, now)]
        if rows[0] != rows[1]:
            change = int(str(rows[1][0])) - int(str(rows[0][0]))
            how = f"{abs(change):,} {'more' if change > 0 else 'fewer'}" if change else "the same number, other rows"
            yield f"outcomes of addresses whose SHA-256 begins with {branch}: {how}"


def some(said: Iterable[str]) -> list[str]:
    """At most MOST sentences, and how many there are more."""
    every = sorted(said)
    return [*every[:MOST], *([f"and {len(every) - MOST:,} more like these"] if len(every) > MOST else [])]
