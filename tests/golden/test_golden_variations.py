"""The player of recordings takes what others may record: variations of recordings, spelled and polled otherwise.

None of them was recorded. What is right stays right: names of stores and folders decide nothing.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.config.settings import ServerSettings
from lakegc_core.lakefs.client import LakeFSClient
from tests.support.golden_replay import Recording, RecordingError, ReplayServer
from tests.support.replays import GOLDEN, replayed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.golden
Json = dict[str, Any]
MARKER = "exports/"  # of a folder


def copied(name: str, target: Path) -> Path:
    """A recording of tests/golden, to be changed."""
    return Path(shutil.copytree(GOLDEN / name, target / name))


def spelled(folder: Path, old: str, new: str) -> None:
    for name in ("api.json", "recording.json", "listing.csv"):
        text = (folder / name).read_text(encoding="utf-8")
        (folder / name).write_text(text.replace(old, new), encoding="utf-8")


def rewritten(file: Path, change: Callable[[Any], Any]) -> None:
    """Change what a JSON file says; `change` may give another value or change the one that it gets."""
    told = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(change(told) or told), encoding="utf-8")


def with_marker(folder: Path, key: str = MARKER) -> None:
    """One more object, foreign: the marker of a folder."""
    rewritten(folder / "outcome.json", lambda told: told["foreign"].append(key))
    with (folder / "listing.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with (folder / "listing.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows([*rows, rows[0] | {"key": key, "size": "0"}])


def polled_often(folder: Path) -> None:
    """Each task is begun once more, and seen unfinished before it is seen at its end."""

    def more(calls: list[Json]) -> list[Json]:
        found: list[Json] = []
        for call in calls:
            for key in ("completed", "done"):
                if call["method"] == "GET" and call["answer"] and call["answer"].get(key):
                    found.append(call | {"answer": call["answer"] | {key: False, "result": None, "refs": None}})
            found.append(call)
        again = [call for call in found if call["path"].endswith(("/dump", "/prepare_commits/async", "/status"))]
        found += json.loads(json.dumps(again).replace('"GCPC', '"GCPCagain').replace('"DR', '"DRagain'))
        return found

    rewritten(folder / "api.json", more)


def in_another_prefix(folder: Path) -> None:
    spelled(folder, "_lakefs/", "meta/data/")
    (folder / "namespace/meta").mkdir()
    (folder / "namespace/_lakefs").rename(folder / "namespace/meta/data")


def on_google(folder: Path) -> None:
    spelled(folder, "s3://", "gs://")
    spelled(folder, '"blockstore_type": "s3"', '"blockstore_type": "gs"')
    with_marker(folder)
    polled_often(folder)


def at_the_root_of_a_container(folder: Path) -> None:
    namespace = Recording.load(folder).namespace
    spelled(folder, namespace, "/".join(namespace.split("/")[:4]))
    with_marker(folder)


def from_another_version(folder: Path) -> None:
    """An older server leaves fields and calls out; a later one says more than lakegc knows."""
    left_out = (
        "storage_id",
        "read_only",
        "generation",
        "version",
        "version_context",
        "max_per_page",
        "update_time",
        "metadata",
    )

    def told(value: Any) -> Any:
        if isinstance(value, list):
            return [told(each) for each in value]
        if not isinstance(value, dict):
            return value
        kept = {key: told(each) for key, each in value.items() if key not in left_out}
        return kept | {"said_by_later_versions": {"results": [None]}}

    def calls(recorded: list[Json]) -> list[Json]:
        known = [call for call in recorded if not call["path"].endswith(("/async", "/status"))]
        for call in known:
            call["answer"] = told(call["answer"])
            if call["path"] == "/config":
                call["answer"]["version_config"] |= {"version": "1.40.0"}
                call["answer"]["storage_config_list"] = None
            if call["path"].endswith("/gc_rules"):
                call["answer"]["branches"] = call["answer"].get("branches") or None
        return known

    rewritten(folder / "api.json", calls)
    rewritten(folder / "commits.json", lambda recorded: [told(each) for each in recorded])


def in_a_folder_with_a_marker(folder: Path) -> None:
    with_marker(folder)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("unified_gc", in_another_prefix),
        ("unified_gc", on_google),
        ("unified_gc", from_another_version),
        ("azure_unified_gc", at_the_root_of_a_container),
        ("local_unified_gc", in_a_folder_with_a_marker),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_variation_of_a_recording_has_the_garbage_of_the_recording(
    spark: SparkSession, tmp_path: Path, name: str, change: Callable[[Path], None]
) -> None:
    folder = copied(name, tmp_path)
    change(folder)
    with replayed(Recording.load(folder), tmp_path / "replay") as replay:
        mark = replay.begin("protected", protect_tags=True)
        report = pipeline.mark(spark, mark).report
        assert set(pipeline.expired_of(mark)) == replay.right()
        assert report["objects"]["foreign"] == len(set(replay.recording.outcome["foreign"]) - replay.unheld)
        assert (MARKER in replay.files()) == (change in (on_google, at_the_root_of_a_container))


def test_tasks_that_were_begun_and_polled_several_times_end(tmp_path: Path) -> None:
    folder = copied("unified_gc", tmp_path)
    polled_often(folder)
    recording = Recording.load(folder)
    with ReplayServer(recording) as server:
        client = LakeFSClient(ServerSettings(server.url, "any", "thing"), sleep=lambda _: None)
        first, second, third = (client.prepare_commits(recording.repository).commits_location for _ in range(3))
        assert first and second == third == first
        assert client.dump(recording.repository) == client.dump(recording.repository)
    rewritten(folder / "api.json", lambda calls: [call for call in calls if not (call["answer"] or {}).get("done")])
    with pytest.raises(RecordingError, match=r"unified_gc: by GET \{repo\}/dump, task DR\S+ does not end"):
        begun = Recording.load(folder)
        begun.task("{repo}/dump", "id", "done", begun.find("POST", "{repo}/dump").answer["id"])


def test_a_branch_of_which_lakefs_could_not_list_a_page_shows_what_its_head_has(tmp_path: Path) -> None:
    folder = copied("local_rich", tmp_path)
    failed = {"status": 500, "answer": {"message": "parse address: invalid URL escape"}}

    def fail(calls: list[Json]) -> list[Json]:
        return [call | failed if call["path"].endswith("main/objects/ls") else call for call in calls]

    rewritten(folder / "api.json", fail)
    recording = Recording.load(folder)
    with pytest.raises(RecordingError, match=r"local_rich: api.json has GET .*objects/ls only as 500: .*escape"):
        recording.results("{repo}/refs/main/objects/ls")
    with ReplayServer(recording) as server:
        head = recording.commits[server._heads["main"]]
        assert set(server._listing("main")) >= set(recording.committed(head["meta_range_id"])) > set()


@pytest.mark.parametrize("name", ["outcome.json", "recording.json"])
def test_what_a_recording_lacks_is_named(tmp_path: Path, name: str) -> None:
    folder = copied("unified_gc", tmp_path)
    rewritten(folder / name, lambda told: {key: told[key] for key in told if key not in ("young", "namespace")})
    lacking = "young" if name == "outcome.json" else "namespace"
    with pytest.raises(RecordingError, match=f"unified_gc: {name} has no '{lacking}'"):
        Recording.load(folder).outcome["young"]
    (folder / name).write_text("{")
    with pytest.raises(RecordingError, match=f"unified_gc: {name} does not read: "):
        Recording.load(folder)


def test_a_key_that_no_folder_can_hold_is_named_unless_it_is_foreign(tmp_path: Path) -> None:
    folder = copied("unified_gc", tmp_path)
    with_marker(folder, "exports//x")
    assert Recording.load(folder).unheld == {"exports//x"}
    rewritten(folder / "outcome.json", lambda told: told | {"foreign": []})
    with pytest.raises(RecordingError, match="unified_gc: no folder can hold the key 'exports//x'"):
        Recording.load(folder).unheld  # noqa: B018 (raises)
