"""The endpoints a collector lives by: configuration, rules, prepare calls, tasks, dump, metadata.

What they compute belongs in `gc_prepare`; repositories, references and objects over HTTP in the modules beside it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field

from lakegc_core.errors import LakegcError
from lakegc_sandbox.api.wire import NO_CONTENT, REPOSITORY, Answer, Json, Request, Route, iso_time, repository_of, route
from lakegc_sandbox.lakefs import Sandbox
from lakegc_sandbox.model.gc_prepare import dump_refs, prepare_commits, prepare_uncommitted
from lakegc_sandbox.model.refs import SandboxError


@dataclass
class _Task:
    """A background task: done when it starts, shown as done after some polls."""

    result: dict[str, str] | None
    error: Exception | None
    pending_polls: int
    update_time: str


@dataclass
class Tasks:
    """The background tasks of one server, and the endpoints that begin them and ask for them."""

    _tasks: dict[str, _Task] = field(default_factory=dict)

    def start(self, sandbox: Sandbox, prefix: str, work: Callable[[], dict[str, str]]) -> str:
        result: dict[str, str] | None = None
        error: Exception | None = None
        try:
            result = work()
        except (LakegcError, OSError) as caught:
            error = caught
        task_id = sandbox.names.task_id(prefix)
        self._tasks[task_id] = _Task(result, error, sandbox.pending_polls, iso_time(sandbox.clock()))
        return task_id

    def poll(self, task_id: str) -> tuple[_Task, bool]:
        """The task, and whether it is done by now."""
        task = self._tasks.get(task_id)
        if task is None:
            raise SandboxError(404, f"task '{task_id}': not found")
        if task.pending_polls > 0:
            task.pending_polls -= 1
            return task, False
        return task, True

    def start_prepare_commits(self, sandbox: Sandbox, request: Request) -> Answer:
        """Begin to compute which commits are active."""
        repository = repository_of(sandbox, request)
        if repository.read_only:
            raise SandboxError(403, "read-only repository")
        return Answer(202, {"id": self.start(sandbox, "GCPC", lambda: prepare_commits(repository))})

    def prepare_commits_status(self, sandbox: Sandbox, request: Request) -> Answer:
        """Tell if that is done, and where the result lies."""
        repository_of(sandbox, request)
        task_id = request.required("id")
        task, done = self.poll(task_id)
        document: dict[str, Json] = {"completed": done, "task_id": task_id, "update_time": task.update_time}
        if done and task.error is not None:
            document["error"] = {"message": str(task.error)}
        elif done and task.result is not None:
            document["result"] = {name: value for name, value in task.result.items() if value}
        return Answer(200, document)

    def start_dump(self, sandbox: Sandbox, request: Request) -> Answer:
        """Begin to dump the references."""
        repository = repository_of(sandbox, request)
        return Answer(202, {"id": self.start(sandbox, "DR", lambda: dump_refs(repository))})

    def dump_status(self, sandbox: Sandbox, request: Request) -> Answer:
        """Tell if that is done, and what the dump holds."""
        repository_of(sandbox, request)
        task_id = request.required("task_id")
        task, done = self.poll(task_id)
        document: dict[str, Json] = {"done": done, "id": task_id, "update_time": task.update_time}
        if done and task.error is not None:
            document["error"] = str(task.error)
        elif done:
            document["refs"] = task.result
        return Answer(200, document)


def _config(sandbox: Sandbox, request: Request) -> Answer:
    kind = sandbox.blockstore
    can_sign = kind != "local"
    valid = r"^https?://[a-z0-9_-]+\.blob.core.windows.net" if kind == "azure" else f"^{kind}://"
    example = (
        "https://mystorageaccount.blob.core.windows.net/mycontainer/"
        if kind == "azure"
        else f"{kind}://example-bucket/"
    )
    storage = {
        "blockstore_description": "",
        "blockstore_id": "",
        "blockstore_namespace_ValidityRegex": valid,
        "blockstore_namespace_example": example,
        "blockstore_type": kind,
        "default_namespace_prefix": "" if can_sign else "local://",
        "import_support": can_sign,
        "import_validity_regex": valid,
        "pre_sign_multipart_upload": kind == "s3",
        "pre_sign_support": can_sign,
        "pre_sign_support_ui": False,
    }
    several = [storage | {"blockstore_id": each, "blockstore_type": of} for each, of in sandbox.storages.items()]
    document = {
        "capabilities_config": {},
        "storage_config_list": several,
        "ui_config": {},
        "version_config": {"version": sandbox.version, "version_context": sandbox.version_context},
    }
    if not several:  # else lakeFS names one here only if it was told which one old repositories lie in
        document["storage_config"] = storage
    return Answer(200, document)


def _grace_period(sandbox: Sandbox, request: Request) -> Answer:
    return Answer(200, {"grace_period": sandbox.grace_period})


def _user(sandbox: Sandbox, request: Request) -> Answer:
    return Answer(200, {"user": {"creation_date": 0, "email": "", "friendly_name": "", "id": "sandbox"}})


def _no_policies(sandbox: Sandbox, request: Request) -> Answer:
    """A lakeFS without RBAC has none: every key may do all."""
    raise SandboxError(501, "Not Implemented")


def _get_rules(sandbox: Sandbox, request: Request) -> Answer:
    rules = repository_of(sandbox, request).rules
    if rules is None:
        raise SandboxError(404, "not found")
    default_days, branch_days = rules
    branches = [{"branch_id": name, "retention_days": days} for name, days in branch_days.items()]
    return Answer(200, {"branches": branches or None, "default_retention_days": default_days})


def _set_rules(sandbox: Sandbox, request: Request) -> Answer:
    body = request.json()
    try:
        branches = {str(rule["branch_id"]): int(rule["retention_days"]) for rule in body.get("branches") or []}
        default_days = int(body["default_retention_days"])
    except (KeyError, TypeError, ValueError):
        raise SandboxError(400, "invalid garbage collection rules") from None
    repository_of(sandbox, request).set_rules(default_days, branches)
    return NO_CONTENT


def _delete_rules(sandbox: Sandbox, request: Request) -> Answer:
    repository_of(sandbox, request).delete_rules()
    return NO_CONTENT


def _prepare_uncommitted(sandbox: Sandbox, request: Request) -> Answer:
    token = request.json().get("continuation_token") or None
    repository = repository_of(sandbox, request)
    return Answer(201, prepare_uncommitted(repository, token, sandbox.uncommitted_page))


def _prepare_commits(sandbox: Sandbox, request: Request) -> Answer:
    result = prepare_commits(repository_of(sandbox, request))
    if result["gc_commits_presigned_url"]:
        return Answer(201, result)
    # A blockstore that cannot presign: the error, and behind it the answer all the same.
    documents: list[Json] = [{"message": "local adapter presigned URL: operation not supported"}, result]
    text = "".join(json.dumps(document, separators=(",", ":")) + "\n" for document in documents)
    return Answer(400, body=text.encode(), headers={"Content-Type": "application/json"})


def _get_metadata_location(sandbox: Sandbox, request: Request) -> Answer:
    place = repository_of(sandbox, request).place
    return Answer(200, {"location": f"{place.layout.prefix}/{request.args['id']}"})


def _rules_routes() -> list[Route]:
    """The rules, under the path of today and the one before it."""
    methods = [("GET", _get_rules), ("DELETE", _delete_rules)]
    both = itertools.product(["/settings/gc_rules", "/gc/rules"], methods)
    setting = [("/settings/gc_rules", ("PUT", _set_rules)), ("/gc/rules", ("POST", _set_rules))]
    return [route(method, REPOSITORY + path, endpoint) for path, (method, endpoint) in itertools.chain(both, setting)]


def gc_routes() -> list[Route]:
    """All of them, with background tasks of their own."""
    tasks = Tasks()
    return [
        route("GET", "/config", _config),
        route("GET", "/config/garbage-collection", _grace_period),
        route("GET", "/user", _user),
        route("GET", "/auth/users/{user}/policies", _no_policies),
        *_rules_routes(),
        route("POST", REPOSITORY + "/gc/prepare_uncommited", _prepare_uncommitted),
        route("POST", REPOSITORY + "/gc/prepare_commits", _prepare_commits),
        route("POST", REPOSITORY + "/gc/prepare_commits/async", tasks.start_prepare_commits),
        route("GET", REPOSITORY + "/gc/prepare_commits/status", tasks.prepare_commits_status),
        route("POST", REPOSITORY + "/dump", tasks.start_dump),
        route("GET", REPOSITORY + "/dump", tasks.dump_status),
        route("GET", REPOSITORY + "/metadata/meta_range/{id}", _get_metadata_location),
        route("GET", REPOSITORY + "/metadata/range/{id}", _get_metadata_location),
    ]
