"""The settings of a sweep: for each, the stricter one of the mark's header and of lakegc.yaml as it is now.

Where lakegc.yaml leaves a setting out, the mark's counts. The modules that read the settings decide what to
do with them.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from lakegc_core.clock import duration, unsafe_allowed
from lakegc_core.errors import RefusedError
from lakegc_core.marks.context import MarkContext
from lakegc_core.policy import safety
from lakegc_core.policy.safety import Level


def effective_level(context: MarkContext) -> Level:
    """The level a mark is swept by: the stricter of its own and that of lakegc.yaml."""
    policy = context.policy.safety
    return safety.stricter(context.level, safety.level_to_read(policy)) if policy else context.level


def check_level(context: MarkContext) -> None:
    """SettingsError for a mark of a level that nobody may sweep by here. Code that only reads the mark need not ask."""
    safety.level(context.header.safety, throw_away=context.is_throw_away)


def as_swept(context: MarkContext) -> MarkContext:
    """The mark as if it had been begun with the stricter of both in every setting but `collect_unknown_names`: see
    `unknown_names`.

    Level: the stricter. Minimum age: the longer, counted back from when the mark was begun. Tags are protected, and
    rules required, if either says so. Holds: those of both. Commits are ignored if both say so.
    """
    header, policy = context.header, context.policy
    longest = max(header.min_age, policy.min_age.total_seconds() if policy.min_age is not None else 0.0)
    level = effective_level(context)
    strict = replace(
        header,
        safety=level.name,
        min_age=longest,
        cutoff=header.cutoff - (longest - header.min_age),
        protect_tags=header.protect_tags or policy.protect_tags is True,
        rules=policy.rules if policy.rules == "required" else header.rules,
        holds=tuple(sorted({*header.holds, *policy.holds})),
        ignore_commits=tuple(each for each in header.ignore_commits if each in policy.ignore_commits),
    )
    return replace(context, header=strict, level=level)


def stricter_than_mark(context: MarkContext) -> list[str]:
    """The settings, as `name value`, in which lakegc.yaml is stricter than the mark, for people."""
    header, strict = context.header, as_swept(context).header
    age = duration(timedelta(seconds=strict.min_age))
    added = sorted({*strict.holds} - {*header.holds})
    changes = [
        (strict.safety != header.safety, f"safety {strict.safety}"),
        (strict.min_age != header.min_age, f"min_age {age}"),
        (strict.protect_tags != header.protect_tags, "protect_tags true"),
        (strict.rules != header.rules, f"rules {strict.rules}"),
        (bool(added), f"holds {', '.join(added)}"),
        (strict.ignore_commits != header.ignore_commits, f"ignore_commits {list(strict.ignore_commits)}"),
    ]
    return [said for is_stricter, said in changes if is_stricter]


def check_min_age(context: MarkContext) -> None:
    """RefusedError for a mark whose minimum age is shorter than lakeFS's grace period, asked now, and the level demand.

    A mark may have been begun with LAKEGC_UNSAFE=yes, or while the grace period was shorter.
    """
    level, age = effective_level(context), timedelta(seconds=context.header.min_age)
    grace = timedelta(seconds=context.client.grace_period())
    least = safety.least_min_age(grace, level)
    if age >= least or context.is_throw_away or unsafe_allowed():
        return
    header = context.header
    raise RefusedError(
        f"Mark {header.mark_id} of {header.repository} was made with a minimum age of {duration(age)}, but this "
        f"lakeFS lets a client link an upload for {duration(grace)}, and level {level.name!r} demands "
        f"{duration(least)}: an upload that is not linked yet looks like garbage to it. Nothing is deleted. Make "
        f"a new mark: lakegc mark {header.repository} --min-age {duration(least)}."
    )


def unknown_names(context: MarkContext) -> bool:
    """True if a sweep deletes objects below data/ with names that lakeFS never gives: if the mark was made so, and
    lakegc.yaml still says so."""
    return context.header.collect_unknown_names and context.policy.collect_unknown_names
