"""Proofs that contents differ, by HEADs of a real S3 server, on a lake too large to be listed whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

from lakegc_core import pipeline
from lakegc_core.errors import RefusedError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.elsewhere import ELSEWHERE_SCHEMA
from lakegc_core.policy import safety
from lakegc_core.policy.prices import GUESSED
from lakegc_core.references.ranges.protected import ENTRIES_SCHEMA
from lakegc_core.references.shown import proofs, reuploads, sampled_etags, subjects
from lakegc_core.references.shown.alike import AlikeEntries
from lakegc_core.references.shown.classes import PLANNED, SIZES
from lakegc_core.references.shown.heads import BranchHeads
from lakegc_core.references.shown.intervals import ALIKE
from lakegc_core.references.shown.remembered import PROOFS_SCHEMA, Known
from lakegc_core.stages import swept_report
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import list_parts
from tests.efficacy.site import DAY, LATER, Bucket, Site, s3_behind_proxy, site
from tests.support.crowded import crowded
from tests.support.disguise import Disguise
from tests.support.lake import lake
from tests.support.marks import dataset
from tests.support.proxy import Answer, Forward, Proxy, Request, pass_on
from tests.support.replays import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BRANCHES = 12
SIZE = 500


pytestmark = [pytest.mark.slow, pytest.mark.safety]


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bucket, Proxy]]:
    """A real S3 server behind a proxy."""
    with s3_behind_proxy(tmp_path_factory.mktemp("proofs")) as found:
        yield found


@dataclass
class Town:
    """A lake of many branches that hold the same ranges."""

    lake: Site
    proxy: Proxy
    marks: int = 0
    contents: int = 0
    old: timedelta = field(default=timedelta(days=2))

    def content(self) -> bytes:
        """Bytes of the one size that no other object has."""
        self.contents += 1
        return f"{self.contents:08}".encode().ljust(SIZE, b".")

    def commit(self, **files: bytes) -> None:
        """Objects at main's head, and many branches of it."""
        for path, data in files.items():
            self.lake.repository.upload("main", path, data, age=self.old)
        date = datetime.fromtimestamp(self.lake.now, UTC) - self.old
        self.lake.repository.commit("main", f"of {self.lake.name}", date=date)
        for number in range(BRANCHES - 1):
            self.lake.repository.create_branch(f"b{number}", "main")

    def forgotten(self, data: bytes) -> str:
        """An object that was staged once and dropped."""
        address = self.lake.repository.upload("main", "forgotten", data, age=self.old)
        self.lake.repository.delete("main", "forgotten")
        return address

    def mark(self) -> tuple[MarkContext, dict[str, Any], set[str]]:
        """A mark; what the search said, and the objects of which HEADs were made."""
        self.lake.wait(DAY if self.marks else LATER)
        self.marks += 1
        first = len(self.proxy.requests)
        context = self.lake.begin(f"m{self.marks}")
        pipeline.mark(self.lake.spark, context)
        facts = context.mark.require("expired_addresses").facts
        return context, facts, self.heads(first)

    def sweep(self, context: MarkContext) -> None:
        swept_report(self.lake.spark, context)

    def heads(self, first: int) -> set[str]:
        """The keys of data that the proxy was asked for by HEAD since its request of that number."""
        heads = (unquote(each.path) for each in self.proxy.requests[first:] if each.method == "HEAD")
        base = f"/{self.lake.name}/"
        return {path.partition(base)[2] for path in heads if f"{base}data/" in path}

    def entry(self, path: str) -> str:
        return self.lake.shown("main")[path]


by_spark_too = pytest.mark.parametrize("town", [False, True], ids=["by this process", "by Spark"], indirect=True)
"""Few rows, and as if there were many."""


@pytest.fixture
def town(
    behind: tuple[Bucket, Proxy],
    quick: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Town]:
    """No branch is listed whole, and few pages are many."""
    monkeypatch.setitem(safety.LEVELS, "none", replace(safety.LEVELS["none"], whole_pages=0))
    monkeypatch.setattr(reuploads, "PAGES_BEFORE_HEADS", 1)
    bucket, running = behind
    name = f"town-{abs(hash(request.node.name)) % 10**8}"
    with site(quick, bucket, tmp_path, name) as lake, crowded(getattr(request, "param", False)):
        yield Town(lake, running)
    running.hook = pass_on


def expired(context: MarkContext) -> set[str]:
    return set(pipeline.expired_of(context))


