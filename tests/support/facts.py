"""Whole facts of stages, for manifests that are written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NOTHING = {"objects": 0, "bytes": 0}
_GROUPS = (
    *("listed", "committed", "uncommitted", "held", "expired", "neighbour", "young", "unasked"),
    *("foreign", "unknown", "confirmed", "waiting"),
)
_READ = (
    *("metaranges", "ranges", "entries", "references", "references_read", "checksum", "checksum_read", "addresses"),
    *("ranges_added", "ranges_dropped", "held_by_path"),
)
_EMPTY: Mapping[str, Mapping[str, Any]] = {
    "namespace_listing": {
        **dict.fromkeys(("objects", "bytes", "foreign", "foreign_bytes", "nested", "units", "units_listed"), 0),
        "rests_on": [],
        "why_clean": "",
        "clock_skew": 0.0,
        "overlapping": [],
    },
    "uncommitted_addresses": {
        **dict.fromkeys(("pages", "pages_with_location", "files", "rows", "rows_of_branch_listings"), 0),
        "began_at": 0.0,
        "run_id": "r",
        "elsewhere": {},
    },
    "retention_commits": {
        **dict.fromkeys(("known", "retained", "retained_metaranges", "branches", "tags", "former_heads_unknown"), 0),
        **dict.fromkeys(("server_retained", "kept_beyond_server", "server_beyond_ours", "rules", "judged_by"), None),
        "refs_not_retained": 0,
        "tags_protected": True,
        "holds": [],
        "holds_idle": [],
        "kept_by": {},
        "began_at": 0.0,
        "heads": "",
        "rules_remembered": 1,
        "dump": "",
        "run_id": None,
        "clock_skew": 0.0,
    },
    "committed_addresses": {
        **dict.fromkeys(_READ, 0),
        **dict.fromkeys(("holds_idle", "holds_untold"), ()),
        "elsewhere": {},
    },
    "expired_addresses": {
        **dict.fromkeys(_GROUPS, NOTHING),
        **dict.fromkeys(("missing", "violations", "pages_asked", "heads"), 0),
        **dict.fromkeys(("ages", "sizes", "text_lists", "prefixes", "foreign_prefixes"), ()),
        "asked_at": None,
        "young_until": None,
        "first_since": None,
        "canaries": {},
        "previous": None,
        "refers_elsewhere": {},
        "missing_paths": (),
        "neighbours": {"repositories": 0, "unknown": 0, "named": [], "within": 0.0, "addresses": 0},
    },
}


def whole_facts(stage: str, told: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The facts of a stage that found nothing, but for what is told."""
    return {**_EMPTY[stage], **(told or {})}
