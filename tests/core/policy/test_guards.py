"""Every guard, both ways: what it lets pass and what it stops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from lakegc_core.marks.artifacts import Manifest
from lakegc_core.names import STAGES
from lakegc_core.policy import guards, judgements
from lakegc_core.policy.evidence import Evidence
from lakegc_core.policy.facts import Amount, BackupFacts, Compared, DrillFacts, NeighbourFacts
from lakegc_core.policy.guards import BY_NAME, GUARDS, Verdict
from lakegc_core.policy.safety import FULL, NONE, STANDARD, Level, may_lack
from tests.support.facts import whole_facts
from tests.support.old_marks import HEADER

START = HEADER.started_at
WARNING = {"deleted-is-gone", "holds", "neighbours"}
FACTS: Mapping[str, Mapping[str, Any]] = {
    "namespace_listing": {"clock_skew": 0.5, "overlapping": [], "nested": 0},
    "uncommitted_addresses": {"files": 2, "pages_with_location": 2, "pages": 7},
    "retention_commits": {
        "known": 10,
        "retained": 4,
        "retained_metaranges": 3,
        "branches": 2,
        "tags": 1,
        "tags_protected": True,
        "refs_not_retained": 0,
    },
    "committed_addresses": {
        "metaranges": 3,
        "references": 9,
        "references_read": 9,
        "checksum": 77,
        "checksum_read": 77,
        "ranges": 5,
        "entries": 500,
    },
    "expired_addresses": {
        "listed": {"objects": 1000, "bytes": 10_000},
        "committed": {"objects": 900, "bytes": 9_000},
        "uncommitted": {"objects": 20, "bytes": 200},
        "foreign": {"objects": 0, "bytes": 0},
        "young": {"objects": 0, "bytes": 0},
        "expired": {"objects": 80, "bytes": 800},
        "missing": 0,
        "violations": 0,
        "neighbours": {"repositories": 2, "unknown": 0, "named": [], "within": 7 * 86_400.0, "addresses": 3},
    },
}


def evidence(level: Level = FULL, now: float = START + 3600, **changes: Mapping[str, Any]) -> Evidence:
    """A mark that every guard accepts; `changes` are facts of a stage to be replaced."""
    manifests = {
        stage: Manifest(
            stage=stage,
            repository="lake",
            mark_id="m1",
            upstream="",
            started_at=START + 10 * number,
            finished_at=START + 10 * number + 9,
            seconds=9.0,
            datasets={},
            facts=whole_facts(stage, {**FACTS[stage], **changes.get(stage, {})}),
            rows=0,
            bytes=0,
        )
        for number, stage in enumerate(STAGES)
    }
    return Evidence(HEADER, manifests, level, now)


def verdict(name: str, found: Evidence) -> Verdict:
    return BY_NAME[name].evaluate(found)


def refused(name: str, found: Evidence) -> str:
    """The reason why this guard, and no other, stops the mark."""
    verdicts = guards.evaluate(found)
    assert [each.name for each in verdicts if each.stops] == [name]
    assert not guards.authorized(verdicts)
    description = verdict(name, found).description
    assert description.endswith(f" See docs/runbook.md#{name}.")
    return description


def moved(found: Evidence, stage: str, **times: float) -> Evidence:
    return replace(found, manifests={**found.manifests, stage: replace(found.manifests[stage], **times)})


def test_a_sound_mark_is_authorised_and_every_guard_says_why() -> None:
    verdicts = guards.evaluate(evidence())
    assert [each.name for each in verdicts] == [guard.name for guard in GUARDS]
    assert all(each.passed and each.description.endswith(".") for each in verdicts)
    assert guards.authorized(verdicts)


def test_every_guard_names_the_danger_it_averts_and_stops_hard_unless_nothing_goes_wrong_by_it() -> None:
    assert len(BY_NAME) == len(GUARDS)
    assert all(guard.danger for guard in GUARDS)
    assert {guard.name for guard in GUARDS if guard.severity == "WARN"} == WARNING


def test_holds_that_hold_nothing_are_named_and_stop_no_sweep() -> None:
    commits = {"holds": ["branch:main", "path:legl/**", "tag:v9"], "holds_idle": ["tag:v9"]}
    found = evidence(retention_commits=commits, committed_addresses={"holds_idle": ["path:legl/**"]})
    said = verdict("holds", found)
    assert not said.passed and not said.stops
    assert "2 of 3 holds hold nothing: tag:v9, path:legl/**." in said.description
    assert "lakegc mark lake" in said.description
    assert guards.authorized(guards.evaluate(found))


def test_a_hold_that_was_not_looked_for_to_the_end_is_not_said_to_hold_nothing() -> None:
    commits, paths = {"holds": ["path:**/x"], "holds_idle": []}, {"holds_idle": [], "holds_untold": ["path:**/x"]}
    said = verdict("holds", evidence(retention_commits=commits, committed_addresses=paths))
    assert said.passed and "not all was looked through for path:**/x" in said.description


def _live(**objects: int) -> Compared:
    groups = ("listed", "committed", "uncommitted", "held", "expired")
    return Compared(*(Amount(objects.get(group, 0), 0) for group in groups))


def test_what_was_staged_and_is_committed_now_is_no_loss() -> None:
    """Before, a night in which a large upload was committed refused every mark after it."""
    had = _live(committed=1000, uncommitted=500)
    assert judgements.shrunk(had, _live(committed=1500), FULL) == []
    assert judgements.shrunk(had, _live(committed=1100, uncommitted=100), FULL) == [
        "staged objects went from 500 to 100"
    ]


def test_where_staged_objects_were_looked_up_one_by_one_the_sums_do_not_count() -> None:
    had, now = _live(committed=1000, uncommitted=500), _live(committed=1100, uncommitted=100)
    assert judgements.shrunk(had, now, FULL, 150) == []
    assert judgements.shrunk(had, now, FULL, 151) == ["staged objects went from 500 to 100"]
    assert judgements.shrunk(had, _live(committed=100), FULL, 0) == ["committed objects went from 1,000 to 100"]


def test_what_only_a_hold_keeps_is_live_and_its_loss_is_a_loss_of_committed_objects() -> None:
    had = _live(committed=600, held=400)
    assert judgements.shrunk(had, _live(committed=1000), FULL) == []
    assert judgements.shrunk(had, _live(committed=600), FULL) == ["committed objects went from 1,000 to 600"]
    assert judgements.shrunk(_live(committed=1000), had, FULL) == []
    facts = {"committed": {"objects": 0, "bytes": 0}, "held": {"objects": 9_980, "bytes": 1}}
    assert verdict("live-in-listing", evidence(expired_addresses=facts | {"missing": 9})).passed


def test_of_an_optimized_mark_the_guard_says_that_not_everything_was_listed_again() -> None:
    said = "What earlier marks had listed was not listed again"
    rests = {"rests_on": [["m0", "seal"]]}
    assert said in verdict("live-in-listing", evidence(namespace_listing=rests)).description
    assert said not in verdict("live-in-listing", evidence()).description


@pytest.mark.parametrize("stage", STAGES[1:])
def test_a_stage_that_began_before_the_one_it_rests_on_had_ended_breaks_the_order(stage: str) -> None:
    before = evidence().manifests[STAGES[STAGES.index(stage) - 1]]
    assert stage in refused("order", moved(evidence(), stage, started_at=before.finished_at - 0.001))
    assert verdict("order", moved(evidence(), stage, started_at=before.finished_at)).passed


def test_a_stage_before_its_mark_or_ended_before_its_begin_breaks_the_order() -> None:
    assert "clock" in refused("order", moved(evidence(), STAGES[0], started_at=START - 1))
    assert "clock" in refused("order", moved(evidence(), STAGES[4], finished_at=START + 39))


@pytest.mark.parametrize(
    ("stage", "facts", "says"),
    [
        ("uncommitted_addresses", {"files": 1}, "1 of 2 files"),
        ("uncommitted_addresses", {"files": 0}, "0 of 2 files"),
        ("retention_commits", {"retained": 0, "refs_not_retained": 0}, "0 commits are retained"),
        ("retention_commits", {"known": 3}, "of 3 known"),
        ("retention_commits", {"retained_metaranges": 4}, "3 of 4 metaranges"),
        ("committed_addresses", {"metaranges": 2}, "2 of 3 metaranges"),
        ("committed_addresses", {"references_read": 8}, "8 of 9 references"),
        ("committed_addresses", {"checksum_read": 78}, "not those that the metaranges refer to"),
    ],
)
def test_anything_that_was_not_read_is_incomplete(stage: str, facts: dict[str, Any], says: str) -> None:
    for level in (FULL, STANDARD, NONE):
        assert says in refused("completeness", evidence(level, **{stage: facts}))


def test_more_files_than_pages_are_complete_because_a_page_may_be_asked_for_twice() -> None:
    assert verdict("completeness", evidence(uncommitted_addresses={"files": 3})).passed
    nothing_staged = {"files": 0, "pages_with_location": 0}
    assert verdict("completeness", evidence(uncommitted_addresses=nothing_staged)).passed


def test_a_head_or_tag_that_is_not_retained_refuses() -> None:
    assert "1 heads or tags" in refused("heads-and-tags", evidence(retention_commits={"refs_not_retained": 1}))


def test_a_repository_without_branches_refuses() -> None:
    refused("heads-and-tags", evidence(retention_commits={"branches": 0}))


def test_unprotected_tags_are_said_so() -> None:
    assert (
        "protect_tags is off"
        in verdict("heads-and-tags", evidence(retention_commits={"tags_protected": False})).description
    )


def test_one_candidate_that_is_too_young_or_foreign_refuses_at_every_level() -> None:
    for level in (FULL, STANDARD, NONE):
        assert "1 expired" in refused("candidates", evidence(level, expired_addresses={"violations": 1}))


def test_live_objects_that_the_store_lacks_refuse_above_their_share_of_all_live_ones() -> None:
    facts = {"committed": {"objects": 9_979, "bytes": 1}, "uncommitted": {"objects": 10, "bytes": 1}}
    assert verdict("live-in-listing", evidence(expired_addresses=facts | {"missing": 9})).passed
    text = refused("live-in-listing", evidence(expired_addresses=facts | {"missing": 11}))
    assert "0.11%" in text and "0.10%" in text
    assert verdict("live-in-listing", evidence(NONE, expired_addresses=facts | {"missing": 9_000})).passed
    assert "swept" not in text
    swept = verdict("live-in-listing", evidence(expired_addresses=facts | {"swept_before": 9_000}))
    assert swept.passed and "9,000 live objects are gone because a sweep deleted them" in swept.description
    refused("live-in-listing", evidence(expired_addresses=facts | {"missing": 11, "swept_before": 9_000}))
    copied = replace(evidence(expired_addresses=facts | {"swept_before": 9_000}), in_quarantine=("m1",))
    assert "This brings them back: `lakegc restore lake m1`. " in verdict("live-in-listing", copied).description
    everything_lost = {"committed": {"objects": 0, "bytes": 0}, "uncommitted": {"objects": 0, "bytes": 0}, "missing": 5}
    refused("live-in-listing", evidence(STANDARD, expired_addresses=everything_lost))


def test_what_a_person_gave_up_before_counts_no_more_and_what_is_missing_beyond_it_does() -> None:
    facts = {"committed": {"objects": 100, "bytes": 1}, "uncommitted": {"objects": 0, "bytes": 0}, "missing": 6}
    known = verdict("live-in-listing", evidence(expired_addresses=facts | {"given_up": 6}))
    assert known.passed and known.description.startswith(
        "6 live objects are not in the store; reads of them fail already. A person gave them up for an earlier mark."
    )
    some = verdict("live-in-listing", evidence(NONE, expired_addresses=facts | {"given_up": 5}))
    assert some.passed and "(0.943%)" in some.description and "gave up 5 of them" in some.description
    text = refused("live-in-listing", evidence(expired_addresses=facts | {"given_up": 5}))
    assert "(0.94% of 106" in text and "gave up 5 of them for an earlier mark; the share counts the others." in text


def test_what_lies_there_that_a_sweep_recorded_as_deleted_is_named_and_stops_nothing() -> None:
    sweeps = [{"mark_id": f"m{number}", "sweep": 1, "objects": 2, "bytes": 20} for number in range(5)]
    facts = {"came_back": {"objects": 10, "bytes": 100}, "came_back_examples": ["data/a", "data/b", "data/c"]}
    found = evidence(expired_addresses=facts | {"taken_back": sweeps})
    told = verdict("deleted-is-gone", found)
    assert not told.passed and not told.stops and guards.authorized(guards.evaluate(found))
    assert "10 objects (100 bytes)" in told.description and "data/a, data/b." in told.description
    assert "sweep 1 of mark m2 (2) and 2 more" in told.description


@pytest.mark.parametrize(
    ("objects", "size", "passes"),
    [(100, 1000, True), (101, 1000, False), (100, 1001, False), (0, 0, True), (1000, 10_000, False)],
)
def test_one_sweep_takes_a_tenth_of_the_objects_and_of_the_bytes_at_most(objects: int, size: int, passes: bool) -> None:
    for level in (FULL, STANDARD):
        found = evidence(level, expired_addresses={"expired": {"objects": objects, "bytes": size}})
        assert verdict("blast-radius", found).passed is passes
        if not passes:
            assert "--accept blast-radius" in refused("blast-radius", found)
    assert verdict("blast-radius", evidence(NONE, expired_addresses={"expired": {"objects": 1000, "bytes": 1}})).passed


@pytest.mark.parametrize(("objects", "size", "passes"), [(700, 700, True), (701, 100, False), (100, 701, False)])
def test_what_is_left_of_accepted_garbage_needs_no_second_word_and_new_garbage_does(
    objects: int, size: int, passes: bool
) -> None:
    listed, accepted = {"objects": 1000, "bytes": 1000}, {"objects": 600, "bytes": 600}
    facts = {"listed": listed, "accepted": accepted, "expired": {"objects": objects, "bytes": size}}
    found = verdict("blast-radius", evidence(expired_addresses=facts))
    assert found.passed is passes and "600 objects are left" in found.description


@pytest.mark.parametrize(
    ("foreign", "passes"),
    [((0, 0), True), ((200, 0), True), ((201, 0), False), ((0, 2_000), True), ((0, 2_001), False)],
)
def test_what_no_sweep_can_take_makes_the_share_of_the_garbage_no_smaller(
    foreign: tuple[int, int], passes: bool
) -> None:
    objects, size = foreign
    facts = {"foreign": {"objects": objects, "bytes": size}}
    found = evidence(expired_addresses={**facts, "expired": {"objects": 80, "bytes": 800}})
    assert verdict("blast-radius", found).passed is passes
    if not passes:
        assert "10.0% of lakeFS's" in refused("blast-radius", found)


def test_a_drill_is_measured_by_the_most_that_it_takes_however_much_garbage_there_is() -> None:
    found = evidence(expired_addresses={"expired": {"objects": 900, "bytes": 9_000}})
    for most, passes in ((Amount(100, 1_000), True), (Amount(101, 10), False), (Amount(20, 1_001), False)):
        assert verdict("blast-radius", replace(found, at_most=most)).passed is passes
    few = evidence(expired_addresses={"expired": {"objects": 3, "bytes": 30}})
    assert verdict("blast-radius", replace(few, at_most=Amount(1_000, 1 << 30))).passed, "it takes no more"


DAY = 86_400


def nightly(night: Mapping[str, int], before: Mapping[str, int]) -> Mapping[str, Any]:
    """The facts of a mark that found garbage of this night, and of the night before, which is ready."""
    found = {name: night[name] + before[name] for name in ("objects", "bytes")}
    unconfirmed = [[START, night]] if night["objects"] else []
    since = START - DAY if before["objects"] else START
    return {"expired": found, "confirmed": before, "unconfirmed": unconfirmed, "first_since": since}


@pytest.mark.parametrize("share", [0.06, 0.1, 0.3, 0.9])
@pytest.mark.parametrize("days", [1, 7])
def test_a_job_that_rewrites_a_share_of_the_data_each_night_is_collected_each_night(share: float, days: int) -> None:
    """Garbage of two nights lies there, and a sweep takes that of one."""
    night = {"objects": int(1000 * share), "bytes": int(10_000 * share)}
    kept = 1 + days * share  # a rule of so many days keeps what the job replaced
    listed = {"objects": int(1000 * (kept + 2 * share)), "bytes": int(10_000 * (kept + 2 * share))}
    found = verdict("blast-radius", evidence(expired_addresses={"listed": listed, **nightly(night, night)}))
    assert found.passed is (share / (kept + 2 * share) <= 0.1)
    assert "must wait for the gap" in found.description or not found.passed


def test_an_accident_is_said_in_its_night_and_stopped_before_the_sweep_that_would_take_it() -> None:
    little, much = {"objects": 50, "bytes": 500}, {"objects": 600, "bytes": 10}
    tonight = evidence(expired_addresses=nightly(much, little))
    said = verdict("blast-radius", tonight)
    assert said.passed and "60.0% of the objects and 0.1% of the bytes must wait for the gap: more than" in (
        said.description
    )
    refused("blast-radius", replace(tonight, now=START + DAY))
    refused("blast-radius", evidence(expired_addresses=nightly(little, much)))
    first = evidence(expired_addresses=nightly(much, {"objects": 0, "bytes": 0}))
    refused("blast-radius", first)
    uncounted = {**nightly(much, little), "unconfirmed": None}
    refused("blast-radius", evidence(expired_addresses=uncounted))


@pytest.mark.parametrize(("told", "passes"), [(0.25, True), (0.2, True), (0.19, False), (0.005, False)])
def test_lakegc_yaml_says_how_much_one_sweep_may_take_and_the_guard_names_it(told: float, passes: bool) -> None:
    for objects, size in ((200, 0), (0, 2_000)):
        found = evidence(expired_addresses={"expired": {"objects": objects, "bytes": size}})
        said = verdict("blast-radius", replace(found, blast_radius=told))
        assert said.passed is passes and "`blast_radius` in lakegc.yaml" in said.description
        assert f"{100 * told:.3g}%" in said.description
        assert "(`blast_radius` in lakegc.yaml sets another limit)" in refused("blast-radius", found), "how to"


def test_an_empty_namespace_and_one_that_holds_nothing_of_lakefs_have_no_blast_radius() -> None:
    nothing = {"listed": {"objects": 0, "bytes": 0}, "expired": {"objects": 0, "bytes": 0}}
    assert verdict("blast-radius", evidence(expired_addresses=nothing)).passed
    foreign = {"foreign": {"objects": 1000, "bytes": 10_000}, "expired": {"objects": 0, "bytes": 0}}
    assert verdict("blast-radius", evidence(expired_addresses=foreign)).passed


@pytest.mark.parametrize(("level", "days"), [(FULL, 14), (STANDARD, 7)])
def test_a_mark_grows_too_old_to_be_swept(level: Level, days: int) -> None:
    assert verdict("mark-age", evidence(level, now=START + days * 86_400)).passed
    assert f"the limit is {days}" in refused("mark-age", evidence(level, now=START + days * 86_400 + 1))


def test_a_mark_of_the_future_has_no_age() -> None:
    assert verdict("mark-age", evidence(now=START - 3_600)).passed, "clocks may differ"
    assert "will begin in 26h" in refused("mark-age", evidence(now=START - 26 * 3_600))


@pytest.mark.parametrize("skew", [601.0, -601.0, 1e6])
def test_t31_clocks_that_differ_refuse_in_both_directions(skew: float) -> None:
    assert "Set the clocks right" in refused("clocks", evidence(namespace_listing={"clock_skew": skew}))


@pytest.mark.parametrize("skew", [601.0, -90_000.0])
def test_clocks_are_compared_again_at_the_sweep_whatever_they_said_at_the_mark(skew: float) -> None:
    found = evidence(namespace_listing={"clock_skew": -3.0})
    assert verdict("clocks", replace(found, skew_now=3.0)).passed
    assert f"differ by {skew:.0f} s" in refused("clocks", replace(found, skew_now=skew))


@pytest.mark.parametrize("skew", [601.0, -90_000.0])
def test_clocks_are_compared_again_when_a_mark_asks_for_its_commits(skew: float) -> None:
    found = evidence(namespace_listing={"clock_skew": -3.0}, retention_commits={"clock_skew": skew})
    assert f"differ by {skew:.0f} s" in refused("clocks", replace(found, skew_now=3.0))
    assert verdict("clocks", evidence(retention_commits={"clock_skew": None})).passed, "as in a look"


@pytest.mark.parametrize("skew", [0.0, 600.0, -600.0])
def test_clocks_may_differ_by_ten_minutes(skew: float) -> None:
    assert verdict("clocks", evidence(namespace_listing={"clock_skew": skew})).passed


def test_t24_another_repository_in_the_same_place_refuses_at_every_level() -> None:
    for level in (FULL, STANDARD, NONE):
        assert "twin, inner" in refused(
            "namespace", evidence(level, namespace_listing={"overlapping": ["twin", "inner"]})
        )
        named = {"nested": 1, "nested_file": "data/x/_lakefs/dummy"}
        told = refused("namespace", evidence(level, namespace_listing=named))
        assert "below data/ (data/x/_lakefs/dummy). " in told and "delete its `_lakefs/`" in told


def test_only_guards_that_may_be_accepted_are_silenced_by_a_reason() -> None:
    wrong = {
        "missing": 500,
        "violations": 1,
        "expired": {"objects": 900, "bytes": 9_000},
    }
    verdicts = guards.evaluate(evidence(expired_addresses=wrong), dict.fromkeys(BY_NAME, "it was meant so"))
    silenced = {each.name for each in verdicts if each.accepted_because}
    assert silenced == {"live-in-listing", "blast-radius"}
    assert [each.name for each in verdicts if each.stops] == ["candidates"]


def test_a_reason_for_one_guard_does_not_silence_another() -> None:
    wrong = {"missing": 500, "expired": {"objects": 900, "bytes": 9_000}}
    verdicts = guards.evaluate(evidence(expired_addresses=wrong), {"blast-radius": "dropped a table"})
    assert [each.name for each in verdicts if each.stops] == ["live-in-listing"]
    assert not guards.authorized(verdicts)
    assert not next(each for each in verdicts if each.name == "blast-radius").passed, "accepted is not passed"


def test_a_reason_for_a_guard_that_holds_is_not_recorded() -> None:
    verdicts = guards.evaluate(evidence(), {"blast-radius": "in case"})
    assert all(each.accepted_because is None for each in verdicts)


@pytest.mark.parametrize(
    ("backup", "said"),
    [
        (None, "has none"),
        (BackupFacts("s3://b/x", 69), "69 objects of 80; if the others are gone from the store, make a clean mark"),
        (BackupFacts("s3://b/x", 81), "81 objects of 80"),
        (BackupFacts("s3://b/x", 80, "it is gone"), "it is gone"),
    ],
)
def test_a_sweep_that_needs_a_backup_is_refused_without_a_whole_one(backup: BackupFacts | None, said: str) -> None:
    assert said in refused("backup", replace(evidence(), backup_required=True, backup=backup))


@pytest.mark.parametrize(("place", "end"), [(None, " DEST."), ("s3://b/x", ".")])
def test_the_advice_to_make_a_backup_names_no_place_where_lakegc_yaml_does(place: str | None, end: str) -> None:
    said = refused("backup", replace(evidence(), backup_required=True, backup_to=place))
    assert f"Make it: lakegc backup {evidence().header.repository} {evidence().header.mark_id}{end} See" in said


def test_a_backup_that_lacks_few_objects_is_enough_and_that_others_stay_is_said() -> None:
    few = guards.evaluate(replace(evidence(), backup_required=True, backup=BackupFacts("s3://b/x", 79)))
    (told,) = [each for each in few if each.name == "backup"]
    assert told.passed and told.description == "Others stay: 79 of 80 objects are backed up in s3://b/x."
    assert (may_lack(80), may_lack(100_000)) == (10, 1_000)


def test_a_whole_backup_is_enough_and_none_is_asked_for_by_default() -> None:
    whole = BackupFacts("s3://b/x", 80)
    assert guards.authorized(guards.evaluate(replace(evidence(), backup_required=True, backup=whole)))
    assert guards.authorized(guards.evaluate(evidence()))


@pytest.mark.parametrize(
    ("drill", "said"),
    [
        (None, "passed within 30d, and there was none. Drill: lakegc drill"),
        (DrillFacts("d1", -31 * 86_400.0), "and the last one is of"),
        (DrillFacts("d1", 3600.0), "and the last one is of"),  # by a clock that was wrong
        (DrillFacts("d1", -3600.0, "2 of 20 objects did not come back as they were"), "drill d1 did not: 2 of 20"),
        (DrillFacts("d1", -3600.0, lapsed="the store keeps nothing now"), "d1 shows nothing any more: the store keeps"),
        (
            DrillFacts("d1", -3600.0, by_backup=True),
            "Drill d1 brought objects back out of a backup, and this mark has none",
        ),
    ],
)
def test_a_sweep_that_needs_a_drill_is_refused_unless_the_last_one_passed_lately(
    drill: DrillFacts | None, said: str
) -> None:
    asked = replace(evidence(), drill_within=30 * 86_400.0)
    last = drill and replace(drill, at=asked.now + drill.at)
    assert said in refused("backup", replace(asked, drill=last))
    assert guards.authorized(guards.evaluate(replace(asked, drill=DrillFacts("d2", asked.now - 29 * 86_400.0))))
    both = replace(asked, backup_required=True, drill=DrillFacts("d2", asked.now))
    assert "has none" in refused("backup", both), "a drill is no backup"


def test_a_drill_out_of_a_backup_counts_for_a_mark_with_a_whole_one_alone() -> None:
    drill = DrillFacts("d1", evidence().now, by_backup=True)
    asked = replace(evidence(), drill_within=86_400.0, drill=drill)
    for few in (69, 79):  # a sweep leaves what a backup lacks only where lakegc.yaml asks for one
        lacking = BackupFacts("s3://b/x", few)
        assert f"it has {few} objects of 80" in refused("backup", replace(asked, backup=lacking))
    judged = guards.evaluate(replace(asked, backup=BackupFacts("s3://b/x", 80)))
    (told,) = (each for each in judged if each.name == "backup")
    assert told.passed and told.description.startswith("All 80 objects are backed up in s3://b/x. Drill d1 has shown")


def test_a_mark_without_garbage_needs_neither_a_backup_nor_a_drill() -> None:
    asked = evidence(expired_addresses={"expired": {"objects": 0, "bytes": 0}})
    assert guards.authorized(guards.evaluate(replace(asked, backup_required=True, drill_within=86_400.0)))


def test_a_mark_of_which_a_ring_took_live_data_is_not_swept_until_a_person_accepts_that() -> None:
    stopped = replace(evidence(), gone_in_rings={"m1": {"main/a": "data/1"}})
    assert "sweep of mark m1 was stopped, because a ring of it took live data: main/a (data/1)." in refused(
        "rings", stopped
    )
    assert guards.authorized(guards.evaluate(stopped, {"rings": "somebody else deleted it"}))
    assert not guards.authorized(guards.evaluate(stopped, {"reads": "in case"}))


def _known(told: Mapping[str, Any]) -> NeighbourFacts:
    return NeighbourFacts(**told)


NAMED = [["a", "no complete mark"], ["b", "last marked 9.0 days ago"]]
UNKNOWN = {"repositories": 15, "unknown": 12, "named": NAMED, "addresses": 0}


def test_neighbours_that_are_not_known_are_named_and_stop_nothing() -> None:
    found = evidence(expired_addresses={"neighbours": UNKNOWN | {"within": 2 * 86_400.0}})
    verdicts = guards.evaluate(found)
    assert guards.authorized(verdicts)
    [warning] = [each for each in verdicts if not each.passed]
    assert (warning.name, warning.severity) == ("neighbours", "WARN")
    for said in ("12 of the 15 other", "of the last 48h", "a (no complete mark)", "b (last marked", "and 10 more"):
        assert said in warning.description
    assert "(lakegc mark a, …)" in warning.description and "ignore: [a, b, …]" in warning.description
    all_named = evidence(expired_addresses={"neighbours": UNKNOWN | {"unknown": 2, "within": 2 * 86_400.0}})
    assert "ignore: [a, b]}" in verdict("neighbours", all_named).description


def test_neighbours_that_are_not_known_refuse_where_lakegc_yaml_is_strict_unless_accepted() -> None:
    found = replace(evidence(expired_addresses={"neighbours": UNKNOWN | {"within": 1.0}}), neighbours_strict=True)
    said = refused("neighbours", found)
    assert "its sweep asks anew" in said
    assert guards.authorized(guards.evaluate(found, {"neighbours": "they are archives"}))


@pytest.mark.parametrize("unknown", [0, 12])
def test_what_a_mark_knew_of_neighbours_is_told_as_such_because_its_sweep_asks_anew(unknown: int) -> None:
    found = evidence(expired_addresses={"neighbours": UNKNOWN | {"within": 1.0, "unknown": unknown}})
    assert "That was at the mark: its sweep asks anew." in verdict("neighbours", found).description
    asked = replace(found, neighbours=found.expired.neighbours)
    assert "asks anew" not in verdict("neighbours", asked).description


def test_a_neighbour_of_which_no_mark_reads_stops_a_sweep_unless_the_mark_noted_what_it_imported() -> None:
    """As after an upgrade that changes the form of marks."""
    unread = UNKNOWN | {"within": 1.0, "unread": ["a", "b"]}
    found = evidence(expired_addresses={"neighbours": unread})
    assert "2 of the 15 other" in refused("neighbours", found)
    assert guards.authorized(guards.evaluate(found, {"neighbours": "they import nothing"}))
    noted = evidence(expired_addresses={"neighbours": unread | {"known": ["a", "b"]}})
    assert guards.authorized(guards.evaluate(noted))
    now = _known(UNKNOWN | {"within": 1.0})
    assert guards.authorized(guards.evaluate(replace(found, neighbours=now))), "they were marked since"
    assert not guards.authorized(guards.evaluate(replace(evidence(), neighbours=_known(unread))))


def test_the_guard_over_neighbours_says_shortly_what_stops_the_sweep_and_the_way_out() -> None:
    few = UNKNOWN | {"within": 7 * 86_400.0, "unknown": 2, "repositories": 3}
    old = replace(evidence(expired_addresses={"neighbours": few}), neighbours_strict=True)
    unread = evidence(expired_addresses={"neighbours": few | {"unread": ["b"]}})
    both = replace(unread, neighbours_strict=True)
    for found, cause, other in (
        (old, "no complete mark", "after an upgrade"),
        (unread, "after an upgrade", "no complete mark"),
    ):
        said = refused("neighbours", found)
        assert cause in said and other not in said and "(lakegc mark " in said and len(said) <= 350, len(said)
    assert "1 of the 3 other" in refused("neighbours", unread) and "ignore: [b]}" in refused("neighbours", unread)
    assert "2 of the 3 other" in refused("neighbours", both), "where all must be known, all that are not stop it"


def test_what_a_sweep_asks_of_neighbours_counts_instead_of_what_the_mark_found() -> None:
    known = {"repositories": 15, "unknown": 0, "named": [], "within": 1.0, "addresses": 0}
    found = replace(evidence(expired_addresses={"neighbours": UNKNOWN | {"within": 1.0}}), neighbours=_known(known))
    assert verdict("neighbours", found).passed
    assert not verdict("neighbours", replace(evidence(), neighbours=_known(UNKNOWN | {"within": 1.0}))).passed
    alone = replace(found, neighbours=_known(known | {"repositories": 0}))
    assert verdict("neighbours", alone).description == "No other repository is on this lakeFS."


def test_neighbours_that_the_settings_ignore_are_counted_apart_from_those_that_were_marked() -> None:
    known = {"repositories": 15, "unknown": 0, "named": [], "within": 7 * 86_400.0, "addresses": 0}
    said = {
        ignored: verdict("neighbours", replace(evidence(), neighbours=_known(known | {"ignored": ignored}))).description
        for ignored in (0, 3, 15)
    }
    assert said[0] == "Each of the other 15 repositories of this lakeFS was marked within 7d."
    assert "the other 12 repositories" in said[3] and "besides 3 that neighbours.ignore names" in said[3]
    assert said[15].startswith("The other repositories of this lakeFS are 15 that neighbours.ignore names")


def test_a_trial_says_that_it_asks_no_neighbour_and_names_no_setting_that_the_user_has_not_made() -> None:
    known = {"repositories": 15, "unknown": 0, "named": [], "within": 1.0, "addresses": 0, "ignored": 15}
    found = verdict("neighbours", replace(evidence(), neighbours=_known(known), throw_away=True))
    assert found.passed and found.description.startswith("A trial asks no other repository")
    assert "neighbours.ignore" not in found.description


def test_a_path_whose_data_is_gone_stops_a_sweep_however_few_they_are() -> None:
    found = replace(evidence(), sampled=50, unreadable={"main/a": 410, "main/b": 403})
    assert "The data of 1 of 50 paths on branch heads is gone: main/a (410)" in refused("reads", found)


def test_a_path_that_lakefs_will_not_read_for_another_reason_stops_nothing_as_long_as_most_read() -> None:
    odd = {f"main/{number}": 403 for number in range(5)}
    found = verdict("reads", replace(evidence(), sampled=10, unreadable=odd))
    assert found.passed and "5 random paths on branch heads read; of 5 that cannot be told: main/0 (403)" in (
        found.description
    )
    assert "cannot be told" in refused("reads", replace(evidence(), sampled=9, unreadable=odd))
    assert "cannot be told" in refused("reads", replace(evidence(), sampled=1, unreadable={"main/0": 500}))


def test_a_guard_that_stops_because_much_would_go_says_where_it_comes_from() -> None:
    gone = {"cause": "deleted", "branch": "exp-7", "gone": 1_762_128_000, "objects": 150, "bytes": 2700}
    origins = {"causes": [gone], "folders": [], "found": {"objects": 150, "bytes": 2700}, "unread": 0}
    facts = {"expired": {"objects": 200, "bytes": 3000}, "origins": origins}
    text = refused("blast-radius", evidence(expired_addresses=facts))
    assert "Of the bytes, 90% were left by branch exp-7, which was gone on 3 November 2025, 10% were never" in text
    assert "--accept blast-radius" in text


def test_a_guard_that_speaks_of_lakegc_yaml_says_if_none_was_read() -> None:
    said = {each.name: each.description for each in guards.evaluate(replace(evidence(), settings_read=False))}
    assert said["backup"] == "lakegc.yaml does not ask for a backup before a sweep. No lakegc.yaml was read."
    assert said["holds"] == "lakegc.yaml names no holds. No lakegc.yaml was read."
    assert "lakegc.yaml" not in said["order"]
    too_much = evidence(expired_addresses={"expired": {"objects": 800, "bytes": 8000}})
    verdict = BY_NAME["blast-radius"].evaluate(replace(too_much, settings_read=False))
    assert not verdict.passed and " No lakegc.yaml was read. See docs/runbook.md#blast-radius" in verdict.description
    assert not any(
        "was read." in each.description for each in guards.evaluate(evidence()) if each.name != "completeness"
    )
