"""The calls by which a trial writes to lakeFS, and reads whole objects. The collector's own `LakeFSClient` has none."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

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
        asked = Request(
            "POST", path("repositories"), (201,), "fs:CreateRepository, fs:AttachStorageNamespace", body=body
        )
        return self._http.call(self._once(asked), Repository)

    def delete(self) -> None:
        """Delete the repository; its objects stay. One that is gone is gone."""
        self._send("DELETE", "fs:DeleteRepository on the repository", expect=(204, 404))

    def set_rules(self, default_days: int) -> None:
        """Set one retention rule for all branches."""
        body = {"default_retention_days": default_days, "branches": []}
        self._send("PUT", "retention:SetGarbageCollectionRules on the repository", "settings", "gc_rules", body=body)

    def create_branch(self, branch: str, source: str) -> None:
        body = {"name": branch, "source": source}
        self._send("POST", "fs:CreateBranch on the repository", "branches", expect=(201,), body=body)

    def delete_branch(self, branch: str) -> None:
        self._send("DELETE", "fs:DeleteBranch on the repository", "branches", branch)

    def tag(self, name: str, ref: str) -> None:
        self._send("POST", "fs:CreateTag on the repository", "tags", expect=(201,), body={"id": name, "ref": ref})

    def upload(self, branch: str, object_path: str, data: bytes) -> ObjectStats:
        """Upload an object through lakeFS, which names it and stages it."""
        asked = Request(
            "POST",
            self._path("branches", branch, "objects"),
            (201,),
            "fs:WriteObject on the repository",
            params={"path": object_path},
            content=data,
            headers={"Content-Type": "application/octet-stream"},
        )
        return self._http.call(self._once(asked), ObjectStats)

    def delete_object(self, branch: str, object_path: str) -> None:
        asked = Request(
            "DELETE",
            self._path("branches", branch, "objects"),
            (204,),
            "fs:DeleteObject on the repository",
            params={"path": object_path},
        )
        self._http.send(self._once(asked))

    def commit(self, branch: str, message: str, at: int) -> Commit:
        """Commit what is staged. `at`: the date that the commit gets, unix seconds."""
        asked = Request(
            "POST",
            self._path("branches", branch, "commits"),
            (201,),
            "fs:CreateCommit on the repository",
            body={"message": message, "date": at},
        )
        return self._http.call(self._once(asked), Commit)

    def read(self, ref: str, object_path: str) -> bytes:
        """The whole object as a ref shows it. LakeFSError with status 410 if it was collected."""
        asked = Request(
            "GET",
            self._path("refs", ref, "objects"),
            action="fs:ReadObject on the object",
            params={"path": object_path, "presign": "false"},
            headers={"Accept": "*/*"},
        )
        return self._http.send(asked).body

    def _path(self, *segments: str) -> str:
        return path("repositories", self._repository, *segments)

    def _send(
        self,
        method: str,
        action: str,
        *segments: str,
        expect: tuple[int, ...] = (204,),
        body: Mapping[str, object] | None = None,
    ) -> None:
        self._http.send(self._once(Request(method, self._path(*segments), expect, action, body=body)))

    @staticmethod
    def _once(asked: Request) -> Request:
        return replace(asked, attempts=1)
