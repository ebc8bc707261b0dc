"""Ronda's side of the start: an agent with a tool, asked once, synchronously; then it waits while it is measured."""

import sys

from ronda import Agent, invoke_agent


async def lookup(q: str) -> str:
    """Look a place up.

    Args:
        q: The place.
    """
    return f"{q} is sunny, 21 degrees."


agent = Agent(
    model="openai-chat:" + sys.argv[2],
    base_url=sys.argv[1],
    instructions="You are a helpful assistant.",
    tools=[lookup],
)
print(invoke_agent(agent, "What is the weather in Paris?"), flush=True)
sys.stdin.read()
