"""The four doors that take a session, spoken to in one way: a list of (role, text), and what came back as text."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.interaction.doors import Door, Json, Served, soon

from ronda.core.parts import AssistantTurn, SystemTurn, ToolTurn, Turn, UserTurn
from ronda.testing import ScriptedModel
from ronda.tools.function import FunctionTool, tool

Message = tuple[str, str]
DOORS = ("chat", "responses", "messages", "mistral")


@tool(repeatable=True)
async def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"sunny in {city}"


def looks(city: str, id: str = "c1") -> Json:
    return {"text": "Let me look.", "calls": [{"name": "weather", "arguments": {"city": city}, "id": id}]}


class SessionDoor:
    """`ask` sends exactly these messages, and returns the text that a client of the dialect would show."""

    def __init__(self, served: Served, dialect: str) -> None:
        self._served = served
        self._dialect = dialect

    async def ask(self, *messages: Message, key: str = "test", **fields: Any) -> str:
        status, answer = await self.send(*messages, key=key, **fields)
        assert status == 200, answer
        return text_in(answer, self._dialect)

    async def send(self, *messages: Message, key: str = "test", **fields: Any) -> tuple[int, Json]:
        path, body = request_of(self._dialect, messages)
        headers = {"authorization": f"Bearer {key}"}
        url = f"{self._served.url}/{path}"
        async with soon(), self._served.http.post(url, json={**body, **fields}, headers=headers) as answer:
            if not fields.get("stream"):
                return answer.status, await answer.json()
            await answer.read()  # to its end; what is in it others look at
            return answer.status, {}


def request_of(dialect: str, messages: Sequence[Message]) -> tuple[str, Json]:
    plain = [{"role": role, "content": text} for role, text in messages]
    if dialect == "chat":
        return "chat/completions", {"model": "default", "messages": plain}
    if dialect == "responses":
        return "responses", {"model": "default", "input": plain}
    if dialect == "mistral":
        return "agents/completions", {"agent_id": "default", "messages": plain}
    system = [text for role, text in messages if role == "system"]
    spoken = [message for message in plain if message["role"] != "system"]
    return "messages", {
        "model": "default",
        "max_tokens": 100,
        "messages": spoken,
        **({"system": "\n".join(system)} if system else {}),
    }


def text_in(answer: Json, dialect: str) -> str:
    if dialect in ("chat", "mistral"):
        content = answer["choices"][0]["message"]["content"]
        return content if isinstance(content, str) else "".join([part.get("text", "") for part in content])
    if dialect == "messages":
        return "".join([block["text"] for block in answer["content"] if block["type"] == "text"])
    messages = [item for item in answer["output"] if item["type"] == "message"]
    return "".join([part["text"] for item in messages for part in item["content"]])


@asynccontextmanager
async def sessions_at(
    door: Door, dialect: str, model: ScriptedModel, *tools: FunctionTool, **config: Any
) -> AsyncIterator[SessionDoor]:
    async with door.serving(model, *(tools or (weather,)), **config) as served:
        yield SessionDoor(served, dialect)


def told(turns: Sequence[Turn]) -> list[str]:
    """What a model was sent, in short: `user: …`, `calls: weather(…)`, `result: …`, `assistant: …`, `system: …`."""
    lines: list[str] = []
    for turn in turns:
        match turn:
            case SystemTurn(text=text):
                lines.append(f"system: {text}")
            case UserTurn(parts=parts):
                lines.append("user: " + "".join([getattr(part, "text", "") for part in parts]))
            case AssistantTurn():
                if turn.text or not turn.calls:
                    lines.append(f"assistant: {turn.text}")
                lines += [f"calls: {call.name}({call.arguments})" for call in turn.calls]
            case ToolTurn(results=results):
                lines += [f"result: {one.content}" for one in results]
    return lines
