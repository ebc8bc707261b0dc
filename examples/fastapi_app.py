"""A FastAPI app with an agent in it: an address of its own, and all of Ronda's APIs below /agents.

    pip install fastapi uvicorn
    uvicorn examples.fastapi_app:app
    curl -N 'http://127.0.0.1:8000/ask?question=How+many+pears+are+there%3F'

The model is a script, so that this runs without a key: put the name of yours into MODEL.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from ronda import Agent, TextDelta, stream_agent, tool
from ronda.server import create_app
from ronda.testing import ScriptedModel, calls, says

STOCK = {"pears": 12, "apples": 3}


@tool
def get_stock(item: str) -> int:
    """How many of an item there are.

    Args:
        item: Its name, in the plural.
    """
    return STOCK.get(item, 0)


def model() -> ScriptedModel:
    return ScriptedModel(calls("get_stock", item="pears"), says("There are 12 pears."))  # or "openai:gpt-5.5"


agents = create_app(model(), tools=[get_stock])


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with agents.lifespan():  # runs that a crash cut off continue; at the end they end properly
        yield


app = FastAPI(lifespan=lifespan)
app.mount("/agents", agents)  # for clients of OpenAI: base_url="http://127.0.0.1:8000/agents/v1"


@app.get("/stock/{item}")
def stock(item: str) -> dict[str, int]:
    return {item: STOCK.get(item, 0)}


@app.get("/ask")
async def ask(question: str) -> StreamingResponse:
    """The answer, as plain text, while the model writes it."""

    async def pieces() -> AsyncIterator[str]:
        agent = Agent(model(), instructions="Answer in one sentence.", tools=[get_stock])
        async with stream_agent(agent, question) as events:
            async for event in events:
                match event:
                    case TextDelta(text=text):
                        yield text

    return StreamingResponse(pieces(), media_type="text/plain")
