"""The floor of the library's figures: the loop a person writes by hand, with aiohttp and the standard `json`.

No limits, no retries, no events, no checks: what is left is the cost of talking to the model at all.
"""

import json
from typing import Any

import aiohttp
from bench.lookup import INSTRUCTIONS, PROMPT, lookup

HEADERS = {"content-type": "application/json", "authorization": "Bearer bench"}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "lookup",
            "description": "Look a place up.",
            "parameters": {
                "type": "object",
                "properties": {"q": {"type": "string", "description": "The place."}},
                "required": ["q"],
                "additionalProperties": False,
            },
        },
    }
]

Message = dict[str, Any]


class Floor:
    """A model behind one aiohttp session."""

    def __init__(self, base_url: str, model: str) -> None:
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self._url = base_url + "/chat/completions"
        self._model = model

    async def plain(self) -> str:
        messages = opening()
        while True:
            request = json.dumps({"model": self._model, "messages": messages, "tools": TOOLS})
            async with self._session.post(self._url, data=request, headers=HEADERS) as response:
                answer = json.loads(await response.read())
            message: Message = answer["choices"][0]["message"]
            if not message.get("tool_calls"):
                return str(message["content"])
            messages.append(message)
            messages += await run_calls(message)

    async def streamed(self) -> str:
        messages = opening()
        while True:
            request = json.dumps({"model": self._model, "messages": messages, "tools": TOOLS, "stream": True})
            async with self._session.post(self._url, data=request, headers=HEADERS) as response:
                message = await read_stream(response.content)
            if not message.get("tool_calls"):
                return str(message["content"])
            messages.append(message)
            messages += await run_calls(message)

    async def close(self) -> None:
        await self._session.close()


def opening() -> list[Message]:
    return [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": PROMPT}]


async def run_calls(message: Message) -> list[Message]:
    results = []
    for call in message["tool_calls"]:
        content = await lookup(**json.loads(call["function"]["arguments"]))
        results.append({"role": "tool", "tool_call_id": call["id"], "content": content})
    return results


async def read_stream(content: aiohttp.StreamReader) -> Message:
    """The message that the deltas add up to."""
    text: list[str] = []
    calls: dict[int, Message] = {}
    rest = b""
    async for data in content.iter_any():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if not line.startswith(b"data: ") or line == b"data: [DONE]":
                continue
            choices = json.loads(line[6:])["choices"]
            if not choices:
                continue
            delta = choices[0]["delta"]
            if delta.get("content"):
                text.append(delta["content"])
            for piece in delta.get("tool_calls") or ():
                add_piece(calls, piece)
    if calls:
        return {"role": "assistant", "content": None, "tool_calls": list(calls.values())}
    return {"role": "assistant", "content": "".join(text)}


def add_piece(calls: dict[int, Message], piece: Message) -> None:
    blank = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
    call = calls.setdefault(piece["index"], blank)
    call["id"] += piece.get("id") or ""
    call["function"]["name"] += piece["function"].get("name") or ""
    call["function"]["arguments"] += piece["function"].get("arguments") or ""
