"""What `gone` cannot know: commits of which a mark could not read what they show."""

from __future__ import annotations

from collections.abc import Iterator

from lakegc_core.policy.facts import CommitsFacts, CommittedFacts


def unread(facts: CommitsFacts, committed: CommittedFacts) -> Iterator[str]:
    """Sentences on commits of which the mark could not read what they show."""
    if committed.ranges_ignored:
        yield (
            f"{committed.ranges_ignored:,} ranges of commits that lakegc.yaml says to ignore cannot be read: nobody "
            "knows what they showed"
        )
    if facts.commits_ignored:
        yield (
            f"{len(facts.commits_ignored):,} commits that lakegc.yaml says to ignore cannot be read: nobody knows what "
            "they showed"
        )
    if facts.commits_odd:
        yield f"{facts.commits_odd:,} old commits have no metarange that can be read: nobody knows what they showed"
    if facts.commits_odd is None:
        yield "an older lakegc made the mark, which does not say if all commits could be read: make a mark"
