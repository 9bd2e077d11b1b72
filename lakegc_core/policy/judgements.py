"""The judgements of the guards: pure functions from the evidence to a verdict and its sentence. `guards` lists them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from lakegc_core.clock import duration, is_to_come, roughly
from lakegc_core.names import STAGES, Reason, counted
from lakegc_core.policy import causes
from lakegc_core.policy.evidence import Evidence, FinishedStage
from lakegc_core.policy.facts import Compared, largest_skew
from lakegc_core.policy.safety import Level, may_lack

Finding = tuple[bool, str]


def if_meant(name: str) -> str:
    """The way to sweep in spite of a guard, as a sentence."""
    return f'If that was meant, sweep with --accept {name} --because "…" (in Dagster, accept: {{{name}: "…"}}).'


def out_of_order(started_at: float, manifests: Mapping[str, FinishedStage]) -> str:
    """The first stage that began before the one before it had ended, or ended before it began; "" if none did.
    `started_at`: of the mark, unix seconds; `manifests`: of its finished stages, in order."""
    before = started_at
    for stage, manifest in manifests.items():
        if manifest.started_at < before or manifest.finished_at < manifest.started_at:
            return stage
        before = manifest.finished_at
    return ""


def order(evidence: Evidence) -> Finding:
    stage = out_of_order(evidence.header.started_at, {stage: evidence.manifests[stage] for stage in STAGES})
    if stage:
        return False, (
            f"{stage} began before the stage that it rests on had ended, so that data could move between the two "
            "unseen. Was the clock set back? Make a new mark."
        )
    return True, "The stages ran strictly one after the other, each on the digest of the one before it."


def completeness(evidence: Evidence) -> Finding:
    staged, commits, committed = evidence.staged, evidence.commits, evidence.committed
    wrong = []
    if staged.files < staged.pages_with_location:
        wrong.append(f"{staged.files} of {staged.pages_with_location} files of the staged dump were read")
    if commits.retained < 1 or commits.known < commits.retained:
        wrong.append(f"{commits.retained} commits are retained of {commits.known} known")
    if committed.metaranges != commits.retained_metaranges:
        wrong.append(f"{committed.metaranges} of {commits.retained_metaranges} metaranges were read")
    if committed.references_read != committed.references:
        wrong.append(f"ranges stand for {committed.references_read} of {committed.references} references")
    if committed.checksum_read != committed.checksum:
        wrong.append("the ranges that were read are not those that the metaranges refer to")
    if wrong:
        return False, f"Not everything was read: {'; '.join(wrong)}. Make a new mark."
    ignored = counted(committed.ranges_ignored, "range")
    lost = f" but {ignored} that cannot be, and that only commits of `ignore_commits` have"
    what = f"Everything was read{lost if committed.ranges_ignored else ''}"
    ranges = f"{counted(committed.metaranges, 'metarange')}, {counted(committed.ranges, 'range')}"
    entries = counted(committed.entries, "entry", "entries")
    return True, f"{what}: {counted(staged.pages, 'page')} of the staged dump, {ranges} with {entries}."


def heads_and_tags(evidence: Evidence) -> Finding:
    commits = evidence.commits
    branches = counted(commits.branches, "branch", "branches")
    tags = counted(commits.tags, "tag") if commits.tags_protected else "no tags (protect_tags is off)"
    if commits.branches < 1 or commits.refs_not_retained:
        return False, (
            f"{commits.refs_not_retained:,} heads or tags of {branches} are not among the "
            "retained commits. Make a new mark; if it stays so, report it."
        )
    return True, f"The heads of {branches} and {tags} are retained."


def candidates(evidence: Evidence) -> Finding:
    wrong = evidence.expired.violations
    cutoff = datetime.fromtimestamp(evidence.header.cutoff, UTC)
    if wrong:
        return False, f"{wrong:,} expired addresses are too young or not lakeFS's. Make a new mark and report this."
    named = "has a name that lakeFS gives to data"
    if evidence.header.collect_unknown_names:
        named += ", or lies below data/ (collect_unknown_names),"
    return True, f"Every expired address {named} and is older than {cutoff:%Y-%m-%d %H:%M:%S} UTC."


def live_in_listing(evidence: Evidence) -> Finding:
    missing, given_up = evidence.expired.missing, evidence.expired.given_up
    live = evidence.expired.committed_and_held + evidence.expired.uncommitted.objects
    share = (missing - given_up) / (live + missing) if missing else 0.0
    some = f" A person gave up {given_up:,} of them for an earlier mark; the share counts the others."
    known = "" if not given_up else some if given_up < missing else " A person gave them up for an earlier mark."
    swept = causes.swept_before(evidence.expired) + causes.copies(evidence.header.repository, evidence.in_quarantine)
    if share > evidence.level.missing_live:
        return False, (
            f"{missing:,} live objects are not in the store ({share:.2%} of {live + missing:,}; limit "
            f"{evidence.level.missing_live:.2%}): reads of them fail. Either data was lost before, or listing and "
            f"references do not speak of the same place.{known}{causes.missing(evidence.expired)} The mark's dataset "
            f"expired_addresses/missing names all of them. {if_meant('live-in-listing')}{swept}"
        )
    if missing:
        counted = f" ({share:.3%})" if given_up < missing else ""
        return (
            True,
            f"{missing:,} live objects are not in the store{counted}; reads of them fail already."
            f"{known}{causes.missing(evidence.expired)}{swept}",
        )
    others = f"other {live:,}" if evidence.expired.swept_before else f"{live:,}"
    carried = " What earlier marks had listed was not listed again." if evidence.listing.rests_on else ""
    return True, f"All {others} live objects are in the store.{carried}{swept}"


def deleted_is_gone(evidence: Evidence) -> Finding:
    found = evidence.expired
    if not found.came_back.objects:
        return True, "Nothing lies in the store that a sweep recorded as deleted."
    sweeps = [f"sweep {each.sweep} of mark {each.mark_id} ({each.objects:,})" for each in found.taken_back]
    more = f" and {len(sweeps) - 3:,} more" if len(sweeps) > 3 else ""
    by = f" They are of {', '.join(sweeps[:3])}{more}." if sweeps else ""
    return False, (
        f"{found.came_back.objects:,} objects ({found.came_back.bytes:,} bytes) lie in the store that a sweep had "
        f"recorded as deleted, and no restore brought them back: for example {', '.join(found.came_back_examples[:2])}."
        f"{by} Either somebody brought them back by hand, or the store did not carry out deletes that it confirmed. "
        "They are judged like any other object, and the history does not count them as deleted any more. If nobody "
        "brought them back, find out what lies between lakegc and the store."
    )


def mark_age(evidence: Evidence) -> Finding:
    age = evidence.now - evidence.header.started_at
    limit = evidence.level.mark_validity.total_seconds()
    if is_to_come(evidence.header.started_at, evidence.now):
        return False, (
            f"The mark says that it will begin in {roughly(-age)}: the clock that it was made by was wrong, or "
            "LAKEGC_NOW stood in for it. Make a new mark."
        )
    if age > limit:
        old = f"The mark is {roughly(age)} old, the limit is {duration(timedelta(seconds=limit))}."
        return False, f"{old} Make a new mark."
    return True, f"The mark is {roughly(max(0.0, age))} old."


def clocks(evidence: Evidence) -> Finding:
    skew = max(largest_skew(evidence.listing, evidence.commits), evidence.skew_now or 0.0, key=abs)
    limit = evidence.level.clock_skew.total_seconds()
    if abs(skew) > limit:
        return False, (
            f"The store's clock and the collector's differ by {skew:.0f} s, the limit is {limit:.0f} s: neither the "
            "age of objects nor the time since the mark can be judged. Set the clocks right, and make a new mark."
        )
    return True, f"The store's clock and the collector's agree to {abs(skew):.0f} s."


def namespace(evidence: Evidence) -> Finding:
    listing = evidence.listing
    if listing.overlapping:
        return False, (
            f"The namespace is shared with, or nested in or around, that of {', '.join(listing.overlapping)}: "
            "their data would look like garbage here, also in two storages of one lakeFS. Such repositories cannot be "
            "collected one by one."
        )
    if listing.nested:
        return False, (
            f"{listing.nested:,} metadata files of another repository lie below data/ ({listing.nested_file}). Its "
            "data would look like garbage here. Move that repository out of this namespace. If no repository of any "
            "lakeFS lies there any more, delete its `_lakefs/`, and make a clean mark (--clean)."
        )
    return True, f"No other repository has its data in {evidence.header.storage_namespace}."


def shrink(evidence: Evidence) -> Finding:
    if evidence.previous is None:
        return True, "This is the first mark of the repository: there is nothing to compare with."
    now = evidence.expired
    if lost := shrunk(evidence.previous.expired_addresses, now, evidence.level, now.staged_lost):
        return False, (
            f"Since the last mark that was in order {' and '.join(lost)}, more than {evidence.level.shrink:.0%} less. "
            f"A short answer of the server looks like this; so does a big clean-up.{causes.largest(evidence.expired)} "
            f"{if_meant('shrink')}"
        )
    return True, "The live objects have not shrunk suspiciously since the last mark."


def shrunk(before: Compared, now: Compared, level: Level, staged_lost: int | None = None) -> list[str]:
    """The groups in which much less is live by the facts `now` of a mark than by those `before`, in words.

    An object that was staged and is committed now is no loss. `staged_lost` counts the objects that were staged and are
    neither now; if it was not counted, the loss is what the staged ones lost and commits did not gain in all.
    """
    gained = max(0, now.committed_and_held - before.committed_and_held)
    missed = before.uncommitted.objects - now.uncommitted.objects - gained
    groups = (
        ("committed", before.committed_and_held, now.committed_and_held, None),
        ("staged", before.uncommitted.objects, now.uncommitted.objects, missed if staged_lost is None else staged_lost),
    )
    return [
        f"{title} objects went from {had:,} to {has:,}"
        for title, had, has, lost in groups
        if (had - has if lost is None else lost) > max(level.shrink * had, _FEW)
    ]


def known_heads(evidence: Evidence) -> Finding:
    lost = evidence.commits.former_heads_unknown
    if lost:
        return False, (
            f"{lost:,} heads that earlier marks saw are unknown to lakeFS now. Commits are never deleted, so this "
            "server was restored from a backup or re-created, and its references are older than the objects in the "
            "store. Do not collect before the server is whole again. If what it lacks is given up for good, remove "
            "the marks from before."
        )
    return True, "All heads that the last mark saw are still known to lakeFS."


def reads(evidence: Evidence) -> Finding:
    if evidence.unreadable is None:
        return True, "Reads of paths on branch heads are tried when the mark is swept."
    gone = {path: status for path, status in evidence.unreadable.items() if status == _GONE}
    odd = {path: status for path, status in evidence.unreadable.items() if status != _GONE}
    left_out = _left_out(evidence.known_gone)
    if gone:
        return False, (
            f"The data of {len(gone)} of {evidence.sampled} paths on branch heads is gone: {_some(gone)}. It was gone "
            "before this sweep, and the mark does not know of it. Find out why, before anything more is deleted."
            f"{left_out}"
        )
    if 2 * len(odd) > evidence.sampled:
        return False, (
            f"{len(odd)} of {evidence.sampled} paths on branch heads cannot be read: {_some(odd)}. Whether data is "
            f"whole cannot be told. Let lakeFS read its store, and this key read objects; then sweep again.{left_out}"
        )
    read = f"{evidence.sampled - len(odd)} random paths on branch heads read"
    told = f"; of {len(odd)} that cannot be told: {_some(odd)}" if odd else ""
    return True, f"{read}{told}.{left_out}"


def rings(evidence: Evidence) -> Finding:
    if not evidence.gone_in_rings:
        return True, "No ring of a sweep took a path that could be read before."
    mark_id, gone = next(iter(evidence.gone_in_rings.items()))
    named = ", ".join(f"{path} ({address})" for path, address in list(gone.items())[:_NAMED])
    return False, (
        f"A sweep of mark {mark_id} was stopped, because a ring of it took live data: {named}. Find out why the mark "
        f"took that for garbage. {if_meant('rings')}"
    )


_KNOWN_GONE = {
    Reason.SWEPT_BEFORE: "whose objects a sweep deleted when nothing referred to them",
    Reason.MISSING: "whose objects are missing (guard live-in-listing)",
}
_NAMED = 5


def _left_out(known_gone: Mapping[str, str]) -> str:
    """A passage on paths that the sample leaves out, with a blank before it; "" if there are none."""
    said = []
    for reason, words in _KNOWN_GONE.items():
        if paths := [path for path, why in known_gone.items() if why == reason]:
            said.append(f" Left out: paths {words}, such as {', '.join(paths[:_NAMED])}.")
    return "".join(said)


def _some(statuses: Mapping[str, int]) -> str:
    return ", ".join(f"{path} ({status})" for path, status in list(statuses.items())[:5])


def backup(evidence: Evidence) -> Finding:
    if not evidence.backup_required:
        return True, "lakegc.yaml does not ask for a backup before a sweep."
    wanted = evidence.expired.expired.objects
    return whole_backup(evidence, "lakegc.yaml asks for a backup before a sweep", may_lack(wanted))


def whole_backup(evidence: Evidence, because: str, lacks: int = 0) -> Finding:
    """The judgement of the mark's backup, which is asked for `because` of something. `lacks`: how many objects it may
    lack, which the sweep then leaves."""
    found, wanted = evidence.backup, evidence.expired.expired.objects
    where = "" if evidence.backup_to else " DEST"
    how = f"Make it: lakegc backup {evidence.header.repository} {evidence.header.mark_id}{where}."
    if found is None:
        return False, f"{because}, and this mark has none. {how}"
    if found.problem or not wanted - lacks <= found.objects <= wanted:
        problem = found.problem or (
            f"it has {found.objects:,} objects of {wanted:,}; if the others are gone from the store, make a clean "
            f"mark, which does not name them (lakegc mark {evidence.header.repository} --clean)"
        )
        return False, f"The backup of this mark in {found.place} is not whole: {problem}. {how}"
    which = "All" if found.objects == wanted else f"Others stay: {found.objects:,} of"
    return True, f"{which} {wanted:,} objects are backed up in {found.place}."


def holds(evidence: Evidence) -> Finding:
    commits, paths = evidence.commits, evidence.committed
    idle = [*commits.holds_idle, *paths.holds_idle]
    named, untold = commits.holds, paths.holds_untold
    if idle:
        return False, (
            f"{len(idle):,} of {len(named):,} holds hold nothing: {', '.join(idle)}. What they were meant to keep may "
            f"go. Correct them in lakegc.yaml, and mark again: lakegc mark {evidence.header.repository}."
        )
    if untold:
        return True, f"No hold is known to hold nothing; not all was looked through for {', '.join(untold)}."
    return True, f"All holds ({len(named):,}) hold something." if named else "lakegc.yaml names no holds."


_GONE = 410  # what lakeFS answers where an entry's object is not in the store
_FEW = 20  # a change of so few objects is no sign of anything
