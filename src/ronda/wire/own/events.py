"""A run's events as JSON, for clients that follow it over HTTP: a wire of its own, with a version.

    events → JSON     one object per event, told apart by its `type`: facts, and previews

It says what happened, not how a run is kept. Of a start it leaves out the plan, the owner and what doors keep with a run;
everywhere it leaves out instructions and what only a provider's own API can read. Within a version members are added, never
changed and never taken away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ronda.core import events
from ronda.core.limits import Limits
from ronda.core.parts import NO_USAGE, NULL, AssistantTurn, File, SystemTurn, ToolResult, ToolTurn, Usage, UserTurn
from ronda.core.plan import ToolSpec
from ronda.wire.codec.partial_json import pointer
from ronda.wire.shared.preview import ArgumentPatches
from ronda.wire.web.citations import Source, cite

VERSION: Final = 1
NO_TOOLS: Final[Mapping[str, ToolSpec]] = {}


class Share(Struct, frozen=True, omit_defaults=True):
    """What a run may use of what its parent had left. None is as much as it likes."""

    rounds: int
    tool_calls: int | None = None
    tokens: int | None = None
    seconds: float | None = None


class Started(Struct, frozen=True, tag="run_started", omit_defaults=True):
    """A run began. `turns` is the conversation it began with, without instructions. One that is a `call` of its parent has a
    share of its parent's limits."""

    version: int
    run: str
    model: str
    turns: tuple[UserTurn | AssistantTurn | ToolTurn, ...]
    tools: tuple[str, ...] = ()
    at: float = 0.0
    parent: tuple[str, int] | None = None
    session: str = ""
    sibling: int = 0
    call: str = ""
    limits: Share | None = None


class Annotation(Struct, frozen=True, tag="url_citation"):
    """A stretch of the turn's text that speaks of a source: of its texts together, in Unicode characters, the end not included.
    `number` is that of the source in what the model was shown."""

    start_index: int
    end_index: int
    url: str
    title: str
    number: int


class Finished(Struct, frozen=True, tag="model_finished", omit_defaults=True):
    """The model's turn is complete. `first_at` is when the first of it was shown. `logprobs` are token probabilities, in the
    provider's JSON. `model` is the one that answered, where it is not the run's."""

    turn: AssistantTurn
    usage: Usage = NO_USAGE
    at: float = 0.0
    logprobs: Any = None
    budget: events.Budget | None = None
    first_at: float = 0.0
    annotations: tuple[Annotation, ...] = ()
    model: str = ""


class Ended(Struct, frozen=True, tag="tool_finished", omit_defaults=True):
    """A tool answered, or failed trying. `details` is what it tells people and programs, `files` are those that it made."""

    result: ToolResult
    at: float = 0.0
    usage: Usage = NO_USAGE
    tool_calls: int = 0
    name: str = ""
    details: Any = None
    files: tuple[File, ...] = ()
    offers: tuple[str, ...] = ()  # names of tools


class Question(Struct, frozen=True, tag="asked", omit_defaults=True):
    """A person has to decide: whether a call may run ("approval"), or what a tool wants to know ("input").

    `arguments` is JSON text, as in a call; `schema` says what an answer of kind "input" must look like, `parameters` what other
    arguments must look like that an approval brings. `cause` of an approval is that it is asked for ("permission"), or that data
    could leave ("taint").
    """

    id: str
    call_id: str
    kind: Literal["approval", "input"]
    tool: str = ""
    arguments: str = "{}"
    schema: Any = None
    message: str = ""
    expires_at: float = 0.0
    at: float = 0.0
    child: str = ""  # the run that asked, where that is an agent which the call started
    cause: Literal["permission", "taint"] = "permission"
    parameters: Any = None


class ArgumentPatch(Struct, frozen=True):
    """ "set" puts `value` at `path`, a JSON pointer into the call's arguments; "append" adds it to the text there."""

    op: Literal["set", "append"]
    path: str
    value: Any


class CallPreviewed(Struct, frozen=True, tag="call_preview", omit_defaults=True):
    """What is new of the arguments that a tool wants watched (`preview`). It follows the event that it was made from, and has its
    position. `index` counts the calls of the turn."""

    index: int
    id: str
    name: str
    patches: tuple[ArgumentPatch, ...]


# Said as they are.
_Same: TypeAlias = (
    events.TextDelta
    | events.ReasoningDelta
    | events.RefusalDelta
    | events.CallDelta
    | events.LogprobsDelta
    | events.ToolProgressed
    | events.ModelStarted
    | events.ModelRetried
    | events.ModelFailed
    | events.ToolStarted
    | events.Answered
    | events.Compacted
    | events.Warned
    | events.Released
    | events.Recovered
    | events.RunFinished
)
WireEvent: TypeAlias = (
    Started
    | Finished
    | Ended
    | Question
    | CallPreviewed
    | _Same
    | events.ModelInterrupted
    | events.Checked
    | events.Steered
)


