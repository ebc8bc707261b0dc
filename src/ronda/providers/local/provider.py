"""A model on this machine as a provider: one request → a prompt and settings → the engine → previews and a finished turn.

Streamed and plain are one path: the text goes through the same reader piece by piece, and is shown or not. What takes
milliseconds (template, tokens, grammar) is done beside the event loop, decoding in threads of the engine's.

A call that is owed and has time is decoded in two steps: what the model says first, freely and to its own end; then the call,
under its grammar, from there on. In one step, under a grammar that does not let it end, a model that has said what it wanted
to say goes on for as long as there is room.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct, structs

from ronda.core.context import estimate
from ronda.core.events import CallDelta, LogprobsDelta, ModelFinished, Preview, ReasoningDelta, TextDelta
from ronda.core.parts import NULL, AssistantTurn, ToolCall, ToolTurn, Usage
from ronda.core.plan import ANY_OBJECT, Options, Plan, ToolChoice, ToolSpec
from ronda.core.request import ModelRequest
from ronda.drive import Capabilities, Show
from ronda.errors import BadConfig, BadRequest, UpstreamError
from ronda.providers.local.calls import Completion, Piece, TokenLogprob
from ronda.providers.local.engine import Engine, engine_for
from ronda.providers.local.files import find_model
from ronda.providers.local.grammar_bounds import check_grammar
from ronda.providers.local.guide import tools_to_call
from ronda.providers.local.prompt import (
    ControlTokenEscaper,
    write_chatml,
    write_flat,
    write_messages,
    write_tools,
)
from ronda.providers.local.schema_bounds import check_schema_text
from ronda.providers.local.settings import Settings, read_settings
from ronda.schema.grammar import TooSmall, is_exact
from ronda.wire.markup import (
    Family,
    MarkupReader,
    ends_in_thought,
    family_of,
    grammar_for,
    opens_thinking,
    supports_tools,
)
from ronda.wire.markup.custom import custom_of
from ronda.wire.markup.family import HERMES

# For a caller that says nothing. A small model can go on for ever, so it gets less; and a call that must come then comes first.
DEFAULT_MAX_TOKENS = 2048
SMALL_MAX_TOKENS = 512
SMALL = 1 << 30  # bytes of the model file

LONGEST_TOKEN = 128  # characters: longer ones, of blanks, are rare

# How our template shows results. A model that was not trained on it goes on and writes those of its calls itself, which ends
# there; or it says what it was shown, marks and all, and then the marks are dropped.
_RESULTS = ("<tool_response>", "</tool_response>")

# Families in whose text the beginning of a call cannot be told from something else, or whose texts are in channels.
_IN_ONE_STEP = frozenset({"harmony", "llama3", "generic"})

# A call that must come is begun this many tokens before the end at the latest (agentic-http.md §6).
EARLIEST_DEADLINE, LATEST_DEADLINE = 1024, 4096


def open_local(name: str, slots: int | None = None, context: int | None = None) -> LocalModel:
    """`local:NAME`, for so many requests at once, in so many tokens. The file is looked at here and loaded later."""
    return LocalModel(engine_for(find_model(name), slots, context))


class _PreparedCall(Struct, frozen=True):
    body: dict[str, Any]
    prompt: str
    thinking: bool  # the prompt began a thought
    owed: int = 0  # tokens that are set aside for a call which comes in a second step


class LocalModel:
    def __init__(self, engine: Engine) -> None:
        template = engine.header.template
        self._engine = engine
        self._defuse = ControlTokenEscaper(engine.header.controls)
        self._has_template = bool(template)
        self._words_tools = supports_tools(template)
        self._family = family_of(template)
        if not self._words_tools:
            self._family = structs.replace(HERMES, think=self._family.think, noise=_RESULTS)
        markers = set(self._family.markers)
        self._controls = {text: number for text, number in engine.header.controls.items() if text in markers}
        # A small model that was shown no tools in training; `guide_calls` says otherwise for a request.
        self.guides_calls = engine.header.size < SMALL and not self._words_tools
        self.thinks = self._family.think is not None or self._family.name == "harmony"

    @property
    def _default_budget(self) -> int:
        return SMALL_MAX_TOKENS if self._engine.header.size < SMALL else DEFAULT_MAX_TOKENS

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            check=self.check,
            enforces_format=self.enforces_format,
            count_tokens=self.count_tokens,
            load=self.load,
            thinks=self.thinks,
        )

    def enforces_format(self, options: Options) -> bool:
        """Whether the answer can be shown as it comes: a grammar keeps to the letter of most schemas; the end is checked."""
        format = options.response_format
        return format is None or format.type != "json_schema" or is_exact(format.schema)

    async def load(self) -> str:
        """Load the model ahead of its first use; a line that says what was chosen for this machine."""
        await self._engine.load()
        return self._engine.sizing.line(self._engine.file.name)

    def check(self, plan: Plan) -> None:
        """Refuse before a run starts what could only be refused in the middle of it."""
        self._engine.check()
        self._settings(plan.options)
        format = plan.options.response_format
        if format is not None and format.type == "json_schema":
            check_schema_text(bytes(format.schema), "response_format")
        if (custom := custom_of(plan.options.extra)) is not None:
            check_grammar(custom, len(plan.options.extra["grammar"]))
        for tool in plan.tools:
            if tool.strict:
                check_schema_text(bytes(tool.parameters), f"tools: {tool.name}")

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        settings = self._settings(request.options)
        try:
            await self._engine.load()
        except BadConfig as error:  # the file was there when it was looked at
            raise UpstreamError(str(error)) from error
        prepared = await self._engine.aside(partial(self._prepare, request, settings))
        reading = _Reading(self._family, request, settings, show, prepared.thinking)
        done = await self._engine.complete(prepared.body, reading.take, request.room)
        if prepared.owed:
            body = await self._engine.aside(partial(self._prepare_call, request, settings, prepared, reading.raw))
            done = done.then(await self._engine.complete(body, reading.take, request.room))
        finished = reading.finish(done)
        return msgspec.structs.replace(finished, warnings=settings.warnings) if settings.warnings else finished

    async def count_tokens(self, request: ModelRequest) -> int:
        """How many tokens the prompt of this request takes. Nothing is decoded."""
        settings = self._settings(request.options)
        try:
            await self._engine.load()
        except BadConfig as error:
            raise UpstreamError(str(error)) from error
        return await self._engine.aside(partial(self._count, request, settings))

    def _count(self, request: ModelRequest, settings: Settings) -> int:
        context = self._engine.sizing.context
        if (size := estimate(request.turns)) > context * LONGEST_TOKEN:
            raise _too_long(f"{size} characters", context)
        return len(self._engine.tokenize(self._write_prompt(request, settings)))

    def _settings(self, options: Options) -> Settings:
        if options.response_format is not None and "grammar" in options.extra:
            raise BadRequest("'response_format' and 'grammar' are mutually exclusive; give one", param="grammar")
        return read_settings(options, thinks=self.thinks)

    def _prepare(self, request: ModelRequest, settings: Settings) -> _PreparedCall:
        options, context = request.options, self._engine.sizing.context
        if (size := estimate(request.turns)) > context * LONGEST_TOKEN:
            raise _too_long(f"{size} characters", context)
        prompt = self._write_prompt(request, settings)
        tokens = self._engine.tokenize(prompt)
        room = context - len(tokens)
        if room < 1:
            raise _too_long(f"{len(tokens)} tokens", context)
        budget = min(options.max_tokens or self._default_budget, room)
        thinking = opens_thinking(self._family, prompt)
        body = {**settings.body, "prompt": tokens, "n_predict": budget, "preserved_tokens": self._family.markers}
        if request.tools and not self._words_tools and type(request.turns[-1]) is not ToolTurn:
            body["stop"] = [*body.get("stop", ()), _RESULTS[0]]
        if guided := self._guided_call(request, settings, min(budget, SMALL_MAX_TOKENS), thinking):
            body.pop("stop", None)
            return _PreparedCall(
                {**body, "grammar": guided, "n_predict": min(budget, SMALL_MAX_TOKENS)}, prompt, thinking
            )
        deadline = min(max(budget // 4, EARLIEST_DEADLINE), LATEST_DEADLINE)
        if request.choice.mode == "required":
            if budget > deadline and self._family.name not in _IN_ONE_STEP:
                self._grammar(request, deadline, deadline, thinking=True)  # refused now or never
                body["n_predict"] = budget - deadline
                body["stop"] = [*body.get("stop", ()), *self._family.opens]
                return _PreparedCall(body, prompt, thinking, deadline)
            body.pop("stop", None)  # nothing a caller wants to stop at may cut a call short
        if grammar := self._grammar(request, budget, deadline, thinking):
            body["grammar"] = grammar
        return _PreparedCall(body, prompt, thinking)

    def _guided_call(self, request: ModelRequest, settings: Settings, budget: int, thinking: bool) -> str | None:
        """The grammar of a call that nobody owes, but that the model should make and would not make by itself."""
        guides = self.guides_calls if settings.guide_calls is None else settings.guide_calls
        bound = request.options.response_format is not None or "grammar" in request.options.extra
        if not guides or bound or request.choice.mode != "auto":
            return None
        names = tools_to_call(request.turns, [tool for tool in request.tools if request.choice.allows(tool.name)])
        if not names:
            return None
        try:
            return self._grammar(
                structs.replace(request, choice=ToolChoice("required", names)), budget, budget, thinking
            )
        except TooSmall:
            return None

    def _prepare_call(
        self, request: ModelRequest, settings: Settings, before: _PreparedCall, text: str
    ) -> dict[str, Any]:
        """The second step: go on from what was said, with the call."""
        thinking = ends_in_thought(self._family, text, begun=before.thinking)
        body = {**before.body, "prompt": self._engine.tokenize(before.prompt + text), "n_predict": before.owed}
        body.pop("stop", None)
        body["grammar"] = self._grammar(request, before.owed, before.owed, thinking)
        return body

    def _grammar(self, request: ModelRequest, budget: int, deadline: int, thinking: bool) -> str | None:
        try:
            return self._write_grammar(request, budget, deadline, thinking)
        except RecursionError:
            raise BadRequest("a schema is nested too deep for a local model") from None

    def _write_grammar(self, request: ModelRequest, budget: int, deadline: int, thinking: bool) -> str | None:
        options = request.options
        return grammar_for(
            self._family,
            [_within_bounds(tool) for tool in request.tools],
            request.choice,
            options.response_format,
            budget=budget,
            deadline=deadline,
            extra=options.extra,
            thinking_open=thinking and (self._family.think is not None or self._family.name == "harmony"),
            parallel=options.parallel_tool_calls is not False,
            tokens=self._controls,
            count=self._engine.count,
        )

    def _write_prompt(self, request: ModelRequest, settings: Settings) -> str:
        if self._words_tools:
            body: dict[str, Any] = {"messages": write_messages(request.turns, self._defuse)}
            if request.tools:
                body["tools"] = write_tools(request.tools, self._defuse)
        else:
            body = {"messages": write_flat(request.turns, request.tools, self._defuse)}
        if not self._has_template:
            return write_chatml(body["messages"])
        if settings.template:
            body["chat_template_kwargs"] = settings.template
        return self._engine.apply_template(body)


def _within_bounds(tool: ToolSpec) -> ToolSpec:
    """A tool that is not strict and whose schema is more than the engine can take may be called with any object."""
    try:
        check_schema_text(bytes(tool.parameters), "tools")
    except BadRequest:
        if tool.strict:
            raise
        return structs.replace(tool, parameters=ANY_OBJECT)
    return tool


def _too_long(size: str, context: int) -> UpstreamError:
    return UpstreamError(
        f"the conversation has {size}, and this local model holds {context} tokens; shorten it",
        status=400,
        too_long=True,
    )


class _Reading:
    """The pieces of one completion → previews as they come, and the turn."""

    def __init__(self, family: Family, request: ModelRequest, settings: Settings, show: Show, thinking: bool) -> None:
        self._reader = MarkupReader(family, tools=request.tools, thinking_open=thinking)
        self._show = show if request.stream else None
        self._calls = (
            0 if request.choice.mode == "none" else 1 if request.options.parallel_tool_calls is False else None
        )
        self._top = settings.logprobs
        self._logprobs: list[TokenLogprob] = []
        self._thought = 0
        self._raw: list[str] = []

    @property
    def raw(self) -> str:
        """All that was written, markup included."""
        return "".join(self._raw)

    def take(self, pieces: list[Piece]) -> bool | None:
        shown: list[Preview] = []
        for piece in pieces:
            self._raw.append(piece.text)
            if piece.text and (found := self._reader.feed(piece.text)):
                self._thought += any(type(preview) is ReasoningDelta for preview in found)
                for preview in found:
                    _join(shown, preview)
        if self._top is not None and (probable := self._probable(pieces)):
            self._logprobs += probable
            shown.append(LogprobsDelta(_write_logprobs(probable)))
        return self._put(shown)

    def _put(self, shown: list[Preview]) -> bool | None:
        if self._calls is not None:
            shown = [preview for preview in shown if type(preview) is not CallDelta or preview.index < self._calls]
        return self._show(shown) if shown and self._show is not None else None

    def _probable(self, pieces: list[Piece]) -> list[TokenLogprob]:
        """A token without text ended the answer: it is no part of it."""
        found = [token for piece in pieces for token in piece.logprobs if token.bytes]
        return [structs.replace(token, top_logprobs=token.top_logprobs[: self._top]) for token in found]

    def finish(self, done: Completion) -> ModelFinished:
        self._put(self._reader.end())
        turn = self._reader.finish(done.stop)
        if self._calls is not None and len(turn.calls) > self._calls:
            turn = _with_calls(turn, self._calls)
        usage = Usage(
            done.prompt, done.completion, done.cached, self._thought, done.prompt_seconds, done.completion_seconds
        )
        return ModelFinished(turn, usage, NULL if self._top is None else _write_logprobs(self._logprobs))


def _join(shown: list[Preview], preview: Preview) -> None:
    """Several tokens that came at once are one preview."""
    last = shown[-1] if shown else None
    match preview, last:
        case TextDelta(text=text), TextDelta(text=before):
            shown[-1] = TextDelta(before + text)
        case ReasoningDelta(text=text), ReasoningDelta(text=before):
            shown[-1] = ReasoningDelta(before + text)
        case CallDelta(), CallDelta() if preview.index == last.index:
            shown[-1] = CallDelta(last.index, last.id, preview.name, last.arguments + preview.arguments)
        case _:
            shown.append(preview)


def _with_calls(turn: AssistantTurn, most: int) -> AssistantTurn:
    """The turn with its first so many calls: the caller wanted one at a time, or none."""
    calls = turn.calls[:most]
    parts = [part for part in turn.parts if type(part) is not ToolCall or any(part is call for call in calls)]
    return AssistantTurn(tuple(parts), "stop" if turn.stop == "tool_calls" and not calls else turn.stop)


def _write_logprobs(tokens: list[TokenLogprob]) -> Raw:
    """In the words of OpenAI's dialect."""
    return Raw(msgspec.json.encode({"content": tokens, "refusal": None}))
