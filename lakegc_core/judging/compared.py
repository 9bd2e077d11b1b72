"""What the guards compare a mark with: the mark before it, and what became of the objects that were staged then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakegc_core.errors import CorruptFileError, MarkError, ObjectNotFoundError
from lakegc_core.marks.artifacts import MarkArtifacts
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import FINDINGS_SCHEMA, KEPT
from lakegc_core.marks.previous import previous_mark
from lakegc_core.marks.sweeps import sweeps_of
from lakegc_core.names import Reason, Stage
from lakegc_core.policy.facts import Compared, ExpiredFacts, Previous
from lakegc_core.policy.judgements import shrunk
from lakegc_core.spark.session import clear_errors, many
from lakegc_core.tables.parts import Part, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = pa.schema([FINDINGS_SCHEMA.field(name) for name in ("address", "reason")])


def previous_of(context: MarkContext) -> Previous | None:
    """The mark before, or what that one was compared with in vain.

    A mark that had shrunk and that nobody accepted must not become the measure of the next one.
    """
    before = previous_mark(context)
    if before is None:
        return None
    facts = before.facts(ExpiredFacts)
    earlier = facts.previous
    lost = earlier and shrunk(earlier.expired_addresses, facts, context.level, facts.staged_lost)
    if lost and not _was_swept(before):
        return earlier
    return Previous(before.mark_id, facts.compared)


def _was_swept(mark: MarkArtifacts) -> bool:
    return bool(sweeps_of(mark.store, mark.folder))


def staged_lost(
    spark: SparkSession,
    context: MarkContext,
    previous: Previous | None,
    now: Compared,
    parts: Mapping[str, Sequence[Part]],
) -> int | None:
    """How many objects that were staged at the mark before are neither staged nor in a commit now. `parts`: what the
    mark found in STAGE and KEPT.

    Counted only where the sums say that too many may be: in the same night other commits may have run out, so that the
    sums hide what was committed. None where it was not counted, or the mark before does not read.
    """
    if previous is None or not shrunk(previous.expired_addresses, now, context.level):
        return None
    before = context.artifacts(previous.mark_id)
    try:
        then = _rows(spark, before, KEPT, before.require(Stage.EXPIRED_ADDRESSES).datasets[KEPT]).where(
            f"reason = '{Reason.STAGED}'"
        )
        found = [_rows(spark, context.mark, name, parts[name]) for name in (Stage.EXPIRED_ADDRESSES, KEPT)]
        left = found[0].union(found[1]).where(f"reason != '{Reason.STAGED}'")
        with clear_errors():
            return int(then.join(many(left), "address", "left_semi").count())
    except (CorruptFileError, MarkError, ObjectNotFoundError) as error:
        context.say(f"{Stage.EXPIRED_ADDRESSES}: mark {previous.mark_id} does not say what was staged then ({error})")
        return None


def _rows(spark: SparkSession, mark: MarkArtifacts, name: str, parts: Sequence[Part]) -> DataFrame:
    return read(spark, mark.config, mark.stage_folder(Stage.EXPIRED_ADDRESSES, name), parts, _COLUMNS)
