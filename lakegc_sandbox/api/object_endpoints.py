"""Objects over HTTP, in lakeFS's shapes: listing, reading, uploading, staging, copying and deleting.

Repositories and references belong in `ref_endpoints`, what happens to objects in `model.objects`.
"""

from __future__ import annotations

import email.parser
import email.policy
import re
from datetime import timedelta

from lakegc_sandbox.api.wire import (
    BRANCH,
    NO_CONTENT,
    REF,
    Answer,
    Json,
    Request,
    Route,
    object_json,
    paged,
    repository_of,
    route,
    text_of,
)
from lakegc_sandbox.files.graveler_writer import RELATIVE, Entry
from lakegc_sandbox.lakefs import Sandbox
from lakegc_sandbox.model.addresses import resolve, shown_address
from lakegc_sandbox.model.objects import OCTETS, Attributes
from lakegc_sandbox.model.refs import SandboxError
from lakegc_sandbox.model.repository import Repository

_RANGE = re.compile(r"bytes=(\d*)-(\d*)$")


def _list_objects(sandbox: Sandbox, request: Request) -> Answer:
    repository = repository_of(sandbox, request)
    after, prefix = request.query.get("after", ""), request.query.get("prefix", "")
    delimiter = request.query.get("delimiter", "")
    results: list[Json] = []
    # `after` is left out itself, as a path and as a group; a group that it lies within is shown once more.
    for path, entry in repository.objects(request.args["ref"], start=max(after, prefix)):
        if not path.startswith(prefix):
            break
        cut = path.find(delimiter, len(prefix)) if delimiter else -1
        shown = path[: cut + len(delimiter)] if cut >= 0 else path
        if shown == after or (results and results[-1]["path"] == shown):
            continue
        if len(results) == request.amount:
            return paged(results, results[-1]["path"])
        if cut < 0:
            results.append(_object(repository, path, entry))
        else:
            group = {"checksum": "", "mtime": 0, "path": shown, "path_type": "common_prefix"}
            results.append({**group, "physical_address": "", "size_bytes": 0})
    return paged(results, "")


def _object(repository: Repository, path: str, entry: Entry, *, refusal: int = 500) -> Json:
    """ObjectStats. SandboxError if lakeFS cannot resolve the address."""
    return object_json(path, entry, shown_address(repository.place, entry, refusal=refusal))


def _stat_object(sandbox: Sandbox, request: Request) -> Answer:
    """Says 200 whether the data is there or not, as lakeFS does."""
    repository = repository_of(sandbox, request)
    path = request.required("path")
    return Answer(200, _object(repository, path, repository.entry(request.args["ref"], path), refusal=400))


def _get_object(sandbox: Sandbox, request: Request) -> Answer:
    repository = repository_of(sandbox, request)
    ref, path = request.args["ref"], request.required("path")
    entry = repository.entry(ref, path)
    headers = {"Content-Type": entry.content_type or OCTETS, "ETag": f'"{entry.e_tag}"'}
    if request.method == "HEAD":
        return Answer(200, body=b"", headers={**headers, "Content-Length": str(entry.size)})
    shown_address(repository.place, entry, refusal=400)
    wanted = _RANGE.match(request.headers.get("Range", ""))
    if wanted is None or wanted.groups() == ("", ""):
        return Answer(200, body=repository.read(ref, path), headers=headers)
    first, last = wanted.groups()
    start = int(first) if first else max(0, entry.size - int(last))
    end = min(int(last), entry.size - 1) if first and last else entry.size - 1
    if start > end:  # by the entry's size: lakeFS has not asked the store yet
        return Answer(416, {"message": "invalid range"}, headers={"Content-Range": f"bytes */{entry.size}"})
    headers["Content-Range"] = f"bytes {start}-{end}/{entry.size}"
    return Answer(206, body=repository.read(ref, path)[start : end + 1], headers=headers)


def _upload_object(sandbox: Sandbox, request: Request) -> Answer:
    repository = repository_of(sandbox, request)
    branch, path = request.args["branch"], request.required("path")
    content_type = request.headers.get("Content-Type", OCTETS)
    data = request.body
    if content_type.startswith("multipart/form-data"):
        data, content_type = _form_content(data, content_type)
    repository.upload(branch, path, data, attributes=Attributes(content_type))
    return Answer(201, _object(repository, path, repository.entry(branch, path)))


