"""Users of lakeFS and what their policies say, as far as a key may know."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from lakegc_core.lakefs.models import OR_NULL, Answer, Name


@dataclass(frozen=True)
class _User(Answer):
    id: Name


@dataclass(frozen=True)
class CurrentUser(Answer):
    """The user whose key it is."""

    user: _User

    @property
    def id(self) -> str:
        return self.user.id


@dataclass(frozen=True)
class Statement(Answer):
    """What a policy allows or denies. `action` has patterns; `resource` is one, or a JSON list of them as text."""

    effect: str
    resource: str
    action: list[str]
    condition: Annotated[dict[str, Any], OR_NULL] = field(default_factory=dict)


@dataclass(frozen=True)
class Policy(Answer):
    """One policy of a user, or of a group of users."""

    statement: list[Statement]
