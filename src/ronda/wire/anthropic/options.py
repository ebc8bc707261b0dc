"""Everything of a request but its messages.

What other dialects call otherwise is translated; what the API has no equivalent of is in `IGNORED`, with the reason. Of what
came by Chat Completions nothing else goes out; any other field does, as the caller wrote it, and the API refuses by name what it
does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import NULL
from ronda.core.plan import Options, ResponseFormat
from ronda.core.request import ModelRequest
from ronda.schema.lower import ANTHROPIC_ANSWER, LoweredSchema, lower_json
from ronda.wire.anthropic import OLD_VERSION, VERSION
from ronda.wire.anthropic.fields import OWN, SAMPLING
from ronda.wire.anthropic.models import Model
from ronda.wire.anthropic.names import Names
from ronda.wire.anthropic.tools import TOOLSET, is_forced, stand_ins, write_choice, write_tools
from ronda.wire.anthropic.turns import system_blocks
from ronda.wire.codec.json import UNREADABLE, decode_or, encode_message, present
from ronda.wire.upstream.projection import Changes, Kind, passed_on, said_elsewhere

# Fields of other dialects that change nothing here. `Options.seed` is one more: the API cannot be seeded.
IGNORED: Final = {
    "store": "nothing is stored upstream",
    "stream_options": "usage always comes",
    "prediction": "a hint for speed",
    "prompt_cache_key": "caches are found by content here",
    "prompt_cache_retention": "`cache_control` says how long",
    "logprobs": "this API gives no probabilities",
    "top_logprobs": "this API gives no probabilities",
}
_WANTED: Final = frozenset(
    {"prediction", "logprobs", "top_logprobs"}
)  # by the client that sent them: a warning names them
_OFF: Final = (NULL, Raw(b"false"))
# Their values that mean "as usual". Any other value is refused by the API, by name.
_AS_USUAL: Final = {
    "frequency_penalty": (b"0", b"0.0"),
    "presence_penalty": (b"0", b"0.0"),
    "logit_bias": (b"{}",),
}
_SAID_OTHERWISE: Final = frozenset(
    {
        "betas",
        "max_completion_tokens",
        "max_tokens",
        "metadata",
        "output_config",
        "safety_identifier",
        "thinking",
        "user",
    }
)
# What stands in the request already.
_OWN: Final = frozenset(
    {"messages", "model", "system", "tools", "tool_choice", "stream", "stop_sequences", "temperature", "top_p"}
)

# What the API has, by its own name or by that of Chat Completions.
_TAKEN: Final = frozenset({*OWN, *IGNORED, *_SAID_OTHERWISE, *_OWN, *SAMPLING, "output_format"})

# Tokens to think, for models that take a number; the least they take is 1024.
_BUDGETS: Final = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384}
_LARGEST_BUDGET: Final = 32768
_LEAST_BUDGET: Final = 1024

_JSON: Final = "Answer with one JSON object and nothing else: no words before or after it, no code fence."
_SCHEMA: Final = (
    "Answer with JSON that satisfies this JSON Schema, and nothing else: no words before or after it, no code fence.\n"
)


class MessageFacts(Struct, frozen=True):
    """What the messages mean for the rest of the request."""

    system: tuple[str | bytes, ...] = ()  # plain words, or blocks
    called: tuple[str, ...] = ()  # the API's names of the tools that were called, if no tools are declared
    thoughtless_loop: bool = False  # results are going back to an assistant that had not thought
    container: str | None = None


class Tail(Struct, frozen=True):
    body: bytes
    prefill: bool  # the model may go on from an assistant's unfinished words
    changes: tuple[tuple[Kind, str, str], ...] = ()


def _without_sampling(options: Options) -> tuple[Options, list[str]]:
    """What the newest API takes, and what it would answer 400 to. Clients say it in every request, by their defaults."""
    sampling = {"temperature": options.temperature, "top_p": options.top_p, "top_k": options.extra.get("top_k")}
    unsent = [name for name, value in sampling.items() if value is not None]
    if not unsent:
        return options, unsent
    extra = {name: value for name, value in options.extra.items() if name != "top_k"}
    return msgspec.structs.replace(options, temperature=None, top_p=None, extra=extra), unsent


def write_tail(
    name: str,
    model: Model,
    request: ModelRequest,
    facts: MessageFacts,
    names: Names,
    grammars: bool = True,
    version: str = VERSION,
) -> Tail:
    """`grammars`: the model may be asked to decode under strict schemas."""
    changes = Changes()
    known = said_elsewhere(request.options.extra, request.options, _TAKEN, _AS_USUAL, changes)
    options = msgspec.structs.replace(request.options, extra=dict(known))
    options, unsent = _without_sampling(options) if version == VERSION else (options, [])
    extra = options.extra
    if request.left_out and "mcp_servers" in extra:  # it refuses servers that no tool speaks of
        from ronda.wire.anthropic.mcp_servers import without_servers

        extra = without_servers(extra, {name.removeprefix(TOOLSET) for name in request.left_out})
    rest: dict[str, Any] = {"model": name}
    thinking = _thinking(model, request, facts)
    rest["max_tokens"] = _max_tokens(model, options, thinking)
    system = list(facts.system)
    config, instruction = _config(model, options, grammars)
    if instruction is not None:
        system.append(instruction)
    if system:
        words = [one for one in system if isinstance(one, str)]
        rest["system"] = "\n\n".join(words) if len(words) == len(system) else system_blocks(system)
    if request.tools and (tools := write_tools(request.tools, names, model, request.stream, grammars)):
        rest["tools"] = tools
        if (choice := write_choice(request.choice, options, names, model)) is not None:
            rest["tool_choice"] = choice
    elif facts.called:
        rest["tools"] = stand_ins(facts.called)
        rest["tool_choice"] = {"type": "none"}
    rest |= present(
        stream=request.stream or None,
        temperature=options.temperature,
        top_p=options.top_p,
        stop_sequences=options.stop or None,
        thinking=thinking,
        output_config=config or None,
    )
    rest.update(_extra(passed_on(extra, _OWN, changes)))
    if facts.container is not None and bytes(extra.get("container", b""))[:1] != b'"':
        rest["container"] = facts.container  # the id: the parameters it was made with are refused the second time
    thinks = thinking is not None and _type_of(thinking) in ("enabled", "adaptive", "between_tools")
    thinks = thinks or (thinking is None and model.thinks_unasked)
    prefill = model.prefill and not thinks and "format" not in config and "output_format" not in extra
    notes = (*_changes(options, unsent, instruction, grammars), *_notes(changes))
    return Tail(b"]," + encode_message(rest)[1:], prefill, notes)


def _notes(changes: Changes) -> list[tuple[Kind, str, str]]:
    return [(change.kind, change.what, change.why) for change in changes.found]


def _changes(
    options: Options, unsent: Sequence[str], instruction: str | None, grammars: bool
) -> tuple[tuple[Kind, str, str], ...]:
    found: list[tuple[Kind, str, str]] = []
    for name in unsent:
        why = f"Anthropic's API of {VERSION} takes no such field; that of {OLD_VERSION} does"
        found.append(("option_unsent", f"'{name}' is not sent", why))
    if options.seed is not None:
        found.append(("option_unsent", "'seed' is not sent", "this API cannot be seeded"))
    for name in options.extra.keys() & IGNORED.keys():
        kind: Kind = "option_unsent" if name in _WANTED and options.extra[name] not in _OFF else "option_changed"
        found.append((kind, f"'{name}' is not sent", IGNORED[name]))
    if instruction is not None:
        why = "this model, or this schema, is not one the API decodes under; the answer is checked"
        found.append(("option_changed", "the form of the answer is asked for in words", why))
    if not grammars:
        found.append(("option_changed", "no schema is strict", "together they were too much for the API's grammar"))
    return tuple(found)


def betas(options: Options) -> str:
    """The value of the `anthropic-beta` header, which the SDKs call `betas`."""
    wanted: list[str] | str | None = decode_or("", list[str] | str | None, options.extra.get("betas", NULL))
    return wanted if isinstance(wanted, str) else ",".join(wanted or ())


def default_output(model: Model, options: Options) -> int:
    """The most that is asked for where the options name no limit."""
    own, effort = options.extra.get("thinking"), options.reasoning_effort
    thinking: dict[str, Any] | Raw | None = own
    if own is None and effort not in (None, "none") and not model.adaptive:
        thinking = {"type": "enabled", "budget_tokens": _BUDGETS.get(effort or "", _LARGEST_BUDGET)}
    return _max_tokens(model, options, thinking)


# ---- inside -----------------------------------------------------------------------------------------------------------


def _thinking(model: Model, request: ModelRequest, facts: MessageFacts) -> dict[str, Any] | Raw | None:
    """A budget cannot begin in the middle of a tool loop, nor go with a forced choice; that round goes without."""
    own = request.options.extra.get("thinking")
    if own is not None:
        return None if facts.thoughtless_loop and _type_of(own) == "enabled" else own
    effort = request.options.reasoning_effort
    if effort is None:
        return None
    if effort == "none":
        return {"type": "disabled"} if model.thinks_unasked and not model.always_thinks else None
    if model.adaptive:
        return {"type": "adaptive", "display": "summarized"} if model.hides_thinking else {"type": "adaptive"}
    limit = _limit(request.options)
    if facts.thoughtless_loop or is_forced(request.choice, model) or (limit is not None and limit <= _LEAST_BUDGET):
        return None
    budget = _BUDGETS.get(effort, _LARGEST_BUDGET)
    if limit is not None:
        budget = max(_LEAST_BUDGET, min(budget, limit // 2))
    return {"type": "enabled", "budget_tokens": budget}


class _TypedObject(Struct, frozen=True):
    type: str | None = None
    budget_tokens: int | None = None


def _type_of(thinking: dict[str, Any] | Raw) -> str | None:
    return _read(thinking).type


def _read(thinking: dict[str, Any] | Raw) -> _TypedObject:
    if isinstance(thinking, dict):
        return msgspec.convert(thinking, _TypedObject)
    return decode_or(_TypedObject(), _TypedObject, thinking)


def _limit(options: Options) -> int | None:
    if options.max_tokens is not None:
        return options.max_tokens
    return decode_or(None, int | None, options.extra.get("max_completion_tokens", NULL))


def _max_tokens(model: Model, options: Options, thinking: dict[str, Any] | Raw | None) -> int:
    """The API has no default. Thinking counts: a budget must leave room for the answer."""
    limit = _limit(options)
    if limit is not None:
        return limit
    budget = _read(thinking).budget_tokens if thinking is not None else None
    return max(model.max_tokens, (budget or 0) + 4096)


def _config(model: Model, options: Options, grammars: bool) -> tuple[dict[str, Any], str | None]:
    """`output_config`, and what is said to a model instead where it cannot be held to a schema."""
    config: dict[str, Any] = {}
    effort = options.reasoning_effort
    if effort is not None and model.adaptive:
        if effort == "none":
            effort = "low" if model.always_thinks else None
        elif effort == "minimal":
            effort = "low"
        elif effort == "xhigh" and not model.xhigh:
            effort = "max"
        if effort is not None:
            config["effort"] = effort
    instruction = None
    if (answer_format := options.response_format) is not None:
        schema = form_of(answer_format)
        if schema is not None and model.formats and grammars:
            config["format"] = {"type": "json_schema", "schema": schema.schema}
        else:
            instruction = _JSON if answer_format.schema == NULL else _SCHEMA + bytes(answer_format.schema).decode()
    with suppress(*UNREADABLE):  # what is no object changes nothing
        config |= msgspec.json.decode(options.extra.get("output_config", b"{}"), type=dict[str, Raw])
    return config, instruction


def form_of(answer_format: ResponseFormat | None) -> LoweredSchema | None:
    """Where the API's grammar takes it; else the loop checks, and asks again."""
    if answer_format is None or answer_format.type != "json_schema" or answer_format.schema == NULL:
        return None
    schema = lower_json(bytes(answer_format.schema), ANTHROPIC_ANSWER)
    return schema if schema.strict else None


def _extra(extra: Mapping[str, Raw]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in extra.items():
        if name in IGNORED or bytes(value) in (b"null", *_AS_USUAL.get(name, ())):
            continue
        if name not in _SAID_OTHERWISE:
            fields[name] = value
    user = extra.get("safety_identifier", extra.get("user"))
    if "metadata" in extra:
        # Elsewhere a note to oneself; here one member is known and any other refused.
        try:
            user = msgspec.json.decode(extra["metadata"], type=dict[str, Raw]).get("user_id", user)
        except UNREADABLE:
            fields["metadata"] = extra["metadata"]
    if user is not None and bytes(user) != b"null":
        fields["metadata"] = {"user_id": user}
    return fields
