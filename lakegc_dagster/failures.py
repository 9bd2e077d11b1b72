"""Turns an error of lakegc into a failure in Dagster: its own sentence first, and retried only where that can help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dagster as dg

from lakegc_core.errors import CorruptFileError, LakegcError, LeaseHeldError, MarkError, RefusedError, SettingsError
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.names import Symptom, see
from lakegc_dagster.metadata.shown import plain

_FINAL = (SettingsError, RefusedError, MarkError, CorruptFileError)

READING_RETRIES = dg.RetryPolicy(max_retries=2, delay=15, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)
"""For steps that only read, and write what a second try finds or redoes. The sweep has none."""


WAITS_FOR_LEASE, SECONDS_A_WAIT = 30, 120
"""A step waits so often, and so long each time, while another collector works on its repository: an hour in all."""


@contextmanager
def told_as_failures(tries: int = 0) -> Iterator[None]:
    """Turn errors of lakegc into `dg.Failure` with the same sentence. A step whose lease is held waits and tries again:
    `dg.RetryRequested`, unless it did so often enough. `tries`: how often it was tried again before."""
    try:
        yield
    except LeaseHeldError as error:
        said = refused([str(error)])
        if tries >= WAITS_FOR_LEASE:  # the run would end with Dagster's own "Exceeded max_retries"
            raise said from error
        raise dg.RetryRequested(max_retries=WAITS_FOR_LEASE, seconds_to_wait=SECONDS_A_WAIT) from said
    except RefusedError as error:
        raise refused([str(error)]) from error
    except LakegcError as error:
        raise dg.Failure(str(error), allow_retries=_may_pass(error)) from error


def refused(reasons: Sequence[str]) -> dg.Failure:
    """The failure of a step that must not go on, with all reasons, and never retried."""
    return dg.Failure(
        "\n".join(reasons),
        metadata={"refusals": dg.MetadataValue.md("\n".join(f"- {plain(reason)}" for reason in reasons))},
        allow_retries=False,
    )


def is_final(error: Exception, tries: int) -> bool:
    """True if a step that only reads ends with this error. `tries`: how often it was tried again before."""
    if isinstance(error, dg.RetryRequested):
        return False
    return (isinstance(error, dg.Failure) and not error.allow_retries) or tries >= READING_RETRIES.max_retries


def said_by(error: Exception) -> str:
    """The sentence of a step's error, for people."""
    return (error.description if isinstance(error, dg.Failure) else None) or f"{type(error).__name__}: {error}"


def _may_pass(error: LakegcError) -> bool:
    """True if the same call may succeed a little later."""
    if isinstance(error, LakeFSError) and 400 <= error.status < 500 and error.status != 429:
        return False
    return not isinstance(error, _FINAL)


def failed_by_name(title: str, problems: dict[str, str], metadata: dict[str, Any], symptom: Symptom) -> dg.Failure:
    """The failure of a run that looked at many repositories. `problems`: sentences by repository."""
    lines = [*(f"- {name}: {problem}" for name, problem in sorted(problems.items())), see(symptom)]
    shown = "\n".join(f"- {plain(name)}: {plain(problem)}" for name, problem in sorted(problems.items()))
    return dg.Failure(
        "\n".join([f"{title}:", *lines]),
        metadata=metadata | {"problems": dg.MetadataValue.md(shown)},
        allow_retries=False,
    )
