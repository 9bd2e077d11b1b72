"""Repositories, references, history and objects over HTTP, in lakeFS's shapes.

The calls only a collector makes belong in `gc_endpoints`, what they all do in `repository` and `objects`.
"""

from __future__ import annotations

import email.parser
import email.policy
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from lakegc_sandbox.api.wire import (
    NO_CONTENT,
    Answer,
    Json,
    Request,
    Route,
    commit_json,
    object_json,
    page,
    paged,
    repository_json,
    repository_of,
    route,
)
from lakegc_sandbox.files.graveler_writer import Commit
from lakegc_sandbox.lakefs import Sandbox
from lakegc_sandbox.model.objects import OCTETS
from lakegc_sandbox.model.refs import SandboxError

_RANGE = re.compile(r"bytes=(\d*)-(\d*)$")

# --- repositories ---


def _list_repositories(sandbox: Sandbox, request: Request) -> Answer:
    repositories = dict(sandbox.repositories)
    return page(request, sorted(repositories), lambda name: repository_json(repositories[name]))


def _create_repository(sandbox: Sandbox, request: Request) -> Answer:
    body = request.json()
    repository = sandbox.create_repository(
        _text(body, "name"),
        _text(body, "storage_namespace"),
        default_branch=body.get("default_branch") or "main",
    )
    return Answer(201, repository_json(repository))


def _get_repository(sandbox: Sandbox, request: Request) -> Answer:
    return Answer(200, repository_json(repository_of(sandbox, request)))


def _delete_repository(sandbox: Sandbox, request: Request) -> Answer:
    sandbox.delete_repository(request.args["repo"])
    return NO_CONTENT


# --- branches and tags ---


def _list_branches(sandbox: Sandbox, request: Request) -> Answer:
    hidden = request.flag("show_hidden")
    with sandbox.lock:
        branches = repository_of(sandbox, request).refs.branches.values()
        heads = {branch.name: branch.commit_id for branch in branches if hidden or not branch.hidden}
    return page(request, sorted(heads), lambda name: {"commit_id": heads[name], "id": name})


def _create_branch(sandbox: Sandbox, request: Request) -> Answer:
    body = request.json()
    commit_id = repository_of(sandbox, request).create_branch(
        _text(body, "name"), _text(body, "source"), hidden=bool(body.get("hidden"))
    )
    return Answer(201, body=commit_id.encode(), headers={"Content-Type": "text/html"})


def _get_branch(sandbox: Sandbox, request: Request) -> Answer:
    branch = repository_of(sandbox, request).refs.branch(request.args["branch"])
    return Answer(200, {"commit_id": branch.commit_id, "id": branch.name})


def _delete_branch(sandbox: Sandbox, request: Request) -> Answer:
    repository_of(sandbox, request).delete_branch(request.args["branch"])
    return NO_CONTENT


def _reset_branch(sandbox: Sandbox, request: Request) -> Answer:
    repository, branch, body = repository_of(sandbox, request), request.args["branch"], request.json()
    path = body.get("path") or ""
    match body.get("type"):
        case "reset":
            repository.reset(branch)
        case "common_prefix":
            repository.reset_prefix(branch, path)
        case "object":
            repository.reset_path(branch, _text(body, "path"))
        case _:
            raise SandboxError(400, "unknown reset type")
    return NO_CONTENT


def _hard_reset_branch(sandbox: Sandbox, request: Request) -> Answer:
    repository = repository_of(sandbox, request)
    repository.hard_reset(request.args["branch"], request.required("ref"))
    return NO_CONTENT


def _list_tags(sandbox: Sandbox, request: Request) -> Answer:
    tags = dict(repository_of(sandbox, request).refs.tags)
    return page(request, sorted(tags), lambda name: {"commit_id": tags[name], "id": name})


def _create_tag(sandbox: Sandbox, request: Request) -> Answer:
    body = request.json()
    name = _text(body, "id")
    return Answer(201, {"commit_id": repository_of(sandbox, request).tag(name, _text(body, "ref")), "id": name})


def _delete_tag(sandbox: Sandbox, request: Request) -> Answer:
    repository_of(sandbox, request).delete_tag(request.args["tag"])
    return NO_CONTENT


# --- history ---


def _create_commit(sandbox: Sandbox, request: Request) -> Answer:
    body = request.json()
    commit = repository_of(sandbox, request).commit(
        request.args["branch"],
        _text(body, "message"),
        date=None if body.get("date") is None else datetime.fromtimestamp(int(body["date"]), UTC),
        metadata=body.get("metadata"),
        allow_empty=bool(body.get("allow_empty")),
    )
    return Answer(201, commit_json(commit))