def proven(context: MarkContext) -> dict[str, str]:
    """The digests that the mark puts down for later ones, by address."""
    return {row["address"]: row["digest"] for row in rows(context, "expired_addresses", "proofs")}


def test_sizes_that_coincide_by_chance_cost_heads_and_no_pages(town: Town) -> None:
    town.commit(a=town.content(), b=town.content())
    garbage = {town.forgotten(town.content()) for _ in range(3)}
    live = {town.entry("a"), town.entry("b")}
    context, facts, heads = town.mark()
    assert (facts["pages_asked"], facts["heads"]) == (0, 5)
    assert heads == garbage | live
    assert expired(context) == garbage
    assert proven(context).keys() == heads

    more = {town.forgotten(town.content())}
    context, facts, heads = town.mark()
    assert (facts["pages_asked"], facts["heads"]) == (0, 1)
    assert heads == more
    assert expired(context) == garbage | more
    assert proven(context).keys() == garbage | more | live

    first = len(town.proxy.requests)
    town.sweep(context)
    assert not town.heads(first) & live
    assert town.lake.stored().keys() == live


def test_what_is_of_no_more_use_is_forgotten(town: Town) -> None:
    town.commit(a=town.content())
    town.forgotten(town.content())
    context, _, _ = town.mark()
    town.sweep(context)
    again = town.forgotten(town.content())
    context, facts, heads = town.mark()
    assert heads == {again}
    assert proven(context).keys() == {again, town.entry("a")}
    assert facts["pages_asked"] == 0


def test_under_kms_heads_prove_nothing_and_all_that_is_alike_by_size_is_asked_for(town: Town) -> None:
    town.proxy.hook = Disguise(lambda path: True)
    data = town.content()
    town.commit(a=data)
    garbage = {town.forgotten(town.content()) for _ in range(2)}
    hidden = town.lake.repository.upload("b3", "a", data, age=town.old)
    context, facts, heads = town.mark()
    assert heads == garbage | {hidden}, "where candidates have no digest, entries need none"
    assert set(proven(context).values()) == {""}
    assert facts["pages_asked"] == BRANCHES
    assert expired(context) == garbage
    _, facts, heads = town.mark()
    assert not heads, "that they prove nothing is remembered"
    assert facts["pages_asked"] == BRANCHES


def only_listings(disguise: Disguise) -> Callable[[Request, Forward], Answer]:
    """Listings show ETags that are no digests, as those of GCS are; HEAD shows the content's MD5."""
    return lambda request, forward: (disguise if "list-type" in request.query else pass_on)(request, forward)  # type: ignore[return-value]


@by_spark_too
@pytest.mark.parametrize(
    "listed",
    [
        pytest.param(True, id="that the listing gives away"),
        pytest.param(False, id="that only HEAD shows"),
    ],
)
def test_a_hidden_re_upload_is_found_by_a_digest(town: Town, listed: bool) -> None:
    if not listed:
        town.proxy.hook = only_listings(Disguise(lambda path: True))
    data = town.content()
    town.commit(a=data)
    garbage = {town.forgotten(town.content())}
    hidden = town.lake.repository.upload("b3", "a", data, age=town.old)
    context, facts, heads = town.mark()
    assert facts["pages_asked"] == BRANCHES
    # The entry needs no HEAD: that of a candidate shows another object than was listed.
    assert heads == (set() if listed else garbage | {hidden})
    assert expired(context) == garbage
    town.sweep(context)
    assert town.lake.stored().keys() == {hidden, town.entry("a")}


@by_spark_too
@pytest.mark.parametrize("unproven", ["entry", "candidate"])
def test_where_one_side_is_proven_and_the_other_is_not_lakefs_is_asked(town: Town, unproven: str) -> None:
    secret: set[str] = set()
    town.proxy.hook = Disguise(lambda path: any(path.endswith(each) for each in secret))
    data = town.content()
    town.commit(a=data)
    garbage = {town.forgotten(town.content())}
    hidden = town.lake.repository.upload("b3", "a", data, age=town.old)
    secret.add(town.entry("a") if unproven == "entry" else hidden)
    context, facts, heads = town.mark()
    found = proven(context)
    if unproven == "candidate":
        assert heads == garbage | {hidden}
        assert [each for each, digest in found.items() if not digest] == [hidden]
    assert facts["pages_asked"] == BRANCHES
    assert expired(context) == garbage


