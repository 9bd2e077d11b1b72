"""The calls of lakeFS that a collector needs, each as one method in lakeFS's own words.

How a call is sent, retried and refused is in `http`, what comes back in `models`. No policy lives here: the
client says what lakeFS said, or raises. It never turns an error into "nothing there".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from lakegc_core.config.settings import ServerSettings
from lakegc_core.errors import IncompleteError
from lakegc_core.lakefs.advice import UNKNOWN_COMMIT
from lakegc_core.lakefs.http import ATTEMPTS, Http, LakeFSError, Request, path
from lakegc_core.lakefs.listed_objects import Shown
from lakegc_core.lakefs.models import (
    Commit,
    CommitsStatus,
    ConfigAnswer,
    DumpRefs,
    DumpStatus,
    GcRules,
    GracePeriod,
    ListedPath,
    Location,
    ObjectStats,
    Page,
    PreparedCommits,
    Ref,
    Repository,
    RulesAnswer,
    ServerConfig,
    StagedDump,
    StagedPage,
    Task,
    TaskStatus,
)
from lakegc_core.lakefs.staged_tokens import next_token
from lakegc_core.lakefs.tasks import wait_for
from lakegc_core.lakefs.users import CurrentUser, Policy

PAGE_TIMEOUT = 300.0  # seconds for one page of prepare_uncommitted, which takes the server about a minute
RUNS = 4  # a staged dump is begun at most so often
READS = (200, 206)
"""The answers of `read_byte` where the data is there."""

_NO_SUCH_RANGE = 416
_BRANCH = "branch"  # in "branch not found", as all versions say
_PAUSE = 0.5  # seconds before another run, longer each time
_READ_CONFIG = "fs:ReadConfig on *"
_READ_REPOSITORY = "fs:ReadRepository on the repository"
_PREPARE_COMMITS = "retention:PrepareGarbageCollectionCommits on the repository"
_PREPARE_UNCOMMITTED = "retention:PrepareGarbageCollectionUncommitted on the repository"
_LIST_OBJECTS = "fs:ListObjects on the repository"
_READ_OBJECT = "fs:ReadObject on the object"
_PLAIN = {"presign": "false", "user_metadata": "false"}
_RULES = "retention:GetGarbageCollectionRules on the repository"
_DUMP = "fs:ListBranches, fs:ListTags and fs:ListCommits on the repository"
T = TypeVar("T")


class _RunChangedError(Exception):
    """The pages of one staged dump do not belong together: begin anew."""


class LakeFSClient:
    """lakeFS by its REST API. Every method raises ServerError (LakeFSError for a status) when lakeFS fails.

    SettingsError at once if endpoint or credentials are missing.
    """

    def __init__(self, settings: ServerSettings, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._http = Http(settings, sleep=sleep)
        self._sleep = sleep
        self._endpoint = settings.endpoint_url
        self._task_timeout = settings.task_timeout

    def __repr__(self) -> str:
        return f"LakeFSClient({self._endpoint!r})"

    def close(self) -> None:
        """Close the connections; the client is not to be used afterwards."""
        self._http.close()

    def config(self) -> ServerConfig:
        """The server's version, edition and storages."""
        asked = Request("GET", path("config"), action=_READ_CONFIG)
        answer = self._http.call(asked, ConfigAnswer)
        if not answer.storages or not all(storage.blockstore_type for storage in answer.storages):
            raise asked.odd("`storage_config` is missing, or a `blockstore_type` is empty")
        said = answer.version_config
        return ServerConfig(version=said.version, storages=answer.storages, edition=said.version_context)

    def clock(self) -> datetime | None:
        """The time of the server that answers, to the second; None if its answer has no date that reads."""
        return self._http.send(Request("GET", path("config"), action=_READ_CONFIG)).at

    def grace_period(self) -> int:
        """Seconds for which the server lets an uploaded object be linked: no minimum age may be below it."""
        asked = path("config", "garbage-collection")
        return self._http.call(Request("GET", asked, action=_READ_CONFIG), GracePeriod).grace_period

    def repository(self, repository: str) -> Repository:
        """One repository. LakeFSError with status 404 if there is none, 410 while it is being deleted."""
        asked = Request("GET", path("repositories", repository), action=_READ_REPOSITORY)
        found = self._http.call(asked, Repository)
        if found.id != repository:
            raise asked.odd(f"it is about repository {found.id!r}")
        return found

    def repositories(self) -> Iterator[Repository]:
        """Every repository that the key may list. From 1.77 on lakeFS leaves others out without a word."""
        asked = Request("GET", path("repositories"), action="fs:ListRepositories on *")
        yield from self._http.elements(asked, Page[Repository])

    def own_policies(self) -> Iterator[Policy]:
        """The policies of the key's own user. LakeFSError with status 501 where lakeFS judges by none."""
        user = self._http.call(Request("GET", path("user")), CurrentUser).id
        where, effective = path("auth", "users", user, "policies"), {"effective": "true"}
        action = f"auth:ReadUser on arn:lakefs:auth:::user/{user}"
        yield from self._http.elements(Request("GET", where, action=action, params=effective, attempts=1), Page[Policy])

    def branches(self, repository: str, *, attempts: int = ATTEMPTS) -> Iterator[Ref]:
        """Every branch, the hidden ones too: they hold data. `attempts`: at each page."""
        where, hidden = path("repositories", repository, "branches"), {"show_hidden": "true"}
        action = "fs:ListBranches on the repository"
        asked = Request("GET", where, action=action, params=hidden, attempts=attempts)
        yield from self._http.elements(asked, Page[Ref])

    def tags(self, repository: str) -> Iterator[Ref]:
        """Every tag."""
        asked = Request("GET", path("repositories", repository, "tags"), action="fs:ListTags on the repository")
        yield from self._http.elements(asked, Page[Ref])

    def gc_rules(self, repository: str) -> GcRules | None:
        """The retention rules; None if none are set.

        None takes two answers: the rules' own 404, in lakeFS's form, and a repository that is there. Any
        other 404 (no such repository, no such call, a proxy) raises.
        """
        where = path("repositories", repository, "settings", "gc_rules")
        try:
            return self._http.call(Request("GET", where, action=_RULES), RulesAnswer).rules
        except LakeFSError as error:
            if not error.is_absent:
                raise
        self.repository(repository)
        return None

    def prepare_commits(self, repository: str) -> PreparedCommits:
        """Have the server write its list of active commits, within `server.task_timeout`.

        ServerError when the server fails, which is also how a repository without rules reads: ask `gc_rules`.

        Ask after `prepare_uncommitted`, and only if that answered: it fails where a branch's head is a commit that
        lakeFS does not know, as after a restore of a dump. This call ends such a server (1.76 to 1.84). Only
        `local_folder` asks without that: a dump for each command would cost too much.
        """
        where = path("repositories", repository, "gc", "prepare_commits")
        try:
            task = self._http.call(Request("POST", f"{where}/async", expect=(202,), action=_PREPARE_COMMITS), Task)
        except LakeFSError as error:
            if error.status not in (404, 405, 500):
                raise
            # Servers before v1.72 know only the other form; where that fails too, its error is told.
            return self._prepare_commits_now(where)
        what = f"prepare_commits of {repository} (task {task.id})"
        asked = Request("GET", f"{where}/status", action=_PREPARE_COMMITS, params={"id": task.id})
        return self._result(what, asked, CommitsStatus)

    def _result(self, what: str, asked: Request, shape: type[TaskStatus[T]]) -> T:
        return wait_for(lambda: self._http.call(asked, shape), what, timeout=self._task_timeout, sleep=self._sleep)

    def _prepare_commits_now(self, where: str) -> PreparedCommits:
        patience = self._task_timeout
        asked = Request("POST", where, expect=(201,), action=_PREPARE_COMMITS, read_timeout=patience, attempts=2)
        try:
            return self._http.call(asked, PreparedCommits)
        except LakeFSError as error:
            if error.status != 400:
                raise
            # What follows the message names a commits.csv, but the server has called this call failed.
            raise LakeFSError(
                f"{error}. A server whose store cannot presign answers so; it needs the asynchronous form of "
                "prepare_commits, which lakeFS has since v1.72",
                error.status,
                error.message,
            ) from None

    def prepare_uncommitted(self, repository: str) -> StagedDump:
        """Have the server write what is staged on any branch: all pages of one run.

        Begun anew, at most three times, when a page belongs to another run or a branch vanished meanwhile;
        then IncompleteError or the server's own error. A 404 that names no branch is told at once: there is no such
        repository, or a branch's head is a commit that lakeFS does not know.
        """
        for run in range(1, RUNS + 1):
            try:
                return self._staged_run(repository)
            except _RunChangedError as error:
                if run == RUNS:
                    raise IncompleteError(
                        f"{error} in {RUNS} staged dumps of {repository}, so none is whole; "
                        "see that no proxy repeats requests, and try again"
                    ) from None
            except LakeFSError as error:
                # 404 about a branch: it vanished while it was scanned.
                if error.status != 404 or _BRANCH not in error.message or run == RUNS:
                    raise
            self._sleep(_PAUSE * run)
        raise AssertionError("unreachable")

    def _staged_run(self, repository: str) -> StagedDump:
        where = path("repositories", repository, "gc", "prepare_uncommited")  # lakeFS's spelling
        run_id, token = "", ""
        locations: list[str] = []
        tokens: set[str] = set()
        pages = 0
        while True:
            # A page asked for again, its answer lost, writes its file a second time into the same run: more
            # files than pages are fine. Another run id is not.
            asked = Request(
                "POST",
                where,
                expect=(201,),
                action=_PREPARE_UNCOMMITTED,
                body={"continuation_token": token} if token else {},
                read_timeout=PAGE_TIMEOUT,
            )
            page = self._http.call(asked, StagedPage)
            pages += 1
            if run_id and page.run_id != run_id:
                raise _RunChangedError(f"page {pages} belonged to run {page.run_id}, the ones before to {run_id}")
            run_id = page.run_id
            if location := page.gc_uncommitted_location:
                if locations and location.rstrip("/") != locations[0].rstrip("/"):
                    raise asked.odd(f"page {pages} was written to {location}, not to {locations[0]}")
                locations.append(location)
            if not page.continuation_token:
                return StagedDump(run_id=run_id, locations=tuple(locations), pages=pages)
            token = next_token(page.continuation_token, tokens)
            if token in tokens:
                raise asked.odd(f"page {pages} continues at a token that was used before")
            tokens.add(token)

    def dump(self, repository: str) -> DumpRefs:
        """Have the server write all commits, branches and tags as metaranges, each within `server.task_timeout`.

        Each changed dump leaves small files for ever: ask once a mark.
        """
        where = path("repositories", repository, "dump")
        task = self._http.call(Request("POST", where, expect=(202,), action=_DUMP), Task)
        what = f"the dump of {repository} (task {task.id})"
        asked = Request("GET", where, action=_DUMP, params={"task_id": task.id})
        return self._result(what, asked, DumpStatus)

    def commit(self, repository: str, commit_id: str) -> Commit:
        """One commit by its id, or by a beginning of it. LakeFSError with status 404 if there is none."""
        where = path("repositories", repository, "commits", commit_id)
        asked = Request("GET", where, action="fs:ReadCommit on the repository")
        found = self._http.call(asked, Commit)
        if not found.id.startswith(commit_id):
            raise asked.odd(f"it is about commit {found.id}")
        return found

    def metarange_location(self, repository: str, metarange_id: str) -> str:
        """The place of a metarange, relative to the namespace: `PFX/<id>`.

        lakeFS does not look if the metarange is there: any id has a location. The location tells the server's prefix.
        """
        where = path("repositories", repository, "metadata", "meta_range", metarange_id)
        asked = Request("GET", where, action=_READ_REPOSITORY + " and fs:ListObjects")
        location = self._http.call(asked, Location).location
        if not location.endswith(metarange_id):
            raise asked.odd(f"`location` is {location!r}, which does not end in the id")
        return location

    def objects(self, repository: str, ref: str, prefix: str = "") -> Iterator[list[ObjectStats]]:
        """Every object that a ref shows, page by page in the order of paths; of a branch, staged ones too."""
        yield from self._shown(repository, ref, {"prefix": prefix} if prefix else {}).pages()

    def objects_after(self, repository: str, ref: str, after: str, amount: int) -> tuple[list[ObjectStats], bool]:
        """One page of what a ref shows: up to `amount` objects with paths after `after`, and whether there are more.

        ServerError if the page does not lead on: empty although there is more, or out of order.
        """
        return self._shown(repository, ref).page(after, amount)

    def odd_objects(
        self, repository: str, ref: str, paths: Sequence[str], after: str
    ) -> tuple[Iterator[list[ObjectStats]], str]:
        """What a ref shows where `listed_objects.furthest` leads on from no path of a page (`Shown.odd`)."""
        return self._shown(repository, ref).odd(paths, after)

    def _shown(self, repository: str, ref: str, more: Mapping[str, str] | None = None) -> Shown:
        where = path("repositories", repository, "refs", ref, "objects")
        listing = Request("GET", f"{where}/ls", action=_LIST_OBJECTS, params={**_PLAIN, **(more or {})})
        return Shown(self._http, listing)

    def stat(self, repository: str, ref: str, object_path: str) -> ObjectStats | None:
        """The object that a ref shows under one path; None if it shows nothing there. Says nothing about the data.

        LakeFSError if lakeFS does not know the commit at the head of a branch: what that shows, nobody knows.
        """
        where = path("repositories", repository, "refs", ref, "objects", "stat")
        params = {**_PLAIN, "path": object_path}
        try:
            return self._http.call(Request("GET", where, action=_READ_OBJECT, params=params), ObjectStats)
        except LakeFSError as error:
            if not error.is_absent or UNKNOWN_COMMIT in error.message:
                raise
            return None

    def first_objects(self, repository: str, ref: str, amount: int) -> list[ObjectStats]:
        """The first objects, up to `amount`, that a ref shows. Asked once: many deleted ones before them take long."""
        shown = self._shown(repository, ref)
        return replace(shown, listing=replace(shown.listing, attempts=1)).page("", amount)[0]

    def staged_paths(self, repository: str, branch: str, amount: int, *, attempts: int = ATTEMPTS) -> list[str]:
        """The first paths, up to `amount`, in which what is staged on a branch differs from its head."""
        where = path("repositories", repository, "branches", branch, "diff")
        asked = Request("GET", where, action=_LIST_OBJECTS, attempts=attempts)
        return [each.path for each in self._http.page(asked, Page[ListedPath], after="", amount=amount).results]

    def read_byte(self, repository: str, ref: str, object_path: str) -> int:
        """Read the first byte of an object, and return the status alone.

        200 or 206: the data is there; 410: collected, or the ref's own metadata is missing, where `stat` fails, too;
        404: no such path or ref. An empty object takes two calls.
        """
        asked = Request(
            "GET",
            path("repositories", repository, "refs", ref, "objects"),
            expect=(200, 206, 404, 410, _NO_SUCH_RANGE),
            action=_READ_OBJECT,
            params={"path": object_path, "presign": "false"},
            headers={"Range": "bytes=0-0", "Accept": "*/*"},
            with_body=False,
        )
        status = self._http.send(asked).status
        if status != _NO_SUCH_RANGE:
            return status
        # lakeFS compares the range with the size of the entry before it asks the store: 416 tells nothing of the data.
        whole = replace(asked, expect=(200, 404, 410), headers={"Accept": "*/*"})
        return self._http.send(whole).status
