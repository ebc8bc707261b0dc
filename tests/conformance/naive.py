"""A chat completion read the obvious way, to hold our readers against: no code of Ronda is used here.

Whole answers are looked up; streams are taken apart by blank lines and glued together again. It has no patience for any
upstream's habits beyond what the recordings show: a call begins at an id not seen before.
"""

from __future__ import annotations

import json

from msgspec import Struct
from tests.conformance.recordings import Exchange, Json


class Said(Struct):
    """What one choice says. `calls` are (id, name, arguments) as they came; `usage` is (input, output, cached, reasoning)."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: list[list[str]] = []
    finish: str | None = None
    logprobs: Json = None
    usage: tuple[int, int, int, int] = (0, 0, 0, 0)
    members: dict[str, Json] = {}  # what else a message held that is not a string: passed through untouched

    @property
    def stop(self) -> str:
        """What the finish reason comes to."""
        finish = {None: "stop", "function_call": "tool_calls", "max_tokens": "length"}.get(self.finish, self.finish)
        if finish in ("stop", "tool_calls"):
            return "tool_calls" if self.calls else "stop"
        return finish if finish in ("length", "content_filter") else "tool_calls" if self.calls else "stop"


def error_in(exchange: Exchange) -> Json:
    """The error an upstream reported in an answer with status 200, or None."""
    if exchange.sse is not None:
        return next((chunk["error"] for chunk in chunks(exchange.sse) if chunk.get("error")), None)
    return exchange.body.get("error") if isinstance(exchange.body, dict) else None


def is_answer(exchange: Exchange) -> bool:
    """There is something in it to read: neither an error nor a stream that broke off while it was recorded."""
    if exchange.status >= 400 or error_in(exchange) is not None:
        return False
    if exchange.sse is None:
        return isinstance(exchange.body, dict) and bool(exchange.body.get("choices"))
    return "[DONE]" in exchange.sse or any(said.finish for said in _stream(exchange.sse))


def read(exchange: Exchange) -> list[Said]:
    """All choices, by index; the usage is on the first."""
    return _stream(exchange.sse) if exchange.sse is not None else _plain(exchange.body)


def choices(exchange: Exchange) -> int:
    """How many were asked for, or came unasked."""
    return len(_stream(exchange.sse)) if exchange.sse is not None else len(exchange.body["choices"])


def chunks(sse: str) -> list[Json]:
    found = []
    for block in sse.replace("\r\n", "\n").split("\n\n"):
        data = "\n".join(line[5:].removeprefix(" ") for line in block.split("\n") if line.startswith("data:"))
        if data and data.strip() != "[DONE]":
            found.append(json.loads(data))
    return found


def _plain(body: Json) -> list[Said]:
    found = []
    for choice in sorted(body["choices"], key=lambda choice: choice.get("index") or 0):
        message = choice.get("message") or {}
        said = Said(finish=choice.get("finish_reason"), logprobs=choice.get("logprobs"), calls=[], members={})
        _add_words(said, message)
        for call in message.get("tool_calls") or []:
            function = call.get("function") or {}
            said.calls.append([call.get("id") or "", function.get("name") or "", _text(function.get("arguments"))])
        if old := message.get("function_call"):
            said.calls.append(["", old["name"], _text(old.get("arguments"))])
        said.members = {name: value for name, value in message.items() if value not in (None, "", [], {})}
        found.append(said)
    found[0].usage = _usage(body.get("usage") or (body.get("x_groq") or {}).get("usage"))
    return found


def _stream(sse: str) -> list[Said]:
    choices: dict[int, Said] = {}
    at: dict[tuple[int, int], list[str]] = {}  # choice and index of a call → the call under that index now
    usage: Json = None
    for chunk in chunks(sse):
        usage = chunk.get("usage") or (chunk.get("x_groq") or {}).get("usage") or usage
        for choice in chunk.get("choices") or []:
            number = choice.get("index") or 0
            said = choices.setdefault(number, Said(calls=[], members={}))
            delta = choice.get("delta") or {}
            _add_words(said, delta)
            said.finish = choice.get("finish_reason") or said.finish
            if details := delta.get("reasoning_details"):
                said.members.setdefault("reasoning_details", []).extend(details)
            for name in ("reasoning", "reasoning_content"):
                if isinstance(delta.get(name), str) and delta[name]:
                    said.members[name] = said.members.get(name, "") + delta[name]
            for piece in delta.get("tool_calls") or []:
                function = piece.get("function") or {}
                key = (number, piece.get("index") or 0)
                if key not in at or (piece.get("id") and piece["id"] not in [call[0] for call in said.calls]):
                    at[key] = [piece.get("id") or "", function.get("name") or "", ""]
                    said.calls.append(at[key])
                at[key][2] += _text(function.get("arguments"))
            if choice.get("logprobs"):
                said.logprobs = _joined(said.logprobs or {}, choice["logprobs"])
    found = [choices[number] for number in sorted(choices)] or [Said(calls=[], members={})]
    found[0].usage = _usage(usage)
    return found


def _add_words(said: Said, message: Json) -> None:
    said.reasoning += message.get("reasoning_content") or message.get("reasoning") or ""
    content = message.get("content") or ""
    if isinstance(content, str):
        said.text += content
    else:
        for part in content:
            if part.get("type") == "thinking":
                thought = part.get("thinking") or ""
                said.reasoning += thought if isinstance(thought, str) else "".join(p.get("text", "") for p in thought)
            else:
                said.text += part.get("text") or ""
    said.refusal += message.get("refusal") or ""


def _text(arguments: Json) -> str:
    return arguments if isinstance(arguments, str) else "" if arguments is None else json.dumps(arguments)


def _joined(one: Json, other: Json) -> Json:
    """Token probabilities, list after list."""
    return {name: (one.get(name) or []) + (other.get(name) or []) or None for name in {**one, **other}}


def _usage(usage: Json) -> tuple[int, int, int, int]:
    if not usage:
        return (0, 0, 0, 0)
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or usage.get("prompt_cache_hit_tokens")
    reasoning = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens")
    return (usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0, cached or 0, reasoning or 0)
