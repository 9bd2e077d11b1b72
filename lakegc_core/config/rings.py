"""The rings of sweeps as lakegc.yaml gives them. `sweep.rings` says what they mean for one sweep."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from pydantic import AfterValidator, Field, Strict

from lakegc_core.config.fields import Items, told
from lakegc_core.errors import SettingsError

_Share = Annotated[float, Strict(), Field(gt=0, lt=1, allow_inf_nan=False)]


def _ascending(shares: tuple[float, ...]) -> tuple[float, ...]:
    if any(later <= earlier for earlier, later in pairwise(shares)):
        raise SettingsError("each share must be above the one before it")
    return shares


_Shares = Annotated[Items[_Share], AfterValidator(told(_ascending))]


@dataclass(frozen=True)
class RingSettings:
    """The shares in which a sweep deletes its plan. After each ring, paths near to what went are read."""

    shares: _Shares | None = None
    """The shares of a plan that are gone after each ring but the last, such as [0.001, 0.01, 0.1]; []: one ring."""
