"""What a Mistral client may say that only some upstreams have an equivalent of: passed on, said otherwise, or left out.

The one place where this door looks at what is behind it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from msgspec import Raw, structs

from ronda.core.parts import AssistantTurn, SystemTurn, Turn
from ronda.core.plan import Options
from ronda.drive import capabilities_of
from ronda.errors import BadRequest
from ronda.providers import split_spec
from ronda.providers.services import dialect_of
from ronda.server.services.models import Target
from ronda.wire.mistral import native_api
from ronda.wire.mistral.chunks import relabel_native
from ronda.wire.mistral.server_request import CompletionRequest

_MISTRAL: Final = frozenset({"mistral", "mistral-agent"})
_OPENAI: Final = frozenset({"openai", "openai-chat"})
# Which providers a hint is for. Everywhere else it is dropped: it asks for speed, or for what is done here.
_KNOWN_TO: Final[dict[str, frozenset[str]]] = {
    "prediction": _MISTRAL | {"openai-chat"},
    "prompt_cache_key": _MISTRAL | _OPENAI,
    "prompt_mode": _MISTRAL,
    "metadata": _MISTRAL,
    "guardrails": _MISTRAL,
}
# Providers that take a word on how much to think. What runs in this process says itself whether it can.
_HAVE_REASONING_SWITCH: Final = frozenset({"anthropic", "gemini", "openai", "openai-chat"})
_EFFORT: Final = "medium"

REASONING_PROMPT: Final = """\
Before you answer, work the problem out. Lay out what is known and what is asked, try the ways that come to mind, check each \
step and each figure, and go back where something does not fit. Only when you are sure, write the answer: short, complete, and \
in the language of the question. Leave out of it how you got there, unless you are asked."""


no_moderation: Final = "this server has no moderation model, so guardrails cannot be asked"


class Blocked(BadRequest):
    """A guardrail could not be asked, and the caller wants no answer then."""

    status_hint = 403


@lru_cache(maxsize=256)  # specs: agents that clients make name some, and most requests are for the same few
def upstream_of(spec: str) -> tuple[str, str]:
    """The provider whose language a model's upstream speaks, and the model's name there."""
    provider, name = split_spec(spec)
    return dialect_of(provider), name


def speaks_mistral(target: Target) -> bool:
    return split_spec(target.spec)[0] in _MISTRAL


def fit_to_upstream(request: CompletionRequest, target: Target) -> CompletionRequest:
    """The request as this upstream can be asked it."""
    provider, name = upstream_of(target.spec)
    answer = request.answer
    if request.guardrail_level != "no" and provider not in _MISTRAL:
        if request.guardrail_level == "always":
            raise Blocked(
                f"blocked: block_on_error is set, and {no_moderation}", param="guardrails", code="guardrail_error"
            )
        answer = structs.replace(answer, warnings=(f"guardrails were left out: {no_moderation}",))
    turns: tuple[Turn, ...] = request.turns
    options = with_hints(without_hints(request.options, provider), request.hints, provider)
    if "prompt_mode" in request.hints and provider not in _MISTRAL:
        turns = (SystemTurn(REASONING_PROMPT), *turns)
        can_think = provider in _HAVE_REASONING_SWITCH or capabilities_of(target.provider).thinks
        if can_think and options.reasoning_effort is None and target.options.reasoning_effort is None:
            options = structs.replace(options, reasoning_effort=_EFFORT)
    if provider in _MISTRAL:
        api = native_api(name)
        turns = tuple([relabel_native(turn, api) if type(turn) is AssistantTurn else turn for turn in turns])
    return structs.replace(request, turns=turns, options=options, answer=answer)


def without_prompt(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """A conversation before it was fitted to one upstream, so that it can be to another."""
    return turns[1:] if turns[:1] == (SystemTurn(REASONING_PROMPT),) else turns


def with_hints(options: Options, hints: dict[str, Raw], provider: str) -> Options:
    known = {name: value for name, value in hints.items() if provider in _KNOWN_TO[name]}
    return structs.replace(options, extra={**options.extra, **known}) if known else options


def without_hints(options: Options, provider: str) -> Options:
    """The options of an agent, for the upstream of its model."""
    extra = {name: value for name, value in options.extra.items() if provider in _KNOWN_TO.get(name, {provider})}
    return structs.replace(options, extra=extra) if len(extra) < len(options.extra) else options
