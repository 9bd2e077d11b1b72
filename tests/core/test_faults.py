"""Every answer of lakeFS and of the store can go wrong, and no mark is ever authorised on less than everything.

Each case spoils one answer, or one kind of request, and then marks a recording whose right outcome is known. The mark
has to fail with an error of lakegc's own, or its guards must not authorise it, or what expires is exactly the garbage.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakegc_core import guards, pipeline
from lakegc_core.context import MarkContext, RepositoryContext
from lakegc_core.errors import LakegcError
from lakegc_core.guards import Evidence
from lakegc_core.lakefs.graveler import read_range
from lakegc_core.mark import STAGES
from lakegc_core.safety import FULL
from lakegc_core.sandbox.graveler_writer import frame, write_range
from tests import servers
from tests.golden_replay import ReplayServer, _table
from tests.proxy import Answer, Forward, Hook, Proxy, Request, answer_lost, cut_off, pass_on, proxy
from tests.replays import LAKEFS_SECRET, Replay, environment, replayed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LISTING, STAGED, COMMITS, COMMITTED, EXPIRED = STAGES
Said = tuple[int, str]
Spoil = Callable[[Said], Said]


def spoil_nothing(method: str, path: str, body: bytes) -> Spoil | None:
    return None


class FaultyServer(ReplayServer):
    """A replay one of whose calls can be spoilt."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.spoilt: Callable[[str, str, bytes], Spoil | None] = spoil_nothing
        super().__init__(*arguments, **options)

    def _answer(self, method: str, path: str, query: Mapping[str, str], body: bytes) -> Said:
        said = super()._answer(method, path, query, body)
        spoil = self.spoilt(method, f"{path}?after={query.get('after', '')}", body)
        return spoil(said) if spoil else said


@dataclass
class Bench:
    """One recording, served by servers that can be made to fail, and marks of it that stand up to some stage."""

    replay: Replay
    spark: SparkSession
    proxy: Proxy | None
    ready: dict[str, str] = field(default_factory=dict)
    count: int = 0

    @cached_property
    def unspoilt(self) -> RepositoryContext:
        """The repository, asked before anything was spoilt."""
        return self.replay.open()

    @property
    def server(self) -> FaultyServer:
        assert isinstance(self.replay.server, FaultyServer)
        return self.replay.server

    def context(self, mark_id: str) -> MarkContext:
        store = self.proxy.endpoint if self.proxy else None
        return self.replay.begin(mark_id, self.replay.open(store=store, attempts=2))

    def before(self, stage: str) -> str:
        """The id of a mark in which every stage before this one stands, and no other; for the first, of no mark yet."""
        mark_id = self.ready.get(stage)
        if mark_id is None or stage == LISTING or self.unspoilt.artifacts(mark_id).manifest(stage):
            self.count += 1
            mark_id = self.ready[stage] = f"{stage}-{self.count}"
            if stage == LISTING:
                return mark_id
            context = self.context(mark_id)
            for each in STAGES[: STAGES.index(stage)]:
                pipeline.MARKING[each](self.spark, context)
        return mark_id

    def mend(self) -> None:
        """No faults any more."""
        self.server.spoilt = spoil_nothing
        if self.proxy:
            self.proxy.hook = pass_on

    def survives(self, stage: str, *, less: bool = False) -> str:
        """Mark, with all but the later stages done before the fault; return what came of it."""
        mark_id = self.before(stage)
        return self.marks(mark_id, less=less)

    def marks(self, mark_id: str, *, less: bool = False) -> str:
        try:
            context = self.context(mark_id)
            review = pipeline.mark(self.spark, context)
        except LakegcError as error:
            check_message(str(error))
            return str(error)
        expired, right = set(pipeline.expired_of(context)), self.replay.right()
        if review.authorized:
            assert expired <= right, "what lives was authorised for deletion"
            assert less or expired == right
        return "authorised" if review.authorized else "not authorised"


def check_message(text: str) -> None:
    assert text.strip(), "an error without a word"
    assert "Traceback" not in text and "org.apache.spark" not in text and 'File "' not in text
    assert len(text) < 1500
    for secret in (LAKEFS_SECRET, servers.SECRET_KEY):
        assert secret not in text


@pytest.fixture(scope="module")
def benches(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Bench]]:
    """The recordings in use, each laid out once."""
    with ExitStack() as stack:
        known: dict[str, Bench] = {}

        def bench(name: str) -> Bench:
            if name not in known:
                folder = tmp_path_factory.mktemp("faults")
                replay = stack.enter_context(replayed(name, folder, server=FaultyServer))
                between = stack.enter_context(proxy(replay.s3.endpoint)) if replay.s3 else None
                known[name] = Bench(replay, spark, between)
            return known[name]

        yield bench


