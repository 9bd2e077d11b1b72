"""Deletes on Google Cloud Storage: 1000 objects a request, or one by one if a name or the service takes no batch.

Requests for many are multi-object deletes of the XML API, which speak the language of S3: `delete_results` reads the
answers. Requests for one belong to the JSON API, like all others. Both carry the same credentials. Not here: when a
delete is repeated (`repeated_deletes`).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from email.utils import formatdate
from urllib.parse import quote
from xml.sax.saxutils import escape

import requests
from google.api_core.exceptions import NotFound, PreconditionFailed
from google.auth.transport.requests import AuthorizedSession

from lakegc_core.errors import StoreError
from lakegc_core.names import Outcome
from lakegc_core.store.base import Deletes, ObjectInfo
from lakegc_core.store.delete_results import answers, is_done, read_result, refused
from lakegc_core.store.gcs.access import SDK_ERRORS, code_of, error_of, told_by
from lakegc_core.store.pace import Gate
from lakegc_core.store.repeated_deletes import BatchDeletes, DeleteAnswer, judge_unclear
from lakegc_core.store.xml_pages import local_name, parsed

_SINGLES = 16  # requests for one object side by side; the JSON API's batches are no faster, and hide single answers
BEST = Deletes(requests=2 * _SINGLES, etags_a_request=1)


class ObjectDeletes(BatchDeletes):
    """Deletes in one bucket. Safe to share between threads.

    `name` gives the name of a key's object, and raises StoreError if no object can be called so. `head` asks for an
    object, and raises ObjectNotFoundError if it is gone. `timeout` in seconds: to connect, and to read.
    """

    best = BEST
    singles = _SINGLES

    def __init__(
        self,
        session: AuthorizedSession,
        service: str,
        bucket: str,
        *,
        attempts: int,
        timeout: tuple[float, float],
        name: Callable[[str], str],
        head: Callable[[str], ObjectInfo],
    ) -> None:
        self.attempts = attempts
        self._session, self._timeout, self._name, self._head = session, timeout, name, head
        self._bucket = f"{service}/{quote(bucket, safe='')}?delete"
        self._objects = f"{service}/storage/v1/b/{quote(bucket, safe='')}/o"
        self._takes_batches: bool | None = None  # None: nobody knows yet

    def can_be_named(self, key: str) -> bool:
        """True if an object can have this name."""
        try:
            self._name(key)
        except StoreError:
            return False
        return True

    def goes_alone(self, key: str) -> bool:
        """True if XML might not carry the name unchanged, or the service takes no batch."""
        name = self._name(key)
        return self._takes_batches is False or not name.isprintable() or name != name.strip()

    def ask_batch(self, keys: Sequence[str], gate: Gate, etags: Mapping[str, str]) -> Mapping[str, DeleteAnswer]:
        """One request for up to 1000 objects. It takes no conditions: an object whose generation it named would be gone
        for good, also in a bucket that keeps versions.

        If the service refuses the first one, it gets no other from this process. Once it has answered one, a refusal
        concerns that batch alone.
        """
        names = [self._name(key) for key in keys]
        try:
            answer = self._send(names)
        except SDK_ERRORS as error:
            return dict.fromkeys(keys, told_by(error))
        page = parsed(answer.content)
        if not 200 <= answer.status_code < 300 or (page is not None and local_name(page) == "Error"):
            return dict.fromkeys(keys, self._refused(answer))
        # An answer may tell the generation that was deleted; no request names one.
        named = read_result(answer.status_code, page, versions=False)
        self._takes_batches = bool(named) or self._takes_batches
        return dict(answers(named, [(key, (name, "")) for key, name in zip(keys, names, strict=True)]))

    def _refused(self, answer: requests.Response) -> DeleteAnswer:
        """The answer for each key of a refused request. What may not be asked for together may be asked for alone."""
        said = refused(answer.status_code, _code(answer))
        if said.again:
            return said
        self._takes_batches = self._takes_batches or False
        return DeleteAnswer.not_together()

    def _send(self, names: Sequence[str]) -> requests.Response:
        # Not quiet: a quiet answer names failures only, and so any empty page would say that all went well.
        body = f"<Delete>{''.join(f'<Object><Key>{escape(name)}</Key></Object>' for name in names)}</Delete>".encode()
        headers = {
            "Content-Type": "application/xml",
            # Names that changed on the way would be those of other objects.
            "Content-MD5": base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode(),
            "Date": formatdate(usegmt=True),  # the XML API wants one
        }
        answer: requests.Response = self._session.post(
            self._bucket, data=body, headers=headers, timeout=self._timeout, allow_redirects=False
        )
        return answer

    def ask_one(self, keys: Sequence[str], gate: Gate, etags: Mapping[str, str]) -> Mapping[str, DeleteAnswer]:
        """Send one request for one object. Look the object up if the answer is another success than the service
        gives."""
        (key,) = keys
        try:
            # By the session: the SDK takes any success for the service's own.
            answer = self._session.delete(
                f"{self._objects}/{quote(self._name(key), safe='')}",
                params={"ifGenerationMatch": etags[key]} if key in etags else None,
                timeout=self._timeout,
            )
            if not 200 <= answer.status_code < 300:
                raise error_of(answer)
        except NotFound as error:
            no_bucket = "bucket does not exist" in error.message
            return {key: DeleteAnswer.failed("NoSuchBucket") if no_bucket else DeleteAnswer(Outcome.ALREADY_GONE)}
        except PreconditionFailed as error:
            return {key: DeleteAnswer.not_met(code_of(error))}
        except SDK_ERRORS as error:
            return {key: told_by(error)}
        if is_done(answer.status_code, answer.content):
            return {key: DeleteAnswer(Outcome.DELETED)}
        return {key: judge_unclear(lambda: self.look(key))}

    def look(self, key: str) -> ObjectInfo:
        """Ask for the object's metadata."""
        return self._head(key)


def _code(answer: requests.Response) -> str:
    """The service's code in an answer that refuses, in XML or in JSON; the HTTP status without one."""
    page = parsed(answer.content)
    told = page.findtext("{*}Code") if page is not None else None
    return told or code_of(error_of(answer))
