"""A repository on a real object store, reached through a proxy that spoils its sweeps, and the judgement over them.

Here: what lies there, marking it, sweeping it, what was asked of the store and what the journal says. Not here: the
faults (`tests/core/faults`), and killing a sweep from outside.
"""

from __future__ import annotations

import html
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

from lakegc_core import pipeline
from lakegc_core.config.settings import ScaleSettings, ServerSettings, Settings
from lakegc_core.config.stores import StoreMapping
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.marks.context import MarkContext, begin_mark, open_mark, open_repository
from lakegc_core.stages import swept_report
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.sweep import deletion
from lakegc_core.sweep.record import FINAL
from lakegc_core.sweep.result import SweepResult
from lakegc_core.tables.parts import list_parts, read_part
from lakegc_sandbox.api.server import SandboxServer
from lakegc_sandbox.files.names import Names
from lakegc_sandbox.lakefs import Sandbox
from tests.support.azurite import AzureServer
from tests.support.lake import QUICK
from tests.support.proxy import Answer, Forward, Hook, Proxy, Request, pass_on, proxy
from tests.support.replays import AWS, AZURE, environment
from tests.support.servers import S3Server
from tests.support.tasks import run_here
from tests.support.waiting import STARTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME, MARK, PREFIX = "lake", "m1", "team/lake"
FOREIGN = "README.md"
PATIENCE = 60.0  # seconds without an answer until it counts as lost
SOON = 10.0  # the same where answers are held back: what is not held back has to be there by then, three times
_SWEEPS = f"_lakefs/retention/gc/lakegc/marks/{MARK}/sweeps"


def is_delete(request: Request) -> bool:
    """A request that deletes data: S3's DeleteObjects, Azure's batches. A sweep removes old reports of its own, too."""
    batch = "delete" in request.query or request.query.get("comp") == "batch"
    return request.method == "POST" and batch and b"_lakefs/" not in request.body


def keys_of(request: Request) -> list[str]:
    """The addresses that a request to delete names."""
    if "delete" in request.query:
        found = [html.unescape(key) for key in re.findall(r"<Key>(.*?)</Key>", request.body.decode())]
    else:
        found = [unquote(path) for path in re.findall(r"DELETE (\S+?)(?:\?\S*)? HTTP", request.body.decode())]
    return [key.partition(f"{PREFIX}/")[2] for key in found]


@dataclass
class StormyLake:
    """A marked repository: `live` and `dead` addresses, its store seen directly and through the proxy."""

    spark: SparkSession
    server: SandboxServer
    settings: Settings  # in which the store is behind the proxy
    direct: StoreConfig
    proxy: Proxy
    live: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    waves: list[tuple[int | None, float]] = field(default_factory=list)  # tasks side by side, and each one's ceiling
    swept: Event = field(default_factory=Event)  # the last sweep is over

    def open(self, patience: float = PATIENCE) -> MarkContext:
        """The mark, whose store is asked through the proxy. `patience`: seconds until an answer counts as lost."""
        client = LakeFSClient(self.settings.server, sleep=lambda seconds: None)
        found = open_repository(self.settings, NAME, client=client)
        store: Any = replace(found.data, read_timeout=patience, max_attempts=3)  # type: ignore[type-var]
        behind = replace(found, data=store, outputs=store, workspace=store)
        if behind.artifacts(MARK).header() is None:
            return begin_mark(behind, MARK, min_age=timedelta(0), safety_level="none")
        return open_mark(behind, MARK)

    def mark(self) -> None:
        """Mark, undisturbed; the dead and nothing else are found."""
        context = self.open()
        pipeline.mark(self.spark, context)
        assert set(pipeline.expired_of(context)) == self.dead

    def sweep(self, hook: Hook = pass_on, *, batch: int = 40, patience: float = PATIENCE) -> SweepResult:
        """Sweep with small batches while the hook spoils what it likes. Tasks run here, so that batches can be small.

        Nothing that the journal calls done when it begins is asked for.
        """
        done = {address for address, outcome in self.final_outcomes().items() if outcome in FINAL}
        first = len(self.proxy.requests)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(deletion, "run_tasks", self._wave)
            patch.setattr(deletion, "BATCH", batch)
            self.proxy.hook = hook
            self.swept.clear()
            try:
                return swept_report(self.spark, self.open(patience))
            finally:
                self.swept.set()
                self.proxy.hook = pass_on
                asked = self.asked_since(first)
                assert asked.isdisjoint(done), "asked again for what was on record"
                assert asked <= self.dead, "asked for something else than garbage"

    def stall(self, request: Request, forward: Forward) -> None:
        """The hook for a server that has done it, and whose answer comes too late."""
        forward(request)
        self.swept.wait(STARTS)

    def _wave(self, spark: SparkSession, items: Sequence[Any], task: Any, *, width: int | None) -> list[Any]:
        self.waves.append((width, task.__self__.rate))
        return run_here(spark, items, task)

    # --- the judgement ---

    def stored(self) -> set[str]:
        """What lies in the namespace, without lakeFS's and lakegc's own."""
        batches = connect(self.direct).list()
        keys = (key for batch in batches for key in batch["address"].to_pylist())
        return {key for key in keys if not key.startswith("_lakefs/")}

    def journal(self) -> Iterator[dict[str, Any]]:
        """Every outcome on record, with the number of its sweep."""
        store = connect(self.direct)
        for level in store.list_level(f"{_SWEEPS}/"):
            for prefix in level.prefixes:
                folder = f"{prefix}outcomes"
                for part in list_parts(self.direct, folder):
                    for batch in read_part(self.direct, folder, part):
                        yield from (row | {"sweep": int(prefix.split("/")[-2])} for row in batch.to_pylist())

    def final_outcomes(self) -> dict[str, str]:
        """By address, what the last attempt of the last sweep says of it; it says one thing."""
        last: dict[str, tuple[int, int]] = {}
        said: dict[str, set[str]] = {}
        for row in self.journal():
            address, at = row["address"], (row["sweep"], row["attempt"])
            if at > last.get(address, (0, 0)):
                last[address], said[address] = at, set()
            if at == last[address]:
                said[address].add(row["outcome"])
        assert all(len(outcomes) == 1 for outcomes in said.values()), "two outcomes of one object in one attempt"
        return {address: outcomes.pop() for address, outcomes in said.items()}

    def done(self) -> set[str]:
        """What the journal calls done. It is, and nothing live is gone."""
        left, final = self.stored(), self.final_outcomes()
        assert left >= self.live | {FOREIGN}, "something live is gone"
        assert set(final) <= self.dead, "an outcome of something else"
        gone = {address for address, outcome in final.items() if outcome in FINAL}
        assert not gone & left, "on record as gone, and still there"
        return gone

    def asked_since(self, first: int) -> set[str]:
        """The addresses of data that were to be deleted by requests from this one on."""
        deletes = filter(is_delete, self.proxy.requests[first:])
        return {key for request in deletes for key in keys_of(request)}

    def check(self, result: SweepResult, *, planned: set[str] | None = None) -> None:
        """One outcome for each object, sums that agree with journal and store, and nothing live gone."""
        gone, final = self.done(), self.final_outcomes()
        assert set(final) == self.dead, "an outcome for each, and for nothing else"
        swept = planned if planned is not None else self.dead
        assert Counter(result.outcomes) == Counter(final[address] for address in swept), "the report and the journal"
        assert result.planned == len(swept) and result.failed == len(swept - gone)

    def reset(self) -> None:
        """As it was after the mark: the garbage lies there again, and nobody has swept it."""
        store = connect(self.direct)
        _put(store, sorted(self.dead - self.stored()))
        _remove(store, f"{_SWEEPS}/")