def test_an_entry_that_claims_another_digest_than_its_object_has_is_asked_for(town: Town) -> None:
    """A client that links everything with one checksum hides objects whose contents differ."""
    repository, checksum = town.lake.repository, "c" * 32
    town.lake.link("main", "a", town.content(), checksum=checksum)
    town.commit()
    hidden = town.lake.link("b3", "a", town.content(), checksum=checksum)
    garbage = {town.forgotten(town.content())}
    assert repository.entry("b3", "a").address.endswith(hidden)
    context, facts, _ = town.mark()
    assert facts["pages_asked"] == BRANCHES
    assert expired(context) == garbage


def test_over_five_nights_each_object_costs_one_head_whatever_became_of_the_marks_between(town: Town) -> None:
    def heads_of_night(number: int, *garbage: str) -> set[str]:
        town.lake.repository.upload("main", f"night-{number}", town.content(), age=town.old)
        town.lake.repository.commit("main", f"night {number}", date=datetime.fromtimestamp(town.lake.now, UTC))
        first = len(town.proxy.requests)
        context, facts, heads = town.mark()
        assert facts["pages_asked"] == 0
        assert expired(context) == set(garbage)
        town.sweep(context)
        assert not town.heads(first) & town.lake.live() - heads, "the look asks for nothing once more"
        return heads

    town.commit(a=town.content(), b=town.content())
    garbage = town.forgotten(town.content())
    assert heads_of_night(1, garbage) == town.lake.live() | {garbage}
    assert not heads_of_night(2), "there is nothing that a head could tell apart"
    garbage = town.forgotten(town.content())
    broken = town.lake.begin("broken")
    for stage in list(pipeline.MARKING.values())[:2]:
        stage(town.lake.spark, broken)
    assert heads_of_night(3, garbage) == {garbage, town.entry("night-2"), town.entry("night-3")}
    damaged = town.lake.begin("m3").mark
    damaged.store.write(f"{damaged.folder}/expired_addresses.json", b"{}")
    garbage = town.forgotten(town.content())
    assert heads_of_night(4, garbage) >= {garbage, town.entry("night-4")}
    garbage = town.forgotten(town.content())
    assert heads_of_night(5, garbage) == {garbage, town.entry("night-5")}


def test_what_somebody_replaced_since_is_asked_about_anew(town: Town) -> None:
    """An entry's object had the content that it claims, and has another one now, of which a branch hides a copy."""
    town.commit(a=town.content())
    garbage = {town.forgotten(town.content())}
    context, _, _ = town.mark()
    replaced = town.entry("a")
    context.mark.store.write(replaced, town.content())
    hidden = town.lake.repository.copy("b3", "a", "main", "a").address
    town.lake.wait(DAY)
    context, facts, heads = town.mark()
    assert heads == {replaced, hidden}
    assert facts["pages_asked"] == BRANCHES
    assert expired(context) == garbage


@by_spark_too
@pytest.mark.parametrize("claim", ["of KMS", "of parts"])
def test_a_plain_copy_of_an_entry_whose_claim_is_no_digest_is_found(town: Town, claim: str) -> None:
    """A copy claims what its source claims, and the store lists it with the MD5 of its own bytes."""
    secret: set[str] = set()
    town.proxy.hook = disguise = Disguise(lambda path: any(path.endswith(each) for each in secret))
    checksum = "c" * 32 if claim == "of KMS" else "c" * 32 + "-2"
    town.lake.link("main", "a", town.content(), checksum=checksum)
    town.commit()
    secret.add(town.entry("a"))
    disguise.etag = lambda path, real: checksum  # type: ignore[method-assign]
    garbage = {town.forgotten(town.content())}
    hidden = town.lake.repository.copy("b3", "a", "main", "a").address
    town.lake.wait(2 * DAY)
    context, facts, heads = town.mark()
    assert heads == (garbage | {hidden, town.entry("a")} if claim == "of KMS" else set())
    assert facts["pages_asked"] == BRANCHES
    assert expired(context) == garbage
    town.sweep(context)
    assert town.lake.stored().keys() == {hidden, town.entry("a")}


