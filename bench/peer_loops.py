"""The loop of the library's benchmark in other libraries, each as its own documentation writes it.

Imported in environments that have that library and nothing of ours: this module needs nothing else."""

from __future__ import annotations

from typing import Any

from bench.lookup import INSTRUCTIONS, PROMPT, lookup

ROUNDS = 10


class Agno:
    def __init__(self, url: str, model: str) -> None:
        from agno.agent import Agent
        from agno.models.openai import OpenAIChat

        asked = OpenAIChat(id=model, base_url=url, api_key="bench")
        self._agent = Agent(model=asked, instructions=INSTRUCTIONS, tools=[lookup], telemetry=False)

    async def plain(self) -> str:
        return str((await self._agent.arun(PROMPT)).content)

    async def streamed(self) -> str:
        events = self._agent.arun(PROMPT, stream=True)
        return "".join([event.content or "" async for event in events if event.event == "RunContent"])

    async def close(self) -> None:
        pass


class LangChain:
    def __init__(self, url: str, model: str) -> None:
        from langchain.agents import create_agent
        from langchain_core.tools import tool
        from langchain_openai import ChatOpenAI

        asked = ChatOpenAI(model=model, base_url=url, api_key="bench", use_responses_api=False)
        self._agent = create_agent(asked, tools=[tool(lookup)], system_prompt=INSTRUCTIONS)
        self._question = {"messages": [{"role": "user", "content": PROMPT}]}
        self._limit = {"recursion_limit": 2 * ROUNDS + 20}

    async def plain(self) -> str:
        done = await self._agent.ainvoke(self._question, self._limit)
        return str(done["messages"][-1].content)

    async def streamed(self) -> str:
        pieces = self._agent.astream(self._question, self._limit, stream_mode="messages")
        return "".join([str(piece.content) async for piece, _ in pieces if piece.type.lower().startswith("ai")])

    async def close(self) -> None:
        pass


class OpenAIAgents:
    def __init__(self, url: str, model: str) -> None:
        from agents import Agent, OpenAIChatCompletionsModel, function_tool, set_tracing_disabled
        from openai import AsyncOpenAI

        set_tracing_disabled(True)
        asked = OpenAIChatCompletionsModel(model=model, openai_client=AsyncOpenAI(base_url=url, api_key="bench"))
        self._agent = Agent(name="bench", instructions=INSTRUCTIONS, tools=[function_tool(lookup)], model=asked)

    async def plain(self) -> str:
        from agents import Runner

        return str((await Runner.run(self._agent, PROMPT, max_turns=ROUNDS + 5)).final_output)

    async def streamed(self) -> str:
        from agents import Runner

        run = Runner.run_streamed(self._agent, PROMPT, max_turns=ROUNDS + 5)
        async for _ in run.stream_events():
            pass
        return str(run.final_output)

    async def close(self) -> None:
        pass


class PydanticAI:
    def __init__(self, url: str, model: str) -> None:
        from pydantic_ai import Agent, UsageLimits
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        asked = OpenAIChatModel(model, provider=OpenAIProvider(base_url=url, api_key="bench"))
        self._agent = Agent(asked, instructions=INSTRUCTIONS, tools=[lookup])
        self._limits = UsageLimits(request_limit=None)

    async def plain(self) -> str:
        return str((await self._agent.run(PROMPT, usage_limits=self._limits)).output)

    async def streamed(self) -> str:
        async def read(context: Any, events: Any) -> None:
            async for _ in events:
                pass

        return str((await self._agent.run(PROMPT, usage_limits=self._limits, event_stream_handler=read)).output)

    async def close(self) -> None:
        pass


LOOPS: dict[str, Any] = {
    "agno": Agno,
    "langchain": LangChain,
    "openai-agents": OpenAIAgents,
    "pydantic-ai": PydanticAI,
}
