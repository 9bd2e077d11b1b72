"""The calls by which a trial writes to lakeFS, and reads whole objects. The collector's own `LakeFSClient` has none."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from lakegc_core.config.settings import ServerSettings
from lakegc_core.lakefs.http import Http, Request, path
from lakegc_core.lakefs.models import Commit, ObjectStats, Repository

MAIN = "main"
"""The default branch of a new repository."""


class LakeFSWriter:
    """One repository of lakeFS, by its name. Every method raises LakeFSError or ServerError when lakeFS fails.

    Nothing is sent twice: what was lost with an answer cannot be told, so the trial breaks off.
    """

    def __init__(
        self, settings: ServerSettings, repository: str, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._http = Http(settings, sleep=sleep)
        self._repository = repository

    def create(self, namespace: str) -> Repository:
        """Create the repository in a namespace. LakeFSError with status 409 if there is one of its name."""
        body = {"name": self._repository, "storage_namespace": namespace, "default_branch": MAIN}
        action = "fs:CreateRepository, fs:AttachStorageNamespace"
        return self._http.call(Request("POST", path("repositories"), (201,), action, body=body, attempts=1), Repository)

    def delete(self) -> None:
        """Delete the repository; its objects stay. One that is gone is gone."""
        self._http.send(self._asked("DELETE", "fs:DeleteRepository", expect=(204, 404)))

    def set_rules(self, default_days: int) -> None:
        """Set one retention rule for all branches."""
        right, body = "retention:SetGarbageCollectionRules", {"default_retention_days": default_days, "branches": []}
        self._http.send(self._asked("PUT", right, "settings", "gc_rules", body=body))

    def create_branch(self, branch: str, source: str) -> None:
        body = {"name": branch, "source": source}
        self._http.send(self._asked("POST", "fs:CreateBranch", "branches", expect=(201,), body=body))

    def delete_branch(self, branch: str) -> None:
        self._http.send(self._asked("DELETE", "fs:DeleteBranch", "branches", branch))

    def tag(self, name: str, ref: str) -> None:
        self._http.send(self._asked("POST", "fs:CreateTag", "tags", expect=(201,), body={"id": name, "ref": ref}))

    def upload(self, branch: str, object_path: str, data: bytes) -> ObjectStats:
        """Upload an object through lakeFS, which names it and stages it."""
        kind = {"Content-Type": "application/octet-stream"}
        more = {"params": {"path": object_path}, "content": data, "headers": kind}
        asked = self._asked("POST", "fs:WriteObject", "branches", branch, "objects", expect=(201,), **more)
        return self._http.call(asked, ObjectStats)

    def delete_object(self, branch: str, object_path: str) -> None:
        params = {"path": object_path}
        self._http.send(self._asked("DELETE", "fs:DeleteObject", "branches", branch, "objects", params=params))

    def commit(self, branch: str, message: str, at: int) -> Commit:
        """Commit what is staged. `at`: the date that the commit gets, unix seconds."""
        body = {"message": message, "date": at}
        asked = self._asked("POST", "fs:CreateCommit", "branches", branch, "commits", expect=(201,), body=body)
        return self._http.call(asked, Commit)

    def read(self, ref: str, object_path: str) -> bytes:
        """The whole object as a ref shows it. LakeFSError with status 410 if it was collected."""
        asked = Request(
            "GET",
            path("repositories", self._repository, "refs", ref, "objects"),
            action="fs:ReadObject on the object",
            params={"path": object_path, "presign": "false"},
            headers={"Accept": "*/*"},
        )
        return self._http.send(asked).body

    def _asked(self, method: str, right: str, *segments: str, expect: tuple[int, ...] = (204,), **more: Any) -> Request:
        """A request about the repository, which is sent once. `segments`: of its path; `more`: fields of Request."""
        place = path("repositories", self._repository, *segments)
        return Request(method, place, expect, f"{right} on the repository", attempts=1, **more)
