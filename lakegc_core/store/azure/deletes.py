"""Deletes on Azure: 256 blobs a request, or one by one if the service takes no batch.

Here: deletes with all snapshots, and the answers within a batch's answer. Not here: when a delete is repeated
(`repeated_deletes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any
from urllib.parse import urlsplit

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, HttpResponseError

from lakegc_core.errors import StoreError
from lakegc_core.names import Json, Outcome
from lakegc_core.store.azure.access import ABSENT, code_of, told_by, told_by_status
from lakegc_core.store.azure.container import Container
from lakegc_core.store.base import Deletes, ObjectInfo
from lakegc_core.store.pace import Gate
from lakegc_core.store.repeated_deletes import BatchDeletes, DeleteAnswer, judge_unclear

BEST = Deletes(batch=256, etags_a_request=256)  # the most blobs a request takes
_TAKEN = 202  # the service's only word for done, for a batch and for each delete in it
_BATCH_REFUSED = {400, 405, 415, 501}  # one name can spoil a whole batch, and some servers have none


class BlobDeletes(BatchDeletes):
    """Deletes in one container of the account at `url`. Safe to share between threads."""

    best = BEST

    def __init__(self, container: Container, account: str, url: str) -> None:
        self.container, self.attempts = container, container.attempts
        # Where the account stands in the path, as on emulators, the requests inside the batch need it too.
        self._options = {"url_prepend": account} if urlsplit(url).path.strip("/") else {}

    def can_be_named(self, key: str) -> bool:
        """True if a blob can have this name."""
        try:
            self.container.name(key)
        except StoreError:
            return False
        return True

    def ask_batch(self, keys: Sequence[str], gate: Gate, etags: Mapping[str, str]) -> Mapping[str, DeleteAnswer]:
        """One request for up to 256 blobs."""
        answers: dict[int, tuple[int, str]] = {}
        failure: AzureError | None = None
        try:
            blobs = [{"name": self.container.name(key), **_condition(etags.get(key))} for key in keys]
            self._request(blobs, answers)
        except AzureError as error:
            failure = error
            if isinstance(error, HttpResponseError) and error.status_code in _BATCH_REFUSED and not answers:
                return dict.fromkeys(keys, DeleteAnswer.not_together())
        except ValueError:  # the SDK, of an answer that has no parts: it says nothing of any key
            pass
        return {key: self._told(answers.get(place), failure) for place, key in enumerate(keys)}

    def _request(self, blobs: Sequence[Json], answers: dict[int, tuple[int, str]]) -> None:
        """Ask once for the deletion of up to 256 blobs, and fill `answers` with (status, code) by place in `blobs`.

        A blob without an answer has no entry. AzureError if the request itself failed.
        """

        def keep(response: Any) -> None:
            answer = response.http_response
            if answer.status_code == _TAKEN:
                answers.update(read_batch(answer.headers.get("Content-Type", ""), answer.body(), len(blobs)))

        found = self.container.client.delete_blobs(
            *blobs,
            delete_snapshots="include",
            raise_on_any_failure=False,
            raw_response_hook=keep,
            retry_total=0,
            **self._options,
        )
        list(found)

    def _told(self, answer: tuple[int, str] | None, failure: AzureError | None) -> DeleteAnswer:
        """The answer for one key: its own, else that of the whole request."""
        if answer is None:
            return DeleteAnswer.unnamed() if failure is None or _is_success(failure) else told_by(failure)
        status, code = answer
        if status == _TAKEN:
            return DeleteAnswer(Outcome.DELETED)
        if 200 <= status < 300:
            return DeleteAnswer.unnamed()
        if status == 404 and code in ABSENT:
            return DeleteAnswer(Outcome.ALREADY_GONE)
        return told_by_status(status, code)

    def ask_one(self, keys: Sequence[str], gate: Gate, etags: Mapping[str, str]) -> Mapping[str, DeleteAnswer]:
        """Send one request for one blob. Look the blob up if the answer is another success than the service gives."""
        (key,) = keys
        try:
            condition = _condition(etags.get(key))
            self.container.blob(key).delete_blob(delete_snapshots="include", retry_total=0, **condition)
        except AzureError as error:
            if _is_success(error):
                return {key: judge_unclear(lambda: self.look(key))}
            return {key: DeleteAnswer(Outcome.ALREADY_GONE) if code_of(error) in ABSENT else told_by(error)}
        return {key: DeleteAnswer(Outcome.DELETED)}

    def look(self, key: str) -> ObjectInfo:
        """Ask for the blob's properties."""
        return self.container.head(key)


def _condition(etag: str | None) -> Json:
    """The SDK's arguments by which a delete takes the blob with this ETag alone; none if there is no ETag."""
    return {"etag": f'"{etag}"', "match_condition": MatchConditions.IfNotModified} if etag else {}


def _is_success(error: AzureError) -> bool:
    """True if the SDK raised this for an answer that is a success, but not the one that the service gives."""
    return isinstance(error, HttpResponseError) and 200 <= int(error.status_code or 0) < 300


def read_batch(content_type: str, body: bytes, count: int) -> dict[int, tuple[int, str]]:
    """The answers within a batch's answer: (status, code) by the number of each request.

    A request has no entry if its answer is missing, stands twice or makes no sense.
    """
    message = BytesParser(policy=HTTP).parsebytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body)
    found: dict[int, tuple[int, str]] = {}
    twice: set[int] = set()
    for part in message.iter_parts():
        number = str(part.get("Content-ID", ""))
        payload = part.get_payload(decode=True)
        if not number.isdecimal() or not isinstance(payload, bytes):
            continue
        line, _, rest = payload.lstrip().partition(b"\r\n")
        words = line.split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
            continue
        headers = BytesParser(policy=HTTP).parsebytes(rest, headersonly=True)
        place = int(number)
        if place in found or place >= count:
            twice.add(place)
        found[place] = (int(words[1]), str(headers.get("x-ms-error-code", "")).strip())
    return {place: answer for place, answer in found.items() if place not in twice}