def _remove(store: Any, folder: str) -> None:
    """Delete what is below a folder, and the folder: SeaweedFS goes on listing those that have become empty."""
    for level in store.list_level(folder):
        for prefix in level.prefixes:
            _remove(store, prefix)
        store.delete_many(level.objects["address"].to_pylist())
    store.delete_many([folder])


def _put(store: Any, addresses: Sequence[str]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda address: store.write(address, b"x" * 16), addresses))


@contextmanager
def stormy_lake(spark: SparkSession, folder: Path, store: S3Server | AzureServer, garbage: int) -> Iterator[StormyLake]:
    """The lake with so much garbage, marked and served; Spark is quick on little data until the block ends."""
    s3 = isinstance(store, S3Server)
    uri = f"s3://{store.bucket}/{PREFIX}" if isinstance(store, S3Server) else store.namespace(PREFIX)
    direct = store.config(PREFIX)
    with ExitStack() as stack:
        stack.enter_context(environment(AWS | AZURE | {"LAKEGC_UNSAFE": "yes"}))
        before = {name: spark.conf.get(name) for name in QUICK}
        for name, value in QUICK.items():
            spark.conf.set(name, value)
            stack.callback(spark.conf.set, name, str(before[name]))
        between = stack.enter_context(proxy(store.endpoint))
        account = "" if s3 else "/" + store.endpoint.rpartition("/")[2]
        sandbox = Sandbox(folder / "lake", blockstore="s3" if s3 else "azure", seed=1)
        repository = sandbox.create_repository(NAME, uri, store=direct, age=timedelta(days=30))
        repository.set_rules(7)
        server = stack.enter_context(SandboxServer(sandbox))
        settings = Settings(
            server=ServerSettings(server.url, server.access_key, server.secret_key),
            scale=ScaleSettings(range_num_partitions=2, address_num_partitions=3, listing_parallelism=2),
            stores=(StoreMapping(uri.rpartition(f"/{PREFIX}")[0], endpoint=between.endpoint + account),),
        )
        found = StormyLake(spark, server, settings, direct, between)
        for number in range(5):
            found.live.add(repository.upload("main", f"table/{number}", bytes([number]) * 9, age=timedelta(days=20)))
        repository.commit("main", "live", date=datetime.now(UTC) - timedelta(days=20))
        names, old = Names(seed=2), time.time() - 9 * 86_400
        found.dead.update(names.data_address(old + number) for number in range(garbage))
        _put(connect(direct), [FOREIGN, *sorted(found.dead)])
        time.sleep(1.1)  # or longer: the store counts whole seconds, and only what is older than the mark may go
        found.mark()
        yield found


def answering(*answers: Answer | Hook | None, then: Hook = pass_on) -> Hook:
    """The requests to delete data get these answers one after the other, and then what `then` makes of them."""
    left = iter(answers)

    def hook(request: Request, forward: Forward) -> Answer | None:
        if not is_delete(request):
            return forward(request)
        answer = next(left, then)
        return answer(request, forward) if callable(answer) else answer

    return hook
