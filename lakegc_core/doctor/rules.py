"""Finds what is likely not meant so in a repository's rules of garbage collection and policy in lakegc.yaml. Cheap."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from lakegc_core import clock
from lakegc_core.config.settings import RepositoryPolicy
from lakegc_core.doctor.finding import Finding, Level, alarm, note, sentence, some, warning
from lakegc_core.errors import SettingsError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.models import GcRules, Repository
from lakegc_core.names import counted
from lakegc_core.policy import safety

_FOREVER = 3650  # days: nobody means to wait for so long
_YOUNG = 365  # days: a younger repository has rules that reach beyond its beginning
_HOW = "lakectl gc set-config"


def examine_rules(client: LakeFSClient, repository: Repository, policy: RepositoryPolicy) -> list[Finding]:
    """Rules, tags and the minimum age. Asks lakeFS for the rules, and for branches or tags only where they matter."""
    rules = client.gc_rules(repository.id)
    found = list(_no_rules(repository, policy)) if rules is None else _set_rules(client, repository, rules)
    return [*found, *_tags(client, repository, policy), *_ages(client, policy)]


def _no_rules(repository: Repository, policy: RepositoryPolicy) -> Iterator[Finding]:
    if policy.rules == "keep-all-commits":
        yield note(
            "no-rules",
            "There are no rules of garbage collection, and lakegc.yaml says `rules: keep-all-commits`.",
            "Every commit is kept: only what was never committed becomes garbage.",
            f"Set rules in lakeFS if old versions may go ({_HOW}).",
        )
        return
    yield alarm(
        "no-rules",
        f"Repository {repository.id} has no rules of garbage collection.",
        "Nothing says which commits may go, so lakegc refuses to mark it.",
        f"Set rules in lakeFS ({_HOW}), or say `rules: keep-all-commits` in lakegc.yaml.",
    )


def _set_rules(client: LakeFSClient, repository: Repository, rules: GcRules) -> list[Finding]:
    return [*_short(rules), *_unknown_branches(client, repository, rules), *_endless(repository, rules)]


def _short(rules: GcRules) -> Iterator[Finding]:
    days = {"the default rule": rules.default_retention_days}
    days |= {f"the rule of branch {name}": kept for name, kept in rules.branches.items()}
    why = "Only the head of a branch is kept. What it showed before is garbage as soon as it shows something else."
    do = f"Set at least 1 day, or as long as people may want to go back ({_HOW})."
    if negative := [what for what, kept in days.items() if kept < 0]:
        what = f"The rules keep history for a negative number of days: {some(negative)}."
        yield alarm("negative-rule", what, why, do)
    if none := [what for what, kept in days.items() if kept == 0]:
        yield warning("zero-rule", f"The rules keep history for 0 days: {some(none)}.", why, do)


def _unknown_branches(client: LakeFSClient, repository: Repository, rules: GcRules) -> Iterator[Finding]:
    unknown = set(rules.branches)
    for branch in client.branches(repository.id) if unknown else ():
        unknown.discard(branch.name)
        if not unknown:
            return
    if unknown:
        yield warning(
            "rule-without-branch",
            f"{len(unknown):,} rules are for branches that do not exist: {some(sorted(unknown))}.",
            "Such a rule keeps nothing. If the branch was renamed or the name is a pattern, which lakeFS does not "
            f"know, the default of {rules.default_retention_days} days applies.",
            f"Correct the names, or remove the rules ({_HOW}).",
        )


def _endless(repository: Repository, rules: GcRules) -> Iterator[Finding]:
    shortest = min([rules.default_retention_days, *rules.branches.values()])
    age = clock.now().timestamp() - repository.creation_date
    if shortest >= _FOREVER:
        level, what = Level.WARNING, f"The shortest rule keeps history for {counted(shortest, 'day')}."
    elif timedelta(seconds=age) > timedelta(days=_YOUNG) and shortest * 86400 > age:
        level = Level.NOTE
        old = f"{age / 86400:,.0f} days"
        what = f"The shortest rule, {counted(shortest, 'day')}, is longer than the repository is old ({old})."
    else:
        return
    why = "The rules keep every version that a branch showed. Only what was never committed becomes garbage."
    yield Finding("keeps-everything", level, what, why, f"Set shorter rules if old versions may go ({_HOW}).")


def _tags(client: LakeFSClient, repository: Repository, policy: RepositoryPolicy) -> Iterator[Finding]:
    if policy.protect_tags is not False:
        return
    tag = next(client.tags(repository.id), None)
    if tag is not None:
        yield warning(
            "tags-not-protected",
            f"lakegc.yaml says `protect_tags: false`, and the repository has tags, such as {tag.name}.",
            "The data of a tag goes once no rule keeps its commit. The tag stays, and reads of it answer 410.",
            'Remove `protect_tags: false`, or hold the tags that must stay (`holds: ["tag:…"]`).',
        )


def _ages(client: LakeFSClient, policy: RepositoryPolicy) -> Iterator[Finding]:
    """The finding that the minimum age is too short: `mark` refuses such an age in the same words."""
    level = safety.level(policy.safety or safety.FULL.name)
    grace = timedelta(seconds=client.grace_period())
    try:
        safety.check_min_age(policy.min_age or safety.DEFAULT_MIN_AGE, grace, level)
    except SettingsError as error:
        why = "Between an upload and its link nothing refers to the object: a mark would take it for garbage."
        yield alarm("min-age", sentence(str(error)), why, "Set a longer `min_age` in lakegc.yaml.")
