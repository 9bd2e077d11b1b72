"""What follows from how a store keeps objects: on a real S3 server, and for answers that no server here gives."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakegc_core.doctor.finding import Finding, Level
from lakegc_core.doctor.store_settings import examine_settings
from lakegc_core.marks.artifacts import HOME
from lakegc_core.store.s3.store import S3Store
from lakegc_core.store.settings import Effect, LifecycleRule, StoreSettings, Untold, Uploads
from tests.core.doctor.conftest import Patient, worst

NOW = datetime(2026, 11, 21, tzinfo=UTC)
PLAIN = StoreSettings(False, timedelta(0), "", "", (), Uploads(0, None))
VERSIONS_LOCKED = replace(PLAIN, lock="object lock is on")
OBJECTS_LOCKED = replace(PLAIN, lock="a retention policy of 1 days", lock_stops_writes=True)
UNTOLD = Untold("the key may not ask", "the:Right")


def examined(told: StoreSettings, metadata: str = "_lakefs", **more: Any) -> list[Finding]:
    return examine_settings(told, metadata=metadata, now=NOW, **more)


def findings(told: StoreSettings) -> list[Finding]:
    return examined(told)


def told(**more: Any) -> list[tuple[str, Level]]:
    return [(each.name, each.level) for each in findings(replace(PLAIN, **more))]


def rule(effect: Effect, prefix: str, *, narrowed: bool = False) -> LifecycleRule:
    return LifecycleRule("r", effect, prefix, "after 3 days", narrowed)


def test_a_plain_store_has_no_findings() -> None:
    assert told() == []


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("versioning", "versioning"),
        ("soft_delete", "soft-delete"),
        ("lock", "lock"),
        ("encryption", "encryption"),
        ("lifecycle", "lifecycle"),
        ("uploads", "open-uploads"),
    ],
)
def test_what_cannot_be_told_is_a_note_that_names_the_right_and_never_reads_as_fine(setting: str, name: str) -> None:
    (found,) = findings(replace(PLAIN, **{setting: UNTOLD}))
    assert (found.name, found.level) == (name, Level.NOTE)
    assert "cannot be told: the key may not ask (needs the:Right)" in found.what and "the:Right" in found.do


@pytest.mark.parametrize(
    "prefix", ["", "d", "data/", "data/x/", "_lakefs/", "_lakefs/retention/gc/rules/", "_lakefs/re"]
)
def test_a_rule_that_expires_what_lakefs_needs_is_an_alarm(prefix: str) -> None:
    assert told(lifecycle=(rule(Effect.EXPIRES, prefix),)) == [("lifecycle-expires-data", Level.ALARM)]
    assert told(lifecycle=(rule(Effect.EXPIRES, prefix, narrowed=True),)) == [("lifecycle-expires-data", Level.ALARM)]


def test_a_rule_that_expires_metadata_where_the_server_keeps_it_is_an_alarm() -> None:
    (found,) = examined(replace(PLAIN, lifecycle=(rule(Effect.EXPIRES, "meta/x/"),)), metadata="meta/x")
    assert found.level is Level.ALARM


@pytest.mark.parametrize("end", ["/", ""])
def test_rules_on_other_things_are_told_apart_with_and_without_a_slash_at_the_end(end: str) -> None:
    assert told(lifecycle=(rule(Effect.EXPIRES, f"{HOME}{end}"),)) == [("lifecycle-expires-marks", Level.WARNING)]
    assert told(lifecycle=(rule(Effect.EXPIRES, f"exports{end}"),)) == [("lifecycle-expires-foreign", Level.NOTE)]
    assert told(lifecycle=(rule(Effect.EXPIRES, f"_lakefs/retention/gc/commits{end}"),)) == []


@pytest.mark.parametrize("end", ["/", ""])
def test_a_rule_on_what_answers_leave_over_is_no_finding_as_the_documents_advise_it(end: str) -> None:
    assert told(lifecycle=(rule(Effect.EXPIRES, f"{HOME}/answers{end}"),)) == []
    for folder, names in (("answers", []), ("marks", ["lifecycle-expires-marks"])):
        workspace = replace(PLAIN, lifecycle=(rule(Effect.EXPIRES, f"lake/lakegc/{folder}{end}"),))
        assert [each.name for each in examined(PLAIN, workspace=workspace, home="lake/lakegc")] == names


def test_what_rules_do_to_other_objects_is_told_apart() -> None:
    assert told(lifecycle=(rule(Effect.ARCHIVES, "data/"),)) == [("lifecycle-archives", Level.WARNING)]
    assert told(lifecycle=(rule(Effect.ARCHIVES, "exports/"),)) == []
    assert told(lifecycle=(rule(Effect.MOVES, ""),)) == [("lifecycle-moves", Level.NOTE)]
    assert told(lifecycle=(rule(Effect.ENDS_UPLOADS, ""), rule(Effect.OLD_VERSIONS, "data/"))) == []


def test_old_versions_are_a_warning_unless_a_rule_deletes_them() -> None:
    ends = rule(Effect.OLD_VERSIONS, "")
    assert told(versioning=True) == [("versioning", Level.WARNING)]
    assert told(versioning=True, lifecycle=(ends,)) == [("versioning", Level.NOTE)]
    assert told(versioning=True, lifecycle=(rule(Effect.OLD_VERSIONS, "data/x/"),)) == [("versioning", Level.WARNING)]
    narrowed = rule(Effect.OLD_VERSIONS, "", narrowed=True)
    assert told(versioning=True, lifecycle=(narrowed,)) == [("versioning", Level.WARNING)]
    assert told(versioning=True, lifecycle=(narrowed, ends)) == [("versioning", Level.NOTE)], "one of them is enough"
    assert ("versioning", Level.NOTE) in told(versioning=True, lifecycle=UNTOLD)


def test_soft_delete_locks_and_keys_are_told() -> None:
    (soft,) = findings(replace(PLAIN, soft_delete=timedelta(days=7)))
    assert soft.level is Level.NOTE and "7 days" in soft.what
    (versions, leases) = findings(VERSIONS_LOCKED)
    (objects, own) = findings(OBJECTS_LOCKED)
    assert "stay as old versions" in versions.why and "neither deleted nor written over" in objects.why
    assert "stays as an old version" in leases.why and "marks and sweeps fail" in own.why
    assert {versions.level, objects.level, own.level} == {Level.WARNING} and leases.level is Level.NOTE
    assert "`workspace:` in lakegc.yaml" in leases.do and leases.do == own.do
    (key,) = findings(replace(PLAIN, encryption="aws:kms"))
    assert key.level is Level.NOTE and "kms:Decrypt" in key.do


@pytest.mark.parametrize("locked", [VERSIONS_LOCKED, OBJECTS_LOCKED])
def test_a_lock_on_data_alone_says_nothing_of_lakegcs_own_files_and_one_on_the_workspace_nothing_of_data(
    locked: StoreSettings,
) -> None:
    def found(data: StoreSettings, workspace: StoreSettings) -> list[Finding]:
        return examined(data, workspace=workspace)

    (data,), (own,) = found(locked, PLAIN), found(PLAIN, locked)
    assert data.name == "lock" and "lease" not in data.why and "workspace" not in data.do
    assert own.name == "lock-workspace" and "lease" in own.why and "sweep goes on" not in own.do
    assert [each.name for each in found(locked, locked)] == ["lock", "lock-workspace"]
    (untold,) = found(PLAIN, replace(PLAIN, lock=UNTOLD))
    assert (untold.name, untold.level) == ("lock-workspace", Level.NOTE)


def test_soft_delete_is_no_way_back_in_an_account_with_a_hierarchical_namespace() -> None:
    kept = replace(PLAIN, soft_delete=timedelta(days=7))
    (no,) = findings(replace(kept, undeletes=False))
    assert no.level is Level.WARNING and "brings nothing back" in no.why and "quarantine: 7d" in no.do
    assert "lakegc restore" not in f"{no.why} {no.do}"
    for copies in ({"quarantine": timedelta(days=7)}, {"backed_up": True}):
        every = examined(replace(kept, undeletes=False), **copies)
        assert [each.level for each in every] == [Level.NOTE] * len(every) and "brings nothing back" in every[0].why
        assert not any("`quarantine" in each.do for each in every), "neither set it nor leave it out"
    (perhaps,) = findings(replace(kept, undeletes=None))
    assert perhaps.level is Level.NOTE and "does not tell whether" in perhaps.why and "lakegc drill" in perhaps.do


def test_uploads_that_were_left_open_are_a_warning_unless_a_rule_ends_them() -> None:
    old, new = Uploads(3, NOW - timedelta(days=8)), Uploads(3, NOW - timedelta(days=6))
    (found,) = findings(replace(PLAIN, uploads=old))
    assert found.level is Level.WARNING and "3 uploads" in found.what and "8 days" in found.what
    assert told(uploads=new) == told(uploads=None) == []
    assert told(uploads=old, lifecycle=(rule(Effect.ENDS_UPLOADS, ""),)) == []
    assert told(uploads=old, lifecycle=(rule(Effect.ENDS_UPLOADS, "data/"),)) == [], "lakeFS uploads nothing elsewhere"
    assert told(uploads=old, lifecycle=(rule(Effect.ENDS_UPLOADS, "exports/"),)) == [("open-uploads", Level.WARNING)]
    (many,) = findings(replace(PLAIN, uploads=replace(old, whole=False)))
    assert many.what.startswith("More than 3")


def test_a_rule_that_expires_marks_in_a_workspace_elsewhere_is_a_warning_and_one_on_others_is_none() -> None:
    def found(prefix: str, effect: Effect = Effect.EXPIRES) -> list[str]:
        there = replace(PLAIN, lifecycle=(rule(effect, prefix),))
        every = examined(PLAIN, workspace=there, home="ops/lake")
        return [f"{each.name}: {each.what}" for each in every]

    for prefix in ("", "ops/", "ops/lake", "ops/lake/", "ops/lake/marks/"):
        (said,) = found(prefix)
        assert said.startswith("lifecycle-expires-marks: Lifecycle rule r deletes objects below "), prefix
    assert "below the whole workspace after 3 days" in found("")[0]
    assert found("ops/lakes") == found("data/") == found("", Effect.MOVES) == []


def test_a_workspace_elsewhere_that_does_not_tell_its_rules_is_a_note() -> None:
    there = replace(PLAIN, lifecycle=UNTOLD)
    (found,) = examined(PLAIN, workspace=there, home="lake")
    assert found.level is Level.NOTE and "delete marks in the workspace cannot be told" in found.what


# --- on a real server ---


def test_a_rule_on_a_real_bucket_that_expires_data_is_an_alarm(on_bucket: Patient) -> None:
    assert on_bucket.s3 is not None and on_bucket.store is not None
    client, where = on_bucket.s3.client(), {"Bucket": on_bucket.store.bucket}
    expiring = {"ID": "tidy", "Status": "Enabled", "Filter": {"Prefix": "ns/data/"}, "Expiration": {"Days": 30}}
    client.put_bucket_lifecycle_configuration(**where, LifecycleConfiguration={"Rules": [expiring]})
    found = on_bucket.examine()
    (finding,) = worst(found)
    assert finding.level is Level.ALARM and found.is_alarming
    assert finding.what == "Lifecycle rule tidy deletes objects below data/ after 30 days."
    elsewhere = expiring | {"Filter": {"Prefix": "logs/"}}
    client.put_bucket_lifecycle_configuration(**where, LifecycleConfiguration={"Rules": [elsewhere]})
    assert worst(on_bucket.examine()) == []


def test_a_real_versioned_bucket_is_a_warning_until_a_rule_deletes_old_versions(on_bucket: Patient) -> None:
    assert on_bucket.s3 is not None and on_bucket.store is not None
    client, where = on_bucket.s3.client(), {"Bucket": on_bucket.store.bucket}
    client.put_bucket_versioning(**where, VersioningConfiguration={"Status": "Enabled"})
    assert on_bucket.finding("versioning").level is Level.WARNING
    ends = {
        "ID": "old",
        "Status": "Enabled",
        "Filter": {"Prefix": "ns/"},
        "NoncurrentVersionExpiration": {"NoncurrentDays": 30},
    }
    client.put_bucket_lifecycle_configuration(**where, LifecycleConfiguration={"Rules": [ends]})
    assert "after 30 days" in on_bucket.finding("versioning").what


def test_a_real_versioned_bucket_as_workspace_keeps_copies_beyond_the_quarantine(on_bucket: Patient) -> None:
    assert on_bucket.s3 is not None and on_bucket.store is not None
    client, where = on_bucket.s3.client(), {"Bucket": f"{on_bucket.store.bucket}-marks"}
    client.create_bucket(**where)
    client.put_bucket_versioning(**where, VersioningConfiguration={"Status": "Enabled"})
    patient = on_bucket.policy(workspace=f"s3://{where['Bucket']}/own", quarantine=timedelta(days=7))
    assert "copies take space there after that" in patient.finding("quarantine").why


def test_a_rule_on_the_real_bucket_of_a_workspace_is_looked_at_without_a_quarantine_too(on_bucket: Patient) -> None:
    assert on_bucket.s3 is not None and on_bucket.store is not None
    client, where = on_bucket.s3.client(), {"Bucket": on_bucket.store.bucket}
    patient = on_bucket.policy(workspace=f"s3://{where['Bucket']}/own")
    assert worst(patient.examine()) == []
    tidy = {"ID": "tidy", "Status": "Enabled", "Filter": {"Prefix": "own"}, "Expiration": {"Days": 30}}
    client.put_bucket_lifecycle_configuration(**where, LifecycleConfiguration={"Rules": [tidy]})
    found = patient.finding("lifecycle-expires-marks")
    assert found.what == "Lifecycle rule tidy deletes objects below the whole workspace after 30 days."


def test_uploads_that_stay_open_on_a_real_bucket_are_counted(
    on_bucket: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert on_bucket.s3 is not None and on_bucket.store is not None
    on_bucket.s3.client().create_multipart_upload(Bucket=on_bucket.store.bucket, Key="ns/data/x")
    assert worst(on_bucket.examine()) == [], "an upload of today may be under way"
    real = S3Store.settings

    def later(store: S3Store) -> StoreSettings:
        found = real(store)
        assert isinstance(found.uploads, Uploads) and found.uploads.oldest is not None
        return replace(found, uploads=replace(found.uploads, oldest=found.uploads.oldest - timedelta(days=10)))

    monkeypatch.setattr(S3Store, "settings", later)
    assert on_bucket.finding("open-uploads").what.startswith("1 uploads")


def test_a_quarantine_is_named_and_where_the_store_keeps_all_it_is_one_too_many() -> None:
    def found(workspace: StoreSettings | None = None, **more: Any) -> list[str]:
        told, week = replace(PLAIN, **more), timedelta(days=7)
        every = examined(told, quarantine=week, workspace=workspace)
        return [f"{each.what} {each.why} {each.do}" for each in every if each.name == "quarantine"]

    (alone,), (twice,) = found(), found(soft_delete=timedelta(days=7))
    assert "keeps the copies for 7d" in alone and "lakegc retire" in alone
    assert "Leave `quarantine` out" in twice
    assert found(versioning=True, soft_delete=timedelta(days=7), undeletes=False) == [twice]
    for undeletes in (False, None):
        (only,) = found(soft_delete=timedelta(days=7), undeletes=undeletes)
        assert "takes space twice" in only and "Leave `quarantine` out" not in only, "it may be the only way back"
    (elsewhere,) = found(replace(PLAIN, versioning=True))
    assert (
        "keeps the copies for 7d" in elsewhere and "lifecycle rule deletes old versions in the workspace" in elsewhere
    )
    assert found(PLAIN) == [alone]
