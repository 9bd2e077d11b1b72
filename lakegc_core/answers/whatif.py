"""Tells what a mark would find if rules, branches or tags were otherwise, and how much each number of days keeps.

Nothing is changed for it, in lakeFS or in the store, and no sweep takes the result: it names no object.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lakegc_core import clock
from lakegc_core.answers.folders import FOLDER
from lakegc_core.answers.keepers import LATER, TODAY, Answer, answer
from lakegc_core.answers.question import HEAD, PROBLEM, Question, check_patterns, meaning_nothing
from lakegc_core.errors import SettingsError
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import Json, Reason
from lakegc_core.policy.facts import Amount, CommitsFacts
from lakegc_core.policy.retention import Rules, rules_json, rules_of
from lakegc_core.policy.scenarios import (
    DEFAULT,
    NEVER,
    POINTS,
    SHARED,
    Change,
    Columns,
    Known,
    curves_of,
    owner_of,
    owners,
    whatif_columns,
)
from lakegc_core.references.commits.rules_memory import RulesRecord, effective_rules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHANGED = ("today", "at_once", "in_the_end")
_OWNERS, _OWNER = ("least", "most"), "owner"
_BY = tuple((name, "today", by) for by in (_OWNER, FOLDER) for name in _CHANGED[1:])
_NAMED = 10
SEVERAL = "several of them"
ELSEWHERE = "other folders"


@dataclass(frozen=True)
class Point:
    """The objects that stay in the namespace if a rule were so many days; None: for ever."""

    days: int | None
    kept: Amount


@dataclass(frozen=True)
class Expected:
    """The findings of such a mark: the garbage in all, what of it commits keep today, and what would be none any more.

    Of `more`, by what keeps it today (`branch:NAME`, `tag:NAME`, …) and by the folder of its path, those with the most
    bytes. Several branches and tags that keep an object together count as SEVERAL.
    """

    garbage: Amount
    more: Amount
    less: Amount
    kept_by: Mapping[str, Amount]
    folders: Mapping[str, Amount]


@dataclass(frozen=True)
class WhatIf:
    """The answer. `rules`: days of `default`, and of `branches` by name. `at_once`: of a mark made now; `in_the_end`:
    once the memory of longer rules has run out, and what deleted branches leave is kept no more. `curves`: by rule
    (`default`, `branch:NAME`). `nothing_called_so`: patterns that mean no branch and no tag. `entries_unread`: of
    ranges that were not read for their folders."""

    repository: str
    mark_id: str
    at: str
    rules: Mapping[str, Any] | None
    without: tuple[str, ...]
    protect_tags: bool
    today: Amount
    at_once: Expected
    in_the_end: Expected
    curves: Mapping[str, Sequence[Point]]
    nothing_called_so: tuple[str, ...]
    entries_unread: int

    def as_json(self) -> Json:
        """The answer as it is printed. Bytes and objects."""
        return asdict(self)


@dataclass(frozen=True)
class Wish:
    """The changes that a person wants. `rules`: days by branch, or `default`; None: no rule of that name any more.
    `without`: `branch:GLOB`, `tag:GLOB`. `protect_tags`: None for as it is."""

    rules: Mapping[str, int | None]
    without: tuple[str, ...] = ()
    protect_tags: bool | None = None


def whatif(spark: SparkSession, context: MarkContext, wish: Wish) -> WhatIf:
    """Answer from a complete mark. SettingsError for what nobody can wish, such as a rule of a branch that
    the mark did not see."""
    change = _change(context, wish)
    found = answer(spark, context, question_of(change, _branches_of(context, wish)))
    return WhatIf(
        repository=context.header.repository,
        mark_id=context.header.mark_id,
        at=clock.instant(context.header.started_at),
        rules=rules_json(change.rules),
        without=change.without,
        protect_tags=change.protect_tags,
        today=found.amount(TODAY, lambda results: results["today"] == NEVER),
        at_once=_expected(found, "at_once", (Reason.UNREFERENCED,)),
        in_the_end=_expected(found, "in_the_end", LATER),
        curves={name.partition(" ")[2]: _curve(found, name) for name in curves_of(change.rules)},
        nothing_called_so=tuple(found.names["nothing_called_so"]),
        entries_unread=found.names["entries_unread"],
    )


def question_of(change: Change, branches: Sequence[str] = ()) -> Question:
    """The question whether a change keeps each object. `branches`: which there must be."""
    curves = tuple(curves_of(change.rules))
    views = (TODAY, _CHANGED, *_BY, *((name,) for name in curves))
    columns = (*_CHANGED, HEAD, *_OWNERS, FOLDER, *curves)
    return Question(columns, views, partial(_ask, change, branches), _finish, goes=_CHANGED[1:])


def _ask(change: Change, branches: Sequence[str], known: Known) -> tuple[Columns, Json]:
    found = owners(known)
    columns = whatif_columns(known, change) | {name: found.columns[name] for name in _OWNERS}
    columns[FOLDER] = np.full_like(columns["today"], NEVER)
    return columns, {
        "nothing_called_so": meaning_nothing(known, change.without),
        "owners": found.names,
        PROBLEM: _without_branch(known, branches),
    }


def _without_branch(known: Known, branches: Sequence[str]) -> str:
    """Say what is wrong with rules of branches that the mark did not see; "" if it saw all."""
    heads = {name for name, _ in known.heads}
    missing = ", ".join(name for name in branches if name not in heads)
    return f"The mark saw no branch called {missing}. A rule is of a branch, or of `{DEFAULT}`." if missing else ""


def _branches_of(context: MarkContext, wish: Wish) -> tuple[str, ...]:
    """The branches that a wish gives rules to. A rule that lakeFS has may be dropped also if its branch is gone."""
    rules = rules_of(context.mark.facts(CommitsFacts).rules)
    standing = rules.branch_days if rules else {}
    wished = wish.rules.items()
    return tuple(name for name, days in wished if name != DEFAULT and not (days is None and name in standing))


def _finish(names: Json, numbers: Mapping[str, np.ndarray]) -> Columns:
    return {**numbers, _OWNER: owner_of(*(numbers[name] for name in _OWNERS))}


def _change(context: MarkContext, wish: Wish) -> Change:
    facts = context.mark.facts(CommitsFacts)
    check_patterns(wish.without)
    rules = _wished(rules_of(facts.rules), wish.rules)
    judged_by = rules_of(facts.judged_by)
    records = [RulesRecord(0.0, judged_by), RulesRecord(facts.began_at, rules)]
    return Change(
        rules=rules,
        at_once=effective_rules(records, facts.began_at, context.level.rules_memory),
        protect_tags=facts.tags_protected if wish.protect_tags is None else wish.protect_tags,
        without=wish.without,
    )


def _wished(rules: Rules | None, wished: Mapping[str, int | None]) -> Rules | None:
    if not wished:
        return rules
    default = wished.get(DEFAULT, rules.default_days if rules else None)
    if default is None:
        raise SettingsError("There are no rules without a default: say also --rule default=DAYS.")
    others = {name: days for name, days in wished.items() if name != DEFAULT}
    branches = {**(rules.branch_days if rules else {}), **others}
    return Rules(default, {name: days for name, days in branches.items() if days is not None})


def _expected(found: Answer, name: str, reasons: Collection[Reason]) -> Expected:
    def more(results: Mapping[str, int]) -> bool:
        return results[name] == NEVER != results["today"]

    def by(what: str, names: Mapping[int, str]) -> dict[str, Amount]:
        return _most(found.amounts((name, "today", what), what, reasons, more), names)

    return Expected(
        garbage=found.amount(_CHANGED, lambda results: results[name] == NEVER, reasons),
        more=found.amount(_CHANGED, more, reasons),
        less=found.amount(_CHANGED, lambda results: results[name] != NEVER == results["today"], reasons),
        kept_by=by(_OWNER, {SHARED: SEVERAL, **dict(enumerate(found.names["owners"]))}),
        folders=by(FOLDER, dict(enumerate((*found.names["folders"], ELSEWHERE)))),
    )


def _most(amounts: Mapping[int, Amount], names: Mapping[int, str]) -> dict[str, Amount]:
    """The largest of those that have a name."""
    named = [(names[number], amount) for number, amount in amounts.items() if number in names]
    return dict(sorted(named, key=lambda each: (-each[1].bytes, each[0]))[:_NAMED])


def _curve(found: Answer, name: str) -> list[Point]:
    every = found.amount((name,), reasons=list(Reason))
    return [
        Point(days, every - found.amount((name,), partial(_beyond, name, number), LATER))
        for number, days in enumerate((*POINTS, None))
    ]


def _beyond(name: str, number: int, results: Mapping[str, int]) -> bool:
    return results[name] > number
