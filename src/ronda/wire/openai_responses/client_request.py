"""What is asked for: turns → request bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import NULL, SystemTurn, Turn
from ronda.core.plan import ANY_OBJECT, Options, ResponseFormat, ToolChoice, ToolSpec
from ronda.core.request import ModelRequest
from ronda.errors import BadRequest
from ronda.wire.codec.json import decode_or, encode, present
from ronda.wire.openai_chat.names import NO_NAMES, is_name, wire_name, wire_names
from ronda.wire.openai_chat.quirks import ANYONE, Quirks
from ronda.wire.openai_responses import API
from ronda.wire.openai_responses.client_calls import is_waiting
from ronda.wire.openai_responses.items import Items
from ronda.wire.openai_responses.tools import write_hosted
from ronda.wire.shared.capabilities import OF_SERVICE
from ronda.wire.upstream.native import speaks
from ronda.wire.upstream.projection import passed_on, said_elsewhere
from ronda.wire.upstream.request_body import RequestBody

ENCRYPTED = "reasoning.encrypted_content"
_LOGPROBS = "message.output_text.logprobs"

# Models that do not think, and refuse the whole request when asked for encrypted thoughts (pydantic-ai#2865, #3326).
_DOES_NOT_THINK = re.compile(r"(.*/)?(ft:)?(gpt-3|gpt-4|chatgpt-|gpt-5(\.\d+)?-chat)")

_NOT_HERE = "'{0}' is not part of the Responses API: leave it out, or use the model through openai-chat:"


class Body(RequestBody[Items, bytes]):
    __slots__ = ("_home", "_names", "_names_of", "_quirks", "_unsealed")

    def __init__(self, quirks: Quirks = ANYONE, home: str = API) -> None:
        super().__init__()
        self._quirks = quirks
        self._home = home
        self._unsealed = 0
        self._names_of: tuple[ToolSpec, ...] = ()
        self._names: Mapping[str, str] = NO_NAMES

    def write(self, model: str, request: ModelRequest, encrypted: bool = True) -> bytes:
        turns = request.turns
        if request.tools is not self._names_of:
            self._names_of = request.tools
            self._names = wire_names(request.tools)
        thinks = _DOES_NOT_THINK.match(model) is None
        lead = _leading(turns) if "instructions" not in request.options.extra else 0
        items = self._write_items(turns, lead, thinks)
        if lead and not items.buffer:  # nothing but instructions: then they are the input
            lead = 0
            items = self._write_items(turns, lead, thinks)
        tail_of = (model, request.tools, request.choice, request.options, request.stream, encrypted)
        tail = self._behind(request.options, API, tail_of, lambda: self._write_tail(model, request, lead, encrypted))
        if not items.buffer:  # of all that was to be said nothing is left
            self.changes.tell("message_added", "the user begins the conversation", "there must be an item")
        return b"".join((b'{"input":[', items.buffer or _BEGIN, tail))

    def leave_seals_out(self, request: ModelRequest) -> bool:
        """The server cannot open what is sealed in these turns: they go without it. False where they did already."""
        if self._unsealed >= len(request.turns):
            return False
        self._unsealed = len(request.turns)
        return True

    def _write_items(self, turns: Sequence[Turn], lead: int, thinks: bool) -> Items:
        names, unsealed = self._names, self._unsealed
        form = (names, lead, thinks, unsealed)
        return self._follow(
            turns, form, lambda: Items(names, self._quirks, thinks, self.changes, lead, self._home, unsealed)
        )

    def _write_tail(self, model: str, request: ModelRequest, lead: int, encrypted: bool) -> bytes:
        options, tools, choice, names = request.options, request.tools, request.choice, self._names
        check_options(options)
        extra = self._known(options)
        if options.native_api == API:
            extra |= options.native
        rest: dict[str, Any] = {"model": model}
        leading = request.turns[:lead]
        if instructions := "\n\n".join([turn.text for turn in leading if type(turn) is SystemTurn and turn.text]):
            rest["instructions"] = instructions
        # What the service asks of itself is declared by no request.
        shown = [tool for tool in tools if not (tool.is_hosted and tool.native == NULL)]
        declared = [write_tool(tool, names) for tool in shown] + _list(extra, "tools")
        if declared:
            rest["tools"] = declared
            if choice.mode != "auto" or choice.names:
                rest["tool_choice"] = write_choice(choice, names, [tool.name for tool in tools if is_waiting(tool)])
            if options.parallel_tool_calls is not None:
                rest["parallel_tool_calls"] = options.parallel_tool_calls
        if request.stream:
            rest["stream"] = True
        rest["store"] = False
        if include := _include(model, extra, encrypted):
            rest["include"] = include
        limit = extra.pop("max_completion_tokens", None) or options.max_tokens
        extra.pop("max_tokens", None)  # kept by the chat door next to its newer name
        rest |= present(max_output_tokens=limit, temperature=options.temperature, top_p=options.top_p)
        fields = present(verbosity=extra.pop("verbosity", None))
        if options.response_format is not None:
            fields["format"] = _write_format(options.response_format)
        _merge(rest, "text", fields, extra)
        _merge(rest, "reasoning", present(effort=options.reasoning_effort), extra)
        rest.update(extra)
        return b"]," + encode(rest)[1:]

    def _known(self, options: Options) -> dict[str, Raw]:
        """Without what is said on Chat Completions only: as usual it says nothing, and a hint may go unheard."""
        fields = {}
        extra = said_elsewhere(options.extra, options, _TAKEN, _AS_USUAL, self.changes)
        for name, value in passed_on(extra, _OWN, self.changes).items():
            if name == "prediction":
                self.changes.tell(
                    "option_unsent", "'prediction' is not sent", "it is a hint that this API has no equivalent of"
                )
            elif not self._quirks.foreign or bytes(value) not in _AS_USUAL.get(name, ()):
                fields[name] = value
        return fields


_BEGIN = b'{"type":"message","role":"user","content":"(The conversation begins here.)"}'


def body_of(request: ModelRequest, quirks: Quirks = ANYONE, home: str = API) -> Body:
    """What an earlier round of the same run wrote is not written again."""
    body = request.scratch.get(API)
    if not isinstance(body, Body):
        body = request.scratch[API] = Body(quirks, home)
    return body


def write_request(model: str, request: ModelRequest, encrypted: bool = True) -> bytes:
    """`encrypted`: ask for the model's thoughts in the form that can be sent back. Not every model takes the question."""
    return body_of(request).write(model, request, encrypted)


