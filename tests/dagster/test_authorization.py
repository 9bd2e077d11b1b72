"""The sweep authorises itself. Holds what lakegc relies on in Dagster, private parts included."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from lakegc_core.policy.guards import GUARDS
from lakegc_dagster.authorization import authorize_sweep, refusals
from lakegc_dagster.checks import check_key
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.metadata.entries import STOPS, digest_shown
from lakegc_dagster.partitions import GC_PARTITIONS, GcCell

pytestmark = pytest.mark.filterwarnings("ignore::dagster.PreviewWarning")

OPTIONS = LakegcConfig()
BLAST_RADIUS = "blast-radius: what blast-radius found"
CELL, OTHER = GcCell("analytics", "m1"), GcCell("analytics", "m2")


class Recorded:
    """Dagster's records of one cell's mark, made by runs of a stand-in for expired_addresses and its checks."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        self.digest = "d1"  # of the mark in the store
        self.failing: dict[str, dg.AssetCheckSeverity] = {}
        self.stopping: dict[str, bool] = {}

    def mark(self, cell: GcCell, digest: str = "d1", *, without: set[str] | None = None, checks: bool = True) -> None:
        cell.register(self.instance)
        definitions: list[Any] = [_expired(digest)]
        if checks:
            guards = [guard for guard in GUARDS if guard.name not in (without or set())]
            definitions.append(_checks(guards, self.failing, self.stopping))
        dg.materialize(definitions, partition_key=cell.key, instance=self.instance, raise_on_error=False)

    def reasons(self, cell: GcCell = CELL, **accepted: str) -> list[str]:
        mark: Any = SimpleNamespace(mark=SimpleNamespace(require=lambda stage: SimpleNamespace(digest=self.digest)))
        names = {name.replace("_", "-"): reason for name, reason in accepted.items()}
        found = refusals(self.instance, OPTIONS, cell, mark, names)
        if found:
            with pytest.raises(dg.Failure) as failure:
                authorize_sweep(self.instance, OPTIONS, cell, mark, names)
            assert failure.value.allow_retries is False
            assert all(reason in str(failure.value.metadata["refusals"].value) for reason in found)
        else:
            authorize_sweep(self.instance, OPTIONS, cell, mark, names)
        return found


@pytest.fixture
def recorded(instance: dg.DagsterInstance) -> Iterator[Recorded]:
    yield Recorded(instance)


def _expired(digest: str) -> dg.AssetsDefinition:
    @dg.asset(name="expired_addresses", partitions_def=GC_PARTITIONS)
    def expired() -> dg.MaterializeResult[None]:
        return dg.MaterializeResult(metadata={"digest": digest})

    return expired


def _checks(
    guards: list[Any], failing: dict[str, dg.AssetCheckSeverity], stopping: dict[str, bool]
) -> dg.AssetChecksDefinition:
    keys = {guard.name: check_key(OPTIONS, guard) for guard in guards}
    specs = [
        dg.AssetCheckSpec(key.name, asset=key.asset_key, blocking=True, partitions_def=GC_PARTITIONS)
        for key in keys.values()
    ]

    @dg.multi_asset_check(specs=specs)
    def checks() -> Iterator[dg.AssetCheckResult]:
        for name, key in keys.items():
            yield dg.AssetCheckResult(
                passed=name not in failing,
                check_name=key.name,
                severity=failing.get(name, dg.AssetCheckSeverity.ERROR),
                description=f"what {name} found",
                metadata={STOPS: stopping[name]} if name in stopping else {},
            )

    return checks


def test_a_checked_mark_may_be_swept(recorded: Recorded) -> None:
    recorded.mark(CELL)
    assert recorded.reasons() == []


def test_a_cell_that_was_never_materialised_may_not(recorded: Recorded) -> None:
    recorded.mark(OTHER)
    assert "never materialised" in recorded.reasons()[0]


def test_a_mark_that_was_never_checked_may_not(recorded: Recorded) -> None:
    recorded.mark(CELL, checks=False)
    assert len(recorded.reasons()) == len(GUARDS)
    assert "order: was never checked" in recorded.reasons()[0]


def test_one_guard_that_was_left_out_is_enough_to_refuse(recorded: Recorded) -> None:
    recorded.mark(CELL, without={"namespace"})
    assert recorded.reasons() == [reason for reason in recorded.reasons() if reason.startswith("namespace: was never")]
    assert len(recorded.reasons()) == 1


def test_checks_of_an_older_materialisation_do_not_count(recorded: Recorded) -> None:
    recorded.mark(CELL)
    recorded.mark(CELL, checks=False)
    assert "checked on an older" in recorded.reasons()[0]


def test_checks_of_another_partition_do_not_count(recorded: Recorded) -> None:
    recorded.mark(CELL, checks=False)
    recorded.mark(OTHER)
    assert len(recorded.reasons()) == len(GUARDS)
    assert recorded.reasons(OTHER) == []


