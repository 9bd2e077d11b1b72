"""What the GC rules were, as far as lakegc has seen: a shorter rule takes effect only after a while.

A mistaken rule would be confirmed by every later mark, so that no second look could stop it. Each change that a mark or
a look sees is recorded; how rules of several times are united is pure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from lakegc_core import clock
from lakegc_core.errors import MarkError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.json_files import decode, digest, encode
from lakegc_core.policy.retention import Rules, rules_json
from lakegc_core.store.base import connect

FOLDER = "rules"


@dataclass(frozen=True)
class Seen:
    """Rules, and when they were first seen in place of others (unix seconds). None: every commit counted."""

    at: float
    rules: Rules | None


def effective_rules(seen: Sequence[Seen], now: float, memory: timedelta) -> Rules | None:
    """The longest of all rules that stood at any time since `now - memory`, branch by branch.

    `seen` in order of time; the last one is in force. Rules stood until the next ones were seen.
    """
    since = now - memory.total_seconds()
    ends = [later.at for later in seen[1:]] + [float("inf")]
    counting = [each.rules for each, end in zip(seen, ends, strict=True) if end > since]
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
    """Record the rules in force if they are new; return the rules to judge by, and how many they were united from."""
    now = clock.now().timestamp()
    seen = _read(context)
    if not seen or seen[-1].rules != rules:
        seen.append(Seen(now, rules))
        key = f"{context.home}/{FOLDER}/{int(now * 1_000_000):020}.json"
        record = {"at": now, "rules": rules_json(rules)}
        connect(context.workspace).write(key, encode(record | {"digest": digest(record)}))
    memory = context.level.rules_memory
    if not memory:
        return rules, 1
    return effective_rules(seen, now, memory), len(seen)


def _read(context: MarkContext) -> list[Seen]:
    store = connect(context.workspace)
    found: list[Seen] = []
    for level in store.list_level(f"{context.home}/{FOLDER}/"):
        for key in sorted(level.objects["address"].to_pylist()):
            record = decode(store.read(key), key)
            stated = record.pop("digest", None)
            try:
                if stated != digest(record):
                    raise ValueError("changed after it was written")
                told = record["rules"]
                rules = None if told is None else Rules(int(told["default"]), dict(told["branches"]))
                found.append(Seen(float(record["at"]), rules))
            except (KeyError, TypeError, ValueError):
                raise MarkError(
                    f"{context.workspace.root}/{key} is not the record of rules that lakegc wrote (it says "
                    f"{json.dumps(record)[:200]}). "
                    "Without it a shortened rule would take effect at once; remove it if you know that none was."
                ) from None
    return sorted(found, key=lambda each: each.at)
