"""The GC rules as they were, as far as lakegc has records: a shorter rule takes effect only after a while.

Each later mark would confirm a mistaken rule, so waiting for a second mark does not help. `remember` records each
change of the rules that a mark or a look sees; `effective_rules` unites the rules of several times, without I/O.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from lakegc_core import clock
from lakegc_core.errors import MarkError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.json_files import decode, encode, sealed, unsealed
from lakegc_core.policy.retention import Rules, rules_json
from lakegc_core.store.base import connect

FOLDER = "rules"
_RECORD = re.compile(r"([0-9]{20})\.json")
_SECOND = 1_000_000


@dataclass(frozen=True)
class RulesRecord:
    """Rules, and when they were first seen in place of others (unix seconds). None: every commit counted."""

    at: float
    rules: Rules | None


def effective_rules(records: Sequence[RulesRecord], now: float, memory: timedelta) -> Rules | None:
    """The longest of all rules that stood at any time since `now - memory`, branch by branch.

    `records` in order of time; the last one is in force. Rules stood until the next ones were seen.
    """
    since = now - memory.total_seconds()
    ends = [later.at for later in records[1:]] + [float("inf")]
    counting = [each.rules for each, end in zip(records, ends, strict=True) if end > since]
    longest: list[Rules] = []
    for rules in counting:
        if rules is None:
            return None
        longest.append(rules)
    names = {name for rules in longest for name in rules.branch_days}
    return Rules(
        default_days=max(rules.default_days for rules in longest),
        branch_days={name: max(rules.days(name) for rules in longest) for name in sorted(names)},
    )


def remember(context: MarkContext, rules: Rules | None) -> tuple[Rules | None, int]:
    """Record the rules in force if they are new. Returns the rules to judge by, and the number of records of
    rules that there are."""
    now = clock.now().timestamp()
    records = _read(context, now)
    if not records or records[-1].rules != rules:
        records.append(RulesRecord(now, rules))
        key = f"{context.home}/{FOLDER}/{int(now * _SECOND):020}.json"
        connect(context.workspace).write(key, encode(sealed({"at": now, "rules": rules_json(rules)})))
    memory = context.level.rules_memory
    if not memory:
        return rules, 1
    return effective_rules(records, now, memory), len(records)


def _read(context: MarkContext, now: float) -> list[RulesRecord]:
    """The records in the order in which they were made: by the collector's dates, because a copy of the workspace may
    give the store's another order. One that lies in the future counts by the store's."""
    store = connect(context.workspace)
    found: list[tuple[float, RulesRecord]] = []
    for level in store.list_level(f"{context.home}/{FOLDER}/"):
        for each in sorted(level.objects.to_pylist(), key=lambda each: each["address"]):
            key = each["address"]
            named = _RECORD.fullmatch(key.rpartition("/")[2])
            if named is None:
                continue  # not lakegc's: a copy by hand, or the marker by which a tool shows a folder
            by_collector, by_store = int(named[1]) / _SECOND, each["last_modified"].timestamp()
            at = _dated(by_collector, by_store, now)
            order = by_store if clock.is_to_come(by_collector, now) else by_collector
            try:
                found.append((order, RulesRecord(at, _rules_of(store.read(key), key))))
            except (MarkError, KeyError, TypeError, ValueError):
                # Its rules are unknown, so every commit counts as long as this record does.
                context.say(f"{key} is not the record of rules that lakegc wrote: no commit runs out for some days")
                found.append((order, RulesRecord(at, None)))
    return [record for _, record in sorted(found, key=lambda each: each[0])]


def _dated(by_collector: float, by_store: float, now: float) -> float:
    """The time of a record, by the clocks of the collector and of the store that wrote it: the later one, unless it is
    to come, so that no wrong clock lets a shorter rule count early, or a longer one for ever."""
    shown = [at for at in (by_collector, by_store) if not clock.is_to_come(at, now)]
    return max(shown, default=by_collector)


def _rules_of(data: bytes, key: str) -> Rules | None:
    told = unsealed(decode(data, key), f"{key} was changed after it was written")["rules"]
    return None if told is None else Rules(int(told["default"]), dict(told["branches"]))
