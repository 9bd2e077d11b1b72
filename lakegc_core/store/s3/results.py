"""Takes answers to deletes from botocore before it judges them, so that `delete_results` can.

Here: where such answers ride in botocore's own. Not here: asking (`deletes`, `versions`), and what an answer says.
"""

from __future__ import annotations

from typing import Any

from lakegc_core.store.delete_results import is_done, read_result
from lakegc_core.store.xml_pages import local_name, parsed

NAMED = "LakegcNamed"
"""The place of a DeleteResult in botocore's parsed answer: {(key, version id or ""): code, or "" for deleted}."""
DONE = "LakegcDone"
"""The place of a flag: True if the answer to one key's delete says that it was carried out."""

# Handlers of wildcard names come before botocore's own, which takes an empty body for a broken answer.
_EVENT = "before-parse.*.*"


def install(events: Any) -> None:
    """Keep what answers to deletes say from a botocore client, by its event system."""
    events.register_first(_EVENT, _before_parse, unique_id="lakegc-delete-results")


def _before_parse(operation_model: Any, response_dict: Any, customized_response_dict: dict[str, Any], **_: Any) -> None:
    status, body = response_dict["status_code"], response_dict["body"]
    if not 200 <= status < 300 or operation_model.name not in ("DeleteObjects", "DeleteObject"):
        return
    page = parsed(body)
    if page is not None and local_name(page) == "Error":
        response_dict["status_code"] = 500  # as botocore does itself, if the status is 200
    elif operation_model.name == "DeleteObjects":
        customized_response_dict[NAMED] = read_result(status, page)
        response_dict["body"] = b"<DeleteResult/>"  # what can be read of it has been read
    else:
        customized_response_dict[DONE] = is_done(status, body)
        response_dict["body"] = b""
