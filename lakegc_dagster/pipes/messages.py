"""The messages between Dagster's step and an external process. JSON both ways, and no Dagster in here.

The answer is small. What a stage found lies in the mark, and the step reads it from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from lakegc_core import errors
from lakegc_core.errors import LakegcError, MarkError, SettingsError
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.names import Json

Result = TypeVar("Result")

BACKUP, SWEEP = "backup", "sweep"
"""The verbs beside the names of the five stages."""
_KEY = "lakegc"


@dataclass(frozen=True)
class Order:
    """An order to an external process, on one mark."""

    verb: str  # the name of a marking stage, or one of the verbs above
    repository: str
    mark_id: str
    settings: str  # lakegc.yaml as text, without `spark`
    then: Sequence[str] = field(
        default_factory=list
    )  # the stages that follow in the same run, which the process goes on with
    digest: str = ""  # of the expired addresses that are to be swept: hexadecimal
    place: str = ""  # where the backup goes: a URI or an absolute folder
    dry_run: bool = True
    accepted: Mapping[str, str] = field(default_factory=dict)  # reasons by guard
    budget: Mapping[str, int | float | None] = field(default_factory=dict)  # of a sweep, as `asdict` makes it

    def as_extras(self) -> Json:
        """The extras of a Pipes session. They hold no secret."""
        return {_KEY: asdict(self)}

    @classmethod
    def of_extras(cls, extras: Mapping[str, Any]) -> Order:
        """The order in a session's extras. SettingsError if there is none, or one of another version of lakegc."""
        if _KEY not in extras:
            raise SettingsError("The Pipes session has no order of lakegc: pass the extras that lakegc gives `launch`.")
        try:
            return cls(**extras[_KEY])
        except TypeError as error:
            raise SettingsError(
                f"The order cannot be read ({error}). Install the same version of lakegc here and in Dagster."
            ) from None

    def done(self, result: Json) -> Json:
        """The answer to an order that was carried out."""
        return {_KEY: {"order": self._name, "result": result}}

    @property
    def _name(self) -> list[str]:
        return [self.verb, self.repository, self.mark_id]

    def answer_in(self, messages: Sequence[Any]) -> Json | None:
        """The answer: the result. None if there is no answer to this order. An error that was answered is raised
        as itself. Of several answers, the last counts: a platform may start a process again."""
        told = [each[_KEY] for each in messages if isinstance(each, Mapping) and _KEY in each]
        for each in reversed(told):
            if "error" in each:
                raise _error(each["error"])
            if each.get("order") == self._name:
                found: Json = each["result"]
                return found
        return None


def failed(error: LakegcError) -> Json:
    """The answer to an order that could not be carried out: the sentence, and what kind of error it is."""
    kind = next(each.__name__ for each in type(error).__mro__ if each.__module__ == errors.__name__)
    status = error.status if isinstance(error, LakeFSError) else 0
    return {_KEY: {"error": {"kind": kind, "sentence": str(error), "status": status}}}


def _error(told: Mapping[str, Any]) -> LakegcError:
    sentence, status = str(told.get("sentence")), told.get("status")
    if status:
        return LakeFSError(sentence, int(status))
    kind = getattr(errors, str(told.get("kind")), LakegcError)
    return kind(sentence) if isinstance(kind, type) and issubclass(kind, LakegcError) else LakegcError(sentence)


def value_of(kind: type[Result], told: Json) -> Result:
    """A result of this kind, as `asdict` made JSON of it. MarkError if it is none."""
    try:
        return TypeAdapter(kind).validate_python(told)
    except ValidationError:
        raise MarkError(
            f"The external process answered with no {kind.__name__} of this version of lakegc. Install the same "
            "version there and in Dagster. What was done is on record in the mark."
        ) from None
