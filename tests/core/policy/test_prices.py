"""Which HEADs are worth it, by what they and pages cost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakegc_core.policy.prices import AGAIN, GUESSED, Choice, Prices, choose

DEAR = dict.fromkeys(range(10), 10**9)  # pages: any HEADs cost less
ANY = 10**12  # pages: no rank has more


def test_heads_are_made_where_they_take_less_time_than_pages() -> None:
    prices = Prices(heads=1000, pages=10)
    even = AGAIN * 1000  # HEADs take as long as the pages of all times
    assert choose({1: even - 1, 2: even, 3: even + 1}, dict.fromkeys((1, 2, 3), 10), prices, 10**6, ANY).whole == (1,)
    assert choose({1: 1}, {}, prices, 10**6, ANY) == Choice((), None, 10**6, ())


def test_what_can_be_done_whole_comes_first_and_the_rest_goes_to_one_that_cannot() -> None:
    assert choose({1: 100, 2: 10, 3: 20, 4: 50}, DEAR, GUESSED, 40, ANY) == Choice((2, 3), 1, 10, (1, 4))


def test_where_pages_never_suffice_heads_are_made_at_any_price() -> None:
    dear = Prices(heads=20, pages=50)  # one measurement, of a moment when all was slow
    assert choose({1: 900_000}, {1: 150_000}, dear, 6_000, 100_000) == Choice((), 1, 6_000, ())
    assert choose({1: 900_000}, {1: 100_000}, dear, 6_000, 100_000) == Choice((), None, 6_000, ())


def test_without_any_heads_all_that_is_worth_some_waits() -> None:
    assert choose({1: 5, 2: 5}, DEAR, GUESSED, 0, ANY) == Choice((), None, 0, (1, 2))


@given(st.dictionaries(st.integers(1, 9), st.integers(1, 100)), st.integers(0, 400))
def test_no_more_are_chosen_than_are_allowed_and_night_after_night_all_are_made(
    needed: dict[int, int], most: int
) -> None:
    left, nights = dict(needed), 0
    while left and most:
        choice = choose(left, DEAR, GUESSED, most, ANY)
        made = {rank: left[rank] for rank in choice.whole}
        if choice.part is not None:
            made[choice.part] = min(choice.most, left[choice.part])
        assert 0 < sum(made.values()) <= most
        assert set(choice.pending) == left.keys() - set(choice.whole)
        left = {rank: heads - made.get(rank, 0) for rank, heads in left.items() if heads > made.get(rank, 0)}
        nights += 1
    assert nights <= (-(-sum(needed.values()) // most) if most else 0)


def test_few_requests_say_nothing_of_what_one_costs() -> None:
    prices = Prices(heads=1000, pages=50)
    assert prices.after(499, 1.0, 10, 1.0) == prices
    assert prices.after(5000, 2.0, 1000, 10.0) == Prices(heads=2500, pages=100)
    assert prices.after(5000, 0.0, 0, 0.0) == prices


def test_each_mark_has_a_minute_however_quick_the_rest_of_it_is() -> None:
    prices = Prices(heads=1000, pages=50)
    assert (prices.heads_in(0.0), prices.heads_in(59.0), prices.heads_in(600.0)) == (60_000, 60_000, 600_000)
