"""Each call of lakeFS that a mark or a sweep makes, tried once.

The calls that make lakeFS write (prepare, dump) leave the small files that each mark leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakegc_core.doctor.finding import Finding, Level, Need, Trials, alarm, sentence
from lakegc_core.errors import IncompleteError, ServerError
from lakegc_core.lakefs.advice import NO_RIGHT
from lakegc_core.lakefs.client import READS, LakeFSClient
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.lakefs.models import ObjectStats, Ref, Repository
from lakegc_core.marks.context import block_prefix

_WHERE = "Give the key the rights that deploy/README.md#policies lists, or correct what the message names."
MARK = Need(Level.ALARM, "Every mark needs this answer, and so does every sweep.", _WHERE)
SWEEP = Need(Level.WARNING, "A mark does without. A sweep reads some paths before and after it deletes.", _WHERE)
_COMMITS = Need(
    Level.ALARM,
    "A mark keeps what lakeFS's own list of commits has, so it needs this list.",
    f"{_WHERE} lakeFS from 1.76 on keeps a file gc.db in its working directory, which must be writable.",
)
_GONE, _ABSENT, _REFUSED = 410, 404, 401


@dataclass(frozen=True)
class Answers:
    """lakeFS's answers to calls that make it write; None if it was not asked, or failed.

    `prepared`: address of its list of commits; `commits`: id of the metarange of its dump; `prefix`: the folder of
    ranges and metaranges, relative to the namespace.
    """

    findings: tuple[Finding, ...]
    prepared: str | None = None
    commits: str | None = None
    prefix: str | None = None


def no_lakefs(client: LakeFSClient) -> Finding | None:
    """The alarm that no lakeFS answers at the endpoint, or that it does not accept the key; None if neither is so.

    Every further call would fail by the same cause.
    """
    try:
        client.config()
    except LakeFSError as error:
        if error.status == _REFUSED and NO_RIGHT not in error.message:
            rights = "give the key the rights that deploy/README.md#policies lists"
            do = f"Correct the access key and its secret. If they are right, {rights}."
        elif error.status == _ABSENT and not error.message:
            do = "The endpoint is not a lakeFS: correct LAKECTL_SERVER_ENDPOINT_URL or ~/.lakectl.yaml."
        else:
            return None
        return alarm("no-lakefs", sentence(str(error)), MARK.why, do)
    except ServerError as error:  # no answer, or a page of somebody else's
        do = "Correct what the message names, and ask the doctor again."
        return alarm("no-lakefs", sentence(str(error)), MARK.why, do)
    return None


def try_server(client: LakeFSClient) -> list[Finding]:
    """Try what concerns no single repository: the configuration, the grace period, the list of repositories."""
    trials = Trials()
    trials.attempt("right-config", "Reading lakeFS's configuration", client.config, MARK)
    trials.attempt("right-grace-period", "Reading lakeFS's grace period", client.grace_period, MARK)
    trials.attempt(
        "right-list-repositories", "Listing repositories", lambda: next(client.repositories(), None), _listing()
    )
    return trials.findings


def try_lakefs(client: LakeFSClient, repository: Repository, say: Callable[[str], None]) -> Answers:
    """Try everything that a mark and a sweep ask about one repository."""
    trials, name = Trials(), repository.id
    trials.attempt("right-list-repositories", "Listing repositories", lambda: _all(client, name), _listing())
    trials.attempt("right-list-tags", "Listing tags", lambda: next(client.tags(name), None), MARK)
    head = trials.attempt("right-list-branches", "Listing branches", lambda: _first_branch(client, name), MARK)
    if head is not None:
        trials.attempt("right-read-commit", "Reading a commit", lambda: client.commit(name, head.commit_id), MARK)
        _try_reading(trials, client, repository)
    rules = trials.attempt(
        "right-get-rules", "Reading the rules of garbage collection", lambda: _rules(client, name), MARK
    )
    prefix = trials.attempt("right-metadata", "Asking where metadata lies", lambda: block_prefix(client, name), MARK)
    if repository.read_only:
        why = "lakeFS prepares no garbage collection for a read-only repository, and lakegc begins no mark of it."
        do = "Collect the repository that owns the data, or make this one writable."
        trials.failed("read-only", f"Repository {name} is read-only", Need(Level.ALARM, why, do))
        return Answers(tuple(trials.findings), prefix=prefix)
    say("lakeFS prepares its lists, as for a mark")
    # This comes first, see `LakeFSClient.prepare_commits`.
    staged = trials.attempt(
        "right-prepare-uncommitted", "Having lakeFS list what is staged", lambda: client.prepare_uncommitted(name), MARK
    )
    prepared = None
    if rules and staged:
        prepared = trials.attempt(
            "right-prepare-commits",
            "Having lakeFS list the commits to keep",
            lambda: client.prepare_commits(name),
            _COMMITS,
        )
    dump = trials.attempt("right-dump", "Having lakeFS dump all commits", lambda: client.dump(name), MARK)
    return Answers(
        tuple(trials.findings),
        prepared=prepared.commits_location if prepared else None,
        commits=dump.commits_metarange_id if dump else None,
        prefix=prefix,
    )


def _listing() -> Need:
    why = "Without the whole list nobody knows whether another repository shares this namespace."
    return Need(Level.ALARM, why, "Allow the key fs:ListRepositories on *.")


def _all(client: LakeFSClient, name: str) -> None:
    """Read the list of repositories. IncompleteError if it lacks this one; others it may lack, see `whole_list`."""
    found = False
    for each in client.repositories():
        found = found or each.id == name  # the whole list is read: a mark reads it, and a later page may fail
    if not found:
        raise IncompleteError(f"lakeFS's list of repositories lacks {name} itself, so it is not whole")


def _first_branch(client: LakeFSClient, name: str) -> Ref:
    found = next(client.branches(name), None)
    if found is None:
        raise IncompleteError(f"lakeFS lists no branch of {name}: it is bare, or the key may not see its branches")
    return found


def _rules(client: LakeFSClient, name: str) -> bool:
    """Ask for the rules. True if there are any."""
    return client.gc_rules(name) is not None


def _try_reading(trials: Trials, client: LakeFSClient, repository: Repository) -> None:
    """List the first object of the default branch, and read a byte of it."""
    branch = repository.default_branch

    def first() -> list[ObjectStats]:
        return client.objects_after(repository.id, branch, "", 1)[0]

    shown = trials.attempt("right-list-objects", f"Listing the objects of branch {branch}", first, MARK)
    if not shown:
        return
    path = shown[0].path
    status = trials.attempt(
        "right-read-object", f"Reading {path}", lambda: client.read_byte(repository.id, branch, path), SWEEP
    )
    if status is None or status in READS or status == _ABSENT:  # absent: deleted since it was listed
        return
    why = "Live data was lost before, or lakeFS does not reach its own store."
    do = f"Find out why {path} cannot be read, before anything is deleted."
    found = "the data is gone" if status == _GONE else f"lakeFS answers {status}"
    trials.failed("unreadable", f"{path} on branch {branch} cannot be read: {found}", Need(Level.ALARM, why, do))
