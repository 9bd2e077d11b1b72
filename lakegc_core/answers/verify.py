"""Computes the statements of a mark's sweeps again from what lies there, and names what is not as they say.

Nothing is believed but digests. Of a retired mark the record and the journals stay, and are checked as far as they go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from lakegc_core.answers.differing import MOST, differing, parts_of, some, unread_of
from lakegc_core.errors import CorruptFileError, MarkError, ObjectNotFoundError
from lakegc_core.marks.artifacts import FORMAT, MarkArtifacts
from lakegc_core.marks.context import RepositoryContext
from lakegc_core.marks.json_files import decode, encode, unsealed
from lakegc_core.marks.ledger import KEPT, UNTOUCHED, Kind
from lakegc_core.marks.sweeps import STATEMENT, files_of, missing, sweeps_of
from lakegc_core.names import Json, Outcome, Stage
from lakegc_core.spark.tasks import collected, many, run_tasks
from lakegc_core.sweep.deletion import OUTCOMES_SCHEMA, PLAN_SCHEMA
from lakegc_core.sweep.statement import FORM, mark_of, outcomes_of, statement
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.key_scan import Source
from lakegc_core.tables.merkle import tree_of
from lakegc_core.tables.parts import Part, read_part, spark_width

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NEVER_STATED = "was made by a version of lakegc that wrote no statements"
_OF_PLAN, _OF_MARK = ("plan", "accepted"), ("mark", "rules")
"""Keys of a statement that cannot be computed without the plan, or without the mark."""


@dataclass
class Checked:
    """The findings on a mark or on a sweep, as sentences. `differs`: what is not as it was written; `unread`: what
    cannot be checked any more, or never could be."""

    differs: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


@dataclass
class CheckedSweep(Checked):
    """The same of a sweep. `statement`: its digest as it stands, and `stated` all of it; None if there is none that
    reads. `is_begun`: False if no plan was ever sealed, so that the sweep deleted nothing."""

    sweep: int = 0
    is_begun: bool = True
    statement: str | None = None
    stated: Json | None = None


@dataclass(frozen=True)
class Verification:
    """The findings on a mark and its sweeps. `retired`: only the mark's record and journals are left."""

    repository: str
    mark_id: str
    retired: bool
    mark: Checked
    sweeps: Sequence[CheckedSweep]

    @property
    def differs(self) -> bool:
        """True if anything is not as it was written."""
        return any(each.differs for each in (self.mark, *self.sweeps))

    @property
    def is_whole(self) -> bool:
        """True if everything was checked, and is as it was written."""
        return not any(each.differs or each.unread for each in (self.mark, *self.sweeps))

    def as_json(self) -> Json:
        """The answer as it is printed."""
        return asdict(self) | {"differs": self.differs, "whole": self.is_whole}


@dataclass(frozen=True)
class _Artifacts:
    """What lies there of a sweep. `where` and `journal_at`: the places of the statement and the journal, for people.
    `unread_before`: files that could not be read when the sweep was closed."""

    where: str
    report: Json
    stated: Json | None
    plan: Json | None
    mark: Json
    journal_at: str
    journal: Dataset
    unread_before: frozenset[str] = frozenset()

    @property
    def reported(self) -> str:
        """The place of the report, for people. Of a retired mark it lies in the record, as the statement does."""
        folder, is_file, _ = self.where.partition(f"/{STATEMENT}")
        return f"{folder}/report.json" if is_file else "the report there"

    @property
    def readable_before(self) -> Dataset:
        """The journal without what could not be read when the sweep was closed."""
        sources = self.journal.sources
        left = (each for each in sources if f"{each.folder}/{each.part.name}" not in self.unread_before)
        return replace(self.journal, sources=tuple(left))


