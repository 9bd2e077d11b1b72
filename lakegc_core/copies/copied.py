"""The result of a backup or a restore: figures, and advice in sentences."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

from lakegc_core.copies.transfer import Copied
from lakegc_core.marks.backups import ALREADY_THERE, COPIED, SAVED
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.one_copy import DIFFERENT, FAILED, MISSING
from lakegc_core.names import Json
from lakegc_core.policy.safety import may_lack
from lakegc_core.store.base import StoreConfig


@dataclass(frozen=True)
class CopyResult:
    """The result of a backup or a restore. `outcomes` counts objects; `problems` shows some of those that failed."""

    verb: str
    repository: str
    mark_id: str
    place: str  # where the backup lies; the namespace itself without a backup
    outcomes: Mapping[str, int]
    bytes: int  # copied now
    problems: Sequence[Json]
    seconds: float
    backup: str = "SRC"  # the place of the mark's backup, if one is on record
    is_undo: bool = False  # a restore without a backup: out of quarantine, or of what the store itself had kept

    @classmethod
    def of(cls, verb: str, context: MarkContext, place: StoreConfig, copied: Copied, started: float) -> CopyResult:
        """The result by what was `copied`. `started`: seconds of `time.monotonic`."""
        return cls(
            verb=verb,
            repository=context.header.repository,
            mark_id=context.header.mark_id,
            place=place.root,
            outcomes=dict.fromkeys((COPIED, ALREADY_THERE, MISSING, DIFFERENT, FAILED), 0) | copied.objects,
            bytes=copied.bytes.get(COPIED, 0),
            problems=copied.problems,
            seconds=time.monotonic() - started,
        )

    @property
    def failed(self) -> int:
        """Objects that are not at the target as they must be."""
        bad = [DIFFERENT, FAILED, *([MISSING] if self.verb == "restore" else [])]
        return sum(self.outcomes.get(outcome, 0) for outcome in bad)

    @property
    def counts(self) -> bool:
        """True if a backup counts as one: it may lack a few objects (`safety.may_lack`)."""
        return self.failed <= may_lack(sum(self.outcomes.values()))

    @property
    def trouble(self) -> str:
        """Advice on objects that are not at the target, in sentences; "" if there are none."""
        if not self.failed:
            return ""
        saved, missing = sum(self.outcomes.get(outcome, 0) for outcome in SAVED), self.outcomes.get(MISSING, 0)
        done = "brought back" if self.is_undo else "copied"
        if saved:
            said = f"{self.failed:,} objects were not {done}. The other {saved:,} are at their place."
        else:
            said = f"None of {sum(self.outcomes.values()):,} objects was {done}."
        if self.outcomes.get(FAILED, 0):
            return f"{said} Do what their problems ask for, and run it again."
        if missing and self.is_undo:
            again = f"lakegc restore {self.repository} {self.mark_id} {quote(self.backup)}"
            return f"{said} Neither quarantine nor the store keeps {missing:,} of them. If there is a backup: {again}."
        if missing and self.verb == "restore":
            return f"{said} {self.place} lacks {missing:,} of them: name the place that the backup was made to."
        if self.verb == "backup":
            return f"{said} Other objects lie there, which are not overwritten. Give the backup another place."
        return (
            f"{said} Other objects lie there, which are not overwritten. Or their copies have another size than is on "
            "record, and were not taken. The problems say which."
        )