def _form_content(body: bytes, content_type: str) -> tuple[bytes, str]:
    """The part named `content` of a form, and its type."""
    parser = email.parser.BytesParser(policy=email.policy.HTTP)
    form = parser.parsebytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body)
    for part in form.iter_parts():
        if part.get_param("name", header="content-disposition") == "content":
            data = part.get_payload(decode=True)
            return (data if isinstance(data, bytes) else b""), part.get_content_type()
    raise SandboxError(400, "the form has no part named 'content'")


def _stage_object(sandbox: Sandbox, request: Request) -> Answer:
    """Stage by an address, which lakeFS resolves first."""
    repository = repository_of(sandbox, request)
    body = request.json()
    address = text_of(body, "physical_address")
    resolve(repository.place, address, refusal=400)
    entry = _entry_of(sandbox, request, address, body.get("metadata"))
    repository.stage_entry(request.args["branch"], request.required("path"), entry)
    return Answer(201, _object(repository, request.required("path"), entry))


def _link_object(sandbox: Sandbox, request: Request) -> Answer:
    """Link an upload. lakeFS never resolves the address: only one below the namespace's `data/` needs a signature."""
    repository = repository_of(sandbox, request)
    body = request.json()
    address = str((body.get("staging") or {}).get("physical_address") or "")
    if not text_of(body, "checksum").strip('" '):
        raise SandboxError(400, "checksum is required")
    entry = _entry_of(sandbox, request, address, body.get("user_metadata"))
    if entry.address_type == RELATIVE and "," not in address:
        raise SandboxError(400, "address is not signed: link address invalid")
    repository.stage_entry(request.args["branch"], request.required("path"), entry)
    return Answer(200, object_json(request.required("path"), entry, address))


def _entry_of(sandbox: Sandbox, request: Request, address: str, metadata: Json) -> Entry:
    """The entry that a body of the stage call or the link call describes."""
    body = request.json()
    mtime = body.get("mtime")
    return repository_of(sandbox, request).entry_for(
        address,
        size=int(body.get("size_bytes") or 0),
        checksum=text_of(body, "checksum"),
        age=timedelta(0) if mtime is None else timedelta(seconds=sandbox.clock() - int(mtime)),
        attributes=Attributes(body.get("content_type") or OCTETS, metadata or {}),
    )


def _physical_address(sandbox: Sandbox, request: Request) -> Answer:
    address = repository_of(sandbox, request).physical_address(request.args["branch"])
    return Answer(200, {"physical_address": address})


def _copy_object(sandbox: Sandbox, request: Request) -> Answer:
    repository = repository_of(sandbox, request)
    branch, path, body = request.args["branch"], request.required("dest_path"), request.json()
    if body.get("shallow"):  # as open-source lakeFS answers
        raise SandboxError(501, "not implemented")
    entry = repository.copy(branch, path, body.get("src_ref") or branch, text_of(body, "src_path"))
    return Answer(201, _object(repository, path, entry))


def _delete_object(sandbox: Sandbox, request: Request) -> Answer:
    repository = repository_of(sandbox, request)
    repository.delete(request.args["branch"], request.required("path"))
    return NO_CONTENT


def _delete_objects(sandbox: Sandbox, request: Request) -> Answer:
    repository = repository_of(sandbox, request)
    for path in request.json().get("paths") or []:
        repository.delete(request.args["branch"], str(path))
    return Answer(200, {"errors": []})


def object_routes() -> list[Route]:
    """All of them."""
    return [
        route("GET", REF + "/objects/ls", _list_objects),
        route("GET", REF + "/objects/stat", _stat_object),
        route("GET", REF + "/objects", _get_object),
        route("HEAD", REF + "/objects", _get_object),
        route("POST", BRANCH + "/objects", _upload_object),
        route("PUT", BRANCH + "/objects", _stage_object),
        route("GET", BRANCH + "/staging/backing", _physical_address),
        route("PUT", BRANCH + "/staging/backing", _link_object),
        route("POST", BRANCH + "/objects/copy", _copy_object),
        route("DELETE", BRANCH + "/objects", _delete_object),
        route("POST", BRANCH + "/objects/delete", _delete_objects),
    ]
