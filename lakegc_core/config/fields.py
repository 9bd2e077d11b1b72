"""The kinds of values that lakegc.yaml holds, as types that pydantic reads strictly: no kind passes for another.

Which fields there are is said in `settings`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BeforeValidator, Field, Strict, WithJsonSchema
from pydantic_core import PydanticKnownError

from lakegc_core.config.durations import parse_duration
from lakegc_core.errors import SettingsError

T = TypeVar("T")
Value = TypeVar("Value")

Items = Annotated[
    tuple[T, ...], Strict(), BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
]
Text = Annotated[str, Strict(), Field(min_length=1)]
Flag = Annotated[bool, Strict()]


def flag_by(words: Any) -> BeforeValidator:
    """Reads a flag that is written as one of two words; the first means no."""
    no, yes = get_args(words)

    def read(value: object) -> bool:
        if value not in (no, yes):
            raise PydanticKnownError("bool_type")
        return bool(value == yes)

    return BeforeValidator(read, json_schema_input_type=words)


def told(read: Callable[[Value], T]) -> Callable[[Value], T]:
    """The same reader, whose SettingsError becomes one of the problems of a document."""

    def reader(value: Value) -> T:
        try:
            return read(value)
        except SettingsError as error:
            raise ValueError(str(error)) from None

    return reader


def _waiting_time(value: object) -> timedelta:
    if (found := parse_duration(value)) <= timedelta(0):
        raise SettingsError(f"{value!r} is no time to wait; it must be more than 0, such as 10s")
    return found


def _as_spark_writes_it(value: object) -> str:
    if not isinstance(value, str | int | float):
        raise PydanticKnownError("string_type")
    return str(value).lower() if isinstance(value, bool) else str(value)


_WRITTEN = WithJsonSchema({"type": ["string", "number"], "examples": ["25h", "7d", "90m", "10s", "1h30m", 3600]})

Duration = Annotated[timedelta, BeforeValidator(told(parse_duration)), _WRITTEN]
WaitingTime = Annotated[timedelta, BeforeValidator(told(_waiting_time)), _WRITTEN]
"""A duration above 0."""
Seconds = Annotated[float, BeforeValidator(told(lambda value: _waiting_time(value).total_seconds())), _WRITTEN]
"""The same, kept as seconds."""

SparkValue = Annotated[
    str, BeforeValidator(_as_spark_writes_it), WithJsonSchema({"type": ["string", "number", "boolean"]})
]
