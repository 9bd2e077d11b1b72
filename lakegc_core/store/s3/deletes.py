"""Deletes on S3: 1000 keys a request, or one by one if a key or the store takes no batch.

Not here: when a delete is repeated (`repeated_deletes`), what an answer says (`delete_results`), and buckets that are
to keep no versions (`versions`).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakegc_core.names import Outcome
from lakegc_core.store.base import NO_ETAGS, Deletes, ObjectInfo
from lakegc_core.store.delete_results import GONE, UNMET, Name, answers, told
from lakegc_core.store.pace import Gate
from lakegc_core.store.repeated_deletes import BatchDeletes, DeleteAnswer, judge_unclear
from lakegc_core.store.s3 import results
from lakegc_core.store.s3.access import BATCH_REFUSED, SDK_ERRORS, code_of, failure
from lakegc_core.store.s3.bucket import Bucket
from lakegc_core.store.s3.results import DONE, NAMED

# What XML 1.0 cannot hold, so that no DeleteObjects can name it.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_GONE = DeleteAnswer(Outcome.DELETED)


class ObjectDeletes(BatchDeletes):
    """Deletes objects that a listing shows. Safe to share between threads.

    `connect` makes the client for deletes, when the first one is asked for.
    """

    best: Deletes = Deletes(etags_a_request=1000)
    leaves_versions = True  # in a bucket that keeps them

    def __init__(self, bucket: Bucket, connect: Callable[[], Any]) -> None:
        self.bucket, self.attempts = bucket, bucket.attempts
        self._connect, self._lock = connect, threading.Lock()
        self._client: Any = None

    def goes_alone(self, key: str) -> bool:
        """True if XML cannot hold the key."""
        return bool(_NOT_XML.search(self.bucket.base + key))

    def client(self) -> Any:
        """The client for deletes. What it does not repeat by itself is repeated at the pace of all deletes."""
        with self._lock:
            if self._client is None:
                self._client = self._connect()
                results.install(self._client.meta.events)
            return self._client

    def ask_batch(self, keys: Sequence[str], gate: Gate, etags: Mapping[str, str]) -> Mapping[str, DeleteAnswer]:
        """One request for some keys."""
        return dict(self.delete_named([(key, (self.bucket.base + key, "")) for key in keys], etags))

    def delete_named(
        self, wanted: Sequence[tuple[str, Name]], etags: Mapping[str, str] = NO_ETAGS
    ) -> list[tuple[str, DeleteAnswer]]:
        """Send one DeleteObjects: its answer for each name, with the key that the name belongs to."""
        objects = [
            {"Key": name}
            | ({"VersionId": version} if version else {})
            | ({"ETag": f'"{etags[key]}"'} if key in etags else {})
            for key, (name, version) in wanted
        ]
        try:
            # Not quiet: a quiet answer names failures only, and so any empty page would say that all went well.
            answer = self.client().delete_objects(Bucket=self.bucket.name, Delete={"Objects": objects})
        except SDK_ERRORS as error:
            said = DeleteAnswer.not_together() if code_of(error) in BATCH_REFUSED else failure(error)
            return [(key, said) for key, _ in wanted]
        return answers(answer[NAMED], wanted)

    def ask_one(self, keys: Sequence[str], gate: Gate, etags: Mapping[str, str]) -> Mapping[str, DeleteAnswer]:
        """Send one request for one key. Look the key up if the answer does not say that the delete was carried out."""
        (key,) = keys
        condition = {"IfMatch": f'"{etags[key]}"'} if key in etags else {}
        try:
            answer = self.client().delete_object(Bucket=self.bucket.name, Key=self.bucket.base + key, **condition)
        except SDK_ERRORS as error:
            return {key: told(code_of(error)) if code_of(error) in GONE | UNMET else failure(error)}
        except UnicodeError:  # half a surrogate pair: no key is called so
            return {key: DeleteAnswer.failed("InvalidKey")}
        return {key: _GONE if answer[DONE] else judge_unclear(lambda: self.look(key))}

    def look(self, key: str) -> ObjectInfo:
        """Ask for the object by HEAD."""
        return self.bucket.head(key)
