"""A prompty file and its inputs → a run: the model it names, the messages it renders to, the tools it declares.

    Source                       an agent, or a file that is loaded ahead of its span
    agent_of(prompty)            the agent of ours that a file is
    FileJob                      a file with its inputs: what its run starts from, and how its answer is read
    start_job(…)                 all of it, up to a run that is about to be driven

What the caller gives for this run only (`tools`) lies over the file's and the registered ones; neither is changed.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Raw

from ronda.agent.start import Link, RunOptions, Start
from ronda.agent.toolsets import OpenTools
from ronda.agent.value import Agent, AnyAgent, Inputs, routes_of
from ronda.core.events import AgentFile, Event, ModelFinished
from ronda.core.parts import Turn, user
from ronda.core.run import Run
from ronda.core.transcript import final_text
from ronda.drive import Provider, Tool
from ronda.errors import BadConfig, BadRequest, RondaError, quote_names
from ronda.prompty.handlers import CallerTool
from ronda.prompty.history import PLACE_OF_THREAD, thread_of, with_history
from ronda.prompty.load import load, read_file, tell_load
from ronda.prompty.message_parts import Message, read_message
from ronda.prompty.model import Prompty, for_one_run
from ronda.prompty.preparation import kept_inputs, prepare, validate_inputs
from ronda.prompty.results import read_structured
from ronda.prompty.tool_kinds import tools_of
from ronda.prompty.turns import turns_of
from ronda.prompty.upstream import Upstream, options_of, upstream_of, wants_stream
from ronda.providers import Where, open_provider
from ronda.providers.grants import Grant
from ronda.trace.spans import Tracer, span
from ronda.wire.shared.conversation import TURNS, Messages, read_turns

if TYPE_CHECKING:
    from ronda.providers.http.transport import Transport

Conversation: TypeAlias = Sequence[Turn] | Sequence[Message | Mapping[str, Any]]


class Source:
    """An agent or the path of one, looked at before it is known which span it belongs into: that of the call, or that of
    the stream that the file asks for. `resolve` reports the loading wherever it is called."""

    def __init__(self, agent: AnyAgent) -> None:
        self._agent = agent
        self._began = time.time()
        self.found: Agent | Prompty | None = agent if isinstance(agent, Agent | Prompty) else None
        if isinstance(agent, str | os.PathLike):
            with contextlib.suppress(RondaError):  # raised again by `resolve`
                self.found = read_file(agent)
        self._ended = time.time()

    @property
    def wants_stream(self) -> bool:
        found = self.found
        return isinstance(found, Prompty) and found.has_conversation and wants_stream(found)

    def resolve(self) -> Agent | Prompty:
        agent = self._agent
        if isinstance(agent, Agent | Prompty):
            return agent
        if not isinstance(agent, str | os.PathLike):
            raise BadConfig(f"{agent!r} is no agent; give an Agent, a loaded prompty, or the path of a prompty file")
        if not isinstance(self.found, Prompty):
            return load(agent)  # raises what was wrong with it
        if not Tracer.is_idle():
            tell_load(agent, self.found, self._began, self._ended)
        return self.found

    def file(self) -> Prompty:
        found = self.resolve()
        if isinstance(found, Agent):
            raise BadConfig("an agent made in code has no template to work on; `invoke_agent` and `turn` run it")
        return found


def agent_of(prompty: Prompty, upstream: Upstream | None = None, transport: Transport | None = None) -> Agent:
    """The agent of ours that a file is, without its tools: those depend on the inputs of a run. `transport` is how its model's
    server is reached; None: as all others."""
    where = upstream or upstream_of(prompty)
    options = options_of(prompty, where.kind)
    name = prompty.name or (Path(prompty.path).stem if prompty.path else "prompty")
    if where.provider is not None:
        return Agent(where.provider, options=options, name=name)
    if where.grant is not None:
        return Agent(_with_tokens(where, where.grant, transport), options=options, name=name)
    return Agent(where.spec, where.base_url, where.key, options=options, name=name, transport=transport)


def _with_tokens(where: Upstream, grant: Grant, transport: Transport | None) -> Provider:
    from ronda.providers.oauth import OAuthProvider  # loads HTTP

    account, routes = f"{grant.url} {grant.client}", routes_of(transport)

    def open_with(token: str | None) -> Provider:
        return open_provider(where.spec, Where(where.base_url, token, account=account, routes=routes))

    return OAuthProvider(grant, open_with, routes)


class FileJob:
    """A file and its inputs. A run that goes on from a conversation brings its turns, and its inputs are the defaults."""

    def __init__(self, prompty: Prompty, inputs: Inputs | Conversation | None, history: Messages | None = None) -> None:
        self.prompty = for_one_run(prompty)
        self.upstream = upstream_of(prompty)
        self.inputs, self.messages, self.turns = _begin(prompty, inputs, history)
        self.once = False
        self.last: ModelFinished | None = None

    def origin(self) -> tuple[AgentFile | None, dict[str, Raw]]:
        host = self.prompty.host
        return None if host is None else host.keep(self.prompty), kept_inputs(self.prompty, self.inputs)

    def take(self, batch: Sequence[Event]) -> None:
        """What must be remembered of the run to read its answer."""
        for event in batch:
            if type(event) is ModelFinished:
                self.last = event

    def answer(self, run: Run) -> Any:
        return tell_answer(self.prompty, self.last, run)


def read_answer(prompty: Prompty, run: Run) -> Any:
    assert run.ended is not None
    if run.ended.reason == "tool_calls":
        return list(run.open_calls)
    text = final_text(run)
    return read_structured(text) if prompty.outputs else text


def tell_answer(prompty: Prompty, response: Any, run: Run) -> Any:
    """The same, within a span."""
    with span("process", signature="ronda.prompty.process", inputs={"response": response}) as emit:
        result = read_answer(prompty, run)
        emit("result", result)
        return result


def _begin(
    prompty: Prompty, inputs: Inputs | Conversation | None, history: Messages | None
) -> tuple[dict[str, Any], list[Message], list[Turn]]:
    before = None if history is None else read_turns(history, "history")
    if inputs is None or isinstance(inputs, Mapping):
        thread = thread_of(prompty, inputs or {}) if before is not None else None
        given = inputs if thread is None else {**(inputs or {}), thread: PLACE_OF_THREAD}
        known, messages = prepare(prompty, given)
        turns = turns_of(messages)
        return known, messages, turns if before is None else with_history(turns, before)
    known = {one.name: one.default for one in prompty.inputs if one.default is not None}
    if before is not None and isinstance(inputs, str):
        return known, [], [*before, user(inputs)]
    _refuse_text(prompty, inputs)
    messages, turns = read_conversation(inputs)
    return known, messages, [*(before or ()), *turns]


def check_inputs(prompty: Prompty, inputs: Any, history: Messages | None = None) -> None:
    """Raises what a run with these inputs would."""
    if history is not None:
        read_turns(history, "history")
    if inputs is None or isinstance(inputs, Mapping):
        validate_inputs(prompty, inputs)
    elif history is None or not isinstance(inputs, str):
        _refuse_text(prompty, inputs)
        read_conversation(inputs)


def _refuse_text(prompty: Prompty, inputs: Any) -> None:
    if isinstance(inputs, str):
        names = quote_names([one.name for one in prompty.inputs]) or "none"
        raise BadRequest(f"the inputs of a prompty file are a mapping; this one declares {names}", param="inputs")


def read_conversation(value: Any) -> tuple[list[Message], list[Turn]]:
    """Messages or turns, as far as they have been made: `prepare`'s, an error's `messages`, or dicts."""
    items = list(value)
    if any(isinstance(item, TURNS) or (isinstance(item, Mapping) and "role" not in item) for item in items):
        return [], list(read_turns(items, "messages"))
    if not items or not all(
        isinstance(item, Message) or (isinstance(item, Mapping) and "role" in item) for item in items
    ):
        raise BadRequest("a conversation is a list of messages, {role, content}, or of turns", param="messages")
    messages = [read_message(item) for item in items]
    return messages, turns_of(messages)


async def start_job(
    job: FileJob,
    tools: OpenTools | None,
    stream: bool,
    options: RunOptions,
    *,
    loop: bool | None = True,
    link: Link | None = None,
) -> Start:
    """`loop` of False hands calls over to the caller; None does so only if nothing here could run any of them."""
    if not job.prompty.has_conversation:
        raise BadRequest(f"a file of the API type '{job.upstream.api}' has no run to follow; use `run` or `invoke`")
    table: dict[str, Tool] = {}
    if job.prompty.tools or job.prompty.agents or tools is not None:
        table = await tools_of(job.prompty, tools, job.inputs)
    if loop is None:
        loop = tools is not None or not table or any(tool.spec.kind != "caller" for tool in table.values())
    job.once = not loop
    if not loop:
        table = {name: CallerTool(tool.spec, job.upstream.kind) for name, tool in table.items()}
        options = {**options, "on_unknown_tool": "tell"}
    agent = agent_of(job.prompty, job.upstream)
    return Start(agent, job.inputs, table, stream, options, job, link=link)
