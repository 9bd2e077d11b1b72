"""Traps that show in a whole mark, and in the sweep of it: all laid into one repository (`story`)."""

from __future__ import annotations

import subprocess
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from lakegc_core import pipeline
from lakegc_core.config.settings import RepositoryPolicy
from lakegc_core.references.commits.retained import find_retained
from lakegc_core.tables.parts import read_part
from tests.support.lake import lake, quick
from tests.support.servers import binary
from tests.traps.story import FOREIGN, LEFT_OVER, ODD_TEXT, Story, Swept, report_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """The repository, marked once. Tests of the mark come first in this file: the sweep changes the repository."""
    with lake(tmp_path_factory.mktemp("traps")) as found, quick(spark):
        # Lists and deletes must do with any name, also with those that lakeFS never gives.
        yield Story(replace(found, policies=(RepositoryPolicy("*", collect_unknown_names=True),)), spark)


@pytest.fixture(scope="module")
def swept(story: Story) -> Swept:
    return Swept(story)


# --- the mark ---


def test_t05_branches_without_content_and_without_metarange_end_no_mark(story: Story) -> None:
    retained = {row["kept_by"]: row["metarange_id"] for row in story.rows("retention_commits")}
    assert retained["head:bare"] == ""
    assert retained["head:empty"] != ""
    counts = {row["metarange_id"]: row["count"] for row in story.rows("committed_addresses", "metaranges")}
    assert counts[retained["head:empty"]] == 0
    assert "" not in counts


def test_t12_staged_rows_of_the_first_pages_count_though_the_last_ones_named_no_location(story: Story) -> None:
    facts = story.facts("uncommitted_addresses")
    assert facts["pages"] == len(story.repo.refs.branches) > facts["pages_with_location"] >= 2
    assert story.reason("staged") == "staged"


def test_t13_files_of_the_staged_dump_count_whatever_their_name(story: Story) -> None:
    folder = story.lake.files("lake") / "_lakefs/retention/gc/uncommitted"
    assert {file.suffix for file in folder.rglob("*") if file.is_file()} == {""}
    assert story.facts("uncommitted_addresses")["rows"] >= 2
    assert story.reason("staged") == "staged"


def test_t15_what_moves_from_staging_to_a_commit_between_two_calls_is_seen_in_one_of_them(story: Story) -> None:
    assert story.stood == {"staged dump": True, "commits": True}
    for name in ("committed as the dump began", "committed as the dump had ended"):
        assert story.keys[name] in story.listed() - story.expired


def test_t16_an_upload_that_appears_late_with_an_old_date_is_no_candidate(story: Story) -> None:
    key = story.keys["appeared late"]
    assert (story.lake.files("lake") / key).exists()
    assert key not in {row["address"] for row in story.rows("uncommitted_addresses")}, "staged where nobody looks again"
    assert key not in story.listed() | story.expired


def test_t21_a_tag_protects_its_commit_unless_the_operator_says_that_it_shall_not(story: Story) -> None:
    commit_id = story.repo.refs.tags["v1"]
    retained = {row["commit_id"]: row["kept_by"] for row in story.rows("retention_commits")}
    assert retained[commit_id] == "tag:v1"
    assert story.keys["tagged"] not in story.expired
    assert story.keys["replaced"] in story.expired, "the commit before it, which no tag names"
    plain = replace(story.context, header=replace(story.context.header, protect_tags=False))
    found = find_retained(story.spark, plain, "without-tags", former=None)
    commits = {
        row["commit_id"]
        for part in found.datasets["retention_commits"]
        for batch in read_part(plain.workspace, "without-tags", part)
        for row in batch.to_pylist()
    }
    assert commit_id not in commits
    assert commits >= retained.keys() - {commit_id}


def test_t22_heads_of_hidden_branches_are_asked_for_and_keep_their_data(story: Story) -> None:
    listed = {row["name"] for row in story.rows("retention_commits", "refs") if row["kind"] == "branch"}
    assert "_hidden" in listed
    assert story.keys["hidden"] in story.listed() - story.expired


