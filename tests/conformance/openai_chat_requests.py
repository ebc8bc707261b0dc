"""Every recorded request, read by our server's reader and written by our client's writer: the same request in meaning.

Messages, tools, the choice of a tool, the form of the answer, sampling, and fields we do not know. What Ronda does itself
instead of passing it on is left out of the comparison; what it refuses by design is excepted, by the rule that refused it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NoReturn

from tests.conformance import meaning
from tests.conformance.recordings import Exchange, Json, chat_exchanges
from tests.conformance.report import Excepted, PartResult, Tally, absent, same

from ronda.core.request import ModelRequest
from ronda.errors import BadRequest
from ronda.wire.openai_chat.client_request import write_request
from ronda.wire.openai_chat.server_request import ChatRequest, read_request
from ronda.wire.shared.capabilities import NotHere

# Done by Ronda, per run, so never part of what it asks of a model.
OURS = {
    "n": "several choices are several runs",
    "stream_options": "usage is always asked for; the caller's wish is about our own stream",
    "session_id": "sessions are ours",
    "max_tool_rounds": "limits are ours",
    "on_disconnect": "it is about the caller's connection",
}

# A field the server refuses, by design → the reason. The rest of the request must pass without it.
REFUSED_BY_DESIGN = {
    "web_search_options": "hosted tools are not run by this server",
    "tools[].type": "hosted tools are not run by this server",
    "audio": "this server answers with text",
    "modalities": "this server answers with text",
}


def run(data: Path) -> PartResult:
    exchanges = chat_exchanges(data)
    if not exchanges:
        return absent("a recorded chat completion request")
    tally = Tally()
    for exchange in exchanges:

        def survives(exchange: Exchange = exchange) -> None:
            recorded, refused = acceptable(exchange)
            written = json.loads(write(read(recorded)))
            same(meaning.messages(written["messages"]), meaning.messages(recorded["messages"]), "messages")
            ours, theirs = meaning.request(written), meaning.request(with_tools(recorded))
            for name in sorted((ours.keys() | theirs.keys()) - OURS.keys()):
                same(ours.get(name), theirs.get(name), name)
            if refused is not None:
                raise Excepted(f"{refused}; the rest is the same")

        tally.check("read and written again", exchange.id, survives)
    return tally.result()


def with_tools(request: Json) -> Json:
    """A request in the deprecated form as one with tools: it allows one call in an answer, and no upstream is asked in it."""
    if "functions" not in request:
        return request
    rest = {name: value for name, value in request.items() if name not in ("functions", "function_call")}
    tools = [{"type": "function", "function": function} for function in request["functions"]]
    found = {**rest, "tools": tools, "parallel_tool_calls": False}
    choice = request.get("function_call")
    if choice is not None:
        found["tool_choice"] = choice if isinstance(choice, str) else {"type": "function", "function": choice}
    return found


def acceptable(exchange: Exchange) -> tuple[Json, str | None]:
    """A recorded request without what is refused by design, and the reason if there was something."""
    request, reason = exchange.request, None
    if request is None:
        raise Excepted("the recording lost the request")
    if (
        isinstance(request, dict)
        and "model" not in request
        and (named := re.search("/deployments/([^/?]+)", exchange.url))
    ):
        request = {"model": named[1], **request}  # Azure's address says it
    for _ in range(len(REFUSED_BY_DESIGN)):
        try:
            read(request)
        except BadRequest as error:
            field = re.sub(r"\[\d+\]", "[]", error.param or "")
            if field not in REFUSED_BY_DESIGN:
                raise_by_rule(exchange, error)
            reason = REFUSED_BY_DESIGN[field]
            request = {name: value for name, value in request.items() if name != field}
            if field == "tools[].type":
                request["tools"] = [tool for tool in request["tools"] if tool.get("type", "function") == "function"]
        else:
            break
    return request, f"refused by design: {reason}" if reason is not None else None


def raise_by_rule(exchange: Exchange, error: BadRequest) -> NoReturn:
    """Refused because of its messages, which cannot be taken out: excepted if it should be refused, else as it is."""
    for said in exchange.request["messages"]:
        if said["role"] == "assistant" and said.get("audio"):
            raise Excepted("refused by design: this server answers with text") from error
    if 400 <= exchange.status < 500:
        raise Excepted("refused by the upstream as well") from error
    raise error


def read(request: Json) -> ChatRequest:
    """As a server does that has nothing but the caller's tools."""
    asked = read_request(json.dumps(request).encode())
    for need in asked.needs:
        raise NotHere(need)
    return asked


def write(request: ChatRequest) -> bytes:
    return write_request(request.model, model_request(request))


def model_request(request: ChatRequest) -> ModelRequest:
    return ModelRequest(
        request.turns, request.tools, request.choice, request.options, request.stream, "run", 0, 1, scratch={}
    )
