"""The pipeline of a prompty file, stage by stage and composed: every function has an `_async` twin that does the work.

    prepare(file, inputs)      → messages          validate_inputs, render, parse, threads in their place
    render, parse              → text, messages    the two halves of it
    run(file, messages)        → result            one model call, and its answer read
    process(file, response)    → result            an answer that was got elsewhere
    invoke(file, inputs)       → result            prepare and run
    cast(result, type)         → an instance

One model call is one: calls that the model asks for are the result, and the caller's to run. `invoke_agent` and `turn` run
the loop. A file whose API type is `embedding` or `image` makes that request instead of a conversation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Unpack

import msgspec
from msgspec import Struct

from ronda.agent.blocking import awaitable, blocking
from ronda.agent.prompty_run import Conversation, FileJob, Source, check_inputs, read_conversation, start_job
from ronda.agent.result import Result, outcome
from ronda.agent.start import RunOptions, Start, checked_options
from ronda.agent.streams import PromptyStream
from ronda.agent.toolsets import Tools, has_toolsets, open_agent, open_overlay
from ronda.agent.value import Agent, AnyAgent, routes_of, where_is
from ronda.core.events import Event, ModelFinished
from ronda.errors import BadRequest, RondaError
from ronda.prompty import results
from ronda.prompty.discovery import ModelInfo, map_models
from ronda.prompty.message_parts import Message
from ronda.prompty.model import Connection, Model, Prompty
from ronda.prompty.preparation import parse_messages, render_prompt
from ronda.prompty.preparation import prepare as prepared
from ronda.prompty.preparation import validate_inputs as validated
from ronda.prompty.processing import UNEXPECTED, BadResponse
from ronda.prompty.processing import process as result_of
from ronda.prompty.requests import write_embedding, write_image
from ronda.prompty.upstream import Upstream, provider_of, upstream_of
from ronda.providers import Where
from ronda.trace.spans import Emit, span

_DATA = {"embedding": "/embeddings", "image": "/images/generations"}


class _UsedAgent(Struct):
    usage: dict[str, Any] | None = None


# ---- the stages -------------------------------------------------------------------------------------------------------


def validate_inputs(agent: AnyAgent, inputs: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The inputs with defaults filled in; one that is required and missing is an error."""
    return validated(Source(agent).file(), inputs)


def render(agent: AnyAgent, inputs: Mapping[str, Any] | None = None) -> str:
    """The template filled in. The text remembers what of it is the author's, so that `parse` need not trust it."""
    prompty = Source(agent).file()
    with span("render", signature="ronda.render", inputs=inputs) as emit:
        text = render_prompt(prompty, validated(prompty, inputs))
        emit("result", str(text))
        return text


def parse(agent: AnyAgent, rendered: str, inputs: Mapping[str, Any] | None = None) -> list[Message]:
    """Rendered text → messages. `inputs` hold the threads and media of a text that was rendered elsewhere."""
    prompty = Source(agent).file()
    with span("parse", signature="ronda.parse", inputs={"rendered": str(rendered)}) as emit:
        messages = parse_messages(prompty, rendered, inputs or {})
        emit("result", messages)
        return messages


def prepare(agent: AnyAgent, inputs: Mapping[str, Any] | None = None) -> list[Message]:
    """The messages as they would be sent."""
    return prepared(Source(agent).file(), inputs)[1]


def process(agent: AnyAgent, response: Any) -> Any:
    """A provider's answer, however it was got → text, a structured value, calls, a vector, an image."""
    prompty = Source(agent).file()
    with span("process", signature="ronda.process", inputs={"response": response}) as emit:
        result = result_of(prompty, response)
        emit("result", result)
        return result


cast = results.cast
validate_inputs_async = awaitable(validate_inputs, "validate_inputs_async")
render_async = awaitable(render, "render_async")
parse_async = awaitable(parse, "parse_async")
prepare_async = awaitable(prepare, "prepare_async")
process_async = awaitable(process, "process_async")
cast_async = awaitable(cast, "cast_async")


# ---- composed ---------------------------------------------------------------------------------------------------------


