"""Ronda's side of the library's figures: the public API, as a user calls it."""

from bench.lookup import INSTRUCTIONS, PROMPT, lookup

from ronda import Agent, invoke_agent_async, stream_agent


class Ours:
    """The same model, tool and prompt as `Floor`, behind an `Agent`."""

    def __init__(self, base_url: str, model: str, rounds: int, wire: str = "openai-chat") -> None:
        self._agent = Agent(
            model=f"{wire}:{model}", base_url=base_url, api_key="bench", instructions=INSTRUCTIONS, tools=[lookup]
        )
        self._limit = rounds + 5

    async def plain(self) -> str:
        return str(await invoke_agent_async(self._agent, PROMPT, max_iterations=self._limit))

    async def streamed(self) -> str:
        async with stream_agent(self._agent, PROMPT, max_iterations=self._limit) as events:
            async for _ in events:
                pass
            return str(events.result)

    async def close(self) -> None:
        pass
