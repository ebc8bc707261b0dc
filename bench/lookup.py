"""The question of the library's benchmark, its one tool, and the CPU time of the process at each call of the tool."""

import time

INSTRUCTIONS = "You are a helpful assistant."
PROMPT = "What is the weather in Paris? Use the lookup tool."

stamps: list[float] = []


async def lookup(q: str) -> str:
    """Look a place up.

    Args:
        q: The place.
    """
    stamps.append(time.process_time())
    return f"TRES-{len(stamps)}: {q} is sunny, 21 degrees."  # the fake model counts `TRES-`; no two results are equal
