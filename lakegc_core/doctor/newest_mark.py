"""Findings of the newest complete mark: what lies in the namespace that is not lakeFS's, and what its guards found."""

from __future__ import annotations

from collections.abc import Iterator

from lakegc_core import clock
from lakegc_core.clock import minute, roughly
from lakegc_core.doctor.finding import Finding, Level, alarm, note, some, warning
from lakegc_core.marks.artifacts import MarkArtifacts
from lakegc_core.marks.catalogue import newest_mark
from lakegc_core.marks.context import MarkContext, RepositoryContext, open_mark
from lakegc_core.marks.drills import last_drill
from lakegc_core.marks.emptying import overdue
from lakegc_core.marks.shelf import strangers
from lakegc_core.marks.sweeps import finished_sweeps, left_nothing
from lakegc_core.marks.workspaces import holds_marks, left_behind
from lakegc_core.names import counted
from lakegc_core.policy.facts import CommitsFacts, CommittedFacts, ExpiredFacts
from lakegc_core.policy.guards import BY_NAME, NEIGHBOURS, Verdict
from lakegc_core.policy.safety import FULL, level_to_read
from lakegc_core.sweep.authorize import judge

_ICEBERG = "_lakefs_tables/iceberg/"
"""The folder, by path, in which lakeFS's own Iceberg catalog commits pointers to its tables."""

_SHOWN = 10  # names in one sentence

NO_MARK = "no-mark"
"""Name of the finding that there is no complete mark yet."""
_LEVELS = {
    "namespace": Level.ALARM,
    "known-heads": Level.ALARM,
    "live-in-listing": Level.ALARM,
    "holds": Level.WARNING,
}
"""The guards that tell of the repository itself; the others judge the mark, and are told where they stop its sweep."""
_ORDINARY = ("blast-radius", "shrink", "backup")
"""The guards that stop sweeps of sound repositories, too. Where lakegc.yaml says `sweep: true`, one that waits for a
person's word stops every night."""


def examine_newest_mark(context: RepositoryContext) -> list[Finding]:
    """Findings of the newest complete mark, and whether lakeFS keeps Iceberg tables here. Reads a few small files."""
    found = [*_iceberg(context), *_strangers(context), *_left_behind(context)]
    found += [*_drill(context), *_raised(context), *_overdue(context)]
    mark = newest_mark(context)
    if mark is None:
        why = "What is not lakeFS's in this namespace, and what holds keep, only a mark finds out."
        do = f"lakegc mark {context.repository.id}"
        return [*found, note(NO_MARK, "There is no complete mark yet.", why, do)]
    opened = open_mark(context, mark.mark_id)
    found += [*_age(opened), *_guards(opened), *_unasked(opened.mark), *_ignored(opened)]
    return [*found, *_foreign(opened.mark), *_references(opened)]


def _drill(context: RepositoryContext) -> Iterator[Finding]:
    """The finding that the last drill did not pass, or is not over."""
    drill = last_drill(context)
    if drill is not None and drill.problem:
        yield alarm(
            "drill",
            f"Drill {drill.name} did not pass: {drill.problem}.",
            "What sweeps delete by mistake may not come back, and what the drill deleted may be gone still.",
            f"lakegc drill {context.repository.id}; it first ends a drill that is not over.",
        )


def _overdue(context: RepositoryContext) -> Iterator[Finding]:
    """The finding that copies stay in quarantine although their time was over days ago."""
    if found := overdue(context):
        first = min(found.values())
        yield warning(
            "quarantine-overdue",
            f"Copies of what {counted(len(found), 'mark')} would delete stay in quarantine, although the time of the "
            f"first was over on {minute(first)}: {some(sorted(found))}.",
            "Only `lakegc retire` empties a quarantine, and only once a complete mark began after its time.",
            f"lakegc mark {context.repository.id}, then lakegc retire {context.repository.id}, which says of each why "
            "it stays. In Dagster, turn on the schedule retire_marks.",
        )


def _raised(context: RepositoryContext) -> Iterator[Finding]:
    """The finding that lakegc.yaml lets a sweep take more than the level does."""
    told, level = context.policy.blast_radius, level_to_read(context.policy.safety or FULL.name)
    if told and told > min(level.blast_radius_objects, level.blast_radius_bytes):
        yield note(
            "blast-radius-raised",
            f"lakegc.yaml says `blast_radius: {100 * told:.3g}%`; level {level.name} lets one sweep take "
            f"{level.blast_radius_objects:.0%} of lakeFS's objects and {level.blast_radius_bytes:.0%} of their bytes.",
            "A mistaken rule or an emptied branch is stopped only beyond that.",
            "Nothing, if jobs rewrite so much in a night. Otherwise take it out.",
        )


