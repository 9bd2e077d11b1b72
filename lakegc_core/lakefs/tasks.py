"""Tasks that lakeFS does in the background: they are asked for until they are finished."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from lakegc_core.errors import ServerError
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.lakefs.models import TaskStatus

T = TypeVar("T")
_FIRST = 0.1  # seconds before the first question, doubling
_LONGEST = 15.0


def wait_for(ask: Callable[[], TaskStatus[T]], what: str, *, timeout: float, sleep: Callable[[float], None]) -> T:
    """Ask until the task is finished, and return its result. `what`: the task, for messages.

    ServerError if it fails, or ends without a result; after `timeout` seconds in which the server got no further with
    it; or once the server forgot it.
    """
    begun = time.monotonic()
    waited, wait, updated = 0.0, _FIRST, ""
    while True:
        sleep(wait)
        waited += wait
        try:
            answer = ask()
        except LakeFSError as error:
            if error.status != 404:
                raise
            raise ServerError(f"lakeFS no longer knows {what}, so its outcome is not known: {error}") from None
        if answer.error:
            raise ServerError(f"{what} failed on the server: {answer.error}")
        if answer.done:
            if answer.result:
                return answer.result
            raise ServerError(f"{what} is done, with neither a result nor an error; look into the server's log")
        if answer.update_time != updated:
            begun, waited, updated = time.monotonic(), 0.0, answer.update_time
        if max(waited, time.monotonic() - begun) >= timeout:
            raise ServerError(
                f"{what} did not end within {timeout:.0f} s, nor did a step of it; the server may have died while at "
                "it: look into its log, and try again. If it needs longer, set `server: {task_timeout: …}` in "
                "lakegc.yaml"
            )
        wait = min(_LONGEST, wait * 2)
