"""Sizes of what every branch, tag and hold keeps in the store: what it shows, and what would go without it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lakegc_core import clock
from lakegc_core.answers.keepers import LATER, TODAY, Answer, answer
from lakegc_core.answers.question import Question, check_patterns, meaning_nothing
from lakegc_core.answers.shown import shown_by
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.layers import layers_of
from lakegc_core.names import Json, Reason
from lakegc_core.policy.facts import NOTHING, Amount, CommitsFacts
from lakegc_core.policy.holds import BRANCH, TAG
from lakegc_core.policy.retention import Rules, rules_of
from lakegc_core.policy.scenarios import (
    NEVER,
    Columns,
    Known,
    freed_at_once,
    owner_columns,
    owner_of,
    owners,
    set_columns,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOW, _END = ("now",), ("end", "head")


@dataclass(frozen=True)
class Keeper:
    """A branch, a tag, a hold, or what else keeps commits.

    `shows`: the entries of its head that lie in the namespace; None of what has no head. `only`: what nothing else
    keeps, which goes in the end if this goes. `history`: of that what no branch and no tag shows. `at_once`: of that
    what the next mark would find; commits of deleted branches are kept for the days of the default rule.
    """

    name: str
    shows: Amount | None
    only: Amount
    history: Amount
    at_once: Amount


@dataclass(frozen=True)
class Together:
    """Objects that would go if all branches and tags that some patterns mean were gone, at once and in the end."""

    patterns: tuple[str, ...]
    only: Amount
    at_once: Amount


@dataclass(frozen=True)
class Usage:
    """The objects of a namespace by what keeps them. `keepers`: those that keep something alone, the most first.
    `shared`: what several keep. `nothing_called_so`: patterns that mean no branch and no tag. `besides`: what no commit
    keeps, by what does; `unreferenced` is garbage."""

    repository: str
    mark_id: str
    at: str
    objects: Amount
    keepers: tuple[Keeper, ...]
    shared: Amount
    together: tuple[Together, ...]
    nothing_called_so: tuple[str, ...]
    besides: Mapping[str, Amount]

    def as_json(self) -> Json:
        """The answer as it is printed. Bytes and objects."""
        return asdict(self)


def du(spark: SparkSession, context: MarkContext, sets: Sequence[Sequence[str]] = ()) -> Usage:
    """Answer from a complete mark. `sets`: patterns (`branch:GLOB`, `tag:GLOB`) of refs to be counted together."""
    check_patterns(each for some in sets for each in some)
    found = answer(spark, context, question_of(rules_of(context.mark.facts(CommitsFacts).judged_by), sets))
    refs: Mapping[str, str] = found.names["refs"]
    shown = shown_by(spark, context, layers_of(context.mark), list(refs.values()))
    keepers = _keepers(found, {name: shown.get(metarange) for name, metarange in refs.items()})
    kept = found.amount(TODAY, lambda results: results["today"] != NEVER, list(Reason))
    return Usage(
        repository=context.header.repository,
        mark_id=context.header.mark_id,
        at=clock.instant(context.header.started_at),
        objects=found.amount(TODAY, reasons=list(Reason)),
        keepers=tuple(sorted(keepers, key=lambda keeper: (-keeper.only.bytes, keeper.name))),
        shared=kept - sum((keeper.only for keeper in keepers), NOTHING),
        together=tuple(_together(found, number, tuple(each)) for number, each in enumerate(sets)),
        nothing_called_so=tuple(found.names["nothing_called_so"]),
        besides={
            reason.value: amount
            for reason in Reason
            if (amount := found.amount(TODAY, lambda results: results["today"] == NEVER, [reason])).objects
        },
    )


def question_of(rules: Rules | None, sets: Sequence[Sequence[str]]) -> Question:
    """The question what keeps each object, and whether anything would without some refs."""
    ends = tuple(f"{when} {number}" for number in range(len(sets)) for when in ("now", "end"))
    views = (TODAY, _NOW, _END, *(("today", each) for each in ends))
    return Question(
        (*owner_columns(rules), *ends), views, partial(_ask, tuple(map(tuple, sets))), partial(_finish, ends)
    )


def _ask(sets: Sequence[Sequence[str]], known: Known) -> tuple[Columns, Json]:
    found = owners(known)
    tags = known.tags if known.protect_tags else ()
    refs = {f"{kind}:{name}": known.graph.metarange_ids[row]
            for kind, names in ((BRANCH, known.heads), (TAG, tags)) for name, row in names}  # fmt: skip
    idle = meaning_nothing(known, dict.fromkeys(each for some in sets for each in some))
    return found.columns | set_columns(known, sets), {"owners": found.names, "refs": refs, "nothing_called_so": idle}


def _finish(ends: Sequence[str], names: Json, numbers: Mapping[str, np.ndarray]) -> Columns:
    end = owner_of(numbers["least"], numbers["most"])
    return {
        "today": np.where(end == NEVER, NEVER, 0),
        "now": freed_at_once(names["owners"], numbers),
        "end": end,
        "head": numbers["head"],
        **{name: numbers[name] for name in ends},
    }


def _keepers(found: Answer, shown: Mapping[str, Amount | None]) -> list[Keeper]:
    """Every owner, by sums that are made once for all: there may be many branches."""
    only = found.amounts(_END, "end", LATER)
    history = found.amounts(_END, "end", LATER, lambda results: results["head"] == NEVER)
    at_once = found.amounts(_NOW, "now", (Reason.UNREFERENCED,))
    return [
        Keeper(name, shown.get(name), *(sums.get(number, NOTHING) for sums in (only, history, at_once)))
        for number, name in enumerate(found.names["owners"])
    ]


def _together(found: Answer, number: int, patterns: tuple[str, ...]) -> Together:
    def gone(when: str, reasons: Collection[Reason]) -> Amount:
        name = f"{when} {number}"
        return found.amount(("today", name), lambda results: results[name] == NEVER != results["today"], reasons)

    return Together(patterns, only=gone("end", LATER), at_once=gone("now", (Reason.UNREFERENCED,)))