def _age(context: MarkContext) -> Iterator[Finding]:
    if _is_old(context):
        yield note(
            "old-mark",
            f"The newest complete mark, {context.header.mark_id}, is {roughly(_seconds_old(context))} old.",
            "It is too old to be swept, and what is said of it here may have changed.",
            f"lakegc mark {context.repository.id}",
        )


def _is_old(context: MarkContext) -> bool:
    return _seconds_old(context) > context.level.mark_validity.total_seconds()


def _seconds_old(context: MarkContext) -> float:
    return clock.now().timestamp() - context.header.started_at


def _guards(context: MarkContext) -> Iterator[Finding]:
    said = [NEIGHBOURS]  # `namespaces` asks anew, as a sweep does
    if _is_old(context):
        said.append("mark-age")
    over = finished_sweeps(context)
    waits = not (over and left_nothing(over[-1]))  # else there is nothing that a guard could keep from being swept
    for verdict in judge(context):
        level = _LEVELS.get(verdict.name) or (_level_of_stop(context, verdict) if waits and verdict.stops else None)
        if verdict.passed or level is None or verdict.name in said:
            continue
        stops = "This stops every sweep of the mark. " if verdict.stops else ""
        yield Finding(
            f"guard-{verdict.name}",
            level,
            f"Mark {context.header.mark_id}: {verdict.description}",
            f"{stops}The danger: {BY_NAME[verdict.name].danger}.",
            "Do what the guard says (SAFETY.md#the-guards), then make a new mark.",
        )


def _level_of_stop(context: MarkContext, verdict: Verdict) -> Level:
    """How bad it is that a guard stops the sweep of the mark."""
    for_a_person = context.policy.sweep and BY_NAME[verdict.name].may_be_accepted
    return Level.NOTE if verdict.name in _ORDINARY and not for_a_person else Level.WARNING


def _unasked(mark: MarkArtifacts) -> Iterator[Finding]:
    """The finding that the mark could not ask about some candidates."""
    waiting = mark.facts(ExpiredFacts).waiting
    if waiting.objects:
        yield warning(
            "not-asked-about",
            f"Mark {mark.mark_id} could not ask about {waiting.objects:,} candidates ({waiting.bytes:,} bytes): a "
            "branch may show them.",
            "They are not deleted until a mark and a sweep could ask. If that goes on each night, garbage grows.",
            "Raise `scale.lakefs_requests`. Where HEADs do not suffice, raise `scale.asking_share`. If the server "
            "never compacts: server: {compaction: never}.",
        )


def _ignored(context: MarkContext) -> Iterator[Finding]:
    ignored = context.mark.facts(CommitsFacts).commits_ignored
    if ignored:
        yield note(
            "ignored-commits",
            f"Mark {context.header.mark_id} ignored {counted(len(ignored), 'commit')} by lakegc.yaml: "
            f"{', '.join(ignored)}.",
            "What only they refer to is garbage, if their metaranges cannot be read, by lakeFS neither. Of their "
            "parents only those count that lakeFS knows.",
            "Nothing, if their data may go. Otherwise take them out of `ignore_commits`: marks then fail as before.",
        )
    committed = context.mark.facts(CommittedFacts)
    if committed.ranges_ignored:
        yield note(
            "ignored-ranges",
            f"Mark {context.header.mark_id} passed over {counted(committed.ranges_ignored, 'range')} that it could not "
            f"read and that only commits of `ignore_commits` have: {', '.join(committed.ranges_ignored_ids)}.",
            "What only they refer to is garbage. What the other ranges of these commits refer to is kept.",
            "Nothing, if their data may go. Otherwise bring the files back: the next mark reads them.",
        )
        return  # nobody knows which of the commits have these ranges
    if idle := sorted({*context.policy.ignore_commits} - {*ignored}):
        yield note(
            "ignores-nothing",
            f"lakegc.yaml says to ignore commits that mark {context.header.mark_id} did not: {', '.join(idle)}.",
            "No commit has this id, or all of it can be read and its parents are known, or the mark is older than the "
            "setting.",
            "If the next mark does not ignore them either, take them out of `ignore_commits`.",
        )


