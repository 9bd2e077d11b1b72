"""Repositories, branches, tags and history over HTTP, in lakeFS's shapes.

Objects belong in `object_endpoints`, the calls only a collector makes in `gc_endpoints`, what they all do in `model`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from lakegc_sandbox.api.wire import (
    BRANCH,
    NO_CONTENT,
    REF,
    REPOSITORY,
    Answer,
    Json,
    Request,
    Route,
    commit_json,
    page,
    paged,
    repository_json,
    repository_of,
    route,
    text_of,
)
from lakegc_sandbox.files.graveler_writer import Commit
from lakegc_sandbox.lakefs import Sandbox
from lakegc_sandbox.model.refs import SandboxError

# --- repositories ---


def _list_repositories(sandbox: Sandbox, request: Request) -> Answer:
    repositories = dict(sandbox.repositories)
    return page(request, sorted(repositories), lambda name: repository_json(repositories[name]))


def _create_repository(sandbox: Sandbox, request: Request) -> Answer:
    body = request.json()
    repository = sandbox.create_repository(
        text_of(body, "name"),
        text_of(body, "storage_namespace"),
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
        text_of(body, "name"), text_of(body, "source"), hidden=bool(body.get("hidden"))
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
            repository.reset_path(branch, text_of(body, "path"))
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
    name = text_of(body, "id")
    return Answer(201, {"commit_id": repository_of(sandbox, request).tag(name, text_of(body, "ref")), "id": name})


def _delete_tag(sandbox: Sandbox, request: Request) -> Answer:
    repository_of(sandbox, request).delete_tag(request.args["tag"])
    return NO_CONTENT


# --- history ---


def _create_commit(sandbox: Sandbox, request: Request) -> Answer:
    body = request.json()
    commit = repository_of(sandbox, request).commit(
        request.args["branch"],
        text_of(body, "message"),
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
        request.args["branch"], text_of(body, "ref"), parent_number=int(body.get("parent_number") or 1)
    )
    return NO_CONTENT


def _cherry_pick(sandbox: Sandbox, request: Request) -> Answer:
    body = request.json()
    commit = repository_of(sandbox, request).cherry_pick(
        request.args["branch"], text_of(body, "ref"), parent_number=int(body.get("parent_number") or 1)
    )
    return Answer(201, commit_json(commit))


def _diff_branch(sandbox: Sandbox, request: Request) -> Answer:
    rows = {
        path: {"path": path, "path_type": "object", "size_bytes": entry.size, "type": change}
        for path, change, entry in repository_of(sandbox, request).uncommitted(request.args["branch"])
    }
    return page(request, rows, rows.__getitem__)


def ref_routes() -> list[Route]:
    """All of them."""
    return [
        route("GET", "/repositories", _list_repositories),
        route("POST", "/repositories", _create_repository),
        route("GET", REPOSITORY, _get_repository),
        route("DELETE", REPOSITORY, _delete_repository),
        route("GET", REPOSITORY + "/branches", _list_branches),
        route("POST", REPOSITORY + "/branches", _create_branch),
        route("GET", BRANCH, _get_branch),
        route("PUT", BRANCH, _reset_branch),
        route("DELETE", BRANCH, _delete_branch),
        route("PUT", BRANCH + "/hard_reset", _hard_reset_branch),
        route("GET", REPOSITORY + "/tags", _list_tags),
        route("POST", REPOSITORY + "/tags", _create_tag),
        route("DELETE", REPOSITORY + "/tags/{tag}", _delete_tag),
        route("POST", BRANCH + "/commits", _create_commit),
        route("GET", REPOSITORY + "/commits/{id}", _get_commit),
        route("GET", REF + "/commits", _log),
        route("POST", REF + "/merge/{branch}", _merge),
        route("POST", BRANCH + "/revert", _revert),
        route("POST", BRANCH + "/cherry-pick", _cherry_pick),
        route("GET", BRANCH + "/diff", _diff_branch),
    ]