@pytest.fixture
def bench(benches: Callable[[str], Bench]) -> Iterator[Callable[[str], Bench]]:
    """A bench by the name of its recording. All faults end with the test."""
    with ExitStack() as stack:

        def take(name: str) -> Bench:
            found = benches(name)
            stack.enter_context(environment(found.replay.variables()))
            stack.callback(found.mend)
            assert found.unspoilt
            return found

        yield take


# --- lakeFS answers wrongly ---


def status(code: int) -> Spoil:
    return lambda said: (code, json.dumps({"message": "spoilt by the test"}))


def body(text: str) -> Spoil:
    return lambda said: (said[0], text)


def hang_up(said: Said) -> Said:
    raise ConnectionError


WRONG: dict[str, Spoil] = {
    "404": status(404),
    "400": status(400),
    "500": status(500),
    "401": status(401),
    "an empty body": body(""),
    "an empty object": body("{}"),
    "a list": body("[]"),
    "null": body("null"),
    "half of it": lambda said: (said[0], said[1][: len(said[1]) // 2]),
    "two documents": lambda said: (said[0], said[1] + said[1]),
    "no answer": hang_up,
}

# name: (recording, how the call reads, the stage that makes it)
CALLS = {
    "config": ("random_3", "GET /config?", LISTING),
    "grace period": ("random_3", "GET /config/garbage-collection?", LISTING),
    "repository": ("random_3", "GET {repo}?", LISTING),
    "metarange location": ("random_3", "GET {repo}/metadata/meta_range/", LISTING),
    "repositories": ("random_3", "GET /repositories?", LISTING),
    "staged, page 1": ("uncommitted_pages", "POST {repo}/gc/prepare_uncommited?after= {}", STAGED),
    "staged, page 3": ("uncommitted_pages", "POST {repo}/gc/prepare_uncommited?after= <page 3>", STAGED),
    "staged, last page": ("uncommitted_pages", "POST {repo}/gc/prepare_uncommited?after= <page 7>", STAGED),
    "rules": ("random_3", "GET {repo}/settings/gc_rules?", COMMITS),
    "prepare commits": ("random_3", "POST {repo}/gc/prepare_commits", COMMITS),
    "status of commits": ("random_3", "GET {repo}/gc/prepare_commits/status?", COMMITS),
    "dump": ("random_3", "POST {repo}/dump?", COMMITS),
    "status of dump": ("random_3", "GET {repo}/dump?", COMMITS),
    "tags": ("random_3", "GET {repo}/tags?", COMMITS),
    "branches, page 1": ("uncommitted_pages", "GET {repo}/branches?after= ", COMMITS),
    "branches, page 2": ("uncommitted_pages", "GET {repo}/branches?after=work", COMMITS),
    "objects of a branch on local": ("local_rich", "GET {repo}/refs/main/objects/ls?", STAGED),
}


def spoil(bench: Bench, call: str, how: Spoil, times: int = 10**9) -> None:
    """From now on this call is answered so, at most so many times."""
    recording = bench.replay.recording
    pages = [page.body or {} for page in recording.all("POST", "{repo}/gc/prepare_uncommited")]
    start = CALLS[call][1].replace("{repo}", f"/repositories/{recording.repository}")
    start = re.sub("<page ([0-9])>", lambda found: json.dumps(pages[int(found[1]) - 1]), start)
    left = iter(range(times))

    def spoilt(method: str, path: str, sent: bytes) -> Spoil | None:
        asked = f"{method} {path} {sent.decode() if method == 'POST' else ''}"
        hit = asked.startswith(start) and next(left, None) is not None
        return how if hit else None

    bench.server.spoilt = spoilt


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_fails_ends_the_mark(bench: Callable[[str], Bench], call: str, wrong: str) -> None:
    recording, _, stage = CALLS[call]
    found = bench(recording)
    found.before(stage)
    spoil(found, call, WRONG[wrong])
    came = found.survives(stage)
    # Servers before v1.72 answer the asynchronous form so, and have another.
    if call != "prepare commits":
        assert came != "authorised", f"{call} is not needed?"


def change(**values: Any) -> Spoil:
    """The answer with these values; `__` in a name leads into an object, None takes a key out."""

    def spoilt(said: Said) -> Said:
        whole = json.loads(said[1])
        for name, value in values.items():
            *above, last = name.split("__")
            inner = whole
            for step in above:
                inner = inner.setdefault(step, {})
            if value is None:
                inner.pop(last, None)
            else:
                inner[last] = value(inner[last]) if callable(value) else value
        return said[0], json.dumps(whole)

    return spoilt


EMPTY_PAGE = change(results=[], pagination__results=0, pagination__has_more=False)
SHORT_PAGE = change(results=lambda page: page[:-1])
LAST_PAGE = change(pagination__has_more=False)
CIRCLE = change(pagination__has_more=True, pagination__next_offset="")
EMPTY_METARANGE = "00fb7eff1a97c500eb3ca8d2ef5464131d6b6a5f9512e41eba97843522213b66"

# What is said, the call, how it is spoilt, and whether the mark may still be right: another answer may tell the same.
SHORT: list[tuple[str, str, Spoil, bool]] = [
    ("an empty page of repositories", "repositories", EMPTY_PAGE, False),
    ("fewer repositories than announced", "repositories", SHORT_PAGE, False),
    ("an empty page of tags", "tags", EMPTY_PAGE, True),
    ("fewer tags than announced", "tags", SHORT_PAGE, False),
    ("tags in a circle", "tags", CIRCLE, False),
    ("an empty page of branches", "branches, page 1", EMPTY_PAGE, False),
    ("fewer branches than announced", "branches, page 2", SHORT_PAGE, False),
    ("no second page of branches", "branches, page 1", LAST_PAGE, True),
    ("branches in a circle", "branches, page 1", CIRCLE, False),
    ("a staged page without a location", "staged, page 1", change(gc_uncommitted_location=None), False),
    ("a staged page whose location is empty", "staged, page 1", change(gc_uncommitted_location=""), True),
    ("a staged page where nothing is", "staged, page 1", change(gc_uncommitted_location=lambda at: f"{at}x/"), False),
    ("a staged page elsewhere", "staged, page 1", change(gc_uncommitted_location="s3://other/place/"), False),
    ("staged pages in two places", "staged, page 3", change(gc_uncommitted_location=lambda at: f"{at}x/"), False),
    ("a staged page of another run", "staged, page 3", change(run_id="another"), False),
    ("a staged page without a run", "staged, page 1", change(run_id=None), False),
    ("staged pages that end too soon", "staged, page 1", change(continuation_token=None), True),
    ("staged pages in a circle", "staged, page 3", change(continuation_token=None), True),
    ("commits that never come", "status of commits", change(completed=False, result=None), False),
    ("commits without a result", "status of commits", change(result=None), False),
    ("commits that ended in an error", "status of commits", change(result=None, error={"message": "died"}), False),
    ("commits without a location", "status of commits", change(result__gc_commits_location=None), False),
    ("commits where nothing is", "status of commits", change(result__gc_commits_location=lambda at: f"{at}x"), False),
    ("commits elsewhere", "status of commits", change(result__gc_commits_location="s3://o/commits.csv"), False),
    ("a dump that never ends", "status of dump", change(done=False, refs=None), False),
    ("a dump without refs", "status of dump", change(refs=None), False),
    ("a dump that ended in an error", "status of dump", change(error="died"), False),
    ("a dump without commits", "status of dump", change(refs__commits_meta_range_id=None), False),
    ("a dump without tags", "status of dump", change(refs__tags_meta_range_id=None), False),
    ("a dump whose commits are not there", "status of dump", change(refs__commits_meta_range_id="0" * 64), False),
    ("a dump whose branches are not there", "status of dump", change(refs__branches_meta_range_id="0" * 64), False),
    ("a dump whose tags are not there", "status of dump", change(refs__tags_meta_range_id="0" * 64), False),
    ("a dump of no commits", "status of dump", change(refs__commits_meta_range_id=EMPTY_METARANGE), False),
    ("metadata in another place", "metarange location", change(location="elsewhere/" + "0" * 64), False),
    ("metadata without a place", "metarange location", change(location="0" * 64), False),
]


@pytest.mark.parametrize(("call", "how", "may_be_right"), [each[1:] for each in SHORT], ids=[each[0] for each in SHORT])
def test_an_answer_that_is_short_or_leads_nowhere_never_costs_data(
    bench: Callable[[str], Bench], call: str, how: Spoil, may_be_right: bool
) -> None:
    recording, _, stage = CALLS[call]
    found = bench(recording)
    found.before(stage)
    spoil(found, call, how)
    came = found.survives(stage)
    assert may_be_right or came != "authorised"


def test_a_server_that_names_no_staged_file_but_wrote_one_is_not_believed(bench: Callable[[str], Bench]) -> None:
    found = bench("random_3")
    found.before(STAGED)
    found.server.spoilt = lambda method, path, sent: (
        change(gc_uncommitted_location="") if "prepare_uncommited" in path else None
    )
    assert "nothing is staged" in found.survives(STAGED)


def test_lost_rules_in_the_explicit_mode_only_keep_more(bench: Callable[[str], Bench]) -> None:
    found = bench("random_3")
    spoil(found, "rules", status(404))
    context = found.replay.begin("no-rules", rules="keep-all-commits")
    review = pipeline.mark(found.spark, context)
    assert review.authorized
    assert set(pipeline.expired_of(context)) < found.replay.right()


# --- the store gives back less than there is, or something else ---


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


def missing(request: Request, forward: Forward) -> Answer:
    body = b"<Error><Code>NoSuchKey</Code><Message>not there</Message></Error>"
    return Answer(404, {"Content-Type": "application/xml"}, body)


def forbidden(request: Request, forward: Forward) -> Answer:
    body = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
    return Answer(403, {"Content-Type": "application/xml"}, body)


def instead(data: bytes) -> Hook:
    return lambda request, forward: replace(forward(request), body=data)


def half(request: Request, forward: Forward) -> Answer:
    answer = forward(request)
    return replace(answer, body=answer.body[: len(answer.body) // 2])


def without_last_byte(request: Request, forward: Forward) -> Answer:
    answer = forward(request)
    return replace(answer, body=answer.body[:-1])


def lost(request: Request, forward: Forward) -> None:
    return None


def on_key(key: str, fault: Hook) -> Hook:
    """The fault on every GET of this object."""
    ending = "/" + quote(key)

    def hook(request: Request, forward: Forward) -> Answer | None:
        path = request.path.partition("?")[0]
        hit = request.method == "GET" and quote(unquote(path)).endswith(ending)
        return fault(request, forward) if hit else forward(request)

    return hook


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


@pytest.mark.parametrize("fault", READS)
@pytest.mark.parametrize("file", STAGE_OF)
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
    assert read_range(other, count=len(records)).column("address")[0].as_py().startswith("datb/")
    found.before(COMMITTED)
    found.proxy.hook = on_key(key, instead(other))
    assert "it is not that file" in found.survives(COMMITTED)


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


# --- listings that are short ---


def listing(prefix: str, change: Callable[[bytes], bytes]) -> Hook:
    """Changes every list page of a prefix that ends so."""

    def hook(request: Request, forward: Forward) -> Answer:
        answer = forward(request)
        asked = request.query
        hit = "list-type" in asked and asked.get("prefix", "").endswith(prefix)
        return replace(answer, body=change(answer.body)) if hit else answer

    return hook


def drop(tag: str, counted: bool, times: int = 1) -> Callable[[bytes], bytes]:
    """Takes elements out of a page; `counted`: the page's own count goes along with it."""

    def change(body: bytes) -> bytes:
        body, taken = re.subn(rb"<%s>.*?</%s>" % (tag.encode(), tag.encode()), b"", body, count=times, flags=re.S)
        if counted:
            body = re.sub(rb"<KeyCount>(\d+)", lambda found: b"<KeyCount>%d" % (int(found[1]) - taken), body)
        return body

    return change


def more(token: bytes) -> Callable[[bytes], bytes]:
    return lambda body: re.sub(rb"<IsTruncated>false</IsTruncated>", b"<IsTruncated>true</IsTruncated>" + token, body)


LISTINGS = {
    "an object fewer than counted": ("", drop("Contents", False), LISTING),
    "a unit fewer than counted": ("data/", drop("CommonPrefixes", False), LISTING),
    "more to come, but not where": ("", more(b""), LISTING),
    "the same page for ever": ("", more(b"<NextContinuationToken>a</NextContinuationToken>"), LISTING),
    "no word of an end": ("", lambda body: re.sub(rb"<IsTruncated>.*?</IsTruncated>", b"", body), LISTING),
    "half a page": ("", lambda body: body[: len(body) // 2], LISTING),
    "nothing": ("", lambda body: b"", LISTING),
    "the folder of the staged dump is empty": ("/uncommitted/", drop("Contents", True, 99), STAGED),
}


@pytest.mark.parametrize("short", LISTINGS)
def test_a_listing_that_does_not_add_up_ends_the_mark(bench: Callable[[str], Bench], short: str) -> None:
    found = bench("random_3")
    assert found.proxy
    prefix, change, stage = LISTINGS[short]
    found.before(stage)
    found.proxy.hook = listing(prefix, change)
    assert found.survives(stage) not in ("authorised", "not authorised")


@pytest.mark.parametrize("tag", ["Contents", "CommonPrefixes"])
def test_a_listing_that_is_short_without_a_sign_deletes_nothing_live_and_the_default_level_refuses_it(
    bench: Callable[[str], Bench], tag: str
) -> None:
    found = bench("random_3")
    assert found.proxy
    mark_id = found.before(LISTING)
    prefix = "/" if tag == "Contents" else "data/"
    found.proxy.hook = listing(prefix, drop(tag, True, 40 if tag == "Contents" else 1))
    context = found.context(mark_id)
    pipeline.MARKING[LISTING](found.spark, context)
    found.proxy.hook = pass_on
    assert found.marks(mark_id, less=True)
    evidence = Evidence(context.header, context.mark.chain(), FULL, context.header.started_at)
    refused = {verdict.name for verdict in guards.evaluate(evidence) if verdict.stops}
    assert "live-in-listing" in refused


# --- the store loses requests ---


def kind_of(request: Request) -> str:
    """What a request is about: its method, and its key without ids and numbers."""
    query = request.query
    if "list-type" in query:
        prefix = query.get("prefix", "")
        if "/lakegc/" in prefix:
            return "LIST artifacts"
        return "LIST dump" if "uncommitted" in prefix else "LIST data"
    key = unquote(request.path.partition("?")[0])
    if "/lakegc/" not in key:
        named = re.search(r"commits\.csv|uncommitted/", key)
        return f"{request.method} {named[0] if named else 'metadata'}"
    key = re.sub(r".*/lakegc/(marks/[^/]*/)?", "", key)
    return f"{request.method} {re.sub(r'part-[^/]*', 'part', key)}"


def test_each_kind_of_request_may_be_lost_once_without_harm(bench: Callable[[str], Bench]) -> None:
    for fault in (lost, answer_lost, cut_off):
        found = bench("random_3")
        assert found.proxy
        seen: set[str] = set()

        def hook(request: Request, forward: Forward, fault: Hook = fault, seen: set[str] = seen) -> Answer | None:
            kind = kind_of(request)
            if kind in seen:
                return forward(request)
            seen.add(kind)
            return fault(request, forward)

        found.proxy.hook = hook
        assert found.survives(LISTING) == "authorised"
        assert len(seen) > 20, seen


LOST = {
    "PUT mark.json": LISTING,
    "GET mark.json": LISTING,
    "LIST data": LISTING,
    **{f"PUT {stage}/part": stage for stage in (LISTING, STAGED, COMMITS, COMMITTED, EXPIRED)},
    **{f"PUT {stage}/manifest.json": stage for stage in STAGES},
    **{f"GET {stage}/manifest.json": stage for stage in STAGES},
    "LIST dump": STAGED,
    "GET uncommitted/": STAGED,
    "PUT retention_commits/refs/part": COMMITS,
    "GET retention_commits/refs/part": COMMITS,
    "GET retention_commits/part": COMMITTED,
    "GET metadata": COMMITTED,
    "PUT committed_addresses/metaranges/part": COMMITTED,
    "GET committed_addresses/metaranges/part": COMMITTED,
    "PUT committed_addresses/ranges/part": COMMITTED,
    "GET namespace_listing/part": EXPIRED,
    "GET uncommitted_addresses/part": EXPIRED,
    "GET committed_addresses/part": EXPIRED,
    "PUT expired_addresses/kept/part": EXPIRED,
    "PUT deleted.text/part": EXPIRED,
}


@pytest.mark.parametrize(
    ("kind", "fault"),
    [*((kind, lost) for kind in LOST), *((kind, answer_lost) for kind in LOST if kind.startswith("PUT"))],
    ids=lambda value: value.__name__ if callable(value) else value,
)
def test_a_request_that_the_store_always_loses_ends_the_mark(
    bench: Callable[[str], Bench], kind: str, fault: Hook
) -> None:
    found = bench("random_3")
    assert found.proxy
    mark_id = found.before(LOST[kind])
    hit: list[str] = []

    def hook(request: Request, forward: Forward) -> Answer | None:
        if kind_of(request) != kind:
            return forward(request)
        hit.append(request.path)
        return fault(request, forward)

    found.proxy.hook = hook
    assert found.marks(mark_id) not in ("authorised", "not authorised")
    assert hit, f"no request was {kind}"
