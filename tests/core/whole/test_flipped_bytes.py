"""Every byte of what a mark leaves, flipped one at a time: the sweep refuses, or it reads the same as before.

A whole sweep for every byte would take a day. So it is shown first that a sweep reads a mark's artifacts, and its own
journal, through few functions alone; then every byte is flipped under these; then some under whole sweeps.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core.errors import LakegcError, MarkError
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import STAGES
from lakegc_core.references.commits import rules_memory
from lakegc_core.stages import swept_report
from lakegc_core.store.base import connect
from lakegc_core.store.local import LocalConfig
from lakegc_core.sweep.near import noted
from lakegc_core.sweep.record import SweepRecord
from lakegc_core.tables.parts import Part, list_parts, read_part
from tests.support import crash_lake
from tests.support.crash_lake import ARTIFACTS, MARK, Lake, dies
from tests.support.crashing import AFTER
from tests.support.watching import FlippedConfig, FlippedStore, WatchedConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = f"{ARTIFACTS}/marks/{MARK}"
CHECKED = {"artifacts._read", "json_files.read_sealed", "parts.read_part", "record._plan", "rules_memory._read"}
"""The functions that compare what they read with a digest."""
FOR_PEOPLE = {"backups.place_on_record"}
"""Who leads to a backup after the last delete, for the screen; the manifest there is compared with the mark."""

LEASE = f"{ARTIFACTS}/lease.json"  # no artifact of the mark
NO_REPORT = f"{FOLDER}/sweeps/1/report.json"  # is asked for while it is not there yet


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake, kept with its mark (`marked`) and with a sweep that broke off half-way (`half`)."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("LAKEGC_UNSAFE", "yes")
        environment.setattr("lakegc_core.sweep.planning._ROWS_A_PART", 4)
        with crash_lake.lake(spark, tmp_path_factory.mktemp("flips")) as found:
            found.mark()
            found.keep("marked")
            script = found.script("sweep/outcomes/part", moment=AFTER)
            assert dies(found.sweep, script)
            (found.root / ARTIFACTS / "lease.json").unlink()  # who died in this process runs on
            found.keep("half")
            yield found


@pytest.fixture(scope="module")
def reads(lake: Lake) -> dict[str, set[tuple[str, str]]]:
    """What a whole sweep reads of lakegc's own files in either state: keys, and the functions that asked."""
    found = {}
    for state in ("marked", "half"):
        lake.bring_back(state)
        right, watched = lake.garbage(), WatchedConfig(str(lake.root), str(lake.folder / f"reads-{state}"))
        swept_report(lake.spark, reading(lake, watched))
        assert right.isdisjoint(lake.stored())
        asked = {(key, asker) for key, asker in watched.reads() if key.startswith(ARTIFACTS) and key != LEASE}
        found[state] = asked - {(NO_REPORT, "sweeps.report_of")}
    return found


def artifacts(lake: Lake) -> list[str]:
    """All files of the mark and of its sweep, and the rules on record; by key."""
    found = [*(lake.root / FOLDER).rglob("*"), *(lake.root / ARTIFACTS / "rules").rglob("*")]
    return sorted(str(file.relative_to(lake.root)) for file in found if file.is_file() and ".lakegc-" not in file.name)


def reading(lake: Lake, config: Any) -> MarkContext:
    """The mark, whose artifacts are read through this store."""
    return replace(lake.begin(), workspace=config)


@pytest.mark.parametrize("state", ["marked", "half"])
def test_a_sweep_reads_artifacts_through_functions_that_check_them(lake: Lake, reads: Any, state: str) -> None:
    lake.bring_back(state)
    assert {asker for _, asker in reads[state]} <= CHECKED | FOR_PEOPLE
    of_the_mark = {key for key, _ in reads[state]} & set(artifacts(lake))
    assert of_the_mark <= set(readers(lake)), "every file that a sweep reads is flipped below"
    assert {f"{FOLDER}/{stage}/manifest.json" for stage in STAGES} < of_the_mark


