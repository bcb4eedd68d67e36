"""How large an array may be, compared with the values that are stored for it."""

from __future__ import annotations

from chiplog.store.contents.ragged import ALWAYS, TIMES, is_ragged, most_cells


def test_an_array_that_is_mostly_full_is_never_ragged() -> None:
    """However large."""
    for values in (0, 1, 10**6, 10**12):
        assert not is_ragged(values, values)
        assert not is_ragged(TIMES * values, values)


def test_a_small_array_may_be_empty() -> None:
    """Up to the limit, and not beyond; a caller may set another."""
    assert not is_ragged(ALWAYS, 0) and is_ragged(ALWAYS + 1, 0)
    assert not is_ragged(5, 0, always=5) and is_ragged(6, 0, always=5)


def test_the_largest_array_is_just_not_ragged() -> None:
    """Both questions have one answer."""
    for values in (0, 7, 10**9):
        for always in (0, 100, ALWAYS):
            most = most_cells(values, always=always)
            assert not is_ragged(most, values, always=always) and is_ragged(most + 1, values, always=always)
