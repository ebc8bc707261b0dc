"""What we ask of the Responses API is what it takes.

Recorded requests, taken apart into our own values and written again, hold what they held: tools, the choice of a tool, the
form of the answer, sampling, and fields we do not know. And whatever history we are given, the request satisfies the
published schema (`openresponses/openapi.json`) and the rules that no schema can say: histories recorded on Chat
Completions, and random ones of any origin, with ids, names and parts this API does not take.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import jsonschema_rs
from msgspec import Raw
from tests.conformance import responses_recorded as recorded
from tests.conformance import responses_turns as turns_of
from tests.conformance.openai_chat_requests import acceptable
from tests.conformance.openai_chat_requests import read as read_chat
from tests.conformance.recordings import Exchange, Json, chat_exchanges
from tests.conformance.report import Excepted, PartResult, Tally, absent, same

from ronda.core.parts import (
    AssistantPart,
    AssistantTurn,
    Audio,
    File,
    Image,
    Native,
    Reasoning,
    Refusal,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    UserPart,
    UserTurn,
    Video,
)
from ronda.core.plan import AUTO, NO_OPTIONS, Options, ResponseFormat, ToolChoice, ToolSpec
from ronda.core.request import ModelRequest
from ronda.core.transcript import repair
from ronda.errors import BadRequest
from ronda.wire.openai_responses.client_request import Body

RANDOM = 1500
KNOWN = {
    "model",
    "input",
    "instructions",
    "stream",
    "store",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_output_tokens",
    "temperature",
    "top_p",
}


def run(data: Path) -> PartResult:
    exchanges = [one for one in recorded.exchanges(data) if isinstance(one.request, dict)]
    file = data / "openresponses" / "openapi.json"
    if not exchanges and not file.is_file():
        return absent("a recorded request to the Responses API, or its schema")
    tally = Tally()
    for exchange in exchanges:
        tally.check("read and written again", exchange.id, lambda exchange=exchange: _survives(exchange))  # type: ignore[misc]
    if not file.is_file():
        tally.note("the schema is not there: what we write is not held against it")
        return tally.result()
    satisfies = _schema(file)
    for exchange in exchanges:
        if exchange.request.get("previous_response_id") or exchange.request.get("conversation"):
            continue  # half a conversation: the server keeps the other
        if exchange.request.get("prompt") and not exchange.request.get("input"):
            continue  # what is said is in the prompt, which the server keeps
        with tally.guard(exchange.id):
            beyond = any(_is_beyond(item) for item in turns_of.items(exchange.request["input"]))
            kind, how = (
                ("recorded here, with more than the schema has", _rules) if beyond else ("recorded here", satisfies)
            )
            tally.check(kind, exchange.id, lambda it=exchange, how=how: _check_recorded(it, how))  # type: ignore[misc]
    for exchange in [one for one in chat_exchanges(data) if isinstance(one.request, dict)]:
        tally.check("recorded on chat", exchange.id, lambda it=exchange: _check_chat(it, satisfies))  # type: ignore[misc]
    for seed in range(RANDOM):
        tally.check("random histories", f"seed {seed}", lambda seed=seed: _check_random(seed, satisfies))  # type: ignore[misc]
    return tally.result()


# ---- recorded requests, written again ---------------------------------------------------------------------------------


def _survives(exchange: Exchange) -> None:
    said = exchange.request
    ours = json.loads(Body().write(said.get("model") or "gpt-5", _taken_apart(said)))
    if "model" not in said:  # a stored prompt names it
        del ours["model"]
    same(_asked(ours), _asked(said), "request")
    same(ours["store"], said.get("store", False), "store")
    same(set(said.get("include") or ()) - set(ours.get("include", ())), set(), "include")


def _taken_apart(said: Json) -> ModelRequest:
    turns: list[Turn] = [SystemTurn(said["instructions"])] if said.get("instructions") else []
    turns += turns_of.turns(turns_of.items(said.get("input") or []))
    tools = [tool for tool in said.get("tools") or [] if tool["type"] == "function"]
    extra = {name: _raw(value) for name, value in said.items() if name not in KNOWN and value is not None}
    if said.get("store") is not None:
        extra["store"] = _raw(said["store"])
    if hosted := [tool for tool in said.get("tools") or [] if tool["type"] != "function"]:
        extra["tools"] = _raw(hosted)
    answer_format = None
    text = dict(said.get("text") or {})
    if (text.get("format") or {}).get("type") in ("json_schema", "json_object"):
        read = text.pop("format")
        schema = _raw(read["schema"]) if "schema" in read else Raw(b"null")
        answer_format = ResponseFormat(
            read["type"], read.get("name", ""), schema, read.get("strict"), read.get("description")
        )
        extra.pop("text", None)
        if text:
            extra["text"] = _raw(text)
    effort = (said.get("reasoning") or {}).get("effort")
    options = Options(
        max_tokens=said.get("max_output_tokens"),
        temperature=said.get("temperature"),
        top_p=said.get("top_p"),
        parallel_tool_calls=said.get("parallel_tool_calls"),
        reasoning_effort=effort,
        response_format=answer_format,
        extra=extra,
    )
    return ModelRequest(
        turns, tuple(_tool(tool) for tool in tools), _choice(said), options, bool(said.get("stream")), "run", 0, 1, {}
    )


def _tool(said: Json) -> ToolSpec:
    known = said.keys() <= {"type", "name", "description", "parameters", "strict"}
    return ToolSpec(
        said["name"],
        said.get("description") or "",
        _raw(said.get("parameters") or {"type": "object"}),
        said.get("strict"),
        kind="caller",
        native=Raw(b"null") if known else _raw(said),
    )


def _choice(said: Json) -> ToolChoice:
    match said.get("tool_choice"):
        case {"type": "function", "name": name}:
            return ToolChoice("required", (name,), named=True)
        case {"type": "allowed_tools", "mode": mode, "tools": tools}:
            return ToolChoice(mode, tuple(tool["name"] for tool in tools))
        case "none" | "required" as mode:
            return ToolChoice(mode)
    return AUTO


def _raw(value: Json) -> Raw:
    return Raw(json.dumps(value).encode())


def _asked(said: Json) -> dict[str, Json]:
    """All but the conversation, in one spelling."""
    found = {name: value for name, value in said.items() if value not in (None, [], {}, False)}
    for name in ("input", "instructions", "include", "store"):
        found.pop(name, None)
    if tools := found.pop("tools", None):
        functions = [_meaning_of_tool(tool) for tool in tools if tool["type"] == "function"]
        found["tools"] = functions + [tool for tool in tools if tool["type"] != "function"]
    else:
        found.pop("tool_choice", None)
    if found.get("tool_choice") == "auto":
        del found["tool_choice"]
    if isinstance(found.get("text"), dict):
        found["text"] = {name: value for name, value in found["text"].items() if value is not None}
        if (answer_format := found["text"].get("format")) is not None:
            found["text"]["format"] = {name: value for name, value in answer_format.items() if value is not None}
    return found


def _meaning_of_tool(said: Json) -> Json:
    return {name: value for name, value in said.items() if value not in (None, False, "")}


# ---- the schema, and rules it cannot say ------------------------------------------------------------------------------


def _schema(file: Path) -> Callable[[bytes], None]:
    api = json.loads(file.read_text(encoding="utf-8"))
    schema = {"$ref": "#/components/schemas/CreateResponseBody", "components": api["components"]}
    validator = jsonschema_rs.Draft202012Validator(schema)

    def satisfies(body: bytes) -> None:
        said = json.loads(body)
        for error in validator.iter_errors(said):
            raise AssertionError(f"{error.message} at {list(error.instance_path)}")
        follow_rules(said["input"])

    return satisfies


def follow_rules(said: list[Json]) -> None:
    """Every call answered once and behind it, no id twice, no thought without what follows it."""
    assert said, "no input at all"
    opened: dict[str, str] = {}
    used: set[str] = set()
    for at, item in enumerate(said):
        assert item.get("id") is None or item["id"] not in used, f"the id {item['id']} comes twice"
        used |= {item["id"]} if item.get("id") else set()
        match turns_of.kind(item):
            case "function_call" | "custom_tool_call" as kind:
                assert item["call_id"] not in used, f"the call {item['call_id']} comes twice"
                used.add(item["call_id"])
                opened[item["call_id"]] = kind
            case "function_call_output" | "custom_tool_call_output" as kind:
                assert opened.pop(item["call_id"], "nothing") + "_output" == kind, f"{item['call_id']} answers nothing"
            case "reasoning":
                follows = turns_of.kind(said[at + 1]) if at + 1 < len(said) else "nothing"
                assert follows != "nothing", "a thought that nothing follows"
                assert not turns_of.is_clients(said[at + 1]), f"a thought followed by {follows}"
    assert not opened, f"{len(opened)} calls without a result"


def _check(turns: list[Turn], satisfies: Callable[[bytes], None], tools: tuple[ToolSpec, ...] = ()) -> None:
    repaired = list(repair(turns))
    request = ModelRequest(repaired, tools, AUTO, NO_OPTIONS, False, "run", 0, 1, scratch={})
    body = Body()
    for size in range(1, len(repaired)):
        request.turns = repaired[:size]
        body.write("gpt-5", request)
    request.turns = repaired
    written = body.write("gpt-5", request)
    same(written, Body().write("gpt-5", request), "written with what was written before")
    satisfies(written)


def _rules(body: bytes) -> None:
    follow_rules(json.loads(body)["input"])


def _is_beyond(item: Json) -> bool:
    """Items of hosted tools, and thoughts that are shown."""
    if turns_of.kind(item) == "reasoning":
        return item.get("content") is not None
    return turns_of.kind(item) not in ("message", "function_call", "function_call_output", "compaction")


def _check_recorded(exchange: Exchange, satisfies: Callable[[bytes], None]) -> None:
    _check(turns_of.turns(turns_of.items(exchange.request["input"])), satisfies)


def _check_chat(exchange: Exchange, satisfies: Callable[[bytes], None]) -> None:
    try:
        request = read_chat(acceptable(exchange)[0])
    except BadRequest as error:
        raise Excepted("refused by our own door") from error
    _check(list(request.turns), satisfies, request.tools)


def _check_random(seed: int, satisfies: Callable[[bytes], None]) -> None:
    dice = random.Random(seed)
    tools = tuple(ToolSpec(name) for name in dice.sample(_NAMES, dice.randint(0, 3)))
    turns = [turn for _ in range(dice.randint(0, 8)) for turn in _random_turns(dice)]
    turns.insert(dice.choice([0, len(turns)]), UserTurn((Text("hello"),)))
    _check(turns, satisfies, tools)


_NAMES = ["search", "a.b", "a_b", "read page", "größe", "x" * 80, "mcp:list/tools"]
_IDS = ["call_1", "call_1", "a|b", "", "y" * 83, "functions.f:0", "é" * 64, "toolu_01"]
_WORDS = ["", "hi", "«ß»\n", "x" * 200]


def _random_turns(dice: random.Random) -> list[Turn]:
    match dice.randint(0, 5):
        case 0:
            return [SystemTurn(dice.choice(_WORDS), dice.choice(["system", "developer"]))]
        case 1 | 2:
            return [UserTurn(tuple(_random_part(dice) for _ in range(dice.randint(0, 3))), dice.choice([None, "Ann"]))]
        case 3:
            return [_random_own(dice)]
    parts: list[AssistantPart] = []
    for _ in range(dice.randint(0, 4)):
        kind = dice.choice([Text, Reasoning, Refusal, ToolCall, ToolCall])
        if kind is ToolCall:
            parts.append(ToolCall(dice.choice(_IDS), dice.choice(_NAMES), dice.choice(["{}", "", '{"a', '{"a":1}'])))
        else:
            parts.append(kind(dice.choice(_WORDS)))
    calls = list(dict.fromkeys(part.id for part in parts if isinstance(part, ToolCall)))
    # A turn never has one id twice: the loop sees to that.
    kept = tuple(
        part for at, part in enumerate(parts) if not isinstance(part, ToolCall) or part.id not in _ids(parts[:at])
    )
    turn = AssistantTurn(kept, native=dice.choice([None, Native("anthropic", Raw(b"[1]"))]))
    results = [ToolResult(call_id, dice.choice(_WORDS), attachments=_attachments(dice)) for call_id in calls]
    dice.shuffle(results)
    return [turn, ToolTurn(tuple(results[: dice.randint(0, len(results))]))] if results else [turn]


def _ids(parts: list[AssistantPart]) -> set[str]:
    return {part.id for part in parts if isinstance(part, ToolCall)}


def _random_own(dice: random.Random) -> AssistantTurn:
    """A turn of this API's own, perhaps cut short while it thought."""
    n = dice.randint(0, 10**9)
    reasoning = {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": "gAAA"}
    message = {"type": "message", "id": f"msg_{n}", "role": "assistant", "status": "completed", "content": "hello"}
    call = {"type": "function_call", "id": f"fc_{n}", "call_id": dice.choice(["call_1", f"call_{n}", "z" * 69])}
    call |= {"name": "search", "arguments": "{}", "status": "completed"}
    ends: list[list[Json]] = [
        [reasoning],
        [message],
        [reasoning, message],
        [reasoning, call],
        [message, reasoning],
        [call],
    ]
    turn = turns_of.turns(dice.choice(ends))[0]
    assert isinstance(turn, AssistantTurn)
    return turn


def _random_part(dice: random.Random) -> UserPart:
    return dice.choice([Text(dice.choice(_WORDS)), *_attachments(dice, 1)])


def _attachments(dice: random.Random, least: int = 0) -> tuple[Image | Audio | Video | File, ...]:
    some: list[Image | Audio | Video | File] = [
        Image("https://example.com/cat.png"),
        Image("data:image/png;base64,AAAA", dice.choice(["low", "auto", "medium"])),
        Audio("AAAA", "wav"),
        Video("https://example.com/v.mp4"),
        File("data:application/pdf;base64,AAAA"),
        File("data:audio/mpeg;base64,AAAA", "song.mp3"),
        File("data:image/png;base64,AAAA", "cat.png"),
        File("https://example.com/a.pdf", "a.pdf"),
        File(id="file-1"),
        File(),
    ]
    return tuple(dice.sample(some, dice.randint(least, 2)))
