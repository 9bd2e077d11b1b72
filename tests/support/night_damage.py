"""Nights after which an artifact is not what it was.

Each function plays the nights that it needs.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.long_nights import Year


def _damage(year: Year, mark_id: str) -> None:
    """One byte of a manifest is another one."""
    file = year.town.home / f"marks/{mark_id}/expired_addresses/manifest.json"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    year.town.date_artifacts()


def give_other_format(year: Year, mark_id: str) -> None:
    """As an upgrade, or a way back from one, finds it."""
    file = year.town.home / f"marks/{mark_id}/mark.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format": 2}))
    year.town.date_artifacts()


def _old(year: Year) -> str:
    """A mark of some nights ago that stands."""
    standing = [each for each in year.marks if (year.town.home / f"marks/{each}/mark.json").exists()]
    return standing[max(0, len(standing) - 4)]


def the_newest_mark_is_damaged(year: Year) -> None:
    year.plain()
    _damage(year, year.marks[-1])


def an_old_mark_is_damaged(year: Year) -> None:
    year.plain()
    _damage(year, _old(year))


def the_newest_mark_is_of_another_format(year: Year) -> None:
    year.plain()
    give_other_format(year, year.marks[-1])


def an_old_mark_is_of_another_format(year: Year) -> None:
    year.plain()
    give_other_format(year, _old(year))