def on_record(context: RepositoryContext, mark_id: str) -> tuple[list[int], Json | None]:
    """The numbers of the sweeps of a mark, and its record if it was retired. MarkError if no sweep of it was begun."""
    mark = context.artifacts(mark_id)
    # A retired mark ceased with its header. Its folders, and what a broken call left in them, may show all the same.
    is_gone = _read(mark, f"{mark.folder}/mark.json") == (None, True)
    record = mark.retired() if is_gone else None
    numbers = sweeps_of(mark.store, mark.folder) if record is None else sorted(map(int, record["sweeps"]))
    if not numbers:
        name = context.repository.id
        raise MarkError(
            f"No sweep of mark {mark_id} of {name} is on record: there is nothing to verify. lakegc marks {name} lists "
            "the marks."
        )
    return numbers, record


def verify(spark: SparkSession, context: RepositoryContext, mark_id: str) -> Verification:
    """Check the statements of all sweeps of a mark, also of a retired one. MarkError if no sweep of it was begun."""
    name, mark = context.repository.id, context.artifacts(mark_id)
    numbers, record = on_record(context, mark_id)
    if record is None:
        found = [_standing(spark, mark, number, is_last=number == numbers[-1]) for number in numbers]
        checked = _checked_mark(spark, mark)
        checked.differs += some(missing(numbers))
        return Verification(name, mark_id, False, checked, found)
    gone = Checked(unread=["the mark was retired: its datasets and the plans of its sweeps are gone"])
    gone.differs += some(missing(numbers))
    found = [_retired(spark, context, record, number) for number in numbers]
    return Verification(name, mark_id, True, gone, found)


def _checked_mark(spark: SparkSession, mark: MarkArtifacts) -> Checked:
    """The chain of digests from the header to the last stage, and the bytes of all parts that they name."""
    found = Checked()
    try:
        manifests = mark.chain()
    except MarkError as error:
        header = _read(mark, f"{mark.folder}/mark.json")[0]
        is_other = header is not None and header.get("format") != FORMAT
        (found.unread if is_other else found.differs).append(str(error))
        return found
    sources = [
        Source(mark.config, mark.stage_folder(stage, name), part, mark.mark_id)
        for stage, manifest in manifests.items()
        for name, parts in manifest.datasets.items()
        for part in parts
    ]
    found.differs += [said for _, said in _faults(spark, sources)]
    return found


def _standing(spark: SparkSession, mark: MarkArtifacts, number: int, *, is_last: bool) -> CheckedSweep:
    """A sweep of a mark whose artifacts stand."""
    found = CheckedSweep(sweep=number)
    folder = f"{mark.folder}/sweeps/{number}"
    report, is_as_written = _read(mark, f"{folder}/report.json")
    if report is None:
        if is_as_written:
            _without_report(mark, found, is_last=is_last)
        else:
            found.differs.append(f"{folder}/report.json is not what lakegc wrote")
        return found
    if not is_as_written:
        found.differs.append(f"{folder}/report.json was changed after it was written")
    stated, is_as_written = _read(mark, f"{folder}/{STATEMENT}")
    if not is_as_written:
        found.differs.append(f"{folder}/{STATEMENT} was changed after it was written")
    passed_over = unread_of(report, f"{folder}/report.json", found.differs)
    plan = None if f"{folder}/plan.json" in passed_over else _plan(mark, f"{folder}/plan.json", found)
    journal = DatasetFolder(mark.config, f"{folder}/outcomes", mark.mark_id).listed(OUTCOMES_SCHEMA)
    where = f"{folder}/{STATEMENT}"
    own = _Artifacts(where, report, stated, plan, mark_of(mark), f"{folder}/outcomes", journal, passed_over)
    good = _check(spark, own, found)
    found.unread += some(
        f"{key} could not be read when the sweep was closed: nobody knows what it told" for key in passed_over
    )
    if plan is not None and good is not None and not found.differs:
        _check_plan(spark, mark, plan, good, passed_over, found)
    return found


