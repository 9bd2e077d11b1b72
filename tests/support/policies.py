"""The policies of `deploy/policies`: what they allow, as AWS judges, and stores that delete only what one allows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from lakegc_core.store.local import LocalStore

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
