"""Sends metrics to a Prometheus Pushgateway, for collectors that no Prometheus can reach while they run."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

import requests

from lakegc_core.errors import LakegcError

_TIMEOUT = (3.0, 10.0)  # seconds to connect, and between two bytes of the answer
_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SHOWN = 200  # characters of an answer


def push(gateway: str, repository: str, text: str) -> None:
    """Replace the metrics of a repository. LakegcError if the gateway does not take them.

    `gateway`: its URL. `text`: as `metrics_text` makes it in Prometheus's own form.
    """
    host = urlsplit(gateway).netloc
    url = f"{gateway.rstrip('/')}/metrics/job/lakegc/repository/{quote(repository, safe='')}"
    try:
        answer = requests.put(url, text.encode(), headers={"Content-Type": _TYPE}, timeout=_TIMEOUT)
    except requests.RequestException as error:
        raise LakegcError(f"{host} cannot be reached: {type(error).__name__}") from None
    if not answer.ok:
        raise LakegcError(f"{host} answers {answer.status_code}: {' '.join(answer.text.split())[:_SHOWN]}")