@by_spark_too
def test_what_the_heads_do_not_suffice_for_waits_and_later_marks_make_the_others(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(safety.LEVELS, "none", replace(safety.LEVELS["none"], heads=3))
    town.commit(**{f"p{number}": town.content() for number in range(4)})
    garbage = {town.forgotten(town.content()) for _ in range(2)}
    context, facts, heads = town.mark()
    assert (facts["pages_asked"], facts["heads"], len(heads)) == (0, 3, 3)
    assert garbage < heads, "candidates come first"
    assert not expired(context)
    assert facts["waiting"] == {"objects": 2, "bytes": 2 * SIZE}
    context, facts, more = town.mark()
    assert (facts["pages_asked"], facts["heads"]) == (0, 3)
    assert heads | more == garbage | set(town.lake.shown("main").values())
    assert not heads & more, "what is proven is asked for once"
    assert expired(context) == garbage


def test_where_an_entry_is_proven_already_and_a_new_candidate_is_not_lakefs_is_asked(town: Town) -> None:
    data = town.content()
    town.commit(a=data)
    garbage = {town.forgotten(town.content())}
    _, facts, _ = town.mark()
    assert facts["pages_asked"] == 0, "the entry is proven"
    hidden = town.lake.repository.upload("b3", "a", data, age=town.old)
    town.proxy.hook = Disguise(lambda path: path.endswith(hidden))
    context, facts, heads = town.mark()
    assert heads == {hidden}
    assert facts["pages_asked"] == BRANCHES
    assert expired(context) == garbage


@pytest.mark.parametrize("claimed", [True, False], ids=["that an entry claims", "that no entry claims"])
def test_a_digest_that_no_listing_shows_counts_as_much(quick: SparkSession, tmp_path: Path, claimed: bool) -> None:
    """On GCS the ETag of a listing is a generation, and HEAD shows an MD5 beside it."""
    one, other = "a" * 32, "b" * 32
    with lake(tmp_path) as served:
        served.create("lake").set_rules(7)
        context = served.begin("lake", "m1")
        out = DatasetFolder(context.workspace, "here")
        alike = dataset(context, "here/alike", ALIKE, [{"range_id": "r", "count": 1, "size": 1, "rank": 1}])
        nothing = {each.name: Dataset(PLANNED) for each in fields(BranchHeads)} | {"entries_bound": 0}
        heads = BranchHeads(**nothing)  # type: ignore[arg-type]
        heads = replace(heads, entries=Dataset(ENTRIES_SCHEMA), outside=Dataset(ELSEWHERE_SCHEMA))
        entries = AlikeEntries(quick, context, heads, Dataset(PLANNED), out, Dataset(SIZES))
        known = Known(Dataset(PROOFS_SCHEMA), 0, GUESSED, is_mark=True)
        found = proofs.Proofs(subjects.Subjects(entries, known, alike), {}, 0)
        entry = {"address": "data/e", "size": 1, "rank": 1}
        candidate = {"address": "data/c", "size": 1, "rank": 1, "etag": "17", "is_candidate": True}
        rows = [
            entry | {"is_candidate": False, "digest": f"md5:{one}"},
            candidate | {"digest": f"md5:{one if claimed else other}"},
        ]
        found.subjects.__dict__["claims"] = dataset(
            context, "here/entries", subjects.CLAIMED, [entry | {"e_tag": one, "asks": True}]
        )
        found.subjects.__dict__["rows"] = dataset(context, "here/subjects", subjects.SUBJECTS, rows)
        found._left(Dataset(PROOFS_SCHEMA))
        left = [part.rows for part in list_parts(context.workspace, f"here/{proofs._UNPROVEN}")]
        assert left == ([1] if claimed else [])


def refused(secret: set[str]) -> Callable[[Request, Forward], Answer]:
    """The store answers 403 to HEADs of these."""

    def hook(request: Request, forward: Forward) -> Answer:
        if request.method == "HEAD" and any(unquote(request.path).endswith(each) for each in secret):
            return Answer(403, {}, b"")
        return forward(request)

    return hook


@pytest.mark.parametrize("how", ["under KMS", "refused"])
def test_nothing_waits_for_heads_that_cannot_help(town: Town, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """More entries than HEADs may be made, and a candidate of their size that has no digest."""
    monkeypatch.setitem(safety.LEVELS, "none", replace(safety.LEVELS["none"], heads=3))
    town.commit(**{f"p{number}": town.content() for number in range(6)})
    garbage = {town.forgotten(town.content()) for _ in range(2)}
    secret = {min(garbage)}
    town.proxy.hook = Disguise(lambda path: path.endswith(min(secret))) if how == "under KMS" else refused(secret)
    for _ in range(2):
        context, facts, heads = town.mark()
        assert not heads & town.lake.live()
        assert facts["waiting"]["objects"] == 0 and facts["pages_asked"] == BRANCHES
        assert expired(context) == garbage


def test_nothing_waits_for_heads_where_the_store_refuses_all_of_them(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As to a mark that may not read data: at no later one it answers them."""
    monkeypatch.setitem(safety.LEVELS, "none", replace(safety.LEVELS["none"], heads=1))
    town.commit(**{f"p{number}": town.content() + b"+" * (number // 2) for number in range(6)})  # of three sizes
    garbage = {town.forgotten(town.content() + b"+" * number) for number in range(3)}
    town.proxy.hook = lambda request, forward: (
        Answer(403, {}, b"") if request.method == "HEAD" and "/data/" in request.path else forward(request)
    )
    context, facts, _ = town.mark()
    assert facts["heads"] == 1 and facts["pages_asked"] and facts["waiting"]["objects"] == 0
    assert expired(context) == garbage


@by_spark_too
def test_nothing_waits_for_heads_of_entries_that_the_store_never_answers(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a customer's key, say. Those of the candidates are answered, and remembered: later marks ask for none."""
    monkeypatch.setitem(safety.LEVELS, "none", replace(safety.LEVELS["none"], heads=3))
    files = {f"p{number}": town.content() for number in range(6)}
    town.commit(**files)
    garbage = {town.forgotten(town.content()) for _ in range(2)}
    town.proxy.hook = refused({town.entry(path) for path in files})
    for _ in range(2):
        context, facts, heads = town.mark()
        assert heads and facts["waiting"]["objects"] == 0
        assert expired(context) == garbage


def test_proofs_of_a_mark_that_a_wrong_clock_dated_ahead_are_made_again(town: Town) -> None:
    """It would stay the newest one for a month, and each night would lose what the one before had proved."""
    town.commit(a=town.content())
    garbage = {town.forgotten(town.content())}
    town.lake.wait(30 * DAY)
    _, _, ahead = town.mark()
    town.lake.wait(-30 * DAY)
    context, _, heads = town.mark()
    assert heads == ahead
    assert expired(context) == garbage
    _, _, heads = town.mark()
    assert not heads


def test_a_look_waits_for_no_heads_of_later_looks(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """Re-uploads that the mark knows as candidates are none to the look, which must ask for their entries itself."""
    monkeypatch.setitem(safety.LEVELS, "none", replace(safety.LEVELS["none"], heads=3))
    files = {f"p{number}": town.content() for number in range(6)}
    town.commit(**files)
    hidden = {town.lake.repository.upload("b3", path, data, age=town.old) for path, data in files.items()}
    garbage = town.forgotten(town.content())
    live = town.lake.live()
    assert hidden < live
    for _ in range(4):
        context, _, _ = town.mark()
        town.sweep(context)
        assert live <= town.lake.stored().keys()
    assert garbage not in town.lake.stored()


def test_proofs_that_do_not_read_are_forgotten_and_made_again(town: Town) -> None:
    town.commit(a=town.content())
    garbage = {town.forgotten(town.content())}
    context, _, first = town.mark()
    for part in context.mark.require("expired_addresses").datasets["proofs"]:
        key = f"{context.mark.stage_folder('expired_addresses', 'proofs')}/{part.name}"
        context.mark.store.write(key, context.mark.store.read(key)[:-9])
    context, _, again = town.mark()
    assert again == first
    assert expired(context) == garbage
    _, _, heads = town.mark()
    assert not heads


@by_spark_too
def test_where_etags_are_promised_to_be_digests_only_a_sample_costs_heads(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampled_etags, "ETAGS_ASKED", 1)
    town.lake.etags = "md5"
    data = town.content()
    town.commit(a=data, b=town.content())
    garbage = {town.forgotten(town.content()) for _ in range(3)}
    context, facts, heads = town.mark()
    assert (facts["pages_asked"], facts["heads"], len(heads)) == (0, 0, 1)
    assert expired(context) == garbage
    assert not proven(context), "a promise may be taken back"
    hidden = town.lake.repository.upload("b3", "a", data, age=town.old)
    context, facts, heads = town.mark()
    assert (facts["pages_asked"], facts["heads"]) == (BRANCHES, 0)
    assert expired(context) == garbage
    town.sweep(context)
    assert town.lake.stored().keys() == {hidden, *town.lake.shown("main").values()}


def test_a_promise_that_one_object_contradicts_refuses_the_mark_and_names_it(town: Town) -> None:
    town.commit(a=town.content())
    town.forgotten(town.content())
    secret = town.entry("a")
    town.lake.etags = "md5"
    town.proxy.hook = Disguise(lambda path: path.endswith(secret))
    town.lake.wait(LATER)
    with pytest.raises(RefusedError, match=f"{secret}.* no MD5.*Remove `etags: md5`"):
        pipeline.mark(town.lake.spark, town.lake.begin("m1"))
