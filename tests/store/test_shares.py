"""Who gives back how much when all keep too much."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ronda.store.shares import beyond, level


@pytest.mark.parametrize(
    ("kept", "most", "each", "expected"),
    [
        ({"ann": 10, "bob": 20}, 30, None, {}),
        ({"ann": 10, "bob": 30}, 30, None, {"bob": 10}),
        ({"ann": 10, "bob": 50, "eve": 40}, 60, None, {"bob": 25, "eve": 15}),
        ({"ann": 10, "bob": 20}, None, 15, {"bob": 5}),
        ({"ann": 10, "bob": 20}, 100, 15, {"bob": 5}),
        ({"ann": 10, "bob": 20}, None, None, {}),
        ({}, 10, 10, {}),
    ],
)
def test_the_owner_who_keeps_the_most_gives_back(
    kept: dict[str, int], most: int | None, each: int | None, expected: dict[str, int]
) -> None:
    assert beyond(kept, most, each) == expected


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=8), st.integers(0, 4000))
def test_no_owner_within_an_equal_share_loses_anything_and_the_bound_holds(sizes: list[int], most: int) -> None:
    excess = beyond(dict(enumerate(sizes)), most, None)
    left = [size - excess.get(owner, 0) for owner, size in enumerate(sizes)]

    assert all(left[owner] == size for owner, size in enumerate(sizes) if size <= most // len(sizes))
    assert sum(left) <= max(most, 0)
    assert level(sizes, most) >= 0
