"""What the store gives back of lakeFS's files may be less than there is, or something else: the mark ends then."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakegc_core.lakefs.files.graveler import read_range
from lakegc_sandbox.files.graveler_writer import frame, write_range
from tests.support.fault_bench import (
    COMMITS,
    COMMITTED,
    STAGED,
    Bench,
    crossed,
    forbidden,
    half,
    instead,
    lost,
    missing,
    on_key,
    without_last_byte,
)
from tests.support.golden_replay import _table
from tests.support.proxy import Answer, Forward, Hook, Request, cut_off
from tests.support.replays import Replay


@dataclass(frozen=True)
class Files:
    """Keys of a recording's metadata, relative to the namespace, by what they are."""

    csv: str
    staged: str
    dump: str
    dumped_commits: str
    dumped_tags: str
    metarange: str
    range: str
    other_metarange: str
    other_range: str

    @classmethod
    def of(cls, replay: Replay) -> Files:
        recording = replay.recording
        refs = recording.all("GET", "{repo}/dump")[-1].answer["refs"]
        run = recording.all("GET", "{repo}/gc/prepare_commits/status")[-1].answer["result"]["run_id"]
        staged = recording.find("POST", "{repo}/gc/prepare_uncommited").answer["run_id"]
        (page,) = (replay.root / f"_lakefs/retention/gc/uncommitted/{staged}/uncommitted").iterdir()
        heads = [recording.commits[each["commit_id"]] for each in recording.results("{repo}/branches")]
        metaranges = list(dict.fromkeys(each["meta_range_id"] for each in heads if each["meta_range_id"]))
        ranges = list(dict.fromkeys(one for each in metaranges for one in ranges_of(replay, each)))
        return cls(
            csv=f"_lakefs/retention/gc/commits/run_id={run}/commits.csv",
            staged=page.relative_to(replay.root).as_posix(),
            dump=f"_lakefs/{refs['commits_meta_range_id']}",
            dumped_commits=f"_lakefs/{ranges_of(replay, refs['commits_meta_range_id'])[0]}",
            dumped_tags=f"_lakefs/{refs['tags_meta_range_id']}",
            metarange=f"_lakefs/{metaranges[0]}",
            range=f"_lakefs/{ranges[0]}",
            other_metarange=f"_lakefs/{metaranges[1]}",
            other_range=f"_lakefs/{ranges[1]}",
        )


def ranges_of(replay: Replay, metarange_id: str) -> list[str]:
    return [range_id.decode() for _, range_id, _ in _table(replay.recording.folder, metarange_id)]


READS = {
    "missing": missing,
    "forbidden": forbidden,
    "empty": instead(b""),
    "half of it": half,
    "without its last byte": without_last_byte,
    "cut off on the way": cut_off,
    "something else": instead(b"<html>not this</html>"),
    "never sent": lost,
}
STAGE_OF = {
    "csv": COMMITS,
    "staged": STAGED,
    "dump": COMMITS,
    "dumped_commits": COMMITS,
    "dumped_tags": COMMITS,
    "metarange": COMMITTED,
    "range": COMMITTED,
}


@pytest.mark.parametrize(("file", "fault"), crossed(STAGE_OF, READS))
def test_a_file_of_lakefs_that_is_not_whole_ends_the_mark(bench: Callable[[str], Bench], file: str, fault: str) -> None:
    found = bench("random_3")
    assert found.proxy
    key = getattr(Files.of(found.replay), file)
    found.before(STAGE_OF[file])
    found.proxy.hook = on_key(key, READS[fault])
    came = found.survives(STAGE_OF[file])
    assert came not in ("authorised", "not authorised")
    assert any(request.method == "GET" and key.rpartition("/")[2] in request.path for request in found.proxy.requests)


@pytest.mark.parametrize("kind", ["metarange", "range"])
def test_a_file_replaced_by_another_valid_one_ends_the_mark(bench: Callable[[str], Bench], kind: str) -> None:
    found = bench("random_3")
    assert found.proxy
    files = Files.of(found.replay)
    other = (found.replay.root / getattr(files, f"other_{kind}")).read_bytes()
    found.before(COMMITTED)
    found.proxy.hook = on_key(getattr(files, kind), instead(other))
    assert found.survives(COMMITTED) not in ("authorised", "not authorised")


