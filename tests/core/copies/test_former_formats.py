"""What a sweep deleted before an upgrade comes back after it, although the form of marks has changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakegc_core import pipeline
from lakegc_core.config.settings import RepositoryPolicy
from lakegc_core.copies.backup import backup, restore
from lakegc_core.copies.undo import deleted_objects
from lakegc_core.errors import MarkError
from lakegc_core.marks.context import MarkContext, RepositoryContext, open_mark
from lakegc_core.marks.json_files import encode, sealed
from lakegc_core.marks.ledger import keep_records
from lakegc_core.marks.retire import _delete_mark
from lakegc_core.marks.retired_records import record_of
from lakegc_core.names import STAGES
from lakegc_core.stages import swept_report
from tests.support.lake import Lake, lake, leave, quick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEAD = {f"data/gk5b63g7lm5ii54909u0/ca5b63g7lm5ii54909{number}0": b"left" * 10**number for number in range(3)}
WEEK = RepositoryPolicy(match="*", quarantine=timedelta(days=7))


@pytest.fixture
def swept(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    """A repository whose three dead objects were backed up, copied into quarantine and swept. Then the version of
    lakegc came that we are: it reads the mark's header as that of a former format, and none of its manifests."""
    with lake(tmp_path, seed=3) as made, quick(spark):
        found = replace(made, policies=(WEEK,))
        repository = found.create("lake")
        repository.set_rules(7)
        repository.upload("main", "a", b"live")
        repository.commit("main", "c")
        for key, data in DEAD.items():
            leave(repository, key, 9, data)
        mark = found.begin("lake", "m1")
        pipeline.mark(spark, mark)
        assert backup(spark, mark, f"{tmp_path}/spare").outcomes["copied"] == 3
        assert swept_report(spark, mark).outcomes["deleted"] == 3
        folder = found.files("lake") / mark.mark.folder
        header = json.loads((folder / "mark.json").read_text()) | {"format": 3, "of_a_former_form": True}
        del header["digest"]
        (folder / "mark.json").write_bytes(encode(sealed(header)))
        for stage in STAGES:
            (folder / stage / "manifest.json").write_text('{"stage": "of a former form"}')
        yield found


def opened(context: RepositoryContext) -> MarkContext:
    return open_mark(context, "m1", retired_too=True, any_version=True)


def test_it_comes_back_out_of_quarantine_and_from_its_backup_also_once_the_mark_is_retired(
    spark: SparkSession, swept: Lake, tmp_path: Path
) -> None:
    context, spare = swept.open("lake"), f"{tmp_path}/spare"
    files = swept.files("lake")
    first, second, third = sorted(DEAD)
    assert restore(spark, opened(context), paths=[first]).outcomes["copied"] == 1
    assert restore(spark, opened(context), spare, paths=[second]).outcomes["copied"] == 1
    artifacts = context.artifacts("m1")
    keep_records(artifacts)
    artifacts.store.write(artifacts.retired_key, encode(record_of("lake", artifacts)))
    _delete_mark(artifacts, None)
    found = restore(spark, opened(context)).outcomes
    assert (found["copied"], found["already_there"]) == (1, 2)
    assert {key: (files / key).read_bytes() for key in DEAD} == DEAD
    (files / third).unlink()
    assert restore(spark, opened(context), spare).outcomes["copied"] == 1
    (tmp_path / "spare/_lakegc/lake/m1/manifest.json").unlink()
    with pytest.raises(MarkError, match="another version of lakegc made it"):
        restore(spark, opened(context), spare)


def test_of_a_sweep_that_broke_off_what_reads_is_known(spark: SparkSession, swept: Lake) -> None:
    said: list[str] = []
    context = replace(opened(swept.open("lake")), say=said.append)
    sweep = swept.files("lake") / context.mark.folder / "sweeps/1"
    (sweep / "report.json").unlink()
    assert {row["address"] for row in deleted_objects(spark, context).collect()} == DEAD.keys()
    assert "sweeps/1/plan.json cannot be read" in said[0], "it names a mark whose manifests cannot be read"
