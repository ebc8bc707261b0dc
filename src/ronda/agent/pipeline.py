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

from collections.abc import Mapping
from typing import Any, Unpack

import msgspec
from msgspec import Struct

from ronda.agent.blocking import awaitable, blocking
from ronda.agent.conversation import Messages
from ronda.agent.join import (
    Conversation,
    FileJob,
    Source,
    check_inputs,
    must_be_file,
    read_conversation,
    start_job,
)
from ronda.agent.result import Result, outcome
from ronda.agent.start import RunOptions, Start, checked_options
from ronda.agent.streams import PromptyStream, signature_of
from ronda.agent.value import Agent, AnyAgent, Inputs, Tools, where_is
from ronda.errors import BadRequest, RondaError
from ronda.prompty import results
from ronda.prompty.discovery import ModelInfo, map_models
from ronda.prompty.inputs import validate_inputs as validated
from ronda.prompty.model import Connection, Model, Prompty
from ronda.prompty.prepare import parsed, rendered
from ronda.prompty.prepare import prepare as prepared
from ronda.prompty.process import UNEXPECTED, BadResponse
from ronda.prompty.process import process as result_of
from ronda.prompty.requests import write_embedding, write_image
from ronda.prompty.rich import Message
from ronda.prompty.upstream import Upstream, provider_of, upstream_of
from ronda.providers import Where
from ronda.trace.spans import span

_DATA = {"embedding": "/embeddings", "image": "/images/generations"}


class _Used(Struct):
    usage: dict[str, Any] | None = None


# ---- the stages -------------------------------------------------------------------------------------------------------


