"""The grounds of a trial: a prefix of its own in the user's store, with all that the trial makes below it.

A marker lies there before anything else does, and goes last. It and the name prove that the trial made what lies there;
without both, nothing is removed.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lakegc_core import __version__, clock
from lakegc_core.config.settings import Settings
from lakegc_core.errors import ObjectNotFoundError, RefusedError, SettingsError, StoreError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.names import Outcome
from lakegc_core.policy.namespace import Namespace, overlapping
from lakegc_core.store.base import Store, StoreConfig, check_bucket, connect, head_if_there
from lakegc_core.store.factory import check_place, config_for
from lakegc_core.store.local import LocalConfig
from lakegc_core.trial.writer import LakeFSWriter

MARKER = "lakegc-try.json"
"""The marker, directly below the prefix."""

REPOSITORY = "repository"
"""The storage namespace, relative to the prefix."""

_BEGINNING = "lakegc-try-"
_NAME = re.compile(rf"{_BEGINNING}[0-9a-f]{{12}}")
_PLAIN = re.compile(r"[a-z0-9]+://[\w.:-]+(/[\w.-]+)*", re.ASCII)
_EXAMPLES = {
    "local": "local://trial/",
    "s3": "s3://bucket/prefix/",
    "gs": "gs://bucket/prefix/",
    "azure": "https://account.blob.core.windows.net/container/prefix/",
}
"""A place for a trial, by the type of lakeFS's blockstore."""
_BACKUP = "backup"  # below the prefix
_GONE = (Outcome.DELETED, Outcome.ALREADY_GONE)


