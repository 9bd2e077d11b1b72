"""The kinds of values that lakegc.yaml holds, as types that pydantic reads strictly: no kind passes for another.

`settings` says which fields there are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, Strict, WithJsonSchema
from pydantic_core import PydanticCustomError, PydanticKnownError

from lakegc_core.config.durations import duration_with_unit, parse_duration
from lakegc_core.errors import SettingsError

T = TypeVar("T")
Value = TypeVar("Value")

Items = Annotated[
    tuple[T, ...], Strict(), BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
]
Text = Annotated[str, Strict(), Field(min_length=1)]
Flag = Annotated[bool, Strict()]


def named_place(place: str) -> str:
    """A place that a person named. SettingsError if it is neither a URI of a store nor an absolute folder."""
    if place.startswith("/") or ("://" in place and not place.startswith("local://")):
        return place
    raise SettingsError(f"{place!r} is no place: give a URI such as s3://bucket/prefix, or an absolute folder")


def place_of_backups(place: str) -> str:
    """A `named_place` for backups. SettingsError if it holds braces other than those of `{repository}`: then the
    backups of all repositories would lie in one folder of that name."""
    if set("{}") & set(named_place(place).replace("{repository}", "")):
        raise SettingsError(
            f"{place!r} has braces that stand for nothing; {{repository}} stands for the name of the repository"
        )
    return place


def flag_by(words: Any) -> BeforeValidator:
    """Reads a flag that is written as one of two words; the first means no."""
    no, yes = get_args(words)

    def read(value: object) -> bool:
        if value not in (no, yes):
            raise PydanticKnownError("bool_type")
        return bool(value == yes)

    return BeforeValidator(read, json_schema_input_type=words)


def told(read: Callable[[Value], T]) -> Callable[[Value], T]:
    """Let a reader's SettingsError become one of the problems of a document."""

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


def _long_time(value: object) -> timedelta:
    """A time of days. A small number without a unit was seldom meant as seconds: `quarantine: 7`."""
    found = _waiting_time(value)
    return found if found >= timedelta(hours=1) else duration_with_unit(str(value))


def _percentage(value: object) -> float:
    if not isinstance(value, str) or not re.fullmatch(_PERCENT, value):
        raise SettingsError(f"{value!r} is no percentage above 0% and up to 100%, such as 25%")
    return float(value.strip(" %")) / 100


def _as_spark_writes_it(value: object) -> str:
    if not isinstance(value, str | int | float):
        raise PydanticKnownError("string_type")
    return str(value).lower() if isinstance(value, bool) else str(value)


_NUMBER = r"[0-9]+(\.[0-9]+)?"
_DURATION = rf"\s*({_NUMBER}|({_NUMBER}[dhms])+)\s*$"
_PERCENT = r"(?=.*[1-9])([0-9]{1,2}(\.[0-9]+)?|100(\.0+)?) ?%"
_EXAMPLES = ["25h", "7d", "90m", "10s", "1h30m", 3600]
_WRITTEN = WithJsonSchema(
    {"type": ["string", "number"], "pattern": f"^{_DURATION}", "minimum": 0, "examples": _EXAMPLES}
)
_WRITTEN_ABOVE_0 = WithJsonSchema(
    {"type": ["string", "number"], "pattern": f"^(?=.*[1-9]){_DURATION}", "exclusiveMinimum": 0, "examples": _EXAMPLES}
)
_AN_HOUR = r"0*(3[6-9][0-9]{2}|[4-9][0-9]{3}|[1-9][0-9]{4,})(\.[0-9]+)?"  # seconds, or more of them
_LONG = rf"^\s*({_AN_HOUR}|(?=.*[1-9])({_NUMBER}[dhms])+)\s*$"
_WRITTEN_LONG = WithJsonSchema({"type": ["string", "number"], "pattern": _LONG, "minimum": 3600, "examples": _EXAMPLES})

Duration = Annotated[timedelta, BeforeValidator(told(parse_duration)), _WRITTEN]
WaitingTime = Annotated[timedelta, BeforeValidator(told(_long_time)), _WRITTEN_LONG]
"""A duration above 0; one below an hour needs its unit."""
Seconds = Annotated[float, BeforeValidator(told(lambda value: _waiting_time(value).total_seconds())), _WRITTEN_ABOVE_0]
"""A duration above 0, kept as seconds."""

Percentage = Annotated[
    float,
    BeforeValidator(told(_percentage)),
    WithJsonSchema({"type": "string", "pattern": f"^{_PERCENT}$", "examples": ["25%"]}),
]
"""A percentage above 0% and up to 100%, kept as a share."""


def _settings_are_sparks(conf: Mapping[str, str]) -> Mapping[str, str]:
    for name in conf:
        if name in ("spark.master", "spark.remote"):  # Java and the workers are chosen by `spark.master`
            said = "this belongs into `spark.master`, beside `conf`: local[*], spark://HOST:PORT, sc://HOST:PORT"
            raise PydanticCustomError("spark", "{error}", {"error": said, "below": (name,)})
        if not name.startswith("spark."):
            said = f"this is no setting of Spark, which passes it over; did you mean spark.{name}?"
            raise PydanticCustomError("spark", "{error}", {"error": said, "below": (name,)})
    return conf


def _memory_is_memory(conf: Mapping[str, str]) -> Mapping[str, str]:
    for name, schema in _MEMORY.items():
        if name in conf and not re.fullmatch(str(schema["pattern"]), conf[name]):
            raise PydanticCustomError("memory", "{error}", {"error": _NO_MEMORY, "below": (name,)})
    return conf


_NO_MEMORY = "this is no amount of memory; write a whole number with k, m, g or t, such as 4g"
_MEMORY: dict[str, dict[str, JsonValue]] = {
    "spark.driver.memory": {
        "type": "string",
        "pattern": "^[1-9][0-9]*[kKmMgGtT]$",  # goes to Java as it is, which takes less than Spark does
        "description": "Memory of the driver's JVM, such as 4g.",
    },
    "spark.executor.memory": {
        "type": ["string", "integer"],
        "pattern": "^[1-9][0-9]*([kKmMgGtT][bB]?)?$",
        "minimum": 1,
        "description": "Memory of each executor's JVM, such as 4g.",
    },
}
"""The settings of memory that lakegc.yaml may hold, as JSON Schema has them."""

SparkValue = Annotated[
    str, BeforeValidator(_as_spark_writes_it), WithJsonSchema({"type": ["string", "number", "boolean"]})
]

SparkConf = Annotated[
    Mapping[Annotated[str, Strict()], SparkValue],
    AfterValidator(_settings_are_sparks),
    AfterValidator(_memory_is_memory),
    Field(json_schema_extra={"properties": dict(_MEMORY), "propertyNames": {"pattern": r"^spark\."}}),
]
"""Spark properties by name."""