def check_options(options: Options) -> None:
    """Raises BadRequest for what this API has no words for. Writing a request does this too."""
    if options.stop:
        raise BadRequest(_NOT_HERE.format("stop"), param="stop")
    if options.seed is not None:
        raise BadRequest(_NOT_HERE.format("seed"), param="seed")


def _leading(turns: Sequence[Turn]) -> int:
    """How many turns at the beginning are the instructions."""
    for index, turn in enumerate(turns):
        if type(turn) is not SystemTurn or turn.role != "system" or speaks(turn.native, API):
            return index
    return len(turns)


# ---- all but the conversation -----------------------------------------------------------------------------------------

# What stands in the request already.
_OWN = frozenset(
    ["input", "model", "tool_choice", "parallel_tool_calls", "stream", "temperature", "top_p", "max_output_tokens"]
)

# What this API has, by its own name or by that of Chat Completions.
_TAKEN = frozenset(
    ["include", "instructions", "logprobs", "max_completion_tokens", "max_tokens", "max_tool_calls", "metadata", "prediction",
     "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning", "safety_identifier", "service_tier",
     "store", "text", "top_logprobs", "truncation", "user", "verbosity", *_OWN]
)  # fmt: skip

# What clients of Chat Completions send although it changes nothing, and this API refuses by name.
_AS_USUAL = {
    "frequency_penalty": (b"0", b"0.0"),
    "presence_penalty": (b"0", b"0.0"),
    "logit_bias": (b"{}",),
    "modalities": (b'["text"]',),
    "n": (b"1",),
}


def _include(model: str, extra: dict[str, Raw], encrypted: bool) -> list[str | Raw]:
    """What else the answer should hold. An empty list of the caller's own says: nothing."""
    include = extra.get("include")
    theirs = _list(extra, "include")
    if include is not None and not theirs:
        return []
    ours: list[str | Raw] = []
    if encrypted and not _DOES_NOT_THINK.match(model):
        ours.append(ENCRYPTED)
    if (logprobs := extra.pop("logprobs", NULL)) != NULL and bytes(logprobs) == b"true":  # the chat door's way to ask
        ours.append(_LOGPROBS)
    return ours + [one for one in theirs if bytes(one).decode()[1:-1] not in ours]