def _without_report(mark: MarkArtifacts, found: CheckedSweep, *, is_last: bool) -> None:
    """A sweep that has no report: it is not over, or the report was removed."""
    number, names = found.sweep, files_of(mark.store, mark.folder, found.sweep)
    folder = f"{mark.folder}/sweeps/{number}"
    found.is_begun = not names.isdisjoint({"plan.json", "outcomes", STATEMENT})
    if not is_last:  # a sweep begins only once the one before is over
        found.differs.append(f"{folder}/report.json is missing, although a later sweep stands")
    elif found.is_begun and "plan.json" not in names:
        found.differs.append(f"{folder}/plan.json is missing")
    elif STATEMENT in names:
        found.unread.append(
            f"{folder}/{STATEMENT} stands without a report: the sweep broke off as it ended, or its report was removed"
        )
    elif found.is_begun:
        found.unread.append(f"sweep {number} is not over: it has no statement yet")


def _retired(spark: SparkSession, context: RepositoryContext, record: Json, number: int) -> CheckedSweep:
    """A sweep of a retired mark."""
    found = CheckedSweep(sweep=number)
    stages, mark_id = record["stages"], record["mark_id"]
    mark = {
        "digest": stages.get(Stage.EXPIRED_ADDRESSES, {}).get("digest"),
        "rules": stages.get(Stage.RETENTION_COMMITS, {}).get("facts", {}).get("judged_by"),
    }
    places = [f"{context.home}/{KEPT}/{mark_id}/{kind}/{number}" for kind in (Kind.SWEPT, UNTOUCHED)]
    swept, untouched = [DatasetFolder(context.workspace, each, mark_id).listed(OUTCOMES_SCHEMA) for each in places]
    report, stated = record["sweeps"][str(number)], record.get("statements", {}).get(str(number))
    where = f"the statement of sweep {number} in {context.artifacts(mark_id).retired_key}"
    either = f"{context.home}/{KEPT}/{mark_id}/*/{number}"
    journal = Dataset(OUTCOMES_SCHEMA, tuple(sorted((swept + untouched).sources, key=lambda each: each.part.name)))
    _check(spark, _Artifacts(where, report, stated, None, mark, either, journal), found)
    return found


def _check(spark: SparkSession, own: _Artifacts, found: CheckedSweep) -> Dataset | None:
    """Compute a statement again, and compare it with the one that stands. Returns the journal as far as it reads; None
    where the statement is wrong."""
    where = own.where
    if own.stated is None:
        named = own.report.get("statement")
        if named:
            found.differs.append(f"{where} is missing; the report names statement {named}")
        elif not found.differs:
            found.unread.append(f"sweep {found.sweep} {_NEVER_STATED}")
        return own.readable_before
    found.statement = own.stated.get("digest")
    try:
        stated = unsealed(own.stated, f"{where} was changed after it was written: its digest is another")
    except MarkError as error:
        if not any(where in said for said in found.differs):
            found.differs.append(str(error))
        return None
    if (named := own.report.get("statement")) != found.statement:
        found.differs.append(f"{where} has digest {found.statement}, {own.reported} names {named}")
    if stated.get("form") != FORM:
        found.unread.append(f"{where} has form {stated.get('form')}, this lakegc reads {FORM}")
        return own.readable_before
    found.stated, parts = stated, parts_of(stated)
    if parts is None:
        found.differs.append(f"{where} does not say which parts its journal has: lakegc did not write it so")
        return None
    journal = _good_journal(spark, own, parts, found)
    outcomes = outcomes_of(journal, tree_of(spark, journal, "outcome"))
    # Where the mark or the plan cannot be read, that is told already.
    without = (*(() if own.plan else _OF_PLAN), *(() if own.mark["digest"] else _OF_MARK))
    try:
        again = statement(own.mark, own.plan, own.report, outcomes)
        found.differs += list(differing(stated, again, () if own.unread_before else without))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):  # of a name in it, perhaps
        forms = f"it, {own.reported}, or the plan has another form than lakegc's"
        found.differs.append(f"{where} cannot be computed again: {forms}")
        return None
    return journal


