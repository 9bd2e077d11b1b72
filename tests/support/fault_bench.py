"""A recording whose servers can be made to fail, marks of it that stand up to some stage, and faults of stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import pytest

from lakegc_core import pipeline
from lakegc_core.errors import LakegcError
from lakegc_core.marks.context import MarkContext, RepositoryContext
from lakegc_core.names import STAGES
from tests.support import servers
from tests.support.golden_replay import ReplayServer
from tests.support.proxy import Answer, Forward, Hook, Proxy, Request, pass_on
from tests.support.replays import LAKEFS_SECRET, Replay

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


def crossed(rows: Iterable[str], columns: Iterable[str]) -> list[Any]:
    """Every row with every column; a third of them at once, each row and column among it, the others slow."""
    return [
        pytest.param(row, column, id=f"{row}-{column}", marks=() if (m + n) % 3 == 0 else pytest.mark.slow)
        for m, row in enumerate(rows)
        for n, column in enumerate(columns)
    ]


def check_message(text: str) -> None:
    assert text.strip(), "an error without a word"
    assert "Traceback" not in text and "org.apache.spark" not in text and 'File "' not in text
    assert len(text) < 1500
    for secret in (LAKEFS_SECRET, servers.SECRET_KEY):
        assert secret not in text


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
