"""`metrics: {pushgateway: …}` in lakegc.yaml: what a mark pushes, and that a gateway never fails it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakegc_core import pipeline
from lakegc_core.config.settings import MetricsSettings
from lakegc_core.errors import LakegcError, MarkError, ObjectNotFoundError, StoreError
from lakegc_core.marks.context import MarkContext
from lakegc_core.views import history
from tests.core.cli.conftest import Desk
from tests.support.gateway import Gateway


def pushing(desk: Desk, url: str | None, said: list[str]) -> MarkContext:
    """A complete mark that found 20 bytes of garbage, by settings that name this gateway."""
    mark = desk.mark("m1", garbage=["data/a", "data/b"])
    return replace(mark, say=said.append, settings=replace(mark.settings, metrics=MetricsSettings(url)))


def page_stands(mark: MarkContext) -> bool:
    return bool(pipeline.connect(mark.workspace).read(f"{mark.mark.folder}/{pipeline.PAGE}"))


def test_a_mark_pushes_the_metrics_of_its_repository(desk: Desk) -> None:
    said: list[str] = []
    with Gateway() as gateway:
        pipeline.publish(pushing(desk, gateway.url, said))
    (put,) = gateway.puts
    assert put.path == "/metrics/job/lakegc/repository/lake" and said == []
    lines = put.body.splitlines()
    assert 'lakegc_garbage_bytes{repository="lake"} 20' in lines
    assert 'lakegc_deleted_bytes_total{repository="lake"} 0' in lines and "# EOF" not in lines
    assert any(line.startswith('lakegc_stage_seconds{repository="lake",stage="namespace_listing"}') for line in lines)


@pytest.mark.parametrize("status", [None, 500])
def test_a_gateway_that_is_down_or_refuses_fails_no_mark_and_is_told_in_a_line(desk: Desk, status: int | None) -> None:
    said: list[str] = []
    with Gateway(status=status or 200) as gateway:
        mark = pushing(desk, gateway.url, said)
        if status:
            pipeline.publish(mark)
    if not status:
        pipeline.publish(mark)
    (line,) = said
    assert line.startswith("the metrics were not pushed (127.0.0.1:") and "\n" not in line
    assert page_stands(mark)


@pytest.mark.parametrize("error", [StoreError("503"), ObjectNotFoundError("gone"), MarkError("altered")])
def test_a_store_that_does_not_answer_leaves_what_was_pushed_before_and_a_mark_that_does_not_read_is_told(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, error: LakegcError
) -> None:
    said: list[str] = []

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(history, "judge", fails)
    with Gateway() as gateway:
        pipeline.publish(pushing(desk, gateway.url, said))
    if type(error) is StoreError:
        assert gateway.puts == [] and said == [
            "the metrics were not pushed (503); the next mark or sweep pushes them again"
        ]
    else:
        (put,) = gateway.puts
        assert 'lakegc_readable{repository="lake"} 0' in put.body.splitlines() and said == []


def test_without_a_gateway_nothing_is_pushed(desk: Desk) -> None:
    said: list[str] = []
    mark = pushing(desk, None, said)
    pipeline.publish(mark)
    assert said == [] and page_stands(mark)
