"""A folder beside the marks in which an answer keeps what its tasks write, for as long as it takes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from lakegc_core import clock
from lakegc_core.errors import LakegcError
from lakegc_core.marks.context import RepositoryContext
from lakegc_core.store.base import Store, connect

FOLDER = "answers"
_KEPT = timedelta(days=1)  # no answer takes so long: older folders are of questions that were broken off
_BATCH = 1000


@contextmanager
def scratch(context: RepositoryContext) -> Iterator[str]:
    """A new folder, empty again in the end. What questions that were broken off have left is removed as well."""
    store, prefix = connect(context.workspace), f"{context.home}/{FOLDER}/"
    now = clock.now()
    folder = f"{prefix}{now:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
    try:
        yield folder
    finally:
        _remove(context, store, f"{folder}/")
        for level in store.list_level(prefix):
            for old in level.prefixes:
                if old.removeprefix(prefix) < f"{now - _KEPT:%Y%m%dT%H%M%S}":
                    _remove(context, store, old)


def _remove(context: RepositoryContext, store: Store, prefix: str) -> None:
    """Delete a folder of answers. That it cannot be deleted is said: it costs space and nothing else."""
    try:
        for batch in store.list(prefix):
            for start in range(0, batch.num_rows, _BATCH):
                store.delete_many(batch.slice(start, _BATCH).column("address").to_pylist())
        store.remove_empty_folders(prefix)
    except LakegcError as error:
        context.say(f"{store.root}/{prefix} could not be removed ({error}); it holds nothing that anybody needs")
