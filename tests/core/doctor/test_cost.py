"""The requests and the cost that the doctor foretells are those that a store and lakeFS see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.cli.doctor import doctor_screen
from lakegc_core.config.settings import Price, ServerSettings, Settings
from lakegc_core.config.stores import StoreMapping
from lakegc_core.doctor.cost import Requests, requests_and_cost
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.marks.artifacts import CLEAN
from lakegc_core.marks.context import begin_mark, open_mark, open_repository
from lakegc_core.names import STAGES
from lakegc_core.policy import safety
from lakegc_core.stages import swept_report
from lakegc_sandbox import Repository
from tests.core.doctor.conftest import Patient
from tests.efficacy.site import DAY, Bucket, Site, s3_bucket, site
from tests.support.marks import finish
from tests.support.proxy import Proxy, Request, proxy
from tests.support.tasks import tasks_run_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WITHIN = 0.10
LISTED = {"objects": 30_000, "units": 10}
PRICE = Price(per_gb_month=0.023, per_1000_writes=0.005, per_1000_reads=0.0004)


def commit(repository: Repository, branch: str, days: int) -> None:
    moment = datetime.now(UTC) - days * DAY
    repository.commit(branch, f"of {days} days ago", date=moment)


def a_table_of_few_files(repository: Repository) -> None:
    for days in (20, 15, 10, 1):
        for part in range(30):
            repository.upload("main", f"table/{part}", f"{days} {part}".encode(), age=days * DAY)
        commit(repository, "main", days)


def many_commits_branches_and_slices(repository: Repository) -> None:
    for days in range(60, 0, -1):
        repository.upload("main", f"file {days % 40}", f"{days}".encode(), age=days * DAY)
        commit(repository, "main", days)
    for number in range(30):
        repository.create_branch(f"b{number}", "main")
        repository.upload(f"b{number}", "own", f"of {number}".encode(), age=2 * DAY)
        if number < 20:
            commit(repository, f"b{number}", 1)


def many_objects_that_were_never_committed(repository: Repository) -> None:
    for part in range(300):
        repository.upload("main", f"kept/{part}", f"{part}".encode(), age=3 * DAY)
    commit(repository, "main", 1)
    for part in range(1_050):
        repository.upload("main", "over and over", f"{part}".encode(), age=timedelta(days=2, hours=part % 7))


def some_branches(repository: Repository) -> None:
    """So many heads with so many paths that the sample of paths is as large as it can be."""
    for number in range(5):
        repository.create_branch(f"more-{number}", "main")
        for part in range(4):
            repository.upload(f"more-{number}", f"more/{part}", f"{number} {part}".encode(), age=2 * DAY)
        commit(repository, f"more-{number}", 1)


@dataclass(frozen=True)
class Counting:
    """A repository whose store and whose lakeFS count what lakegc asks them."""

    spark: SparkSession
    site: Site
    proxy: Proxy

    def settings(self) -> Settings:
        server = self.site.server
        lakefs = ServerSettings(server.url, server.access_key, server.secret_key)
        return Settings(lakefs, stores=(StoreMapping("s3://", endpoint=self.proxy.endpoint),), price=PRICE)

    def open(self) -> Any:
        settings = self.settings()
        return open_repository(settings, "lake", client=LakeFSClient(settings.server))

    def mark(self, mark_id: str) -> Any:
        self.site.wait(timedelta(hours=2))
        context = begin_mark(self.open(), mark_id, min_age=timedelta(hours=1), safety_level="none", mode=CLEAN)
        pipeline.mark(self.spark, context)
        return context

    def counted(self, work: Callable[[], object]) -> Requests:
        """What is asked while something is done."""
        self.proxy.requests.clear()
        self.site.server.requests.clear()
        work()
        kinds = Counter(map(kind, self.proxy.requests))
        return Requests(
            **{each: kinds[each] for each in ("lists", "reads", "writes", "deletes")},
            lakefs=len(self.site.server.requests),
        )


def kind(request: Request) -> str:
    """As S3 bills it."""
    if request.method == "GET" and "prefix" in request.query:
        return "lists"
    if request.method == "DELETE" or (request.method == "POST" and "delete" in request.query):
        return "deletes"
    return {"GET": "reads", "HEAD": "reads", "PUT": "writes"}[request.method]


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bucket, Proxy]]:
    """A real S3 server, and the proxy before it through which lakegc alone goes: lakeFS's own requests do not count."""
    with s3_bucket(tmp_path_factory.mktemp("cost")) as found, proxy(found.endpoint) as running:
        yield found, running


