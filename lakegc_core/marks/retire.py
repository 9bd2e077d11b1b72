"""Retirement: of an old mark one record stays, which says what it found and what was freed; its other artifacts go.

Which marks must stay is decided by `reasons_to_keep`, pure: what a later mark or sweep may still ask is never deleted.
A mark that cannot be read (damaged, or of another version) goes by the same rules, as one that did not finish.
A mark ceases with its header, after its record is durable; whatever else lies in its folder is deleted then, and by the
next call if this one broke off. Data, rules, rescues and lakeFS's own lists of what was deleted are not touched here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from lakegc_core import clock
from lakegc_core.clock import APART
from lakegc_core.errors import MarkError, SettingsError, StoreError
from lakegc_core.marks import lease
from lakegc_core.marks.artifacts import MarkArtifacts
from lakegc_core.marks.context import RepositoryContext
from lakegc_core.marks.emptying import Emptying, delete_below, empty
from lakegc_core.marks.json_files import encode
from lakegc_core.marks.layers import restored_at, rests_on
from lakegc_core.marks.lease import Lease
from lakegc_core.marks.ledger import has_lost, keep_records, whole_restore_at
from lakegc_core.marks.previous import began_to_read_at, series_now, series_of
from lakegc_core.marks.quarantine import quarantined
from lakegc_core.marks.retired_records import add_restores, freed_by, record_of, sweep_of
from lakegc_core.marks.shelf import Shelf, Standing, marks, retired_marks, unreadable_until
from lakegc_core.marks.sweeps import CLOSE, NOT_OVER, files_of, gone_in_rings, is_open, sweeps_of
from lakegc_core.names import FAILED, Json, Stage, Symptom, see
from lakegc_core.policy import safety
from lakegc_core.policy.facts import CommitsFacts
from lakegc_core.store.base import holds_any

_DAY = 86_400.0
_NEVER_BEGUN = "never begun: its folder holds no header. Look what lies there"


@dataclass(frozen=True)
class OldMark:
    """A mark as retirement sees it. Times are unix seconds."""

    mark_id: str
    started_at: float = 0.0
    asked_at: float = 0.0  # when it last asked lakeFS for anything; 0 if it never did
    read_at: float | None = None  # when it began to read lakeFS; None if it is not complete
    series: tuple[object, ...] = ()  # marks with the same one carry findings from one to the next
    storage_namespace: str = ""
    heads_known: bool = True  # lakeFS knew all heads that the marks before it had seen
    rests_on: tuple[str, ...] = ()  # marks of which it takes parts over
    touched_at: float = 0.0  # when it was last swept, or objects of it were brought back; 0 if never
    trouble: str = ""  # why it is not for a machine to remove, in words
    is_open: bool = False  # a sweep of it is to be finished or closed


@dataclass(frozen=True)
class Retirement:
    """The result of a call, or of a dry run. `retired` maps ids to their records, `kept` to the reasons. `unclosed`:
    old marks of which a sweep is not over, and why; for them, every mark stays that was swept since."""

    repository: str
    retired: dict[str, Json]
    kept: dict[str, str]
    unclosed: dict[str, str]
    artifacts: int  # deleted now
    bytes: int  # of those, as the listing says
    dry_run: bool
    quarantine: Emptying = field(default_factory=Emptying)


def retire(context: RepositoryContext, keep: int | None = None, *, dry_run: bool = False) -> Retirement:
    """Empty the quarantines whose time is over. Then retire the marks of a repository that nothing needs any more;
    `keep` of the newest complete ones stay anyway.

    Left out, `keep` is lakegc.yaml's. RefusedError while another collector works on the repository; StoreError when
    artifacts or copies could not be deleted, once all others are: the next call goes on with them.
    """
    wanted = context.policy.keep_marks if keep is None else keep
    if wanted < safety.LEAST_MARKS:
        raise SettingsError(f"At least {safety.LEAST_MARKS} marks are kept, not {wanted}: later ones rest on them.")
    # Without marks and copies there is nothing to keep others from.
    if dry_run or not (marks(context.workspace, context.home) or quarantined(context)):
        return _empty_and_retire(context, wanted, None, dry_run=True)
    with lease.held(
        context.workspace,
        context.home,
        f"retire {context.repository.id}",
        external=context.settings.lease == "external",
        demanded=context.policy.safety != safety.NONE.name,
    ) as held:
        return _empty_and_retire(context, wanted, held, dry_run=False)


def reasons_to_keep(every: Sequence[OldMark], keep: int, now: float, series: tuple[object, ...]) -> dict[str, str]:
    """The reasons of the marks that must stay, by id; the others may be retired. `series`: of the next mark. Pure.

    A mark stays if

    - it is in trouble, or young, or one of the newest `keep`
    - it is the newest complete one of `series`: the next mark carries its findings on
    - it is the newest one whose heads were all known: by it, a restored server is noticed
    - no complete mark read lakeFS anew since it asked: it may have seen live what the findings call garbage
    - it was swept or restored since the listings that the next mark may take over, or since a mark began of which a
      sweep is not over or may still come: both ask what others deleted
    - a mark that stays rests on it
    """
    whole = (mark for mark in every if mark.read_at is not None)
    complete = sorted(whole, key=lambda mark: (mark.started_at, mark.mark_id))
    newest = {mark.mark_id for mark in complete[-keep:]}
    carrying = next((mark for mark in reversed(complete) if mark.series == series), None)
    knowing = {mark.storage_namespace: mark.mark_id for mark in complete if mark.heads_known}
    least_age = safety.RETIREMENT.total_seconds()

    def reason(mark: OldMark) -> str:
        if mark.trouble:
            return mark.trouble
        if now - max(mark.started_at, mark.asked_at) < least_age:
            return f"younger than {least_age / _DAY:.0f} days"
        if mark.mark_id in newest:
            return f"one of the {keep} newest complete marks"
        if mark == carrying:
            return "the newest complete mark of its kind: the next one goes on from it"
        if mark.mark_id == knowing.get(mark.storage_namespace):
            return "the newest mark of which lakeFS knew all heads"
        # One that cannot be read may be of any series.
        own = [carrying] if carrying and mark.series in (series, ()) else []
        later = [other.read_at for other in (*complete[-1:], *own) if other.read_at]
        if not later or mark.asked_at >= min(later):
            return "no complete mark has read lakeFS anew since it did"
        if mark.touched_at >= taken_over_since - APART:
            return "it was swept or restored since the listings that the next mark may take over"
        asking = [each.mark_id for each in every if each.is_open and mark.touched_at >= each.started_at - APART]
        return f"it was swept or restored since mark {asking[0]} began, a sweep of which is not over" if asking else ""

    listed_at = {mark.mark_id: mark.started_at for mark in complete}
    # The next mark rests on the newest complete one, or on none (see `layers`).
    taken_over = {each for mark in complete[-1:] for each in (mark.mark_id, *mark.rests_on)}
    taken_over_since = min((listed_at[each] for each in taken_over if each in listed_at), default=0.0)
    kept = {mark.mark_id: why for mark in every if (why := reason(mark))}
    valid = safety.FULL.mark_validity.total_seconds()
    may_be_swept = [mark for mark in complete if mark.mark_id in kept and now - mark.started_at < valid]
    for mark in every:
        asking = [each.mark_id for each in may_be_swept if mark.touched_at >= each.started_at - APART]
        if asking and mark.mark_id not in kept:
            kept[mark.mark_id] = f"it was swept or restored since mark {asking[0]} began, which may still be swept"
    for mark in every:
        if mark.mark_id in kept:
            kept |= {each: f"mark {mark.mark_id} rests on it" for each in mark.rests_on if each not in kept}
    return kept


def list_retired(context: RepositoryContext) -> list[Json]:
    """The retired marks, newest id first, each with its findings and the bytes that its sweeps freed. Of one whose
    record cannot be read: why."""
    found = (_retired(context.artifacts(each)) for each in retired_marks(context.workspace, context.home))
    return [each for each in found if each is not None]


def _retired(mark: MarkArtifacts) -> Json | None:
    """What a record tells in a line; None if it is gone by now."""
    try:
        record = mark.retired()
    except MarkError as error:
        return {"mark_id": mark.mark_id, "started_at": None, "state": "damaged", "problem": str(error)}
    return None if record is None else freed_by(record)


def _empty_and_retire(context: RepositoryContext, keep: int, held: Lease | None, *, dry_run: bool) -> Retirement:
    # In this order: what keeps copies is in the folders of marks, which then stay for it.
    emptied = empty(context, held, dry_run=dry_run)
    found = _retire(context, keep, held, emptied.failed | emptied.stuck, dry_run=dry_run)
    if emptied.failed:
        raise StoreError(" ".join(emptied.failed.values()))
    return replace(found, quarantine=emptied)


def _retire(
    context: RepositoryContext, keep: int, held: Lease | None, stuck: Mapping[str, str], *, dry_run: bool
) -> Retirement:
    """Retire marks, but none whose copies are stuck in quarantine (`stuck`: reasons by id)."""
    gone = retired_marks(context.workspace, context.home)
    shelf = Shelf.of(context, safety.level(context.policy.safety or safety.FULL.name))
    found = [_old_mark(each, context.repository.storage_namespace) for each in shelf if each.is_begun]
    found = [replace(mark, trouble=mark.trouble or stuck.get(mark.mark_id, "")) for mark in found]
    shown = (each.mark for each in shelf if not each.is_begun)
    never_begun = [each.mark_id for each in shown if holds_any(each.store, f"{each.folder}/")]
    left_over = [mark_id for mark_id in never_begun if mark_id in gone]
    since = max((mark.started_at for mark in found if mark.read_at is not None), default=0.0)
    # The next mark has to know that objects of a retired one were brought back.
    left_over = [each for each in left_over if restored_at(context.artifacts(each)) < since - APART or not since]
    now = clock.now().timestamp()
    kept = reasons_to_keep(found, keep, now, series_now(context))
    old = (mark for mark in found if now - mark.started_at >= safety.RETIREMENT.total_seconds())
    unclosed = {mark.mark_id: mark.trouble for mark in old if mark.is_open}
    kept |= {mark_id: _NEVER_BEGUN for mark_id in never_begun if mark_id not in gone}
    going = [mark.mark_id for mark in reversed(found) if mark.mark_id not in kept]  # oldest ids first
    retired, failed = dict[str, Json](), list[str]()
    count = size = 0
    for mark_id in (*going, *(left_over if not dry_run else ())):
        artifacts = context.artifacts(mark_id)
        try:
            record = record_of(context.repository.id, artifacts) if mark_id in going else None
            deleted = (0, 0) if dry_run else _remove(artifacts, record, held)
        except StoreError as error:
            context.say(f"retire: {error}")
            failed.append(str(error))
            continue
        if record is not None:
            retired[mark_id] = freed_by(record)
        if not dry_run:
            context.say(f"retire: mark {mark_id}, {deleted[0]:,} artifacts")
        count, size = count + deleted[0], size + deleted[1]
    if failed:
        raise StoreError(" ".join(failed))
    return Retirement(context.repository.id, retired, kept, unclosed, count, size, dry_run)


def _remove(mark: MarkArtifacts, record: Json | None, held: Lease | None) -> tuple[int, int]:
    """Delete a mark, of which `record` stays, or what was left over of one that was retired before (None). Returns how
    many artifacts, and their bytes."""
    _check(held)
    keep_records(mark)
    if record is None:
        add_restores(mark)
        return _delete_files(mark, held)
    mark.store.write(mark.retired_key, encode(record))
    return _delete_mark(mark, held)


def _old_mark(each: Standing, namespace: str) -> OldMark:
    """The state of a mark that was begun. One whose clock was wrong counts as one that cannot be read; so does one of
    another namespace, in which a repository of this name lay before it was created anew: nobody can open it."""
    mark, header = each.mark, each.header
    if header is not None and each.fault is None:
        with suppress(MarkError):
            found = OldMark(
                mark_id=mark.mark_id,
                started_at=header.started_at,
                asked_at=each.asked_until,
                read_at=began_to_read_at(mark) if each.is_complete else None,
                series=series_of(header),
                storage_namespace=header.storage_namespace,
                heads_known=mark.manifest(Stage.RETENTION_COMMITS) is not None
                and not mark.facts(CommitsFacts).former_heads_unknown,
                rests_on=tuple(rests_on(mark)),
                touched_at=max(_swept_at(mark), restored_at(mark)),
                trouble=_trouble(mark),
                is_open=_is_to_be_closed(mark),
            )
            if header.storage_namespace == namespace:
                return found
            return replace(found, read_at=None, rests_on=(), trouble=_trouble_of_unreadable(mark), is_open=False)
    # It may have asked lakeFS, and been swept, as long as it was written to.
    until = unreadable_until(mark)
    return OldMark(mark.mark_id, asked_at=until, touched_at=until, trouble=_trouble_of_unreadable(mark))


def _swept_at(mark: MarkArtifacts) -> float:
    """When the last sweep of a mark that is over was; 0 if there was none. One whose report cannot be read can have
    been over as late as the newest file of the mark is."""
    try:
        reports = [sweep_of(mark, number) for number in sweeps_of(mark.store, mark.folder)]
        return max((report["finished_at"] for report in reports if report), default=0.0)
    except (MarkError, KeyError):
        return unreadable_until(mark)


def _trouble_of_unreadable(mark: MarkArtifacts) -> str:
    """The same for a mark that cannot be read. A sweep of it that broke off cannot be gone on with: its journal is
    counted into the record. What it may have lost is named by the next mark, which lists what is live and missing."""
    return "" if is_open(mark.store, mark.folder) else _trouble(mark, then="its journal is counted then")


def _is_to_be_closed(mark: MarkArtifacts) -> bool:
    """True if a sweep of it broke off, or has a report that cannot be read: a person is told to close it."""
    try:
        for number in sweeps_of(mark.store, mark.folder):
            sweep_of(mark, number)
    except MarkError:
        return True
    return is_open(mark.store, mark.folder)


def _trouble(mark: MarkArtifacts, *, then: str = f"then {CLOSE}") -> str:
    """A sentence on an unfinished sweep of a mark; "" if there is none. `then`: the advice for a report that cannot be
    read, once it is gone."""
    since = whole_restore_at(mark)
    for number in sweeps_of(mark.store, mark.folder):
        names = files_of(mark.store, mark.folder, number)
        if "plan.json" in names and "report.json" not in names:
            return f"sweep {number} of it {NOT_OVER}"
        try:
            lost = "report.json" in names and has_lost(sweep_of(mark, number), since)
        except MarkError:
            return f"the report of sweep {number} of it cannot be read: remove that file; {then}"
        if lost:
            return (
                f"sweep {number} of it lost objects, which its journal names: it stays until a restore of the mark, "
                "without a place or paths, brings all back; if nothing keeps them any more, remove it by hand"
            )
    if gone_in_rings(mark.store, mark.folder, unless_accepted=True):
        return "a ring of a sweep of it took live data, and nobody has accepted that (guard rings)"
    return ""


def _delete_mark(mark: MarkArtifacts, held: Lease | None) -> tuple[int, int]:
    """Delete a mark, its header first: half a mark must not pass for an unfinished one."""
    header = f"{mark.folder}/mark.json"
    (outcome,) = mark.store.delete_many([header])
    if outcome.startswith(FAILED):
        raise StoreError(
            f"{mark.location}/mark.json could not be deleted ({outcome}), so mark {mark.mark_id} still stands as it "
            f"was. Retiring needs leave to delete below {mark.home}/. {see(Symptom.RETIRE_FAILS)}"
        )
    count, size = _delete_files(mark, held)
    return count + 1, size


def _delete_files(mark: MarkArtifacts, held: Lease | None) -> tuple[int, int]:
    """Delete whatever lies in a mark's folder; return how many objects and bytes. StoreError if anything is left."""
    count, size, left = delete_below(mark.store, f"{mark.folder}/", held)
    if left:
        raise StoreError(
            f"{left:,} of {count:,} artifacts of mark {mark.mark_id} could not be deleted. Its record stands; run "
            f"`lakegc retire` again for the rest. {see(Symptom.RETIRE_FAILS)}"
        )
    mark.store.remove_empty_folders(f"{mark.folder}/")
    return count, size


def _check(held: Lease | None) -> None:
    if held is not None:
        held.check()