def test_t23_a_full_address_inside_the_namespace_is_the_key_it_names(story: Story) -> None:
    assert story.repo.entry("main", "p/old").address == f"s3://bucket/lake/{story.keys['full address at the root']}"
    assert story.keys["full address at the root"] in story.listed() - story.expired


def test_t25_files_that_are_not_lakefs_data_are_never_candidates(story: Story) -> None:
    assert not story.expired & set(FOREIGN)
    foreign = {row["address"] for row in story.rows("expired_addresses", "kept") if row["reason"] == "foreign"}
    # Below _lakefs/ nothing is listed at all.
    assert foreign >= {key for key in FOREIGN if not key.startswith("_lakefs/")}


def test_t26_names_of_every_server_are_found_at_every_depth(story: Story) -> None:
    assert story.expired >= set(LEFT_OVER)


def test_t27_every_list_of_addresses_reads_back_whatever_is_in_them(story: Story, tmp_path: Path) -> None:
    assert story.expired >= set(ODD_TEXT)
    with (tmp_path / "list").open("wb") as out:
        assert pipeline.write_addresses(story.context, out) == len(story.expired)
    assert set((tmp_path / "list").read_text("utf-8").split("\n")) == story.expired | {""}
    files = [*(story.lake.files("lake") / story.context.mark.folder / "deleted.text").glob("*.txt")]
    lines = [line for file in files for line in file.read_text("utf-8").split("\n") if line]
    assert sorted(lines) == sorted(story.expired)
    # rclone's documented recipe of a backup: it takes `#` and `;` at the start of a line for a comment, and trims.
    source, target = story.lake.files("lake"), tmp_path / "backup"
    subprocess.run(
        [binary("rclone"), "copy", "--no-traverse", "--files-from", "-", str(source), str(target)],
        input="".join(f"{line}\n" for line in lines).encode(),
        env={"RCLONE_CONFIG": "/dev/null"},
        check=True,
    )
    copied = {str(file.relative_to(target)) for file in target.rglob("*") if file.is_file()}
    assert copied == story.expired


def test_t29_exactly_what_is_older_than_the_cutoff_by_store_and_name_expires(story: Story) -> None:
    for kind in ("dated", "named"):
        assert story.keys[f"{kind} -1"] in story.expired
        for edge in ("+0", "+1"):
            assert story.keys[f"{kind} {edge}"] in story.listed(), "a young slice is listed all the same"
            assert story.reason(f"{kind} {edge}") == "young"


def test_t32_an_identical_upload_that_no_dump_names_is_kept(story: Story) -> None:
    key = story.keys["uploaded again"]
    assert story.repo.entry("main", "p/same").address == key
    assert not [row for row in story.repo.uncommitted("main") if row[0] == "p/same"]
    assert story.reason("uploaded again") == "staged"
    assert key not in story.expired


def test_t48_no_date_of_an_entry_but_the_stores_own_makes_an_object_old_or_young(story: Story) -> None:
    assert story.reason("entry says old") == "young"
    assert story.keys["entry says young"] in story.expired


def test_t49_addresses_are_bytes_and_not_what_they_look_like(story: Story) -> None:
    decomposed = unicodedata.normalize("NFD", story.keys["composed"])
    assert story.expired >= {decomposed, "data/key"}
    assert not story.expired & {story.keys["composed"], story.keys["upper case"]}


def test_t50_what_commits_share_is_read_once(story: Story) -> None:
    facts = story.facts("committed_addresses")
    metaranges = [row["metarange_id"] for row in story.rows("retention_commits")]
    assert len(metaranges) > len(set(metaranges) - {""}) + 1 == facts["metaranges"] + 1, "two commits share one"
    references = [row for row in story.rows("committed_addresses", "metaranges") if row["range_id"]]
    assert facts["references"] == len(references) > 1.5 * facts["ranges"]
    ranges = [row["range_id"] for row in story.rows("committed_addresses", "ranges")]
    assert facts["ranges"] == len(ranges) == len(set(ranges)) == len({row["range_id"] for row in references})
    entries = {(row["range_id"], row["address"]) for row in story.rows("committed_addresses")}
    assert len(story.rows("committed_addresses")) == len(entries)


