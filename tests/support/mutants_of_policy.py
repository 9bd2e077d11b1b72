"""Mutants of the policy: limits, guards, retention, names and holds."""

from __future__ import annotations

from tests.support.mutant_list import of

_GUARDS = "tests/core/policy/test_guards.py"
_NAMES = "tests/core/policy/test_namespace.py"
_HOLDS = "tests/core/policy/test_holds.py"

POLICY = (
    *of(
        "lakegc_core/policy/safety.py",
        "tests/core/policy/test_safety.py",
        (
            "of two safety levels the laxer one counts",
            "return max(one, other, key=lambda",
            "return min(one, other, key=lambda",
        ),
        (
            "safety level none needs no permission",
            "if name == NONE.name and not (throw_away or unsafe_allowed()):",
            "if name not in LEVELS and not (throw_away or unsafe_allowed()):",
        ),
        (
            "the margin of the level is not asked of the minimum age",
            "if min_age < least and not (throw_away or unsafe_allowed()):",
            "if min_age < grace_period and not (throw_away or unsafe_allowed()):",
        ),
        ("level full waits for no gap", "gap=timedelta(hours=24),", "gap=timedelta(0),"),
    ),
    *of(
        "lakegc_core/policy/guards.py",
        _GUARDS,
        (
            "any guard can be accepted",
            "if reason is None or verdict.passed or not BY_NAME[verdict.name].may_be_accepted:",
            "if reason is None or verdict.passed:",
        ),
        (
            "a sweep is authorised unless all guards stop it",
            "return not any(verdict.stops for verdict in verdicts)",
            "return not all(verdict.stops for verdict in verdicts)",
        ),
        (
            "unknown neighbours only warn where lakegc.yaml is strict",
            'severity = "ERROR" if self.hardens is not None and self.hardens(evidence) else self.severity',
            "severity = self.severity",
        ),
    ),
    *of(
        "lakegc_core/policy/too_much.py",
        _GUARDS,
        (
            "most of the bytes may go at once",
            '"bytes": max(0, amount.bytes) / max(1, own.bytes),',
            '"bytes": 0.0,',
        ),
        (
            "garbage that is ready at the sweep does not count",
            "if since > moment - gap.total_seconds():",
            "if since > 0:",
        ),
    ),
    *of(
        "lakegc_core/policy/judgements.py",
        _GUARDS,
        (
            "ranges that were not read pass",
            "if committed.references_read != committed.references:",
            "if committed.references_read > committed.references:",
        ),
        (
            "other ranges than those referred to pass",
            "if committed.checksum_read != committed.checksum:",
            "if committed.checksum_read != committed.checksum_read:",
        ),
        (
            "a store's clock that is behind passes",
            'if abs(skew) > limit:\n        return False, (\n            f"The store',
            'if skew > limit:\n        return False, (\n            f"The store',
        ),
        (
            "clocks that differ at the sweep pass",
            "skew = max(largest_skew(evidence.listing, evidence.commits), evidence.skew_now or 0.0, key=abs)",
            "skew = largest_skew(evidence.listing, evidence.commits)",
        ),
        (
            "a backup that lacks objects passes",
            "if found.problem or not wanted - lacks <= found.objects <= wanted:",
            "if found.problem:",
        ),
        (
            "heads that are not retained pass",
            "if commits.branches < 1 or commits.refs_not_retained:",
            "if commits.branches < 1:",
        ),
        (
            "a stage may begin before the one before it has ended",
            "if manifest.started_at < before or manifest.finished_at < manifest.started_at:",
            "if manifest.finished_at < manifest.started_at:",
        ),
        (
            "most of the live objects may have gone since the mark before",
            "> max(level.shrink * had, _FEW)",
            "> max(had, _FEW)",
        ),
        ("lost data at one head of several passes", "    if gone:\n", "    if len(gone) == evidence.sampled:\n"),
    ),
    *of(
        "lakegc_core/policy/retention.py",
        "tests/core/policy/test_retention.py",
        (
            "the margin makes retention shorter",
            "return now - days * _DAY - margin",
            "return now - days * _DAY + margin",
        ),
        (
            "the shortest retention of all branches counts",
            "for reach, start in sorted(starts):",
            "for reach, start in sorted(starts, reverse=True):",
        ),
        (
            "a rule keeps the young commit and not the one that it replaced",
            'kept.setdefault(parent, "rules")',
            'kept.setdefault(row, "rules")',
        ),
        (
            "what a deleted branch replaced is not kept",
            "starts += [(default, row) for row in dangling]",
            "starts += []",
        ),
        (
            "old merge commits are followed to the wrong parent",
            "return parents[0] if version >= 1 else parents[-1]",
            "return parents[0]",
        ),
        ("what the server retains is not kept", "for row in server:", "for row in ():"),
        ("tags protect nothing", "for name, row in named.tags:", "for name, row in named.tags[:0]:"),
        (
            "a held branch keeps its head alone",
            "held.add(row)\n                    row = graph.main_parent[row]",
            "held.add(row)\n                    row = -1",
        ),
    ),
    *of(
        "lakegc_core/policy/namespace.py",
        f"{_NAMES} -k not(recorded)",
        (
            "whatever ends like an object at the root is collected",
            'COLLECTABLE = r"^(data/.+|[0-9a-f]{32})$"',
            'COLLECTABLE = r"(data/.+|[0-9a-f]{32})$"',
        ),
        (
            "what lies beside nested metadata is collected",
            r"|^data/(.*/)?_lakefs/|",
            "|",
        ),
        (
            "names that lakeFS never gives are deleted",
            "return allowed if unknown_names else pc.and_not(allowed, self.unknown(addresses))",
            "return allowed",
        ),
        (
            "an encoded address surely lies in this namespace",
            "surely = pc.and_not(pc.starts_with(addresses, start), pc.match_substring_regex(addresses, ODD_PATH))",
            "surely = pc.starts_with(addresses, start)",
        ),
    ),
    *of(
        "lakegc_core/policy/places.py",
        "tests/core/policy/test_places.py",
        (
            "a namespace inside another one does not overlap it",
            "return any(a.startswith(b) or b.startswith(a) for a in mine for b in theirs)",
            "return any(a == b for a in mine for b in theirs)",
        ),
    ),
    *of(
        "lakegc_core/policy/xids.py",
        "tests/core/policy/test_xids.py",
        ("names tell half of their age", "found[rows] = values >> 3", "found[rows] = values >> 4"),
    ),
    *of(
        "lakegc_core/policy/holds.py",
        f"{_HOLDS} tests/core/references/ranges/test_held_paths.py",
        ("a path is held only if all holds mean it", "found = pc.or_(found, mask)", "found = pc.and_(found, mask)"),
        ("a question mark in a hold is taken literally", 're.compile(r"[*?]")', 're.compile(r"[*]")'),
        (
            "a hold of a folder with a slash holds nothing, and nobody says so",
            'if kind == PATH and pattern.strip("/") != pattern:',
            'if kind == PATH and not pattern.strip("/"):',
        ),
    ),
)
