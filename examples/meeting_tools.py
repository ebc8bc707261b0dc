"""Two tools that wait for each other: each answers only once the other has been called too.

With examples/meeting.json the model calls both in one turn, and asks a tool of the caller's (`ask_user`, which the request
must declare) beside them:

    make serve MODEL=script:examples/meeting.json TOOLS=examples/meeting_tools.py
"""

import asyncio
from collections import defaultdict

from ronda import ToolContext, tool

_meetings: defaultdict[str, asyncio.Barrier] = defaultdict(lambda: asyncio.Barrier(2))


async def _meet(who: str, place: str, run: str) -> str:
    await _meetings[run].wait()
    _meetings.pop(run, None)
    return f"{who} is at {place}"


@tool(timeout=10)
async def wait_for_ann(place: str, context: ToolContext) -> str:
    """Wait until Ann has met Bob.

    Args:
        place: Where they meet.
    """
    return await _meet("Ann", place, context.run)


@tool(timeout=10)
async def wait_for_bob(place: str, context: ToolContext) -> str:
    """Wait until Bob has met Ann.

    Args:
        place: Where they meet.
    """
    return await _meet("Bob", place, context.run)