@dataclass(frozen=True)
class Grounds:
    """`name`: of the repository, and the last segment of the prefix. `uri`: of the prefix, without a slash at its end.
    `store`: rooted at the prefix."""

    name: str
    uri: str
    store: StoreConfig

    @classmethod
    def below(cls, place: str, settings: Settings, name: str | None = None) -> Grounds:
        """Grounds of a new name below a place that the user names. SettingsError for a place that is none."""
        name = name or f"{_BEGINNING}{secrets.token_hex(6)}"
        uri = f"{place.rstrip('/')}/{name}"
        check_place(uri)
        if not _PLAIN.fullmatch(uri) or re.search(r"/\.{1,2}(/|$)", uri):
            raise SettingsError(
                f"{place!r} is no plain place. Name one like s3://bucket/prefix/ or local://trial/: letters, digits, "
                "`.`, `_` and `-`."
            )
        return cls(name, uri, config_for(Namespace(uri), settings))

    @classmethod
    def at(cls, uri: str, settings: Settings) -> Grounds:
        """The grounds of an earlier trial. SettingsError if the name is not one that a trial gives."""
        place, _, name = uri.rstrip("/").rpartition("/")
        if not _NAME.fullmatch(name):
            raise SettingsError(
                f"{uri!r} was not made by `lakegc try`: what it makes lies in a place that ends in /{_BEGINNING} and "
                "12 hex digits. Nothing was removed."
            )
        if "://" not in place:
            raise SettingsError(
                f"{uri!r} is no place. Name the whole place, such as s3://bucket/prefix/{name}: `lakectl repo list` "
                f"shows it as the storage namespace, which ends in /{name}/{REPOSITORY}. Nothing was removed."
            )
        return cls.below(place, settings, name)

    @property
    def namespace(self) -> str:
        """The storage namespace of the repository."""
        return f"{self.uri}/{REPOSITORY}"

    @property
    def backup(self) -> str:
        """The place of the backup, as `backup` takes it: a URI, or a folder on blockstore local."""
        root = self.store.path if isinstance(self.store, LocalConfig) else self.uri
        return f"{root}/{_BACKUP}"

    @property
    def removal(self) -> str:
        """The command that removes all that was made here."""
        return f"lakegc try --remove {self.uri}"

    def check_blockstore(self, client: LakeFSClient) -> None:
        """SettingsError if this lakeFS keeps no data on stores of this kind."""
        types = sorted({storage.blockstore_type for storage in client.config().storages})
        if Namespace(self.uri).place.kind not in types:
            places = [_EXAMPLES.get(each, f"{each}://") for each in types]
            kept = " or ".join(f"{place.partition('://')[0]}://…" for place in places)
            raise SettingsError(
                f"This lakeFS keeps data in {kept}, not in {self.uri}: name a place such as {places[0]}. "
                "Nothing was made."
            )

    def check_neighbours(self, client: LakeFSClient) -> str | None:
        """The namespace of the repository of this name; None if there is none. RefusedError if another repository
        lies around the grounds, or in them."""
        namespaces = {each.id: each.storage_namespace for each in client.repositories()}
        own = namespaces.pop(self.name, None)
        if touching := overlapping(Namespace(self.uri), namespaces.items()):
            raise RefusedError(
                f"{self.uri} would lie around, or inside, the storage namespace of {', '.join(sorted(touching)[:5])}. "
                "A trial needs a place that belongs to no repository. Name another prefix, or another bucket."
            )
        return own

    def check_free(self, client: LakeFSClient) -> None:
        """RefusedError if a repository has the name or the place, or if a marker lies there. StoreError if there is no
        such bucket. Writes nothing."""
        if self.check_neighbours(client) is not None:
            raise RefusedError(f"Repository {self.name} exists already. Nothing was changed; try again.")
        store = connect(self.store)
        check_bucket(store)
        if head_if_there(store, MARKER) is not None:
            raise self._not_empty()

    def claim(self) -> None:
        """Put the marker down. RefusedError if anything else lies there; then the marker is taken back."""
        store = connect(self.store)
        store.write(MARKER, json.dumps(self._marker() | {"at": clock.now().isoformat()}).encode())
        if any(key != MARKER for key in _keys(store)):
            store.delete_many([MARKER])
            raise self._not_empty()

    def is_claimed(self) -> bool:
        """True if the marker lies there, and if nobody can tell."""
        try:
            return head_if_there(connect(self.store), MARKER) is not None
        except StoreError:
            return True

    def _not_empty(self) -> RefusedError:
        return RefusedError(f"{self.uri} is not empty. A trial begins in an empty place. Nothing was changed.")

    def remove(self, client: LakeFSClient, writer: LakeFSWriter) -> int:
        """Remove the repository and every object of the grounds, the marker last; return the number of objects: 0 if
        nothing is there.

        RefusedError, and nothing is removed, unless marker, name and contents prove that a trial made it all.
        """
        store, own = connect(self.store), self.check_neighbours(client)
        if own is None and self._is_empty(store):
            return 0
        self._check_marker(store)
        if own is not None and own.rstrip("/") != self.namespace:
            raise RefusedError(
                f"Repository {self.name} lies in {own}, not in {self.namespace}: no trial made it. Nothing was removed."
            )
        strange = next((key for key in _keys(store) if not self._is_own(key)), None)
        if strange is not None:
            raise RefusedError(
                f"{self.uri}/{strange} is nothing that a trial makes. Nothing was removed. Move it away, then run this "
                "again."
            )
        if own is not None:
            writer.delete()
        count = self._delete(store, lambda key: key != MARKER) + self._delete(store, lambda key: key == MARKER)
        if left := next(_keys(store), None):
            raise StoreError(f"{self.uri}/{left} is still there, although the store confirmed its delete.")
        if isinstance(self.store, LocalConfig):
            folder = Path(self.store.path)
            connect(LocalConfig(str(folder.parent))).remove_empty_folders(f"{folder.name}/")
        return count

    def _is_empty(self, store: Store) -> bool:
        """True if nothing lies there; a folder that is not there is as good as an empty one here."""
        is_gone = isinstance(self.store, LocalConfig) and not Path(self.store.path).exists()
        return is_gone or next(_keys(store), None) is None

    def _marker(self) -> dict[str, str]:
        return {"made_by": "lakegc try", "repository": self.name, "place": self.uri, "version": __version__}

    def _check_marker(self, store: Store) -> None:
        try:
            found = json.loads(store.read(MARKER))
        except ObjectNotFoundError:
            raise RefusedError(
                f"{self.uri}/{MARKER} is not there: nothing proves that `lakegc try` made what lies there. Nothing was "
                "removed."
            ) from None
        except ValueError:
            found = None
        own = self._marker()
        if not isinstance(found, dict) or any(found.get(key) != own[key] for key in ("made_by", "repository", "place")):
            raise RefusedError(f"{self.uri}/{MARKER} is not the marker of a trial here. Nothing was removed.")

    @staticmethod
    def _is_own(key: str) -> bool:
        return key == MARKER or key.startswith((f"{REPOSITORY}/", f"{_BACKUP}/"))

    def _delete(self, store: Store, wanted: Callable[[str], bool]) -> int:
        """Delete the objects that are wanted; return how many there were."""
        count, size = 0, store.deletes.batch
        for batch in store.list():
            keys = [key for key in batch.column("address").to_pylist() if wanted(key)]
            for start in range(0, len(keys), size):
                some = keys[start : start + size]
                failed = [each for each in zip(some, store.delete_many(some), strict=True) if each[1] not in _GONE]
                if failed:
                    raise StoreError(f"{self.uri}/{failed[0][0]} could not be deleted ({failed[0][1]}).")
            count += len(keys)
        return count


def _keys(store: Store) -> Iterator[str]:
    for batch in store.list():
        yield from batch.column("address").to_pylist()
