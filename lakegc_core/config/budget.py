"""The budget of sweeps as lakegc.yaml and the options give it. `sweep.budget` says what it means for one sweep."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import time
from typing import Annotated

from pydantic import BeforeValidator, Field, Strict, WithJsonSchema

from lakegc_core.config.fields import told
from lakegc_core.config.sizes import SIZE, TIME, parse_size, parse_time_of_day

_Count = Annotated[int, Strict(), Field(ge=1)]
_Size = Annotated[
    int,
    BeforeValidator(told(parse_size)),
    WithJsonSchema(
        {
            "type": ["string", "integer"],
            "pattern": rf"^(?=.*[1-9])\s*{SIZE}\s*$",
            "minimum": 1,
            "examples": ["2TB", "500GB", "10GiB"],
        }
    ),
]
_TimeOfDay = Annotated[
    time,
    BeforeValidator(told(parse_time_of_day)),
    WithJsonSchema({"type": "string", "pattern": rf"^\s*{TIME}\s*$", "examples": ["06:00"]}),
]


@dataclass(frozen=True)
class BudgetSettings:
    """The most that one sweep does. What is left out has no limit."""

    most_bytes: _Size | None = None
    """Bytes that one sweep deletes, at most, such as 2TB."""
    most_objects: _Count | None = None
    """Objects that one sweep deletes, at most."""
    until: _TimeOfDay | None = None
    """Time of day, UTC, such as "06:00": from then on a sweep deletes nothing more."""
    most_requests: _Count | None = None
    """Requests for deletes that one call of a sweep sends to the store, at most."""
