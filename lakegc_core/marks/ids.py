"""Ids of marks: what one may look like, and the id of a mark that begins now."""

from __future__ import annotations

import re
from datetime import datetime

from lakegc_core.errors import SettingsError

_MARK_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,63}")

LATEST = "latest"
"""The word by which commands take the newest complete mark of a repository, so that no new mark is called so."""


def is_mark_id(name: str) -> bool:
    """True if a mark can have this id. Anybody may leave other names among the marks."""
    return bool(_MARK_ID.fullmatch(name)) and ".." not in name


def check_mark_id(mark_id: str) -> str:
    """The id itself, or a SettingsError that says what an id may look like."""
    if not is_mark_id(mark_id):
        raise SettingsError(
            f"{mark_id!r} is no mark id. Use up to 64 letters, digits, '.', '_' or '-', beginning with a letter or "
            "a digit, for instance 20261121T0200Z."
        )
    return mark_id


def check_new_mark_id(mark_id: str) -> str:
    """The same for a mark that begins: it has no id that commands take for another mark."""
    if mark_id == LATEST:
        raise SettingsError(
            f"No mark can have the id {LATEST!r}: commands take this word for the newest complete mark of a "
            "repository. Choose another id, or leave it out: the id is then the time of now."
        )
    return check_mark_id(mark_id)


def new_mark_id(at: datetime) -> str:
    """A mark id for a moment: `20261121T020000Z`; ids of later moments sort later."""
    return at.strftime("%Y%m%dT%H%M%SZ")
