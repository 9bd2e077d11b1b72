"""Whether lakeFS lists all repositories to this key.

From 1.77 on, a key with fs:ListRepositories on some repositories gets a list of these, and not a word of the others.
Its own policies tell, if the key may read them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from lakegc_core.doctor.finding import Finding, note, sentence, warning
from lakegc_core.errors import LakegcError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.lakefs.models import ServerConfig
from lakegc_core.lakefs.users import Statement

_SINCE = (1, 77)
_NO_POLICIES = 501
_RIGHT = "fs:ListRepositories"
_ALL = {"*", "arn:lakefs:fs:::*", "arn:lakefs:fs:::repository/*"}
_WHY = "Nobody notices that a repository which the list lacks shares a namespace: its data looks like garbage."
_DO = f"Allow the key {_RIGHT} on *, and deny it nowhere."


def examine_whole_list(client: LakeFSClient, config: ServerConfig) -> Iterator[Finding]:
    """A warning if the list may lack repositories, a note if that cannot be told."""
    if config.release is not None and config.release < _SINCE:
        return
    try:
        statements = [each for policy in client.own_policies() for each in policy.statement]
    except LakegcError as error:
        if not (isinstance(error, LakeFSError) and error.status == _NO_POLICIES):
            what = f"Whether lakeFS lists all repositories to this key cannot be told: {error}"
            yield note("list-of-repositories", sentence(what), _WHY, _DO)
        return
    if not _covers_all(statements):
        what = f"The policies of this key do not allow {_RIGHT} on all repositories, and lakeFS leaves the others out."
        yield warning("list-of-repositories", what, _WHY, _DO)


def _covers_all(statements: Iterable[Statement]) -> bool:
    """True if a statement allows it on everything, and none denies it anywhere. lakeFS passes over statements with
    conditions here."""
    about = [each for each in statements if not each.condition and any(fnmatchcase(_RIGHT, one) for one in each.action)]
    allowed = any(each.effect == "allow" and _ALL & _resources(each) for each in about)
    return allowed and all(each.effect == "allow" for each in about)


def _resources(statement: Statement) -> set[str]:
    """The patterns of a statement, which may be a JSON list of them."""
    try:
        found = json.loads(statement.resource)
    except ValueError:
        found = None
    return {each for each in found if isinstance(each, str)} if isinstance(found, list) else {statement.resource}
