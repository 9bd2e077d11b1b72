"""What a Pushgateway is sent, and what is said of one that does not take it."""

from __future__ import annotations

import pytest

from lakegc_core.errors import LakegcError
from lakegc_core.views.pushgateway import push
from tests.support.gateway import Gateway

TEXT = "# TYPE lakegc_refused gauge\nlakegc_refused 0\n"


def test_the_metrics_of_a_repository_replace_those_that_it_had() -> None:
    with Gateway() as gateway:
        push(f"{gateway.url}/behind/", "ana lytics/1", TEXT)
        push(gateway.url, "analytics", TEXT)
    assert [each.path for each in gateway.puts] == [
        "/behind/metrics/job/lakegc/repository/ana%20lytics%2F1",
        "/metrics/job/lakegc/repository/analytics",
    ]
    assert gateway.puts[0].body == TEXT
    assert gateway.puts[0].content_type.startswith("text/plain; version=0.0.4")


def test_a_gateway_that_refuses_is_quoted_in_one_short_line() -> None:
    with Gateway(status=400) as gateway, pytest.raises(LakegcError) as caught:
        gateway.says = "text format parsing error\nin line 1 " + "x" * 999
        push(gateway.url, "analytics", TEXT)
    said = str(caught.value)
    assert "answers 400: text format parsing error in line 1 x" in said and len(said) < 260 and "\n" not in said


def test_a_gateway_that_is_down_is_named() -> None:
    with Gateway() as gateway:
        url = gateway.url
    with pytest.raises(LakegcError, match=r"127\.0\.0\.1:\d+ cannot be reached: ConnectionError"):
        push(url, "analytics", TEXT)