# --- the sweep ---


def test_t16_an_upload_that_was_completed_after_the_mark_is_not_deleted(swept: Swept) -> None:
    key = swept.story.keys["completed late"]
    assert key in swept.story.expired
    assert swept.outcomes[key] == "rescued"
    assert key in swept.after


def test_t32_an_identical_upload_that_was_linked_after_the_mark_is_not_deleted(swept: Swept) -> None:
    key = swept.story.keys["linked again"]
    assert key in swept.story.expired
    assert swept.outcomes[key] == "rescued"
    assert key in swept.after


def test_t33_what_a_commit_had_sealed_and_its_branch_overwritten_is_not_deleted(swept: Swept) -> None:
    key = swept.story.keys["in flight"]
    assert key in swept.story.expired, "neither staged nor committed while the hooks ran"
    assert swept.outcomes[key] == "rescued"
    assert swept.story.repo.read("dev", "d/k") == b"new"
    assert swept.story.repo.read("dev@", "d/k") == b"old"


def test_t34_what_came_back_to_life_since_the_mark_is_not_deleted(swept: Swept) -> None:
    key = swept.story.keys["revived"]
    assert key in swept.story.expired
    assert swept.outcomes[key] == "rescued"
    assert swept.story.repo.read("back", "b/1") == b"only here"


def test_t35_every_object_has_an_outcome_and_no_sweep_is_done_while_one_failed(swept: Swept) -> None:
    keys = swept.story.keys
    assert swept.outcomes.keys() == swept.story.expired
    assert swept.outcomes[keys["vanished"]] == "already_gone"
    assert swept.outcomes[keys["stuck"]] == "failed:EISDIR"
    assert swept.result.failed == swept.result.outcomes["already_gone"] == 1
    assert "1 objects could not be deleted" in swept.result.trouble
    assert swept.result.outcomes["deleted"] == list(swept.outcomes.values()).count("deleted")


def test_t37_the_list_is_durable_before_the_first_object_is_deleted(swept: Swept) -> None:
    assert swept.there_when_deleting == swept.before
    assert swept.planned_when_deleting
    rescued = {address for address, outcome in swept.outcomes.items() if outcome == "rescued"}
    assert sorted(swept.listed_when_deleting) == sorted(swept.story.expired - rescued)


def test_t27_lakefs_own_report_reads_back_whatever_is_in_the_addresses(swept: Swept) -> None:
    context = swept.story.context
    report = swept.story.lake.files("lake") / "_lakefs/retention/gc/unified/m1/deleted"
    files = [pq.read_table(file).column("address").to_pylist() for file in report.glob("*.parquet")]
    addresses = [address for file in files for address in file]
    assert sorted(addresses) == sorted(report_lines(context, swept.story.lake))
    assert set(addresses) >= set(ODD_TEXT) | set(LEFT_OVER)


def test_t25_no_sweep_deletes_what_is_not_lakefs_data(swept: Swept) -> None:
    rescued = {address for address, outcome in swept.outcomes.items() if outcome == "rescued"}
    assert swept.after == (swept.before - swept.story.expired) | rescued
    assert swept.after >= set(FOREIGN)


def test_t38_objects_without_bytes_are_objects_like_any_other(swept: Swept) -> None:
    keys = swept.story.keys
    assert swept.outcomes[keys["without bytes"]] == "deleted"
    assert keys["p/empty"] in swept.after
    client = swept.story.lake.client
    assert client.read_byte("lake", "main", "p/empty") == 200
    (swept.story.lake.files("lake") / keys["p/empty"]).unlink()
    assert client.read_byte("lake", "main", "p/empty") == 410
