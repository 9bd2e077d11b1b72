"""Reads S3's answers to deletes: what they say of each key, and nothing that they do not say.

Pure: a status and a page in, answers by key out. Not here: asking (`deletes`, `versions`).

Success is not the absence of an error. A proxy that answers 204 to everything has deleted nothing, so a key counts as
deleted only if a DeleteResult names it, or if the answer to its own delete is one that S3 gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from xml.etree import ElementTree

from lakegc_core.names import Outcome
from lakegc_core.store.repeated_deletes import DeleteAnswer
from lakegc_core.store.s3.access import told
from lakegc_core.store.s3.listing import local_name

NAMED = "LakegcNamed"
"""The place of a DeleteResult in botocore's parsed answer: {(key, version id or ""): code, or "" for deleted}."""
DONE = "LakegcDone"
"""The place of a flag: True if the answer to one key's delete says that it was carried out."""

Name = tuple[str, str]
T = TypeVar("T")

_DELETED = DeleteAnswer(Outcome.DELETED)
# Handlers of wildcard names come before botocore's own, which takes an empty body for a broken answer.
_EVENT = "before-parse.*.*"


def install(events: Any) -> None:
    """Keep what answers to deletes say from a botocore client, by its event system."""
    events.register_first(_EVENT, _before_parse, unique_id="lakegc-delete-results")


def _before_parse(operation_model: Any, response_dict: Any, customized_response_dict: dict[str, Any], **_: Any) -> None:
    status, body = response_dict["status_code"], response_dict["body"]
    if not 200 <= status < 300 or operation_model.name not in ("DeleteObjects", "DeleteObject"):
        return
    page = _parsed(body)
    if page is not None and local_name(page) == "Error":
        response_dict["status_code"] = 500  # as botocore does itself, if the status is 200
    elif operation_model.name == "DeleteObjects":
        customized_response_dict[NAMED] = read_result(status, page)
        response_dict["body"] = b"<DeleteResult/>"  # what can be read of it has been read
    else:
        customized_response_dict[DONE] = is_done(status, body)
        response_dict["body"] = b""


def read_result(status: int, page: ElementTree.Element | None) -> dict[Name, str]:
    """The results on a page by (key, version id or ""): the code of an error, or "" for deleted.

    Empty if the answer is no DeleteResult. A name that the page answers in two ways is left out.
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
        name = fields["Key"], fields.get("VersionId", "")
        if found.setdefault(name, said) != said:
            twofold.add(name)
    return {name: said for name, said in found.items() if name not in twofold}


def is_done(status: int, body: bytes) -> bool:
    """True if this answer to a delete of one key says that it was carried out. S3 says 204; some stores 200."""
    return status in (200, 204) and not body.strip()


def answers(named: Mapping[Name, str], wanted: Sequence[tuple[T, Name]]) -> list[tuple[T, DeleteAnswer]]:
    """The answer of a DeleteResult for each name asked for, in order; `wanted` has what each name stands for."""
    found = []
    for each, name in wanted:
        code = named.get(name)
        found.append((each, DeleteAnswer.unnamed() if code is None else told(code) if code else _DELETED))
    return found


def _parsed(body: bytes) -> ElementTree.Element | None:
    try:
        return ElementTree.fromstring(body) if body.strip() else None
    except ElementTree.ParseError:
        return None
