"""Reads answers to deletes in the language of S3, which GCS speaks too: what they say of each key, and nothing else.

Pure: statuses, codes and pages in, answers by key out. Not here: asking (`s3`, `gcs`), and whether lakegc asks again
(`repeated_deletes`).

Success is not the absence of an error. A proxy that answers 204 to everything has deleted nothing, so a key counts as
deleted only if a DeleteResult names it, or if the answer to its own delete is one that the store gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar
from xml.etree import ElementTree

from lakegc_core.names import Outcome
from lakegc_core.store.remote import REPEATED, THROTTLED
from lakegc_core.store.repeated_deletes import DeleteAnswer
from lakegc_core.store.xml_pages import local_name

GONE = {"NoSuchKey", "NoSuchVersion", "NotFound"}  # what a store itself says of a key
UNMET = {"PreconditionFailed", "412", "412 Precondition Failed"}  # of a condition that does not hold

# The store asks for fewer requests; of a request or, within an answer, of a single key.
THROTTLED_CODES = {"SlowDown", "ServiceUnavailable", "Throttling", "ThrottlingException", "RequestThrottled"} | {
    "RequestLimitExceeded",
    "TooManyRequests",
    "429",
    "503",
}
REPEATED_CODES = {"InternalError", "RequestTimeout", "PriorRequestNotComplete", "OperationAborted"} | {
    "500",
    "502",
    "504",
    "ConditionalRequestConflict",
}

Name = tuple[str, str]
"""A key and a version id; "" where no version is meant."""

T = TypeVar("T")

_DELETED = DeleteAnswer(Outcome.DELETED)


def told(code: str) -> DeleteAnswer:
    """The answer for a single key by the store's code."""
    if code in GONE:
        return DeleteAnswer(Outcome.ALREADY_GONE)
    if code in UNMET:
        return DeleteAnswer.not_met(code)
    return DeleteAnswer.failed(code, again=code in REPEATED_CODES, throttled=code in THROTTLED_CODES)


def refused(status: int, code: str) -> DeleteAnswer:
    """The answer for each key of a request that the store refused as a whole. It never says that a key is gone."""
    return DeleteAnswer.failed(
        code,
        again=code in REPEATED_CODES or status in REPEATED,
        throttled=code in THROTTLED_CODES or status in THROTTLED,
    )


def read_result(status: int, page: ElementTree.Element | None, *, versions: bool = True) -> dict[Name, str]:
    """The results on a page by name: the code of an error, or "" for deleted.

    Empty if the answer is no DeleteResult. A name that the page answers in two ways is left out. Without `versions`,
    ids of versions are passed over: for requests that named none.
    """
    if status != 200 or page is None or local_name(page) != "DeleteResult":
        return {}
    found: dict[Name, str] = {}
    twofold: set[Name] = set()
    for each in page:
        fields = {local_name(field): field.text or "" for field in each}
        said = {"Deleted": "", "Error": fields.get("Code") or "Unknown"}.get(local_name(each))
        if said is None or not fields.get("Key"):
            continue
        name = fields["Key"], fields.get("VersionId", "") if versions else ""
        if found.setdefault(name, said) != said:
            twofold.add(name)
    return {name: said for name, said in found.items() if name not in twofold}


def is_done(status: int, body: bytes) -> bool:
    """True if this answer to a delete of one key says that it was carried out. Stores say 204; some say 200."""
    return status in (200, 204) and not body.strip()


def answers(named: Mapping[Name, str], wanted: Sequence[tuple[T, Name]]) -> list[tuple[T, DeleteAnswer]]:
    """The answer of a DeleteResult for each name asked for, in order; `wanted` has what each name stands for."""
    found = []
    for each, name in wanted:
        code = named.get(name)
        found.append((each, DeleteAnswer.unnamed() if code is None else told(code) if code else _DELETED))
    return found