class Call(Struct, frozen=True):
    """What a door was asked: an agent, its inputs, and how they are run. `name` is that of the span it is told in.

    `loop` of False hands calls over to the caller; None does so only if nothing here could run any of them. `raw`: the model's
    last answer as it is, in place of what is read from it.
    """

    source: Source
    inputs: Any
    tools: Tools | None
    options: RunOptions
    name: str = "invoke_agent"
    loop: bool | None = True
    raw: bool = False

    async def result(self, target_type: type[Any] | None = None) -> Result:
        """Run it to its end."""
        with self._span() as emit:
            found = self._found()
            if isinstance(found, Prompty) and not found.has_conversation:
                result = Result(await ask_for_data(self._job(found)), None)
            else:
                start = await self._start(found, False)
                events: list[Event] = []
                if self.raw:
                    start.live.add_tap(events.extend)
                await start.drive()
                result = outcome(start)
                if self.raw:
                    result = Result(_last_answer(events), start.run)
            if target_type is not None:
                result = Result(results.cast(result.output, target_type), result._run)
            emit("result", None if result.questions else result.output)
            return result

    async def answer(self, target_type: type[Any] | None = None) -> Any:
        """The answer, or a stream of it where the file asks for one."""
        if self.source.wants_stream and not self.raw:
            return self.stream()
        return (await self.result(target_type)).output

    def stream(self, hold: bool = False) -> PromptyStream:
        """It begins when it is read; what is wrong with the agent or its inputs is said now, in a span as if it had begun."""
        found, trouble = self.source.found, None
        start: Start | None = None
        if isinstance(found, Agent) and not has_toolsets(found, self.tools):
            start = Start(found, self.inputs, self.tools, True, self.options)
        try:
            if isinstance(found, Prompty):
                if (api := upstream_of(found).api) in _DATA:
                    raise BadRequest(f"an answer of the API type '{api}' comes in one piece; it cannot be streamed")
                check_inputs(found, self.inputs, self.options.get("history"))
        except RondaError as error:
            trouble = error
        if found is None or trouble is not None:
            with self._span():
                self.source.resolve()
                if trouble is not None:
                    raise trouble

        async def begin() -> Start:
            return start or await self.start(stream=True)

        return PromptyStream(begin, self._span, hold=hold)

    async def start(self, *, stream: bool) -> Start:
        return await self._start(self._found(), stream)

    async def _start(self, found: Agent | Prompty, stream: bool) -> Start:
        tools = None if self.tools is None else await open_overlay(self.tools)
        if isinstance(found, Agent):
            return Start(await open_agent(found), self.inputs, tools, stream, self.options)
        return await start_job(self._job(found), tools, stream, self.options, loop=self.loop)

    def _found(self) -> Agent | Prompty:
        return self.source.file() if self.loop is False else self.source.resolve()

    def _job(self, prompty: Prompty) -> FileJob:
        return FileJob(prompty, self.inputs, self.options.get("history"))

    def _span(self) -> AbstractContextManager[Emit]:
        """Of the door. The signature of a turn is the specification's."""
        signature = "prompty.turn" if self.name.split()[0] == "turn" else f"ronda.{self.name}"
        inputs = {"messages": self.inputs} if self.name == "run" else self.inputs
        return span(self.name, signature=signature, inputs=inputs)


def _last_answer(events: Sequence[Event]) -> ModelFinished | None:
    return next((event for event in reversed(events) if type(event) is ModelFinished), None)


async def run_async(agent: AnyAgent, messages: Conversation, **options: Unpack[RunOptions]) -> Any:
    """One model call with these messages, and its result. Takes the options of `run_agent`."""
    checked = checked_options(options)
    read_conversation(messages)  # said before anything else happens
    return await Call(Source(agent), messages, None, checked, "run", loop=False).answer()


async def invoke_async(
    agent: AnyAgent,
    inputs: Mapping[str, Any] | None = None,
    *,
    target_type: type[Any] | None = None,
    **options: Unpack[RunOptions],
) -> Any:
    """Load, prepare, one model call, and its result: cast, if a type is given."""
    checked = checked_options(options)
    return await Call(Source(agent), inputs, None, checked, "invoke", loop=False).answer(target_type)


run = blocking(run_async, "run")
invoke = blocking(invoke_async, "invoke")


# ---- requests that are no conversation ----------------------------------------------------------------------------------


async def ask_for_data(job: FileJob) -> Any:
    """A vector or an image."""
    from ronda.providers.openai_data import ask

    where = job.upstream
    write = write_embedding if where.api == "embedding" else write_image
    with span("execute", signature="ronda.providers.openai_data.ask", inputs={"model": where.model}) as emit:
        body = write(job.prompty, where.model, job.messages)
        to = await _reach(where)
        data = await ask(_DATA[where.api], body, to.base_url or _base(where), to.key, routes=to.routes)
        emit("result", {"usage": _usage(data)})
    with span("process", signature="ronda.process") as emit:
        result = result_of(job.prompty, data)
        emit("result", result)
        return result


def _usage(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data, type=_UsedAgent).usage
    except (msgspec.MsgspecError, UnicodeError):  # `process` says what is wrong with it
        return None


async def _reach(where: Upstream) -> Where:
    if where.grant is None:
        return where_is(where.spec, where.base_url, where.key)
    from ronda.providers.oauth import token_for

    routes = routes_of(None)
    return Where(where.base_url, await token_for(where.grant, routes=routes), routes=routes)


def _base(where: Upstream) -> str | None:
    if where.kind == "mistral":
        from ronda.providers.mistral import DEFAULT_URL

        return DEFAULT_URL
    return None


# ---- which models there are --------------------------------------------------------------------------------------------


async def list_models_async(agent: AnyAgent | Connection, provider: str | None = None) -> list[ModelInfo]:
    """The models that a connection offers. A connection without a model needs the provider's name, too."""
    from ronda.providers.listing import list_of

    if isinstance(agent, Connection):
        model = Model(id="any", provider=provider or "openai", connection=agent)
        prompty = Prompty(model=model)
    else:
        prompty = Source(agent).file()
    where = upstream_of(prompty)
    to = await _reach(where)
    data = await list_of(where.kind, to.base_url, to.key, to.routes)
    try:
        records = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadResponse(UNEXPECTED) from error
    return map_models(provider_of(prompty.model), records)


list_models = blocking(list_models_async, "list_models")
