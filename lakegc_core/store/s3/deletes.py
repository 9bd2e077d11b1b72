"""How S3 is asked for deletes: 1000 keys a request, or one by one where a key or the store takes no batch.

Not here: when a delete is repeated (`repeated_deletes`), and buckets that are to keep no versions (`versions`).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakegc_core.names import Outcome
from lakegc_core.store.base import Deletes
from lakegc_core.store.repeated_deletes import BatchDeletes, DeleteAnswer
from lakegc_core.store.s3.access import ABSENT, BATCH_REFUSED, SDK_ERRORS, code_of, failure, told
from lakegc_core.store.s3.bucket import Bucket

# What XML 1.0 cannot hold, so that no DeleteObjects can name it.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_GONE = DeleteAnswer(Outcome.DELETED)


class ObjectDeletes(BatchDeletes):
    """Deletes of what lists of objects show. Safe to share between threads.

    `connect` makes the client for deletes, when the first one is asked for.
    """

    best: Deletes = Deletes()
    leaves_versions = True  # in a bucket that keeps them

    def __init__(self, bucket: Bucket, connect: Callable[[], Any]) -> None:
        self.bucket, self.attempts = bucket, bucket.attempts
        self._connect, self._client, self._lock = connect, None, threading.Lock()

    def goes_alone(self, key: str) -> bool:
        """Whether XML cannot hold it."""
        return bool(_NOT_XML.search(self.bucket.base + key))

    def client(self) -> Any:
        """The client for deletes: what it does not repeat by itself is repeated at the pace of all deletes."""
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def ask_batch(self, keys: Sequence[str]) -> Mapping[str, DeleteAnswer] | None:
        """One request for some keys."""
        return self.delete_named(keys, [{"Key": self.bucket.base + key} for key in keys])

    def delete_named(
        self, keys: Sequence[str], objects: Sequence[Mapping[str, str]]
    ) -> Mapping[str, DeleteAnswer] | None:
        """One DeleteObjects for `objects`, which belong to `keys`; what it said by key."""
        base = self.bucket.base
        try:
            answer = self.client().delete_objects(Bucket=self.bucket.name, Delete={"Objects": objects, "Quiet": True})
        except SDK_ERRORS as error:
            return None if code_of(error) in BATCH_REFUSED else dict.fromkeys(keys, failure(error))
        failed = {error.get("Key"): error.get("Code") or "Unknown" for error in answer.get("Errors") or ()}
        named = {key: failed.pop(base + key) for key in keys if base + key in failed}
        if failed:  # errors about keys not asked for: nobody knows which of ours they mean
            whole = dict.fromkeys(keys, DeleteAnswer.failed(next(iter(failed.values()))))
            return whole | {key: told(code)._replace(again=False) for key, code in named.items()}
        return dict.fromkeys(keys, _GONE) | {key: told(code) for key, code in named.items()}

    def ask_one(self, keys: Sequence[str]) -> Mapping[str, DeleteAnswer]:
        """One request for one key."""
        (key,) = keys
        try:
            self.client().delete_object(Bucket=self.bucket.name, Key=self.bucket.base + key)
        except SDK_ERRORS as error:
            return {key: DeleteAnswer(Outcome.ALREADY_GONE) if code_of(error) in ABSENT else failure(error)}
        except UnicodeError:  # half a surrogate pair: no key is called so
            return {key: DeleteAnswer.failed("InvalidKey")}
        return {key: _GONE}