@pytest.fixture
def counting(
    quick: SparkSession, tmp_path: Path, bucket: tuple[Bucket, Proxy], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Callable[[Repository], None]], Counting]]:
    """Makes a repository, and lakegc at work on it that reads as many paths as level `full` does."""
    found, running = bucket
    monkeypatch.setitem(safety.LEVELS, "none", replace(safety.LEVELS["none"], samples=safety.FULL.samples))
    tasks_run_here(monkeypatch)
    with ExitStack() as stack:

        def make(history: Callable[[Repository], None]) -> Counting:
            place = replace(
                found,
                root=f"{found.root}/{history.__name__}",
                config=lambda name: found.config(f"{history.__name__}/{name}"),
            )
            made = stack.enter_context(site(quick, place, tmp_path, "lake"))
            history(made.repository)
            some_branches(made.repository)
            return Counting(quick, made, running)

        yield make


def test_the_doctor_tells_the_requests_and_the_money(on_folder: Patient) -> None:
    """Of the clean mark that the newest one rests on, and of the newest one's sweep if it found anything."""
    assert on_folder.examine().as_json()["cost"] is None
    made(on_folder, "m1", expired_addresses={"expired": {"objects": 2_500, "bytes": 1}}, namespace_listing=LISTED)
    found = on_folder.at(price=PRICE).examine()
    cost = found.as_json()["cost"]
    mark, sweep = cost["clean_mark"], cost["sweep"]
    assert (mark["lists"], mark["deletes"], sweep["deletes"]) == (32 + 6 + 10 + 30, 0, 2)
    assert mark["money"] == Requests(**{name: count for name, count in mark.items() if name != "money"}).money(PRICE)
    (of_mark, of_sweep) = [line for line in doctor_screen(found).splitlines() if line.startswith("  requests")]
    assert "a clean mark: 78 lists, " in of_mark and of_mark.endswith("USD") and "the sweep of mark m1: " in of_sweep
    assert on_folder.examine().cost["clean_mark"]["money"] is None, "lakegc.yaml has no prices"
    seal = seal_of("m1", on_folder)
    made(on_folder, "m2", namespace_listing={"rests_on": [["m1", seal]], "units": 1})
    cost = on_folder.examine().cost
    assert (cost["mark_id"], cost["clean_mark_id"], cost["sweep"]) == ("m2", "m1", None)
    assert cost["clean_mark"]["lists"] == 78 + 6, "of m1, and there is one more mark"


def test_stores_bill_lists_as_writes_and_no_deletes() -> None:
    asked = Requests(lists=1_000, reads=10_000, writes=3_000, deletes=70, lakefs=5)
    assert asked.money(PRICE) == pytest.approx(4 * 0.005 + 10 * 0.0004)
    assert asked.money(replace(PRICE, per_1000_reads=None)) is None and asked.money(None) is None


def made(patient: Patient, mark_id: str, **facts: dict[str, Any]) -> None:
    """A mark written by hand, with facts by stage."""
    context = begin_mark(patient.open(), mark_id)
    for stage in STAGES:
        finish(context, stage, **facts.get(stage, {}))


def seal_of(mark_id: str, patient: Patient) -> str:
    """What a mark that rests on it records."""
    return patient.open().artifacts(mark_id).require(STAGES[-1]).digest


def differences(foretold: Mapping[str, int], seen: Requests) -> dict[str, tuple[int, int]]:
    """The kinds of which another number was foretold."""
    pairs = {name: (foretold[name], count) for name, count in asdict(seen).items()}
    return {name: pair for name, pair in pairs.items() if abs(pair[0] - pair[1]) > WITHIN * pair[1]}


@pytest.mark.parametrize(
    "history",
    [
        a_table_of_few_files,
        many_commits_branches_and_slices,
        many_objects_that_were_never_committed,
    ],
    ids=lambda history: str(history.__name__),
)
def test_a_clean_mark_and_a_sweep_ask_for_what_was_foretold_by_the_mark_before(
    history: Callable[[Repository], None], counting: Callable[[Callable[[Repository], None]], Counting]
) -> None:
    found = counting(history)
    found.mark("m1")
    foretold = requests_and_cost(found.open())
    assert foretold["mark_id"] == foretold["clean_mark_id"] == "m1"
    assert differences(foretold["clean_mark"], found.counted(lambda: found.mark("m2"))) == {}
    foretold = requests_and_cost(found.open())
    context = open_mark(found.open(), "m2")
    assert differences(foretold["sweep"], found.counted(lambda: swept_report(found.spark, context))) == {}