def _good_journal(spark: SparkSession, own: _Artifacts, stated: Sequence[str], found: CheckedSweep) -> Dataset:
    """The parts of a journal that read; those that do not, are missing or were added are told."""
    sources = own.readable_before.sources
    at, names, wanted = own.journal_at, {each.part.name for each in sources}, set(stated)
    found.differs += some(f"{at}/{each}, of which the statement tells, is missing" for each in wanted - names)
    found.differs += some(f"{at}/{each} was added: the statement does not tell of it" for each in names - wanted)
    faults = _faults(spark, sources)
    found.differs += some(said for _, said in faults)
    bad = {number for number, _ in faults}
    return replace(own.journal, sources=tuple(each for n, each in enumerate(sources) if n not in bad))


def _check_plan(
    spark: SparkSession,
    mark: MarkArtifacts,
    plan: Json,
    journal: Dataset,
    passed_over: frozenset[str],
    found: CheckedSweep,
) -> None:
    """Each planned object has an outcome, and only planned ones were deleted. Nobody can tell of a plan of which a part
    was `passed_over` when the sweep was closed."""
    folder = DatasetFolder(mark.config, plan["folder"], mark.mark_id)
    planned = folder.dataset("", [Part.from_json(part) for part in plan["parts"]], PLAN_SCHEMA)
    if not passed_over.isdisjoint(f"{each.folder}/{each.part.name}" for each in planned.sources):
        return
    if faults := _faults(spark, planned.sources):
        found.differs += some(said for _, said in faults)
        return
    outcomes, addresses = journal.frame(spark, "address", "outcome"), planned.frame(spark, "address")
    deleted = outcomes.where(outcomes["outcome"] == Outcome.DELETED)
    untold = addresses.join(many(outcomes.select("address")), "address", "left_anti")
    strange = deleted.join(many(addresses), "address", "left_anti")
    found.differs += [f"{each} was planned, and has no outcome" for each in _named(untold)]
    found.differs += [f"{each} was deleted, and is not in the plan" for each in _named(strange)]


def _named(rows: DataFrame) -> list[str]:
    return sorted(row["address"] for row in collected(rows.select("address").distinct().limit(MOST)))


def _faults(spark: SparkSession, sources: Sequence[Source]) -> list[tuple[int, str]]:
    """The parts, by their number, that are missing or are not what was written, with a sentence each. The executors
    read each part through for this."""

    def task(place: tuple[int, Source]) -> Iterator[Json]:
        number, source = place
        key = f"{source.folder}/{source.part.name}"
        try:
            for _ in read_part(source.config, source.folder, source.part):
                pass
        except ObjectNotFoundError:
            yield {"number": number, "said": f"{key} is missing"}
        except CorruptFileError:
            yield {"number": number, "said": f"{key} was changed after it was written"}

    results = run_tasks(spark, list(enumerate(sources)), task, width=4 * spark_width(spark))
    return sorted((each["number"], each["said"]) for each in results)


def _plan(mark: MarkArtifacts, key: str, found: Checked) -> Json | None:
    """The plan of a sweep, if it reads."""
    value, is_as_written = _read(mark, key)
    if value is not None and is_as_written:
        with suppress(MarkError):
            return unsealed(value, key)
    missing = value is None and is_as_written
    found.differs.append(f"{key} {'is missing' if missing else 'was changed after it was written'}")
    return None


def _read(mark: MarkArtifacts, key: str) -> tuple[Json | None, bool]:
    """A JSON artifact, None if it cannot be read or is missing; and whether its bytes are such as lakegc writes, or it
    is missing."""
    try:
        data = mark.store.read(key)
    except ObjectNotFoundError:
        return None, True
    try:
        value = decode(data, key)
    except MarkError:
        return None, False
    return value, encode(value) == data
