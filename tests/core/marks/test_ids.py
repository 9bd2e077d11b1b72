"""What may be the id of a mark, and which id a mark is given."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lakegc_core.errors import SettingsError
from lakegc_core.marks.ids import LATEST, check_mark_id, check_new_mark_id, is_mark_id, new_mark_id


@pytest.mark.parametrize("mark_id", ["20261121T0200Z", "a", "0", "A.b_c-d", "x" * 64])
def test_a_mark_id_may_be_letters_digits_dots_dashes_and_underscores(mark_id: str) -> None:
    assert check_mark_id(mark_id) == mark_id and is_mark_id(mark_id)


@pytest.mark.parametrize("mark_id", ["", ".", "-a", "_a", "a..b", "a/b", "a b", "é", "x" * 65, "a\n", "unified:a"])
def test_what_could_leave_the_marks_folder_is_no_mark_id(mark_id: str) -> None:
    with pytest.raises(SettingsError, match="no mark id"):
        check_mark_id(mark_id)
    assert not is_mark_id(mark_id)


def test_no_new_mark_is_called_by_the_word_for_the_newest_one_and_an_old_one_that_is_so_called_still_reads() -> None:
    with pytest.raises(SettingsError, match="the newest complete mark"):
        check_new_mark_id(LATEST)
    assert check_mark_id(LATEST) == LATEST
    with pytest.raises(SettingsError, match="no mark id"):
        check_new_mark_id("a/b")
    assert check_new_mark_id("latest-1") == "latest-1"


def test_ids_of_later_moments_sort_later() -> None:
    moments = [datetime(2026, 11, 21, 2, 0, 0, tzinfo=UTC), datetime(2026, 11, 21, 10, 0, 1, tzinfo=UTC)]
    first, second = map(new_mark_id, moments)
    assert first == "20261121T020000Z" < second
    assert check_mark_id(first)