def _get_commit(sandbox: Sandbox, request: Request) -> Answer:
    return Answer(200, commit_json(repository_of(sandbox, request).refs.commit(request.args["id"])))


def _log(sandbox: Sandbox, request: Request) -> Answer:
    refs = repository_of(sandbox, request).refs
    behind: Iterator[Commit] = refs.log(refs.resolve(request.args["ref"]), request.flag("first_parent"))
    after = request.query.get("after", "")
    if after:
        for commit in behind:
            if commit.id == after:
                break
    results: list[Json] = []
    for commit in behind:
        if len(results) == request.amount:
            return paged(results, results[-1]["id"])
        results.append(commit_json(commit))
    return paged(results, "")


def _merge(sandbox: Sandbox, request: Request) -> Answer:
    body = request.json()
    commit = repository_of(sandbox, request).merge(
        request.args["ref"],
        request.args["branch"],
        message=body.get("message") or "",
        strategy=body.get("strategy") or "",
        squash=bool(body.get("squash_merge")),
    )
    return Answer(200, {"reference": commit.id})


def _revert(sandbox: Sandbox, request: Request) -> Answer:
    body = request.json()
    repository_of(sandbox, request).revert(
        request.args["branch"], _text(body, "ref"), parent_number=int(body.get("parent_number") or 1)
    )
    return NO_CONTENT


def _cherry_pick(sandbox: Sandbox, request: Request) -> Answer:
    body = request.json()
    commit = repository_of(sandbox, request).cherry_pick(
        request.args["branch"], _text(body, "ref"), parent_number=int(body.get("parent_number") or 1)
    )
    return Answer(201, commit_json(commit))


def _diff_branch(sandbox: Sandbox, request: Request) -> Answer:
    rows = {
        path: {"path": path, "path_type": "object", "size_bytes": entry.size, "type": change}
        for path, change, entry in repository_of(sandbox, request).uncommitted(request.args["branch"])
    }
    return page(request, rows, rows.__getitem__)


# --- objects ---


def _list_objects(sandbox: Sandbox, request: Request) -> Answer:
    repository = repository_of(sandbox, request)
    after, prefix = request.query.get("after", ""), request.query.get("prefix", "")
    delimiter = request.query.get("delimiter", "")
    results: list[Json] = []
    # `after` is left out itself, as a path and as a group; a group that it lies within is shown once more.
    for path, entry in repository.objects(request.args["ref"], start=max(after, prefix)):
        if not path.startswith(prefix):
            break
        shown = path
        cut = path.find(delimiter, len(prefix)) if delimiter else -1
        if cut >= 0:
            shown = path[: cut + len(delimiter)]
        if shown == after or (results and results[-1]["path"] == shown):
            continue
        if len(results) == request.amount:
            return paged(results, results[-1]["path"])
        if shown == path:
            results.append(object_json(repository.place, path, entry))
        else:
            group = {"checksum": "", "mtime": 0, "path": shown, "path_type": "common_prefix"}
            results.append({**group, "physical_address": "", "size_bytes": 0})
    return paged(results, "")


def _stat_object(sandbox: Sandbox, request: Request) -> Answer:
    """Says 200 whether the data is there or not, as lakeFS does."""
    repository = repository_of(sandbox, request)
    path = request.required("path")
    return Answer(200, object_json(repository.place, path, repository.entry(request.args["ref"], path)))


def _get_object(sandbox: Sandbox, request: Request) -> Answer:
    repository = repository_of(sandbox, request)
    ref, path = request.args["ref"], request.required("path")
    entry = repository.entry(ref, path)
    headers = {"Content-Type": entry.content_type or OCTETS, "ETag": f'"{entry.e_tag}"'}
    if request.method == "HEAD":
        return Answer(200, body=b"", headers={**headers, "Content-Length": str(entry.size)})
    wanted = _RANGE.match(request.headers.get("Range", ""))
    data = repository.read(ref, path)
    if wanted is None or wanted.groups() == ("", ""):
        return Answer(200, body=data, headers=headers)
    first, last = wanted.groups()
    start = int(first) if first else max(0, len(data) - int(last))
    end = min(int(last), len(data) - 1) if first and last else len(data) - 1
    if start > end:
        return Answer(416, {"message": "invalid range"}, headers={"Content-Range": f"bytes */{len(data)}"})
    headers["Content-Range"] = f"bytes {start}-{end}/{len(data)}"
    return Answer(206, body=data[start : end + 1], headers=headers)