def _list(extra: dict[str, Raw], name: str) -> list[Raw]:
    """A list among the unknown fields, taken out of them; anything else stays there for the upstream to judge."""
    found: list[Raw] | None = decode_or(None, list[Raw], extra.get(name, b"[]"))
    if found is None:
        return []
    extra.pop(name, None)
    return found


def _merge(rest: dict[str, Any], name: str, ours: dict[str, Any], extra: dict[str, Raw]) -> None:
    """An object that holds known and unknown settings. What is said in a field of its own counts."""
    theirs: dict[str, Any] | None = decode_or(None, dict[str, Raw], extra.get(name, b"{}"))
    if theirs is None:
        return  # not an object: the upstream will say so
    extra.pop(name, None)
    if theirs or ours:
        rest[name] = {**theirs, **ours}


class _Flat(Struct, frozen=True):
    type: str = ""
    function: Raw = NULL
    name: str | None = None


def write_tool(tool: ToolSpec, names: Mapping[str, str]) -> Raw | dict[str, Any]:
    if tool.native != NULL and tool.native_api in ("", API) and (_is_flat(tool) or is_waiting(tool) or tool.is_hosted):
        return tool.native
    fields: dict[str, Any] = {"type": "function", "name": wire_name(tool.name, names)}
    if tool.description:
        fields["description"] = tool.description
    # Left out, `strict` means true here, and properties that were optional become required; so it is always said.
    if tool.strict and tool.kind == "caller":  # the caller's own word, which its upstream may judge
        return {**fields, "parameters": tool.parameters, "strict": True}
    parameters, strict = _fit_parameters(tool)
    return {**fields, "parameters": parameters, "strict": strict}


def _fit_parameters(tool: ToolSpec) -> tuple[Raw | dict[str, Any], bool]:
    """The parameters as this API takes them, and if they can be strict."""
    from ronda.schema.lower import lower_json
    from ronda.schema.lower_rules import OPENAI

    schema = bytes(tool.parameters)
    if tool.strict and (fitted := lower_json(schema, OPENAI)).strict:
        return fitted.schema, True
    # A schema that does not qualify would fail the whole request; it goes without, and is checked by the loop.
    fitted = lower_json(schema, msgspec.structs.replace(OPENAI, strict=None))
    return (tool.parameters if fitted.schema == msgspec.json.decode(schema) else fitted.schema), False


def _is_flat(tool: ToolSpec) -> bool:
    """A caller's own declaration, in the form this API has for it."""
    decoded = decode_or(_Flat(), _Flat, tool.native)
    return decoded.type == "function" and decoded.function == NULL and decoded.name == tool.name and is_name(tool.name)


def write_choice(choice: ToolChoice, names: Mapping[str, str], waiting: Sequence[str] = ()) -> str | dict[str, Any]:
    """`waiting`: tools of the client's that are chosen by their type."""
    if choice.mode == "none" or not choice.names:
        return choice.mode
    tools = [
        write_hosted(name)
        if name.startswith(OF_SERVICE)
        else {"type": name}
        if name in waiting
        else {"type": "function", "name": wire_name(name, names)}
        for name in choice.names
    ]
    if choice.named:
        return tools[0]
    return {"type": "allowed_tools", "mode": choice.mode, "tools": tools}


def sends_as_it_is(answer_format: ResponseFormat) -> bool:
    """A strict schema that the API takes without a change, so that what fits the one fits the other."""
    value = _write_format(answer_format).get("schema")
    if isinstance(value, Raw):
        return True
    return bool(value == msgspec.json.decode(answer_format.schema))


def _write_format(answer_format: ResponseFormat) -> dict[str, Any]:
    if answer_format.type == "json_object":
        return {"type": "json_object"}
    fields: dict[str, Any] = {"type": "json_schema", "name": wire_name(answer_format.name, NO_NAMES)}
    if answer_format.description is not None:
        fields["description"] = answer_format.description
    fields["schema"] = answer_format.schema if answer_format.schema != NULL else ANY_OBJECT
    if answer_format.strict is not None:
        fields["strict"] = answer_format.strict
        if answer_format.strict:
            from ronda.schema.lower import lower_json
            from ronda.schema.lower_rules import OPENAI

            fitted = lower_json(bytes(answer_format.schema), OPENAI)
            if fitted.strict:  # else the upstream says what is wrong with it, in the caller's own words
                fields["schema"] = fitted.schema
    return fields
