"""The policies of `deploy/policies`: what they allow, as AWS judges, and users of a real S3 server who have them.

SeaweedFS judges by them: action and key, each key of a delete of many, and what is denied. A folder knows no users: for
stores on one, `role` refuses the deletes that a policy does not allow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest

from lakegc_core.config.credentials import S3Access
from lakegc_core.store.local import LocalStore
from tests.support.servers import S3Server

POLICIES = Path(__file__).parents[2] / "deploy/policies"


def policy(name: str) -> list[dict[str, Any]]:
    """The statements of a policy, every key in lower case."""
    found = json.loads((POLICIES / name).read_text(encoding="utf-8"))
    (statements,) = (value for key, value in found.items() if key.lower() == "statement")
    return [{key.lower(): value for key, value in each.items()} for each in statements]


def allowed(statements: list[dict[str, Any]], action: str, resource: str) -> bool:
    """As AWS judges: some statement allows it, and none denies it."""
    effects = {
        each["effect"]
        for each in statements
        if action in each["action"] and any(fnmatchcase(resource, pattern) for pattern in each["resource"])
    }
    return effects == {"Allow"}


@dataclass(frozen=True)
class Users:
    """Makes users of a SeaweedFS that has IAM."""

    server: S3Server

    def user(self, names: Sequence[str], places: Mapping[str, str], without: tuple[str, str] | None = None) -> S3Access:
        """The keys of a new user who may do what these policies allow, and nothing else.

        `places`: what stands for BUCKET, PREFIX, BACKUPS and PLACE. `without`: an action that is taken out of them, and
        the end of the resources for which it is, as the files have them.
        """
        files = [json.loads((POLICIES / name).read_text(encoding="utf-8")) for name in names]
        statements = [each for file in files for each in file["Statement"]]
        if without is not None:
            statements = _less(statements, *without)
        document = json.dumps({"Version": "2012-10-17", "Statement": statements})
        for word, place in places.items():
            document = document.replace(word, place)
        name, server = f"user-{uuid4().hex}", self.server
        iam = boto3.client(
            "iam",
            endpoint_url=server.endpoint,
            aws_access_key_id=server.access_key,
            aws_secret_access_key=server.secret_key,
            region_name="us-east-1",
        )
        iam.create_user(UserName=name)
        made = iam.create_policy(PolicyName=name, PolicyDocument=document)["Policy"]["Arn"]
        iam.attach_user_policy(UserName=name, PolicyArn=made)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        return S3Access(region="us-east-1", access_key_id=key["AccessKeyId"], secret_access_key=key["SecretAccessKey"])


def _less(statements: list[dict[str, Any]], action: str, place: str) -> list[dict[str, Any]]:
    """The statements without one right."""
    left, taken = [], 0
    for each in statements:
        here = [where for where in each["Resource"] if where.endswith(place)]
        if each["Effect"] == "Allow" and action in each["Action"] and here:
            taken += 1
            others = [where for where in each["Resource"] if where not in here]
            rest = [other for other in each["Action"] if other != action]
            left += [{**each, "Resource": others}] if others else []
            left += [{**each, "Action": rest, "Resource": here}] if rest else []
        else:
            left.append(each)
    assert taken, f"no statement allows {action} on {place}"
    return left


@contextmanager
def role(name: str) -> Iterator[None]:
    """Folders, as stores, delete for this process what a policy allows, and refuse the rest as S3 does."""
    statements, delete = policy(name), LocalStore.delete_many

    def told(store: LocalStore, keys: Sequence[str], *more: Any) -> list[str]:
        may = {key: allowed(statements, "s3:DeleteObject", f"arn:aws:s3:::BUCKET/PREFIX/{key}") for key in keys}
        mine = [key for key in keys if may[key]]
        outcomes = dict(zip(mine, delete(store, mine, *more), strict=True)) if mine else {}
        return [outcomes.get(key, "failed:AccessDenied") for key in keys]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalStore, "delete_many", told)
        yield
