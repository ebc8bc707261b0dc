"""The tools file given to `ronda serve`: one tool that costs nothing and never gives the same result twice."""

import itertools

from ronda import tool

numbers = itertools.count(1)


@tool
async def lookup(q: str) -> str:
    """Look a place up.

    Args:
        q: The place.
    """
    return f"TRES-{next(numbers)}: {q} is sunny, 21 degrees."