def _foreign(mark: MarkArtifacts) -> Iterator[Finding]:
    facts = mark.facts(ExpiredFacts)
    folders = "; ".join(
        f"{each.prefix or '(root)'} {each.objects:,} objects, {each.bytes:,} bytes" for each in facts.foreign_prefixes
    )
    outside = facts.foreign - facts.unknown
    if outside.objects:
        yield note(
            "foreign-objects",
            f"{outside.objects:,} objects ({outside.bytes:,} bytes) outside data/ are not lakeFS's, by mark "
            f"{mark.mark_id}. The largest folders of all foreign objects: {folders}.",
            "lakegc never touches them, and nobody else collects them.",
            "See whose they are, and delete by hand only what nobody needs. Files of Iceberg tables are among them.",
        )
    if facts.unknown.objects:
        yield note(
            "unknown-names",
            f"{facts.unknown.objects:,} objects ({facts.unknown.bytes:,} bytes) below data/ have names that lakeFS "
            f"never gives, by mark {mark.mark_id}. The largest folders of all foreign objects: {folders}.",
            "lakegc keeps them. lakeFS's own collector takes them for garbage once nothing refers to them.",
            "See who wrote them. `collect_unknown_names: true` in lakegc.yaml collects them.",
        )


def _references(context: MarkContext) -> Iterator[Finding]:
    """The findings on references across the border of the namespace, in either direction."""
    facts, is_local = context.mark.facts(ExpiredFacts), context.namespace.is_local
    if facts.neighbours.addresses:
        yield note(
            "referred-to",
            f"Other repositories refer to {facts.neighbours.addresses:,} objects of this one, by mark "
            f"{context.header.mark_id}.",
            "A sweep here keeps what their newest marks refer to, and knows of nothing newer.",
            "Mark them as often as this repository.",
        )
    # On a folder, lakeFS writes whole addresses of its own objects too. They name no place.
    elsewhere = {name: count for name, count in facts.refers_elsewhere.items() if name or not is_local}
    if elsewhere:
        yield note(
            "refers-elsewhere",
            f"Commits refer to {sum(elsewhere.values()):,} addresses outside of this namespace, in "
            f"{', '.join(sorted(elsewhere))}.",
            "Sweeps of other repositories of this lakeFS keep these objects. Nothing else does.",
            "See that no other program deletes them, and no other lakeFS collects them.",
        )


def _strangers(context: RepositoryContext) -> Iterator[Finding]:
    names = strangers(context.workspace, context.home)
    if names:
        more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        yield note(
            "strangers",
            f"{len(names):,} folders in {context.workspace.root}/{context.home}/marks/ are no marks: "
            f"{', '.join(map(repr, names[:_SHOWN]))}{more}.",
            "lakegc gives no mark such a name. It passes these folders over, and nobody deletes them.",
            "See who made them, and delete by hand what nobody needs.",
        )


def _left_behind(context: RepositoryContext) -> Iterator[Finding]:
    """The finding that marks or copies lie where no `workspace` leads."""
    left = left_behind(context.data) if context.workspace != context.data else []
    if left:
        home = f"{context.workspace.root}/{context.home}"
        stops = not holds_marks(context.workspace, context.home)
        yield Finding(
            "left-behind",
            Level.ALARM if stops else Level.WARNING,
            f"{' and '.join(left)} hold marks or copies of this repository, but `workspace` leads to {home}/.",
            "No restore finds these copies, no sweep goes on with one that broke off there, and nobody retires them."
            + (" Each mark is refused." if stops else ""),
            f"If {home}/ holds no mark, move lakegc's folder in the namespace there. Else bring back from the old "
            "place what is needed (take `workspace` out; lakegc restore), then delete that folder.",
        )


def _iceberg(context: RepositoryContext) -> Iterator[Finding]:
    branch = context.repository.default_branch
    if next((page for page in context.client.objects(context.repository.id, branch, _ICEBERG) if page), None):
        yield note(
            "iceberg-tables",
            f"Branch {branch} has tables of lakeFS's Iceberg catalog, whose files lie outside data/.",
            "lakegc does not judge these files: it never deletes them, also where no table needs them any more.",
            "Clean them up with the means of lakeFS Enterprise.",
        )