def _upload_object(sandbox: Sandbox, request: Request) -> Answer:
    repository = repository_of(sandbox, request)
    branch, path = request.args["branch"], request.required("path")
    content_type = request.headers.get("Content-Type", OCTETS)
    data = request.body
    if content_type.startswith("multipart/form-data"):
        data, content_type = _form_content(data, content_type)
    repository.upload(branch, path, data, content_type=content_type)
    return Answer(201, object_json(repository.place, path, repository.entry(branch, path)))


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
    """Stage by address: the body of the stage call, and of the link call, which wraps the address."""
    repository = repository_of(sandbox, request)
    branch, path, body = request.args["branch"], request.required("path"), request.json()
    staging = body.get("staging")
    address = _text(staging if isinstance(staging, dict) else body, "physical_address")
    mtime = body.get("mtime")
    entry = repository.stage(
        branch,
        path,
        address,
        size=int(body.get("size_bytes") or 0),
        checksum=_text(body, "checksum"),
        age=timedelta(0) if mtime is None else timedelta(seconds=sandbox.clock() - int(mtime)),
        content_type=body.get("content_type") or OCTETS,
        metadata=body.get("metadata") or body.get("user_metadata"),
    )
    return Answer(200 if staging else 201, object_json(repository.place, path, entry))


def _physical_address(sandbox: Sandbox, request: Request) -> Answer:
    address = repository_of(sandbox, request).physical_address(request.args["branch"])
    return Answer(200, {"physical_address": address})


def _copy_object(sandbox: Sandbox, request: Request) -> Answer:
    repository = repository_of(sandbox, request)
    branch, path, body = request.args["branch"], request.required("dest_path"), request.json()
    entry = repository.copy(
        branch,
        path,
        body.get("src_ref") or branch,
        _text(body, "src_path"),
        shallow=bool(body.get("shallow")),
    )
    return Answer(201, object_json(repository.place, path, entry))


def _delete_object(sandbox: Sandbox, request: Request) -> Answer:
    repository = repository_of(sandbox, request)
    repository.delete(request.args["branch"], request.required("path"))
    return NO_CONTENT


def _delete_objects(sandbox: Sandbox, request: Request) -> Answer:
    repository = repository_of(sandbox, request)
    for path in request.json().get("paths") or []:
        repository.delete(request.args["branch"], str(path))
    return Answer(200, {"errors": []})


def _text(body: dict[str, Json], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise SandboxError(400, f"'{name}' is required")
    return value


def routes() -> list[Route]:
    """All of them."""
    repo = "/repositories/{repo}"
    branch = repo + "/branches/{branch}"
    ref = repo + "/refs/{ref}"
    return [
        route("GET", "/repositories", _list_repositories),
        route("POST", "/repositories", _create_repository),
        route("GET", repo, _get_repository),
        route("DELETE", repo, _delete_repository),
        route("GET", repo + "/branches", _list_branches),
        route("POST", repo + "/branches", _create_branch),
        route("GET", branch, _get_branch),
        route("PUT", branch, _reset_branch),
        route("DELETE", branch, _delete_branch),
        route("PUT", branch + "/hard_reset", _hard_reset_branch),
        route("GET", repo + "/tags", _list_tags),
        route("POST", repo + "/tags", _create_tag),
        route("DELETE", repo + "/tags/{tag}", _delete_tag),
        route("POST", branch + "/commits", _create_commit),
        route("GET", repo + "/commits/{id}", _get_commit),
        route("GET", ref + "/commits", _log),
        route("POST", ref + "/merge/{branch}", _merge),
        route("POST", branch + "/revert", _revert),
        route("POST", branch + "/cherry-pick", _cherry_pick),
        route("GET", branch + "/diff", _diff_branch),
        route("GET", ref + "/objects/ls", _list_objects),
        route("GET", ref + "/objects/stat", _stat_object),
        route("GET", ref + "/objects", _get_object),
        route("HEAD", ref + "/objects", _get_object),
        route("POST", branch + "/objects", _upload_object),
        route("PUT", branch + "/objects", _stage_object),
        route("GET", branch + "/staging/backing", _physical_address),
        route("PUT", branch + "/staging/backing", _stage_object),
        route("POST", branch + "/objects/copy", _copy_object),
        route("DELETE", branch + "/objects", _delete_object),
        route("POST", branch + "/objects/delete", _delete_objects),
    ]
