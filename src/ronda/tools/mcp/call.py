"""One call: its time, what it shows and asks on the way, and whether it may be sent again.

It is sent again, once, where it provably did not run: it was never handed over, or the server said that it does not know our
session. A call that was under way when the connection broke is not: the model is told that its outcome is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import mcp_types as types
from mcp.client.session import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from ronda.core.events import ModelFinished
from ronda.core.parts import Turn
from ronda.core.plan import Options
from ronda.drive import ToolContext, ToolOutput
from ronda.drive.outgoing import OUTGOING
from ronda.errors import ToolFailed
from ronda.tools.mcp.results import read_contents, read_prompt, read_result
from ronda.tools.mcp.streams import Delivery, delivery

if TYPE_CHECKING:
    from mcp.client.client import Client

    from ronda.tools.mcp.connection import Connection, Link

_T = TypeVar("_T")

MAX_ERROR: Final = 2_000  # characters of what a server says went wrong
MAX_OPEN: Final = 8  # questions of one call at a time …
MAX_QUESTIONS: Final = 100  # … and in all
_CONFIRM: Final = {"type": "object", "properties": {}}  # a yes or a no: nothing is to be filled in


class OpenCall:
    """A call under way. Its clock stands still while a person, or our model, is asked."""

    def __init__(self, context: ToolContext, clock: asyncio.Timeout) -> None:
        self.context = context
        self.ended = asyncio.Event()
        self._clock = clock
        self._questions = 0  # that are open
        self._question_count = 0
        self._left = 0.0

    async def ask(self, message: str, schema: dict[str, Any]) -> dict[str, Any] | None:
        with self._standing():
            return await self.context.ask(message, schema)

    async def ask_model(self, turns: list[Turn], options: Options) -> ModelFinished:
        with self._standing():
            return await self.context.ask_model(turns, options)

    @contextmanager
    def _standing(self) -> Iterator[None]:
        if self._questions >= MAX_OPEN or self._question_count >= MAX_QUESTIONS:
            raise ToolFailed("the server asks too much during this call")
        self._question_count += 1
        loop = asyncio.get_running_loop()
        when = self._clock.when()
        if self._questions == 0 and when is not None and not self._clock.expired():
            self._left = when - loop.time()
            self._clock.reschedule(None)
        self._questions += 1
        try:
            yield
        finally:
            self._questions -= 1
            if self._questions == 0 and not self._clock.expired() and not self.ended.is_set():
                self._clock.reschedule(loop.time() + self._left)

    async def show(self, progress: float, total: float | None, message: str | None) -> None:
        count = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
        self.context.progress(f"{message[:MAX_ERROR] if message else count}\n")


# Set where the SDK carries a caller's context along: over HTTP, and for questions of the newer protocol.
_current: ContextVar[OpenCall | None] = ContextVar("current", default=None)


class NotRun(Exception):
    """The call provably did not run."""


Request: TypeAlias = Callable[["Client", OpenCall], Awaitable[_T]]


async def call_tool(connection: Connection, tool: str, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
    """Raises ToolFailed."""
    outgoing = OUTGOING.get()

    async def request(client: Client, call: OpenCall) -> types.CallToolResult:
        members = {"ronda/idempotency-key": context.key}
        if (
            outgoing is not None
        ):  # as the conventions of OpenTelemetry for MCP say: a connection is shared, a message is not
            members |= outgoing.members
        meta = cast("types.RequestParamsMeta", members)
        return await client.call_tool(tool, arguments, progress_callback=call.show, meta=meta)

    return read_result(await _exchange(connection, request, context), connection.name, tool)


async def read_resource(connection: Connection, uri: str, context: ToolContext) -> ToolOutput:
    """Raises ToolFailed, also where the configuration does not let it be read."""
    if not connection.server.may_read(uri):
        raise ToolFailed(
            f"the resource {uri!r} of the MCP server {connection.name!r} is not among those that may be read"
        )

    async def request(client: Client, _: OpenCall) -> types.ReadResourceResult:
        return await client.read_resource(uri)

    return read_contents(await _exchange(connection, request, context), connection.name)


async def get_prompt(connection: Connection, name: str, arguments: dict[str, str], context: ToolContext) -> ToolOutput:
    """Raises ToolFailed, also where the configuration does not let it be read."""
    if not connection.server.may_prompt(name):
        raise ToolFailed(
            f"the prompt {name!r} of the MCP server {connection.name!r} is not among those that may be read"
        )

    async def request(client: Client, _: OpenCall) -> types.GetPromptResult:
        return await client.get_prompt(name, arguments)

    return read_prompt(await _exchange(connection, request, context), connection.name)


async def _exchange(connection: Connection, request: Request[_T], context: ToolContext) -> _T:
    async with connection.permits:
        link = await connection.link()
        try:
            return await _send(connection, link, request, context)
        except NotRun:
            connection.lose(link, "the session was lost")
            link = await connection.link()
            try:
                return await _send(connection, link, request, context)
            except NotRun as error:
                raise ToolFailed(f"the MCP server {connection.name!r} did not take the call: {error}") from error


async def _send(connection: Connection, link: Link, request: Request[_T], context: ToolContext) -> _T:
    client, note = link.client, Delivery()
    assert client is not None
    seconds = connection.server.call_seconds
    try:
        async with asyncio.timeout(seconds) as clock:
            call = OpenCall(context, clock)
            tokens = delivery.set(note), _current.set(call)
            link.calls.append(call)
            try:
                return await request(client, call)
            finally:
                call.ended.set()
                link.calls.remove(call)
                delivery.reset(tokens[0])
                _current.reset(tokens[1])
    except TimeoutError:
        raise ToolFailed(f"the MCP server {connection.name!r} did not answer within {seconds:g} seconds") from None
    except MCPError as error:
        if _did_not_run(note, client, error):
            raise NotRun(_words(error)) from error
        if error.code == CONNECTION_CLOSED:
            raise ToolFailed(
                f"the connection to the MCP server {connection.name!r} was lost while the call ran: "
                f"it is not known whether it was carried out{link.last_words}"
            ) from error
        raise ToolFailed(
            f"the MCP server {connection.name!r} refused the call: {_words(error)}{note.refusal}"
        ) from error
    except (
        ValidationError,
        RuntimeError,
        ExceptionGroup,
    ) as error:  # what the SDK raises for answers that make no sense
        raise ToolFailed(
            f"the MCP server {connection.name!r} gave an answer that cannot be used: {_words(error)}"
        ) from error


def _did_not_run(note: Delivery, client: Client, error: MCPError) -> bool:
    if note.rounds == 0:
        return True
    if note.rounds > 1 or client.protocol_version in MODERN_PROTOCOL_VERSIONS:  # which has no sessions
        return False
    # 404 is the specification's word for a session that is gone; some servers say 400, and what is wrong in the text.
    return note.status == 404 or (note.status == 400 and "session" in error.message.lower())


def _words(error: Exception) -> str:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ValidationError):
        return "; ".join([f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:3]])[:MAX_ERROR]
    return (str(error) or type(error).__name__)[:MAX_ERROR]


async def answer_question(
    server: str, link: Link, _: ClientRequestContext, params: types.ElicitRequestParams
) -> types.ElicitResult | types.ErrorData:
    """What a server wants to know of a person, while a call of theirs runs."""
    call = asking_call(link)
    if call is None:
        return NOT_CLEAR
    if isinstance(params, types.ElicitRequestURLParams):
        message, schema = f"{params.message}\n{params.url}", _CONFIRM
    else:
        message, schema = params.message, params.requested_schema
    try:
        answer = await call.ask(f"{server}: {message}", schema)
    except ToolFailed:
        return types.ElicitResult(action="cancel")
    if answer is None:
        return types.ElicitResult(action="decline")
    return types.ElicitResult(action="accept", content=None if schema is _CONFIRM else answer)


NOT_CLEAR: Final = types.ErrorData(
    code=types.INVALID_REQUEST, message="it is not clear whose call this question belongs to"
)


def asking_call(link: Link) -> OpenCall | None:
    """Over a pipe a question does not say which call it belongs to: it must not reach another's user."""
    return _current.get() or _only_run(link.calls)


def _only_run(calls: list[OpenCall]) -> OpenCall | None:
    """The first of them, if all belong to one run: then one person is asked, whichever it is."""
    return calls[0] if len({call.context.run for call in calls}) == 1 else None