def test_a_failed_check_of_another_partition_does_not_stop_this_one(recorded: Recorded) -> None:
    recorded.mark(CELL)
    recorded.failing = {"blast-radius": dg.AssetCheckSeverity.ERROR}
    recorded.mark(OTHER)
    assert recorded.reasons() == []
    assert recorded.reasons(OTHER) == [BLAST_RADIUS]


def test_a_failed_guard_stops_a_warning_does_not_and_an_accepted_one_does_not(recorded: Recorded) -> None:
    recorded.failing = {"blast-radius": dg.AssetCheckSeverity.ERROR, "clocks": dg.AssetCheckSeverity.WARN}
    recorded.mark(CELL)
    assert recorded.reasons() == [BLAST_RADIUS]
    assert recorded.reasons(blast_radius="it was meant") == []


def test_a_guard_that_only_warns_in_dagster_stops_the_sweep_until_it_is_accepted(recorded: Recorded) -> None:
    recorded.failing = {"blast-radius": dg.AssetCheckSeverity.WARN, "neighbours": dg.AssetCheckSeverity.WARN}
    recorded.stopping = {"blast-radius": True, "neighbours": False}
    recorded.mark(CELL)
    assert recorded.reasons() == [BLAST_RADIUS]
    assert recorded.reasons(blast_radius="it was meant") == []


def test_a_backup_that_was_missing_at_the_mark_may_be_made_by_hand_before_the_sweep(recorded: Recorded) -> None:
    recorded.failing, recorded.stopping = {"backup": dg.AssetCheckSeverity.WARN}, {"backup": True}
    recorded.mark(CELL)
    assert recorded.reasons() == [], "core asks for it again"
    recorded.mark(OTHER, without={"backup"})
    assert [reason.partition(":")[0] for reason in recorded.reasons(OTHER)] == ["backup"], "it was never checked"


def test_a_mark_that_the_guard_over_neighbours_stopped_is_judged_by_core_alone(recorded: Recorded) -> None:
    recorded.failing, recorded.stopping = {"neighbours": dg.AssetCheckSeverity.WARN}, {"neighbours": True}
    recorded.mark(CELL)
    assert recorded.reasons() == []
    recorded.mark(OTHER, without={"neighbours"})
    assert [reason.partition(":")[0] for reason in recorded.reasons(OTHER)] == ["neighbours"], "it was never checked"


def test_a_dry_run_goes_past_guards_that_a_person_may_accept_and_past_nothing_else(recorded: Recorded) -> None:
    def dry() -> dict[str, str]:
        mark: Any = SimpleNamespace(mark=SimpleNamespace(require=lambda stage: SimpleNamespace(digest=recorded.digest)))
        return authorize_sweep(recorded.instance, OPTIONS, CELL, mark, {}, dry_run=True)

    recorded.failing = {"blast-radius": dg.AssetCheckSeverity.WARN}
    recorded.stopping = {"blast-radius": True}
    recorded.mark(CELL)
    assert dry() == {"blast-radius": "what blast-radius found"} and recorded.reasons() == [BLAST_RADIUS]
    recorded.digest = "d2"
    with pytest.raises(dg.Failure, match="its digest differs"):
        dry()
    recorded.digest, recorded.failing = "d1", {"completeness": dg.AssetCheckSeverity.ERROR}
    recorded.mark(CELL)
    with pytest.raises(dg.Failure, match="completeness: "):
        dry()


def test_a_mark_that_is_not_the_one_looked_at_may_not_be_swept(recorded: Recorded) -> None:
    recorded.mark(CELL)
    recorded.digest = "d2"
    assert "its digest differs" in recorded.reasons()[0]


def test_a_digest_is_the_same_in_one_piece_and_in_the_groups_that_fit_the_ui(recorded: Recorded) -> None:
    digest = "0123456789abcdef" * 4
    for shown in (digest, digest_shown(digest)):
        recorded.mark(CELL, digest=shown)
        recorded.digest = digest
        assert recorded.reasons() == []
        recorded.digest = digest.replace("f", "e")
        assert "its digest differs" in recorded.reasons()[0]
    assert max(map(len, digest_shown(digest).split())) == 8


def test_a_materialisation_reported_by_hand_authorises_nothing(recorded: Recorded) -> None:
    recorded.mark(CELL)
    by_hand = dg.AssetMaterialization("expired_addresses", partition=str(CELL.key))
    recorded.instance.report_runless_asset_event(by_hand)
    assert any("older" in reason for reason in recorded.reasons())
    assert any("names no digest" in reason for reason in recorded.reasons())


def test_a_check_reported_by_hand_authorises_nothing(recorded: Recorded) -> None:
    recorded.mark(CELL, checks=False)
    for guard in GUARDS:
        key = check_key(OPTIONS, guard)
        recorded.instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(key.asset_key, key.name, passed=True, metadata={}, partition=str(CELL.key))
        )
    assert [reason for reason in recorded.reasons() if "was checked on no expired_addresses at all" not in reason] == []
    assert len(recorded.reasons()) == len(GUARDS)