def _share(limits: Limits) -> Share:
    return Share(limits.rounds, limits.tool_calls, limits.tokens, limits.seconds)


def wire_event(
    event: events.Event, tools: Mapping[str, ToolSpec] = NO_TOOLS, sources: Sequence[Source] = ()
) -> WireEvent | None:
    """What is said of an event; nothing of one that only a provider's own API knows. `tools` are those of the run, for
    what is asked about their calls; `sources` are what its model was shown so far and may speak of."""
    match event:
        case events.NativeDelta():
            return None
        case events.RunStarted(plan=plan):
            return Started(
                version=VERSION,
                run=event.run,
                model=plan.model,
                turns=tuple([_bare(turn) for turn in event.turns if not isinstance(turn, SystemTurn)]),
                tools=tuple([tool.name for tool in plan.tools]),
                at=event.at,
                parent=event.parent,
                session=event.session,
                sibling=event.sibling,
                call=event.call,
                limits=_share(plan.limits) if event.call else None,
            )
        case events.ModelFinished(turn=turn):
            return Finished(
                _bare(turn),
                event.usage,
                event.at,
                _json(event.logprobs),
                event.budget,
                event.first_at,
                _annotations(turn, sources) if sources else (),
                event.model,
            )
        case events.ModelInterrupted(turn=turn):
            return replace(event, turn=_bare(turn))
        case events.ToolFinished(result=result):
            bare = result if result.native is None else replace(result, native=None)
            details, offers = _json(event.details), tuple([spec.name for spec in event.offers])
            return Ended(bare, event.at, event.usage, event.tool_calls, event.name, details, event.files, offers)
        case events.Asked():
            return Question(
                event.id,
                event.call_id,
                event.kind,
                event.tool,
                event.arguments,
                _json(event.schema),
                event.message,
                event.expires_at,
                event.at,
                event.child,
                event.cause,
                _parameters(event, tools),
            )
        case events.Checked():
            return event if event.rewrite is None else replace(event, rewrite=None)
        case events.Steered(turn=turn):
            return replace(event, turn=_bare(turn))
        case _:  # one of `_Same`, or the type checker says that this event has no word here
            return event


def _annotations(turn: AssistantTurn, sources: Sequence[Source]) -> tuple[Annotation, ...]:
    found = [(one.start, one.end, one.source) for one in cite(turn.text, sources)]
    return tuple([Annotation(start, end, source.url, source.title, source.number) for start, end, source in found])


def _parameters(question: events.Asked, tools: Mapping[str, ToolSpec]) -> Raw | None:
    """The tool of a child's call is not one of the run's."""
    spec = None if question.kind != "approval" or question.child else tools.get(question.tool)
    return None if spec is None else spec.parameters


def _json(raw: Raw) -> Raw | None:
    return None if raw == NULL else raw


def _bare(turn: Any) -> Any:
    """A turn without the provider's own JSON."""
    if isinstance(turn, ToolTurn):
        return ToolTurn(tuple([replace(result, native=None) for result in turn.results]))
    return turn if turn.native is None else replace(turn, native=None)


_encode = msgspec.json.Encoder().encode


WriteFrame: TypeAlias = Callable[[str, WireEvent], bytes]  # a position, and what is said there


def write_frame(
    position: str,
    event: events.Event,
    write: WriteFrame | None = None,
    tools: Mapping[str, ToolSpec] = NO_TOOLS,
    sources: Sequence[Source] = (),
) -> bytes:
    """One server-sent event, whose id is where to go on from."""
    data = wire_event(event, tools, sources)
    return b"" if data is None else (write or _frame)(position, data)


def write_preview(position: str, previews: ArgumentPatches, write: WriteFrame | None = None) -> bytes:
    patches = [ArgumentPatch(patch.op, pointer(patch.path), patch.value) for patch in previews.patches]
    return (write or _frame)(position, CallPreviewed(previews.place, previews.id, previews.name, tuple(patches)))


def _frame(position: str, data: WireEvent) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (position.encode(), _TAGS[type(data)], _encode(data))


_TAGS: Final[dict[type, bytes]] = {kind: kind.__struct_config__.tag.encode() for kind in get_args(WireEvent)}
_NEVER_SAID: Final = frozenset({"native", "rewrite"})


def schema() -> dict[str, Any]:
    """The JSON of an event as a JSON Schema."""
    from inspect import cleandoc  # much to import, for one command

    (any_event,), named = msgspec.json.schema_components([WireEvent], ref_template="#/$defs/{name}")
    for kind in named.values():
        if "description" in kind:  # a docstring: Python takes its indentation away only from 3.13 on
            kind["description"] = cleandoc(kind["description"])
        for name in _NEVER_SAID & kind.get("properties", {}).keys():
            del kind["properties"][name]
    for name in ("Native", "SystemTurn"):
        del named[name]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"An event of a Ronda run, version {VERSION}",
        "description": "Members and kinds of events may be added within a version: pass over what you do not know.",
        **any_event,
        "$defs": named,
    }
