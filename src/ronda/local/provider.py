"""A model on this machine as a provider: one request → a prompt and settings → the engine → previews and a finished turn.

Streamed and plain are one path: the text goes through the same reader piece by piece, and is shown or not. What takes
milliseconds (template, tokens, grammar) is done off the event loop, decoding in threads of the engine's.

A call that is owed and has time is decoded in two steps: what the model says first, freely and to its own end; then the call,
under its grammar, from there on. In one step, under a grammar that does not let it end, a model that has said what it wanted
to say goes on for as long as there is room.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct, structs

from ronda.core.context import estimate
from ronda.core.events import ModelFinished
from ronda.core.parts import ToolTurn
from ronda.core.plan import ANY_OBJECT, Options, Plan, ToolChoice, ToolSpec
from ronda.core.request import ModelRequest
from ronda.drive import Capabilities, Show
from ronda.errors import BadConfig, BadRequest, UpstreamBroken, UpstreamError
from ronda.local.binding import check_installed
from ronda.local.calls import Completion
from ronda.local.engine import Engine, engine_for
from ronda.local.files import find_model
from ronda.local.foreign import ForeignChat
from ronda.local.grammar import TooSmall, is_exact
from ronda.local.grammar_bounds import check_grammar
from ronda.local.guide import tools_to_call
from ronda.local.markup import (
    call_marks,
    decodes_in_one_step,
    ends_in_thought,
    family_of,
    grammar_for,
    mentions_tools,
    opens_thinking,
    supports_tools,
)
from ronda.local.markup.custom import custom_of
from ronda.local.markup.family import HERMES
from ronda.local.prompt import (
    ControlTokenEscaper,
    write_chatml,
    write_flat,
    write_messages,
    write_tools,
)
from ronda.local.reading import Reading, ToldParts, WrittenParts
from ronda.local.schema_bounds import check_schema_text
from ronda.local.settings import Settings, avoid_loops, read_settings
from ronda.local.trials import CannotEnforce, cannot_enforce

# For a caller that says nothing. A small model can go on for ever, so it gets less; and a call that must come then comes first.
DEFAULT_MAX_TOKENS = 2048
SMALL_MAX_TOKENS = 512
SMALL = 1 << 30  # bytes of the model file

LONGEST_TOKEN = 128  # characters: longer ones, of blanks, are rare

# How our template shows results. A model that was not trained on it goes on and writes those of its calls itself, which ends
# there; or it says what it was shown, marks and all, and then the marks are dropped.
_RESULTS = ("<tool_response>", "</tool_response>")

# A call that must come is begun this many tokens before the end at the latest (agentic-http.md §6).
EARLIEST_DEADLINE, LATEST_DEADLINE = 1024, 4096


def open_local(name: str, slots: int | None = None, context: int | None = None) -> LocalModel:
    """`local:NAME`, for so many requests at once, in so many tokens. The file is looked at here and loaded later."""
    check_installed()  # before the model is missed, which is of no use without the engine
    return LocalModel(engine_for(find_model(name), slots, context))


class _PreparedCall(Struct, frozen=True):
    body: dict[str, Any]
    prompt: str
    thinking: bool  # the prompt began a thought
    owed: int = 0  # tokens that are set aside for a call which comes in a second step
    warnings: tuple[str, ...] = ()  # what a call that must come cannot hold


class LocalModel:
    def __init__(self, engine: Engine) -> None:
        template = engine.header.template
        self._engine = engine
        self._defuse = ControlTokenEscaper(engine.header.controls)
        self._has_template = bool(template)
        self._words_tools = supports_tools(template)
        self._family = family_of(template)
        # Tools that the template words, though in a manner of which we have no family.
        self._foreign = (
            ForeignChat(engine, self._defuse, self._family.think)
            if not self._words_tools and mentions_tools(template)
            else None
        )
        if not self._words_tools:
            self._family = structs.replace(HERMES, think=self._family.think, noise=_RESULTS)
        self._controls = self._control_tokens()
        # A small model that was shown no tools in training; `guide_calls` says otherwise for a request.
        self.guides_calls = engine.header.size < SMALL and not mentions_tools(template)
        self.thinks = self._family.think is not None or self._family.name == "harmony"

    def _control_tokens(self) -> dict[str, int]:
        markers = set(self._family.markers)
        return {text: number for text, number in self._engine.header.controls.items() if text in markers}

    def _stops(self, request: ModelRequest) -> tuple[str, ...]:
        """What results of calls begin with, which are not the model's to write."""
        if self._words_tools:
            return self._family.stops
        return () if type(request.turns[-1]) is ToolTurn else _RESULTS[:1]

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
            unload=self._engine.unload,
            is_loaded=self._engine.is_loaded,
            problem=self.problem,
            thinks=self.thinks,
            default_output=lambda options: self._default_budget,
        )

    def enforces_format(self, options: Options) -> bool:
        """Whether the answer can be shown as it comes: a grammar keeps to the letter of most schemas; the end is checked."""
        asked = options.response_format
        return asked is None or asked.type != "json_schema" or is_exact(asked.schema)

    async def load(self) -> str:
        """Load the model ahead of its first use; a line that says what was chosen for this machine."""
        await self._engine.load()
        return self._engine.sizing.line(self._engine.file.name)

    def problem(self) -> str | None:
        return self._engine.problem()

    def check(self, plan: Plan) -> None:
        """Refuse before a run starts what could only be refused in the middle of it."""
        self._engine.check()
        self._settings(plan.options)
        asked = plan.options.response_format
        if asked is not None and asked.type == "json_schema":
            check_schema_text(bytes(asked.schema), "response_format")
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
        foreign = None if self._foreign is None else await self._engine.aside(partial(self._foreign_for, request))
        if foreign is not None:
            try:
                return await self._call_foreign(foreign, request, settings, show)
            except CannotEnforce:
                pass  # a schema that the engine's own path makes no grammar of; ours does, or says why not
        prepared = await self._engine.aside(partial(self._prepare, request, settings))
        parts = WrittenParts(self._family, tools=request.tools, thinking_open=prepared.thinking)
        reading = Reading(parts, request, settings, show)
        done = await self._engine.complete(self._against_loops(prepared.body), reading.take, request.room)
        if prepared.owed:
            body = await self._engine.aside(partial(self._prepare_call, request, prepared, reading.raw))
            done = done.then(await self._engine.complete(body, reading.take, request.room))
        finished = reading.finish(done)
        warnings = (*settings.warnings, *prepared.warnings)
        return msgspec.structs.replace(finished, warnings=warnings) if warnings else finished

    def _foreign_for(self, request: ModelRequest) -> ForeignChat | None:
        """The engine's own chat path, if this request is for it. A template that has taught us its calls is a family."""
        if (foreign := self._foreign) is None:
            return None
        if (family := foreign.learn()) is not None:
            self._family, self._words_tools, self._foreign = family, True, None
            self._controls = self._control_tokens()
            return None
        return foreign if foreign.takes(request) else None

    async def _call_foreign(
        self, foreign: ForeignChat, request: ModelRequest, settings: Settings, show: Show
    ) -> ModelFinished:
        """By the engine's own chat path, in the same one or two steps."""
        free, budget = await self._engine.aside(partial(self._prepare_foreign, foreign, request, settings))
        parts = ToldParts()
        reading = Reading(parts, request, settings, show)
        choice = self._guided_choice(request, settings) or request.choice
        owed = min(max(budget // 4, EARLIEST_DEADLINE), LATEST_DEADLINE) if choice.mode == "required" else 0
        done: Completion | None = None
        if budget > owed and choice is request.choice:
            body = self._against_loops({**free, "n_predict": budget - owed})
            done = await self._engine.complete(body, reading.take, request.room)
        if choice.mode == "required" and not parts.calls:
            parts.only_calls = True
            forced = foreign.insist(free, choice, parts.text, done.completion if done is not None else 0)
            forced["n_predict"] = owed if done is not None else budget
            more = await self._engine.complete(forced, reading.take, request.room)
            done = done.then(more) if done is not None else more
        assert done is not None
        finished = reading.finish(done)
        return structs.replace(finished, warnings=settings.warnings) if settings.warnings else finished

    def _prepare_foreign(
        self, foreign: ForeignChat, request: ModelRequest, settings: Settings
    ) -> tuple[dict[str, Any], int]:
        context = self._engine.sizing.context
        body = foreign.write(request, settings)
        tokens = self._count_foreign(request, settings, body)
        if request.choice.mode != "none":
            tokens += foreign.count_opening()
        if tokens >= context:
            raise _too_long(f"{tokens} tokens", context)
        budget = min(request.options.max_tokens or self._default_budget, context - tokens)
        return foreign.ask(body, request, settings, tokens), budget

    def _against_loops(self, body: dict[str, Any]) -> dict[str, Any]:
        """A large model seldom repeats itself without a reason, and whatever a grammar bounds comes to its end."""
        if self._engine.header.size >= SMALL or "grammar" in body:
            return body
        return avoid_loops(body, self._engine.header.ends)

    async def count_tokens(self, request: ModelRequest) -> int:
        """How many tokens the prompt of this request takes. Nothing is decoded."""
        settings = self._settings(request.options)
        try:
            await self._engine.load()
        except BadConfig as error:
            raise UpstreamError(str(error)) from error
        return await self._engine.aside(partial(self._count_prompt, request, settings))

    def _count_prompt(self, request: ModelRequest, settings: Settings) -> int:
        if (foreign := self._foreign_for(request)) is not None:
            with contextlib.suppress(CannotEnforce):
                return self._count_foreign(request, settings, foreign.write(request, settings))
        return self._count(request, settings)

    def _count_foreign(self, request: ModelRequest, settings: Settings, body: dict[str, Any]) -> int:
        """The engine makes a parser of the tools together with the prompt: there it refuses schemas that it cannot use."""
        try:
            return self._count(request, settings, body)
        except UpstreamBroken:
            raise
        except UpstreamError as error:
            if error.too_long:
                raise
            raise cannot_enforce(str(error)) from error

    def _count(self, request: ModelRequest, settings: Settings, body: dict[str, Any] | None = None) -> int:
        context = self._engine.sizing.context
        if (size := estimate(request.turns)) > context * LONGEST_TOKEN:
            raise _too_long(f"{size} characters", context)
        prompt = self._write_prompt(request, settings) if body is None else self._engine.apply_template(body)
        return len(self._engine.tokenize(prompt))

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
        if request.tools and (stops := self._stops(request)):
            body["stop"] = [*body.get("stop", ()), *stops]
        if guided := self._guided_call(request, settings, min(budget, SMALL_MAX_TOKENS), thinking):
            body.pop("stop", None)
            return _PreparedCall(
                {**body, "grammar": guided, "n_predict": min(budget, SMALL_MAX_TOKENS)}, prompt, thinking
            )
        deadline = min(max(budget // 4, EARLIEST_DEADLINE), LATEST_DEADLINE)
        messages: list[str] = []
        if request.choice.mode == "required":
            if budget > deadline and not decodes_in_one_step(self._family):
                self._grammar(request, deadline, deadline, thinking=True, tell=messages.append)  # refused now or never
                body["n_predict"] = budget - deadline
                body["stop"] = [*body.get("stop", ()), *call_marks(self._family)]
                return _PreparedCall(body, prompt, thinking, deadline, tuple(messages))
            body.pop("stop", None)  # nothing a caller wants to stop at may cut a call short
        if grammar := self._grammar(request, budget, deadline, thinking, tell=messages.append):
            body["grammar"] = grammar
        return _PreparedCall(body, prompt, thinking, warnings=tuple(messages))

    def _guided_choice(self, request: ModelRequest, settings: Settings) -> ToolChoice | None:
        guides = self.guides_calls if settings.guide_calls is None else settings.guide_calls
        bound = request.options.response_format is not None or "grammar" in request.options.extra
        if not guides or bound or request.choice.mode != "auto":
            return None
        names = tools_to_call(request.turns, [tool for tool in request.tools if request.choice.allows(tool.name)])
        return ToolChoice("required", names) if names else None

    def _guided_call(self, request: ModelRequest, settings: Settings, budget: int, thinking: bool) -> str | None:
        """The grammar of a call that is not required, but that the model should make and would not make by itself."""
        if (choice := self._guided_choice(request, settings)) is None:
            return None
        try:
            return self._grammar(structs.replace(request, choice=choice), budget, budget, thinking)
        except TooSmall:
            return None

    def _prepare_call(self, request: ModelRequest, before: _PreparedCall, text: str) -> dict[str, Any]:
        """The second step: go on from what was said, with the call."""
        thinking = ends_in_thought(self._family, text, begun=before.thinking)
        body = {**before.body, "prompt": self._engine.tokenize(before.prompt + text), "n_predict": before.owed}
        body.pop("stop", None)
        body["grammar"] = self._grammar(request, before.owed, before.owed, thinking)
        return body

    def _grammar(
        self,
        request: ModelRequest,
        budget: int,
        deadline: int,
        thinking: bool,
        tell: Callable[[str], None] | None = None,
    ) -> str | None:
        try:
            return self._write_grammar(request, budget, deadline, thinking, tell)
        except RecursionError:
            raise BadRequest("a schema is nested too deep for a local model") from None

    def _write_grammar(
        self, request: ModelRequest, budget: int, deadline: int, thinking: bool, tell: Callable[[str], None] | None
    ) -> str | None:
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
            tell=tell,
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