def validate_inputs(agent: AnyAgent, inputs: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The inputs with defaults filled in; one that is required and missing is an error."""
    return validated(must_be_file(agent), inputs)


def render(agent: AnyAgent, inputs: Mapping[str, Any] | None = None) -> str:
    """The template filled in. The text remembers what of it is the author's, so that `parse` need not trust it."""
    prompty = must_be_file(agent)
    with span("render", signature="ronda.render", inputs=inputs) as emit:
        text = rendered(prompty, validated(prompty, inputs))
        emit("result", str(text))
        return text


def parse(agent: AnyAgent, rendered: str, inputs: Mapping[str, Any] | None = None) -> list[Message]:
    """Rendered text → messages. `inputs` hold the threads and media of a text that somebody else rendered."""
    prompty = must_be_file(agent)
    with span("parse", signature="ronda.parse", inputs={"rendered": str(rendered)}) as emit:
        messages = parsed(prompty, rendered, inputs or {})
        emit("result", messages)
        return messages


def prepare(agent: AnyAgent, inputs: Mapping[str, Any] | None = None) -> list[Message]:
    """The messages as they would be sent."""
    prompty = must_be_file(agent)
    return prepared(prompty, inputs)[1]


def process(agent: AnyAgent, response: Any) -> Any:
    """A provider's answer, however it was got → text, a structured value, calls, a vector, an image."""
    prompty = must_be_file(agent)
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


async def run_async(agent: AnyAgent, messages: Conversation, **options: Unpack[RunOptions]) -> Any:
    """One model call with these messages, and its result. Takes the options of `run_agent`."""
    checked = checked_options(options)
    source = Source(agent)
    if source.wants_stream:
        return _stream_once(source, messages, checked, "run", {"messages": messages})
    with span("run", signature="ronda.run", inputs={"messages": messages}) as emit:
        prompty = source.file()
        read_conversation(messages)  # said before anything else happens
        result = await _once(FileJob(prompty, messages, checked.get("history")), checked)
        emit("result", result)
        return result


async def invoke_async(
    agent: AnyAgent,
    inputs: Mapping[str, Any] | None = None,
    *,
    target_type: type[Any] | None = None,
    **options: Unpack[RunOptions],
) -> Any:
    """Load, prepare, one model call, and its result: cast, if a type is given."""
    checked = checked_options(options)
    source = Source(agent)
    if source.wants_stream:
        return _stream_once(source, inputs, checked, "invoke", inputs)
    with span("invoke", signature="ronda.invoke", inputs=inputs) as emit:
        result = await _once(FileJob(source.file(), inputs, checked.get("history")), checked)
        if target_type is not None:
            result = results.cast(result, target_type)
        emit("result", result)
        return result


run = blocking(run_async, "run")
invoke = blocking(invoke_async, "invoke")


async def _once(job: FileJob, options: RunOptions) -> Any:
    if not job.prompty.has_conversation:
        return await ask_for_data(job)
    start = await start_job(job, None, False, options, loop=False)
    await start.drive()
    return start.result()


def _stream_once(
    source: Source, conversation: Conversation | Mapping[str, Any] | None, options: RunOptions, name: str, inputs: Any
) -> PromptyStream:
    check_at_once(source, conversation, name, options.get("history"))

    async def begin() -> Start:
        return await start_job(
            FileJob(source.file(), conversation, options.get("history")), None, True, options, loop=False
        )

    return PromptyStream(begin, name=name, inputs=inputs)


def check_at_once(source: Source, inputs: Any, name: str, history: Messages | None = None) -> None:
    """A stream begins when it is read; what is wrong with the file or its inputs is said now, in a span as if it had begun."""
    trouble: Exception | None = None
    try:
        found = source.found
        if isinstance(found, Prompty):
            if (api := upstream_of(found).api) in _DATA:
                raise BadRequest(f"an answer of the API type '{api}' comes in one piece; it cannot be streamed")
            check_inputs(found, inputs, history)
            return
        if found is not None:
            return
    except RondaError as error:
        trouble = error
    with span(name, signature=signature_of(name), inputs=inputs):
        source.resolve()
        if trouble is not None:
            raise trouble


async def run_file(agent: AnyAgent, inputs: Inputs | None, tools: Tools | None, options: RunOptions) -> Result:
    """`run_agent` for a file."""
    source = Source(agent)
    with span("invoke_agent", signature="ronda.invoke_agent", inputs=inputs) as emit:
        job = FileJob(source.file(), inputs, options.get("history"))
        if not job.prompty.has_conversation:
            result = Result(await ask_for_data(job), None)
        else:
            start = await start_job(job, tools, False, options)
            await start.drive()
            result = outcome(start)
        emit("result", None if result.questions else result.output)
        return result


def stream_file(
    agent: AnyAgent, inputs: Inputs | None, tools: Tools | None, stream: bool | None, hold: bool, options: RunOptions
) -> PromptyStream | None:
    """`invoke_agent` for whoever wants a stream: the caller, or the file. None: nobody does."""
    source = Source(agent)
    if not (stream or hold or (stream is None and source.wants_stream)):
        return None
    check_at_once(source, inputs, "invoke_agent", options.get("history"))
    start = None
    if isinstance(agent, Agent):
        start = Start(agent, () if inputs is None else inputs, tools, True, options)

    async def begin() -> Start:
        return start or await start_job(FileJob(source.file(), inputs, options.get("history")), tools, True, options)

    return PromptyStream(begin, hold=hold, inputs=inputs)


# ---- requests that are no conversation ----------------------------------------------------------------------------------


async def ask_for_data(job: FileJob) -> Any:
    """A vector or an image."""
    from ronda.providers.openai_data import ask

    where = job.upstream
    write = write_embedding if where.api == "embedding" else write_image
    with span("execute", signature="ronda.providers.openai_data.ask", inputs={"model": where.model}) as emit:
        body = write(job.prompty, where.model, job.messages)
        to = await _reach(where)
        data = await ask(_DATA[where.api], body, to.base_url or _base(where), to.key)
        emit("result", {"usage": _usage(data)})
    with span("process", signature="ronda.process") as emit:
        result = result_of(job.prompty, data)
        emit("result", result)
        return result


def _usage(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data, type=_Used).usage
    except (msgspec.MsgspecError, UnicodeError):  # `process` says what is wrong with it
        return None


async def _reach(where: Upstream) -> Where:
    if where.grant is None:
        return where_is(where.spec, where.base_url, where.key)
    from ronda.providers.oauth import token_for

    return Where(where.base_url, await token_for(where.grant))


def _base(where: Upstream) -> str | None:
    if where.kind == "mistral":
        from ronda.providers.mistral import DEFAULT_URL

        return DEFAULT_URL
    return None


# ---- which models there are --------------------------------------------------------------------------------------------


async def list_models_async(agent: AnyAgent | Connection, provider: str | None = None) -> list[ModelInfo]:
    """The models that a connection offers. A connection alone needs the provider's name beside it."""
    from ronda.providers.listing import list_of

    if isinstance(agent, Connection):
        model = Model(id="any", provider=provider or "openai", connection=agent)
        prompty = Prompty(model=model)
    else:
        prompty = must_be_file(agent)
    where = upstream_of(prompty)
    to = await _reach(where)
    data = await list_of(where.kind, to.base_url, to.key)
    try:
        records = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadResponse(UNEXPECTED) from error
    return map_models(provider_of(prompty.model), records)


list_models = blocking(list_models_async, "list_models")
