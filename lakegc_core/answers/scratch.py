"""The folder in which the tasks of an answer write, for as long as it takes.

Where Spark runs on this machine, that is a temporary folder: an answer needs no right to write or delete in the store.
Elsewhere it is a folder beside the marks, which all executors reach.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from lakegc_core import clock
from lakegc_core.errors import LakegcError, StoreError
from lakegc_core.marks.artifacts import ANSWERS
from lakegc_core.marks.context import RepositoryContext
from lakegc_core.names import FAILED
from lakegc_core.store.base import Store, connect
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables.dataset import DatasetFolder

_KEPT = timedelta(days=1)  # no answer takes so long: older folders are of questions that were broken off
_BATCH = 1000


@contextmanager
def scratch(context: RepositoryContext, *, here: bool) -> Iterator[DatasetFolder]:
    """A new folder, which is gone in the end. `here`: Spark runs on this machine."""
    if here:
        with tempfile.TemporaryDirectory(prefix="lakegc-answer-") as place:
            yield DatasetFolder(LocalConfig(place), ANSWERS)
        return
    store, prefix = connect(context.workspace), f"{context.home}/{ANSWERS}/"
    now = clock.now()
    folder = f"{prefix}{now:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
    try:
        yield DatasetFolder(context.workspace, folder)
    finally:
        with _saying(context, f"{store.root}/{folder}/"):
            _remove(store, f"{folder}/")
        with _saying(context, f"What earlier commands left in {store.root}/{prefix}"):
            for level in store.list_level(prefix):
                for old in level.prefixes:
                    if old.removeprefix(prefix) < f"{now - _KEPT:%Y%m%dT%H%M%S}":
                        _remove(store, old)


@contextmanager
def _saying(context: RepositoryContext, what: str) -> Iterator[None]:
    """Say that something could not be removed: it costs space and nothing else, and must not hide the answer."""
    try:
        yield
    except LakegcError as error:
        context.say(f"{what} could not be removed ({error}). Nobody needs it: delete it by hand, or let it expire.")


def _remove(store: Store, prefix: str) -> None:
    for batch in store.list(prefix):
        for start in range(0, batch.num_rows, _BATCH):
            outcomes = store.delete_many(batch.slice(start, _BATCH).column("address").to_pylist())
            if failed := [outcome for outcome in outcomes if outcome.startswith(FAILED)]:
                raise StoreError(failed[0])
    store.remove_empty_folders(prefix)
