"""What keeps an object, until when by today's rules, and what would let it go sooner. Pure functions over answers of
`explain`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from lakegc_core.answers.explain import Explained
from lakegc_core.clock import duration, instant, unix_seconds
from lakegc_core.names import Json, Reason
from lakegc_core.policy.holds import BRANCH, TAG
from lakegc_core.policy.retention import HOLD, Rules
from lakegc_core.policy.scenarios import EVERYTHING, SERVER

STAGED, BY_PATH, NEIGHBOUR = "staged", "held_by_path", "neighbour"
UNKNOWN_TO_MARK, BROUGHT_BACK = "unknown_to_mark", "brought_back"
_BY_RULE = ("history", "dangling")
_DAY = 86_400.0
_NO_RULES = "every commit stays without rules"
_WAIT = "nothing: it goes by itself"
_NOT_KNOWN = "make a mark: this one does not know it, or something kept it then"
_NEEDS_A_MARK = "make a new mark, and sweep that: no sweep of this one deletes what was brought back since"
_FATES = {
    Reason.FOREIGN.value: "delete it by hand, if nobody needs it: lakegc never touches what is not lakeFS's",
    Reason.UNKNOWN.value: "set `collect_unknown_names: true` in lakegc.yaml, and make a mark",
    Reason.UNASKED.value: "make another mark: it asks lakeFS first about what this one did not ask",
    Reason.HELD.value: "remove the hold by path from lakegc.yaml",
    Reason.NEIGHBOUR.value: "delete it in each repository that imported it",
    Reason.STAGED.value: "commit or reset what is staged",
}


@dataclass(frozen=True)
class Keeper:
    """Something that keeps an object. `until`: unix seconds; None for as long as it stands. `sooner`: what would end it
    sooner, a sentence."""

    name: str
    why: str
    until: float | None
    sooner: str


@dataclass(frozen=True)
class Terms:
    """The settings by which times are counted. `rules`: as lakeFS has them now; None if there are none. `gap`,
    `min_age` and `memory` (for how long a rule counts that has become shorter): seconds. `marked_at`: when the mark
    began, unix seconds. `sweep`: the command that sweeps what the mark found."""

    rules: Rules | None
    gap: float
    min_age: float
    memory: float
    marked_at: float
    sweep: str


def keepers_of(each: Explained, branches: Sequence[str], terms: Terms, named_at: float) -> list[Keeper]:
    """All that keeps an object which is there. `branches`: those that show it now; `named_at`: when lakeFS gave out its
    name, unix seconds, 0 if the name does not tell."""
    found = [_of_holder(holder, terms) for holder in each.holders]
    shown = {keeper.name for keeper in found if keeper.why == "shows"}
    for branch in branches:
        if f"{BRANCH}:{branch}" not in shown:
            sooner = f"reset it on branch {branch}, or delete it there and commit"
            found.append(Keeper(f"{BRANCH}:{branch}", STAGED, None, sooner))
    if each.staged and not any(keeper.why == STAGED for keeper in found):
        found.append(Keeper("staged", STAGED, None, _FATES[Reason.STAGED]))
    if each.held:
        found.append(Keeper("hold by path", BY_PATH, None, _FATES[Reason.HELD]))
    if each.neighbour:
        names = [f"repository:{name}" for name in each.neighbours] or ["another repository"]
        found += [Keeper(name, NEIGHBOUR, None, _FATES[Reason.NEIGHBOUR]) for name in names]
    return found or list(_by_verdict(each, terms, named_at))


def ends(keepers: Sequence[Keeper], terms: Terms) -> tuple[float | None, float | None]:
    """Until when the keepers keep an object, and when a sweep can delete it at the earliest, unix seconds. None where
    something keeps it for as long as it stands."""
    if not keepers or any(keeper.until is None for keeper in keepers):
        return None, None
    until = max(keeper.until or 0.0 for keeper in keepers)
    waited = any(keeper.why == Reason.UNREFERENCED for keeper in keepers)
    return until, until if waited else until + terms.gap


def keeper_json(keeper: Keeper) -> Json:
    """A keeper as it is printed."""
    return asdict(keeper) | {"until": None if keeper.until is None else instant(keeper.until)}


def _of_holder(told: Mapping[str, Any], terms: Terms) -> Keeper:
    name, why = told["name"], told["why"]
    kind, _, own = name.partition(":")
    until = unix_seconds(told["until"]) if told["until"] else None
    if why in _BY_RULE and terms.rules is not None:
        now = terms.rules.days(own) if kind == BRANCH else terms.rules.default_days
        if now < told["days"]:
            return Keeper(name, why, _remembered_until(until, told["days"] - now, terms), _shorter_by_now(terms))
    return Keeper(name, why, until, _sooner(name, kind, own, why, told["days"], terms))


def _remembered_until(until: float | None, shorter_by: int, terms: Terms) -> float | None:
    """Until when a rule keeps an object that is shorter by now than the mark knew, unix seconds: until its own end, or
    for as long as the longer rule is remembered. None where the longer one has no end."""
    if until is None:
        return None
    return min(until, max(until - shorter_by * _DAY, terms.marked_at + terms.memory))


def _shorter_by_now(terms: Terms) -> str:
    if not terms.memory:
        return "nothing: lakeFS's rule is shorter by now, and the next mark goes by it"
    counts = duration(timedelta(seconds=terms.memory))
    return f"nothing: lakeFS's rule is shorter by now; the longer one counts for up to {counts} more"


def _sooner(name: str, kind: str, own: str, why: str, days: int | None, terms: Terms) -> str:
    if why == HOLD:
        return f"remove the hold {own} from lakegc.yaml, and make a mark without it"
    if kind == TAG:
        return f"delete tag {own}"
    if name == EVERYTHING:
        return "set GC rules in lakeFS: without rules every commit counts"
    if name == SERVER:
        return "nothing: lakeFS's own answer keeps its commit"
    deleted = f"delete branch {own} ({_left(terms.rules)})"
    if why == "shows":
        kept = f"its rule of {_days(terms.rules.days(own))} counts from then on" if terms.rules else _NO_RULES
        return f"delete it on branch {own} and commit ({kept}); or {deleted}"
    if days is None or days <= 0:
        return _WAIT
    if why == "history":
        return f"set a rule of less than {_days(days)} for branch {own}; or {deleted}"
    return f"set a default rule of less than {_days(days)}"


def _left(rules: Rules | None) -> str:
    """What a deleted branch leaves, in words."""
    return f"the default rule of {_days(rules.default_days)} then counts for its commits" if rules else _NO_RULES


def _days(number: int) -> str:
    return "1 day" if number == 1 else f"{number} days"


def _by_verdict(each: Explained, terms: Terms, named_at: float) -> Iterator[Keeper]:
    """What keeps an object that nothing refers to."""
    written = unix_seconds(each.written) if each.written else 0.0
    since = unix_seconds(each.since) if each.since else 0.0
    if each.reason is None:
        yield Keeper("the mark", UNKNOWN_TO_MARK, None, _NOT_KNOWN)
    elif each.reason == Reason.UNREFERENCED and any(
        unix_seconds(back["at"]) >= terms.marked_at for back in each.restored
    ):
        yield Keeper("the mark", BROUGHT_BACK, None, _NEEDS_A_MARK)
    elif each.reason == Reason.UNREFERENCED:
        yield Keeper("garbage", each.reason, since + terms.gap, f"nothing: sweep it, {terms.sweep}")
    elif each.reason == Reason.YOUNG:
        yield Keeper("its age", each.reason, max(written, named_at) + terms.min_age, _WAIT)
        if each.kept_by_name:
            yield _for_ever(Reason.UNKNOWN.value)
    else:
        yield _for_ever(each.reason)


def _for_ever(reason: str) -> Keeper:
    return Keeper(reason, reason, None, _FATES[reason])
