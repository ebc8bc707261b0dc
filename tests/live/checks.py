"""A dozen things that every provider should do, each one small question with an answer that cannot be guessed.

A check is given a model, asks it through the library as a user would, and notes what that took in `Asked`.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, TypedDict

from ronda import Agent, ExecuteError, Result, Retry, TextDelta, run_agent_async, stream_agent, tool

CODES: Final = {"oslo": "4719", "rome": "8203"}
# Room to think, and no more than a tenth of a cent of the dearest model in the table.
OPTIONS: Final = {"max_tokens": 1200}


class Failed(Exception):
    """The provider answered, and not as it should."""


class Asked:
    """What a check has used so far."""

    def __init__(self) -> None:
        self.calls = 0
        self.input = 0
        self.output = 0
        self.cost: float | None = 0.0

    @property
    def tokens(self) -> int:
        return self.input + self.output

    def add(self, result: Result[Any]) -> None:
        self.calls += 1
        self.input += result.usage.input
        self.output += result.usage.output
        self.cost = None if self.cost is None or result.cost is None else self.cost + result.cost


Check: TypeAlias = Callable[[str, str | None, Asked], Awaitable[None]]


class City(TypedDict):
    name: str
    country: str


@tool(repeatable=True)
def get_code(city: str) -> str:
    """Get the secret code of a city.

    Args:
        city: The name of the city.
    """
    return CODES.get(city.strip().lower(), "no such city")


def agent(spec: str, base_url: str | None, **more: Any) -> Agent[Any]:
    options: Any = {**OPTIONS, **more.pop("options", {})}
    return Agent(spec, base_url=base_url, options=options, retry=Retry(tries=2), **more)


def holds(text: object, *words: str) -> None:
    missing = [word for word in words if word.lower() not in str(text).lower()]
    if missing:
        raise Failed(f"the answer lacks {', '.join(missing)}: {text!r:.100}")


async def answers(spec: str, base_url: str | None, asked: Asked) -> None:
    result = await run_agent_async(agent(spec, base_url), "Reply with the word PONG and nothing else.")
    asked.add(result)
    holds(result.output, "pong")


async def _streamed(made: Agent[Any], question: str, asked: Asked) -> Result[Any]:
    async with stream_agent(made, question) as events:
        pieces = [event.text async for event in events if isinstance(event, TextDelta)]
    result: Result[Any] = Result(events.result, events.run)  # as run_agent has it
    asked.add(result)
    if not pieces:
        raise Failed("the stream had no text")
    if not "".join(pieces).endswith(str(result.output)):
        raise Failed("the pieces of the stream are not the answer")
    return result


async def streams(spec: str, base_url: str | None, asked: Asked) -> None:
    result = await _streamed(agent(spec, base_url), "Count from one to ten in words.", asked)
    holds(result.output, "ten")


async def calls_tool(spec: str, base_url: str | None, asked: Asked) -> None:
    result = await run_agent_async(agent(spec, base_url, tools=[get_code]), "What is the code of Oslo? Use the tool.")
    asked.add(result)
    holds(result.output, CODES["oslo"])


async def calls_two_tools(spec: str, base_url: str | None, asked: Asked) -> None:
    question = "What are the codes of Oslo and Rome? Call the tool for both cities at once."
    result = await run_agent_async(agent(spec, base_url, tools=[get_code]), question)
    asked.add(result)
    holds(result.output, *CODES.values())
    if len(result.tool_calls) != 2:
        raise Failed(f"there were {len(result.tool_calls)} calls, not 2")


async def streams_with_tool(spec: str, base_url: str | None, asked: Asked) -> None:
    made = agent(spec, base_url, tools=[get_code])
    holds((await _streamed(made, "What is the code of Rome? Use the tool.", asked)).output, CODES["rome"])


async def structured(spec: str, base_url: str | None, asked: Asked) -> None:
    result = await run_agent_async(agent(spec, base_url, output=City), "Which city has the Eiffel Tower?")
    asked.add(result)
    if result.output != {"name": "Paris", "country": "France"}:
        raise Failed(f"the value is {result.output!r:.100}")


async def continues(spec: str, base_url: str | None, asked: Asked) -> None:
    made = agent(spec, base_url)
    first = await run_agent_async(made, "My cat is named Pixel. Reply with OK.")
    asked.add(first)
    second = await run_agent_async(made, "What is the name of my cat?", history=first.messages)
    asked.add(second)
    holds(second.output, "pixel")


async def thinks(spec: str, base_url: str | None, asked: Asked) -> None:
    made = agent(spec, base_url, options={"reasoning_effort": "low"})
    result = await run_agent_async(made, "What is 17 * 23? Reply with the number.")
    asked.add(result)
    holds(result.output, "391")


async def thinks_and_continues(spec: str, base_url: str | None, asked: Asked) -> None:
    """What it thought is sent back with its call, and again with the next question."""
    made = agent(spec, base_url, tools=[get_code], options={"reasoning_effort": "low"})
    first = await run_agent_async(made, "What is the code of Oslo? Use the tool.")
    asked.add(first)
    holds(first.output, CODES["oslo"])
    second = await run_agent_async(made, "Which code was it? Do not use the tool again.", history=first.messages)
    asked.add(second)
    holds(second.output, CODES["oslo"])


def _png(red: int, green: int, blue: int, side: int = 32) -> bytes:
    """A square of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes((red, green, blue)) * side) * side
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _pdf(words: str) -> bytes:
    """One page with one line."""
    content = f"BT /F1 24 Tf 40 100 Td ({words}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 400 200] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    text, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(text))
        text += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    rows = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % len(text)
    return text + b"xref\n0 6\n0000000000 65535 f \n" + rows + end


def _url(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


async def sees(spec: str, base_url: str | None, asked: Asked) -> None:
    picture = {"type": "image_url", "image_url": {"url": _url("image/png", _png(220, 0, 0))}}
    words = {"type": "text", "text": "Which colour is this picture? One word."}
    result = await run_agent_async(agent(spec, base_url), [{"role": "user", "content": [picture, words]}])
    asked.add(result)
    holds(result.output, "red")


async def reads_file(spec: str, base_url: str | None, asked: Asked) -> None:
    data = _url("application/pdf", _pdf("The code of Lima is 5561"))
    content = [
        {"type": "file", "file": {"filename": "codes.pdf", "file_data": data}},
        {"type": "text", "text": "What is the code of Lima in this file?"},
    ]
    result = await run_agent_async(agent(spec, base_url), [{"role": "user", "content": content}])
    asked.add(result)
    holds(result.output, "5561")


async def names_mistake(spec: str, base_url: str | None, asked: Asked) -> None:
    provider = spec.partition(":")[0]
    try:
        await run_agent_async(agent(f"{provider}:no-such-model", base_url), "Hello")
    except ExecuteError as error:
        holds(error, "no-such-model")  # all of them name it
        return
    raise Failed("a model that is not there has answered")


CHECKS: Final[Mapping[str, Check]] = {
    "answer": answers,
    "stream": streams,
    "tool": calls_tool,
    "two tools": calls_two_tools,
    "tool, streamed": streams_with_tool,
    "structured value": structured,
    "continuation": continues,
    "thinking": thinks,
    "thinking, continued": thinks_and_continues,
    "picture": sees,
    "PDF file": reads_file,
    "unknown model": names_mistake,
}
