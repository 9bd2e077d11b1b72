"""Of what is gone, the copies in backups are named, and what lies where nobody looks: till then nothing is sealed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from lakegc_core import pipeline
from lakegc_core.answers.gone import gone
from lakegc_core.answers.in_backups import backups, backups_of, left, made_since, saved
from lakegc_core.answers.in_quarantine import with_copies
from lakegc_core.copies import backup as copying
from lakegc_core.marks.artifacts import HOME
from lakegc_core.marks.context import RepositoryContext, open_mark
from lakegc_core.marks.json_files import encode, sealed
from lakegc_core.store.base import connect
from lakegc_core.store.local import LocalConfig
from tests.support.lake import NOW, lake, quick
from tests.support.swept import ACCEPTED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def backed_up(context: RepositoryContext, mark_id: str, place: str, *, retired: bool = False) -> None:
    mark, record = context.artifacts(mark_id), {"place": place}
    if retired:
        mark.store.write(mark.retired_key, encode(sealed({"mark_id": mark_id, "backup": record})))
    else:
        mark.store.write(f"{mark.folder}/backup.json", encode(record))


def test_backups_are_known_by_the_records_of_all_marks_and_by_lakegc_yaml(tmp_path: Path) -> None:
    with lake(tmp_path / "lake") as found:
        found.create("lake", "s3://b/ns")
        context = found.open("lake")
        one, two, three = (f"{tmp_path}/{name}" for name in ("one", "two", "lake"))
        backed_up(context, "m1", one)
        backed_up(context, "m2", two, retired=True)
        before = backups(context)
        context = replace(context, policy=replace(context.policy, backup_to=f"{tmp_path}/{{repository}}"))
        kept = backups(context)
        assert kept.places.keys() == {one, two, three} and kept.unknown == ()
        assert list(made_since(context, before)) == [f"a backup was made in {three} meanwhile: ask again"]
        assert not list(made_since(context, kept))

        deleted = {"data/a": {"m1"}, "data/b": {"m1", "m2"}, "data/c": {"m3"}}
        one_of, two_of = {"mark_id": "m1", "place": one}, {"mark_id": "m2", "place": two}
        assert backups_of(context, deleted) == {"data/a": one_of, "data/b": two_of}
        connect(context.workspace).write(f"{context.artifacts('m1').folder}/backup.json", b"[]")
        assert backups_of(context, deleted) == {"data/b": two_of}, "who cannot read it names none"

        connect(kept.places[two]).write("data/a", b"abc")
        size = pa.array([None, None, 3], pa.int64())
        asked = {"address": ["data/a", "data/b", "data/a"], "inside": [True] * 3, "size": size}
        rows = with_copies(pa.RecordBatch.from_pydict(asked), kept.places, "saved")["saved"].to_pylist()
        assert rows == [two, None, None]
        (said,) = saved([{"saved": each, "objects": 2} for each in (two, None, two)])
        assert said.startswith(
            f"copies of 4 of the objects lie in the backup in {two}, and lakegc deletes nothing there"
        )


def test_a_backup_into_which_nobody_can_look_is_told(tmp_path: Path) -> None:
    with lake(tmp_path) as found:
        found.create("lake", "s3://b/ns")
        context = found.open("lake")
        backed_up(context, "m1", "no place")
        backed_up(context, "m2", f"{tmp_path}/two", retired=True)
        mark = context.artifacts("m2")
        mark.store.write(mark.retired_key, mark.store.read(mark.retired_key).replace(b"/two", b"/owt"))
        damaged = context.artifacts("m3")
        damaged.store.write(f"{damaged.folder}/backup.json", b"{}")
        of_record, of_nothing, of_place = backups(context).unknown
        assert of_record.startswith("nobody knows if mark m2 has a backup: its record cannot be read")
        assert of_nothing.startswith("nobody knows if mark m3 has a backup") and "names no place" in of_nothing
        assert of_place.startswith("nobody can look for copies in the backup in no place: ")


def test_what_lies_in_the_namespace_where_a_workspace_leads_elsewhere_is_told(tmp_path: Path) -> None:
    with lake(tmp_path / "lake") as found:
        found.create("lake", "s3://b/ns")
        context = found.open("lake")
        elsewhere = replace(context, workspace=LocalConfig(f"{tmp_path}/marks"), home="lake")
        assert not list(left(elsewhere))
        connect(context.data).write(f"{HOME}/quarantine/m1/objects/data/a", b"abc")
        (said,) = left(elsewhere)
        assert f"{HOME}/quarantine/ hold marks or copies of this repository" in said and "lakegc doctor" in said
        assert not list(left(context))


def test_nothing_is_sealed_while_a_backup_has_a_copy_of_what_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    with lake(tmp_path / "lake") as found, quick(spark):
        repository = found.create("lake")
        repository.set_rules(7)
        address = repository.upload("main", "users/1", b"a name", age=timedelta(days=30))
        repository.commit("main", "known", date=NOW - timedelta(days=30))
        repository.delete("main", "users/1")
        repository.commit("main", "forgotten", date=NOW - timedelta(days=20))
        context = found.begin("lake", "m1")
        pipeline.mark(spark, context)
        place = f"{tmp_path}/spare"
        copying.backup(spark, context, place)
        assert pipeline.sweep(spark, open_mark(context, "m1"), accepted=ACCEPTED).outcomes["deleted"] == 1

        told = gone(spark, context, "users/**", 10)
        assert (told.objects, told.gone, told.statement) == (1, 1, None) and told.vanished[0]["saved"]
        assert [f"the backup in {place}, and lakegc deletes nothing there" in each for each in told.open] == [True]
        connect(LocalConfig(place)).delete_many([address])
        told = gone(spark, context, "users/**", 10)
        assert told.open == () and told.statement is not None and not told.vanished[0]["saved"]
