"""Every door answers with the very bytes that it answered with when `golden/` was written."""

from __future__ import annotations

import pytest
from tests.interaction.every_door import NAMES
from tests.interaction.golden_bytes import FOLDER, page


@pytest.mark.parametrize("door", NAMES)
async def test_a_door_answers_with_the_bytes_it_always_had(door: str) -> None:
    before = (FOLDER / f"{door}.txt").read_bytes()

    assert (await page(door)).decode() == before.decode()
