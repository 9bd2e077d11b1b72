"""The version of lakeFS: what a collector cannot do with it, and which of its defects lakegc works around."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakegc_core.config.settings import ServerSettings
from lakegc_core.doctor.finding import Finding, alarm, note, warning
from lakegc_core.lakefs.models import ServerConfig
from lakegc_core.names import Json

Release = tuple[int, int]

_DUMPS_SINCE: Release = (1, 3)
_PREPARES_BESIDE_SINCE: Release = (1, 72)


@dataclass(frozen=True)
class Defect:
    """A defect of some versions of lakeFS, and what lakegc does about it. `since` is the first version with it, `until`
    the first without it; None: from the beginning, or in all that are known."""

    since: Release | None
    until: Release | None
    text: str

    def is_in(self, release: Release | None) -> bool:
        """True if a version has the defect. A version that is not known may have any."""
        if release is None:
            return True
        return (self.since is None or release >= self.since) and (self.until is None or release < self.until)


DEFECTS = (
    Defect(None, None, "Its own list of commits to keep leaves some out. lakegc applies the rules itself."),
    Defect(
        None, None, "An error of its database can shorten its list of what is staged. lakegc reads it at every look."
    ),
    Defect(None, None, "Its list of what is staged lacks identical re-uploads. lakegc asks what branches show."),
    Defect(None, None, "A commit that waits for its hooks is in no list. Level `full` waits for 24 hours."),
    Defect(None, (1, 74), "A branch that is deleted makes its list of what is staged fail. lakegc asks again."),
    Defect((1, 76), None, "It needs a working directory that can be written to, or it lists no commits to keep."),
)
"""Known defects of lakeFS's part in garbage collection."""


def about(config: ServerConfig) -> Json:
    """The server, as reports show it."""
    defects = [defect.text for defect in DEFECTS if defect.is_in(config.release)]
    return {"version": config.version or None, "edition": config.edition or None, "known_defects": defects}


def examine_server(config: ServerConfig, settings: ServerSettings) -> Iterator[Finding]:
    """The findings on what the version and the edition mean for a collector."""
    yield from _of_version(config)
    yield from _of_edition(config, settings)


def _of_version(config: ServerConfig) -> Iterator[Finding]:
    release = config.release
    if release is None:
        yield note(
            "server-version",
            f"The version of lakeFS cannot be told: it says {config.version or 'nothing'!r}.",
            "Which of lakeFS's defects it has is not known. lakegc works around all of those that are known.",
            "Nothing, if this is a build of your own.",
        )
    elif release < _DUMPS_SINCE:
        yield alarm(
            "server-version",
            f"lakeFS {config.version} is older than 1.3, and cannot dump its commits.",
            "Every mark needs this dump.",
            "Upgrade lakeFS.",
        )
    elif release < _PREPARES_BESIDE_SINCE:
        yield warning(
            "server-version",
            f"lakeFS {config.version} is older than 1.72, and lists the commits to keep within one request.",
            "A proxy may end a request that takes minutes. On stores that cannot presign, the request always fails.",
            "Upgrade lakeFS, or give requests to it 20 minutes in every proxy.",
        )


def _of_edition(config: ServerConfig, settings: ServerSettings) -> Iterator[Finding]:
    if config.is_enterprise:
        yield note(
            "enterprise",
            f"This server calls itself {config.edition}. Datasets and mounts of this edition can pin commits.",
            "No call that lakegc knows tells which commits these are. They expire by the GC rules like any other, and "
            "a sweep then deletes what only they refer to.",
            'Hold each pinned commit: put a tag on it, or add `"commit:ID"` to its `holds` in lakegc.yaml.',
        )
    if config.may_compact and settings.compaction != "never":
        yield note(
            "compaction",
            "This lakeFS may compact what is staged; it does not say whether it does.",
            "lakegc keeps garbage of the size of a staged object until that is committed.",
            "If compaction is off, say `server: {compaction: never}` in lakegc.yaml.",
        )