def readers(lake: Lake) -> dict[str, Callable[[MarkContext], Any]]:
    """By key, how a sweep reads an artifact, up to what it believes."""
    found: dict[str, Callable[[MarkContext], Any]] = {f"{FOLDER}/mark.json": lambda context: context.mark.header()}
    mark = lake.begin().mark
    for stage in STAGES:
        found[f"{FOLDER}/{stage}/manifest.json"] = lambda context, stage=stage: context.mark.manifest(stage)
        for dataset, parts in mark.require(stage).datasets.items():
            for part in parts:
                found |= part_reader(mark.stage_folder(stage, dataset), part)
    if lake.artifact("sweeps/1/plan.json").exists():
        found[f"{FOLDER}/sweeps/1/plan.json"] = lambda context: SweepRecord(lake.spark, context, dry_run=False).plan()
        plan = SweepRecord(lake.spark, lake.begin(), dry_run=False).plan()
        for part in plan["parts"]:
            found |= part_reader(plan["folder"], Part.from_json(part))
        for part in list_parts(LocalConfig(str(lake.root)), f"{FOLDER}/sweeps/1/outcomes"):
            found |= part_reader(f"{FOLDER}/sweeps/1/outcomes", part)
    if lake.artifact("sweeps/1/near.json").exists():
        found[f"{FOLDER}/sweeps/1/near.json"] = lambda context: noted(context, f"{FOLDER}/sweeps/1")
    for file in (lake.root / ARTIFACTS / "rules").glob("*.json"):
        found[f"{ARTIFACTS}/rules/{file.name}"] = rules_remembered
    return found


def rules_remembered(context: MarkContext) -> Any:
    """The rules on record. One that cannot be read is no error to a mark: it keeps more instead."""
    found = rules_memory._read(context, time.time())
    if any(each.rules is None for each in found):
        raise MarkError("a record cannot be read")
    return found


def part_reader(folder: str, part: Part) -> dict[str, Callable[[MarkContext], Any]]:
    return {f"{folder}/{part.name}": lambda context: list(read_part(context.workspace, folder, part))}


@pytest.mark.slow
def test_a_flip_of_any_byte_is_noticed_or_changes_nothing(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.bring_back("half")
    context = reading(lake, FlippedConfig(str(lake.root)))
    store = connect(context.workspace)
    assert isinstance(store, FlippedStore)
    flips = same = 0
    for key, read in readers(lake).items():
        whole, store.key = read(context), ""
        data = (lake.root / key).read_bytes()
        assert whole and data
        masks = (0x01, 0x20) if key.endswith(".json") else (0x01,)  # 0x20: the case of a letter
        for at in range(len(data)):
            for mask in masks:
                store.key, store.data = key, data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]
                flips += 1
                try:
                    found = read(context)
                except LakegcError:
                    continue
                assert found == whole, f"{key}: byte {at}, {bytes([data[at]])!r}, is another one and reads well"
                same += 1
        store.key = ""
    with capsys.disabled():
        print(f"\nflipped bytes: {flips:,} flips in {len(readers(lake))} files, {flips - same:,} noticed, {same} alike")
    assert flips > 10_000 and same < flips / 100


@pytest.mark.parametrize("state", ["marked", "half"])
def test_a_flip_under_a_whole_sweep_stops_it_before_it_deletes_anything(lake: Lake, reads: Any, state: str) -> None:
    """One random byte of every kind of file that this sweep reads."""
    lake.bring_back(state)
    keys = sorted({key for key, _ in reads[state]} & set(readers(lake)))
    kinds = {key.rpartition("/")[0] if "/part-" in key else key: key for key in keys}
    assert len(kinds) >= 9
    for key in kinds.values():
        lake.bring_back(state)
        before, file = lake.stored(), lake.root / key
        data = bytearray(file.read_bytes())
        data[random.Random(key).randrange(len(data))] ^= 0x01
        file.write_bytes(data)
        # More is kept where rules are remembered. Of what a mark found, a sweep that goes on knows all by its plan.
        if key.startswith(f"{ARTIFACTS}/rules/") or (state == "half" and "/expired_addresses/part-" in key):
            right = lake.garbage()
            lake.sweep()
            assert lake.stored().keys() == before.keys() - right, key
            continue
        with pytest.raises(LakegcError):
            lake.sweep()
        assert lake.stored() == before, key


def test_flips_in_what_no_sweep_reads_change_nothing(lake: Lake, reads: Any) -> None:
    lake.bring_back("marked")
    before, right = lake.stored(), lake.garbage()
    unread = set(artifacts(lake)) - {key for key, _ in reads["marked"]}
    assert any("namespace_listing/part" in key for key in unread)
    for key in unread:
        file = lake.root / key
        file.write_bytes(bytes(byte ^ 0x01 for byte in file.read_bytes()))
    result = lake.sweep()
    assert before.keys() - lake.stored().keys() == right
    assert result.outcomes["deleted"] == len(right)