def test_a_range_replaced_by_one_of_the_same_paths_and_count_ends_the_mark(bench: Callable[[str], Bench]) -> None:
    found = bench("random_3")
    assert found.proxy
    key = Files.of(found.replay).range
    records = [
        (path, frame(identity, data.replace(b"data/", b"datb/")))
        for path, identity, data in _table(found.replay.recording.folder, key.rpartition("/")[2])
    ]
    other = write_range(records).data
    addresses = read_range(other).column("address").to_pylist()
    assert len(addresses) == len(records) and addresses[0].startswith("datb/")
    found.before(COMMITTED)
    found.proxy.hook = on_key(key, instead(other))
    said = found.survives(COMMITTED)
    assert "it is not that file" in said
    assert f"{key} back from a version or a backup of the store" in said


LINES = list[list[str]]


def rewritten(change: Callable[[LINES], LINES]) -> Hook:
    """The server's CSV with other lines."""

    def hook(request: Request, forward: Forward) -> Answer:
        answer = forward(request)
        lines = list(csv.reader(io.StringIO(answer.body.decode())))
        text = "".join(",".join(line) + "\n" for line in change(lines))
        return replace(answer, body=text.encode())

    return hook


CSVS: dict[str, tuple[Hook, bool]] = {
    "only its header": (rewritten(lambda lines: lines[:1]), False),
    "without its header": (rewritten(lambda lines: lines[1:]), False),
    "without a column": (rewritten(lambda lines: [line[:1] for line in lines]), False),
    "cut in the middle of a line": (without_last_byte, False),
    "cut at the end of a line": (rewritten(lambda lines: lines[:-3]), True),
    "without heads": (rewritten(lambda lines: lines[:2]), True),
    "all expired": (rewritten(lambda lines: [lines[0], *([c, "true", m] for c, _, m in lines[1:])]), False),
    "with a commit nobody knows": (rewritten(lambda lines: [*lines, ["f" * 64, "false", "0" * 64]]), False),
    "with a metarange that is another one": (
        rewritten(lambda lines: [lines[0], *([c, e, "0" * 64] for c, e, _ in lines[1:])]),
        False,
    ),
    "with a line of too few columns": (rewritten(lambda lines: [*lines, ["f" * 64]]), False),
    "with a line of too many columns": (rewritten(lambda lines: [*lines, [*lines[1], "more"]]), False),
    "with half an id": (rewritten(lambda lines: [*lines, [lines[1][0][:20], "false", ""]]), False),
    "not text": (instead(b"commit_id,expired,metarange_id\n\xff\xfe,false,\n"), False),
    "with a zero byte": (instead(b"commit_id,expired,metarange_id\n\0,false,\n"), False),
}


@pytest.mark.parametrize("odd", CSVS)
def test_a_list_of_commits_that_is_odd_never_costs_data(bench: Callable[[str], Bench], odd: str) -> None:
    found = bench("random_3")
    assert found.proxy
    fault, may_be_right = CSVS[odd]
    found.before(COMMITS)
    found.proxy.hook = on_key(Files.of(found.replay).csv, fault)
    came = found.survives(COMMITS)
    assert may_be_right or came not in ("authorised", "not authorised")


def parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"address": ["data/x"], "creation_date": [1]}),
        pa.table({"creation_date": [1]}),
        pa.table({"physical_address": pa.array(["data/x", None])}),
        pa.table({"physical_address": pa.array([b"data/\xff"])}),
        pa.table({"physical_address": pa.array([[1]])}),
    ],
    ids=["no column of that name", "no address", "an address that is null", "an address that is no text", "lists"],
)
def test_a_staged_file_of_another_form_ends_the_mark(bench: Callable[[str], Bench], table: pa.Table) -> None:
    found = bench("random_3")
    assert found.proxy
    found.before(STAGED)
    found.proxy.hook = on_key(Files.of(found.replay).staged, instead(parquet(table)))
    assert found.survives(STAGED) not in ("authorised", "not authorised")
