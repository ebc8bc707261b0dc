"""Turns → `contents`, one after the other, and the `systemInstruction`.

What the same model said goes back part by part as it came, since a thought signature counts on its very part. What
another provider said is written in Gemini's form: reasoning is left out, and the first call of a step says that there is no
signature to look for. Gemini is strict about order: the user begins, a call follows a user's content or a result, and all
results of a turn stand in one content, right behind the calls and as many.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from ronda.core.arguments import recover
from ronda.core.parts import (
    AssistantTurn,
    Reasoning,
    Refusal,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    UserTurn,
)
from ronda.wire.codec.json import UNREADABLE, encode_message
from ronda.wire.gemini import API, native_api
from ronda.wire.gemini.media import IN_RESULTS, kind_of, write_media
from ronda.wire.gemini.models import model_of
from ronda.wire.gemini.signatures import from_chat
from ronda.wire.gemini.tools import Tools
from ronda.wire.upstream.fitting import wordless_note
from ronda.wire.upstream.projection import UNREPORTED, Changes

# "skip_thought_signature_validator" in base64, as JSON has bytes: https://ai.google.dev/gemini-api/docs/thought-signatures
NO_SIGNATURE: Final = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="

# Where a history begins with the model's own words, or there is none.
BEGIN: Final = b'{"role":"user","parts":[{"text":"(The conversation begins here.)"}]}'

_ATTACHED: Final = {"text": "Attached by the tools above:"}


def made_up_id(run: str, round_index: int, index: int | str) -> str:
    """An id for a call that came without one, as most do. Derived, not drawn: a replay must name it the same way."""
    return f"{API}_{run[-12:]}_{round_index}_{index}"


class _WireCall(Struct, frozen=True):
    """A call (`ours` is its id in the turn) as it stands on the wire: its result bears the same name, and the same id or none."""

    ours: str
    name: str
    id: str | None


class _NativeCall(Struct, frozen=True):
    name: str = ""
    id: str | None = None


class _NativePart(Struct, frozen=True, rename="camel"):
    function_call: _NativeCall | None = None


_decode_parts = msgspec.json.Decoder(list[_NativePart]).decode
_decode_result = msgspec.json.Decoder(dict[str, Any] | list[Any]).decode


class Contents:
    """Bytes that only grow: the contents of the next round are those of the last one and the new turns."""

    __slots__ = ("_api", "_changes", "_model", "_name", "_role", "_tools", "_wire_calls", "buffer", "system")

    def __init__(self, model: str, tools: Tools, changes: Changes = UNREPORTED) -> None:
        self._changes = changes
        self._name = model
        self._api = native_api(model)
        self._model = model_of(model)
        self._tools = tools
        self._role = ""  # of the content written last
        self._wire_calls: list[_WireCall] = []  # the calls that wait for their results
        self.buffer = bytearray()
        self.system: list[str] = []

    def add(self, turn: Turn) -> None:
        match turn:
            case AssistantTurn():
                self._add_assistant(turn)
            case ToolTurn(results=results):
                self._add_results(results)
            case UserTurn(parts=parts):
                written = [
                    {"text": part.text} if type(part) is Text else write_media(part, self._changes)  # type: ignore[arg-type]
                    for part in parts
                    if type(part) is not Text or part.text
                ]
                self._add("user", encode_message(written or [{"text": " "}]))  # Vertex refuses a text that is empty
            case SystemTurn(text=text):
                if self.buffer:  # said in the middle, it stays in the middle
                    self._changes.tell("role_changed", "the instruction is told as the user's", _SYSTEM)
                    self._add("user", encode_message([{"text": text or " "}]))
                elif text:
                    self.system.append(text)

    def _add(self, role: str, parts: bytes) -> None:
        if role == "model" and self._role == "model":
            # A call must follow the user: two turns of the model in a row are one content.
            del self.buffer[-2:]
            self.buffer += b"," + parts[1:] + b"}"
            return
        if self.buffer:
            self.buffer += b","
        elif role == "model":
            self._changes.tell("message_added", "the user begins the conversation", "it cannot begin with the model")
            self.buffer += BEGIN + b","
        self.buffer += b'{"role":"%b","parts":%b}' % (role.encode(), parts)
        self._role = role

    # ---- what the model said ---------------------------------------------------------------------------------------------

    def _add_assistant(self, turn: AssistantTurn) -> None:
        native = turn.native
        calls = turn.calls
        if native is not None and native.api == self._api:
            asked = [part.function_call for part in _decode_parts(native.payload) if part.function_call is not None]
            if len(asked) == len(calls):
                self._wire_calls = [
                    _WireCall(call.id, wire.name, wire.id) for call, wire in zip(calls, asked, strict=True)
                ]
                self._add("model", bytes(native.payload))
                return
        self._wire_calls = []
        if parts := self._foreign(turn):
            self._add("model", encode_message(parts))

    def _ask(self, call: ToolCall) -> _WireCall:
        says_nothing = (
            not call.id or call.id.startswith(f"{API}_") or any(call.id == one.ours for one in self._wire_calls)
        )
        name = self._tools.call_it(call.name)
        if name != call.name:
            self._changes.tell("name_rewritten", f"the tool '{call.name}' is called '{name}'", _NAMES)
        self._wire_calls.append(_WireCall(call.id, name, None if says_nothing else call.id))
        return self._wire_calls[-1]

    def _foreign(self, turn: AssistantTurn) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        unsigned = self._model.signed
        signatures = iter(from_chat(turn.native, len(turn.calls), self._name))
        for part in turn.parts:
            match part:
                case ToolCall():
                    asked = self._ask(part)
                    fields: dict[str, Any] = {"name": asked.name, "args": self._arguments(part)}
                    if asked.id is not None:
                        fields["id"] = asked.id
                    parts.append({"functionCall": fields})
                    if signature := next(signatures):
                        parts[-1]["thoughtSignature"] = signature
                    elif unsigned:
                        self._changes.tell("reasoning_dropped", "a call goes without a thought signature", _UNSIGNED)
                        parts[-1]["thoughtSignature"] = NO_SIGNATURE
                    unsigned = False
                case Reasoning():
                    self._changes.tell(
                        "reasoning_dropped", "the model's thoughts are left out", "they are another model's"
                    )
                case Text(text=text) | Refusal(text=text):
                    if text:
                        parts.append({"text": text})
        if note := wordless_note(turn, self._changes):
            parts.append({"text": note})
        return parts

    # ---- results ----------------------------------------------------------------------------------------------------

    def _add_results(self, results: Iterable[ToolResult]) -> None:
        parts: list[dict[str, Any]] = []
        attached: list[dict[str, Any]] = []
        for result in results:
            asked = next((one for one in self._wire_calls if one.ours == result.call_id), None)
            if asked is None:
                continue  # no call asked for it: histories are repaired before they come here
            self._wire_calls.remove(asked)
            fields: dict[str, Any] = {"name": asked.name, "response": _response(result)}
            if asked.id is not None:
                fields["id"] = asked.id
            media = [write_media(item, self._changes) for item in result.attachments]
            inside = [part for part in media if self._model.media_in_results and kind_of(part) in IN_RESULTS]
            if inside:
                fields["parts"] = inside
            attached += [part for part in media if part not in inside]
            parts.append({"functionResponse": fields})
        self._wire_calls = []
        if parts:
            self._add("user", encode_message(parts))
        if attached:  # next to the results they would be counted as such (gemini-cli#16135)
            self._changes.tell("message_added", "what a tool attached follows as the user's", _ATTACHMENTS)
            self._add("user", encode_message([_ATTACHED, *attached]))

    def _arguments(self, call: ToolCall) -> dict[str, Any]:
        read = recover(call.arguments)
        if read is not None:
            return read.value
        self._changes.tell("arguments_rewritten", f"the arguments of '{call.name}' become an object", _ARGUMENTS)
        return {"unreadable": call.as_written} if call.as_written else {}


_SYSTEM: Final = "instructions stand at the beginning here, and this one is said in the middle"
_NAMES: Final = "names begin with a letter or '_' here, and have 64 characters at most"
_UNSIGNED: Final = "this model did not make it, or its signature is lost; the API is told not to look for one"
_ARGUMENTS: Final = "they were no JSON object, and must be one"
_ATTACHMENTS: Final = "next to the results they would be counted as such"


def _response(result: ToolResult) -> dict[str, Any]:
    """An object, as it must be. A tool's own object is one, unless it has a member that Gemini gives a meaning to."""
    if result.failed:
        return {"error": result.content}
    content: Any = result.content
    if content.lstrip()[:1] in ("{", "["):
        try:
            content = _decode_result(content)
        except (*UNREADABLE, ValueError):
            pass  # a text that only begins like JSON
    is_its_own = isinstance(content, dict) and "output" not in content and "error" not in content
    return content if is_its_own else {"output": content}


def write_system(system: list[str]) -> Raw:
    return Raw(encode_message({"parts": [{"text": text} for text in system]}))
