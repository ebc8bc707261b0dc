"""One server: the task that owns its connection, the tools that it has, and how it fares.

The task opens the connection, lists the tools, waits for its loss, closes it and opens it anew: contexts of the SDK must be
left by the task that entered them. Calls are made by whoever makes them. A call that finds no connection wakes the owner and
waits for what its next attempt brings, so there is one attempt at a time, however many wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import mcp_types as types
import msgspec
from mcp.client.client import Client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import Raw, Struct

from ronda._version import __version__
from ronda.errors import ToolFailed
from ronda.tools.mcp.call import OpenCall, answer_question
from ronda.tools.mcp.config import McpServer
from ronda.tools.mcp.process import Complaints
from ronda.tools.mcp.transports import open_streams

log = logging.getLogger("ronda.mcp")

State: TypeAlias = Literal["connecting", "connected", "degraded", "failed", "disabled"]

FIRST_PAUSE: Final = 0.25  # seconds before the second attempt; doubled with each that fails
LAST_PAUSE: Final = 60.0
STEADY_SECONDS: Final = 5.0  # a connection that held for so long did not fail at once: the pauses begin anew
CLOSE_SECONDS: Final = 10.0
REFRESH_PAUSE: Final = 0.2  # between two listings, however often a server says that its tools have changed

MAX_TOOLS: Final = 2_000  # of one server
MAX_PAGES: Final = 100
MAX_DESCRIPTION: Final = 16_000
MAX_SCHEMA: Final = 256 * 1024


class ListedTool(Struct, frozen=True):
    name: str
    description: str
    parameters: Raw
    is_read_only: bool
    needs_arguments: bool


class Connection:
    """`changed` is called when the tools or the state are not what they were."""

    def __init__(self, server: McpServer, changed: Callable[[], None]) -> None:
        self.server = server
        self.name = server.name
        self.state: State = "connecting" if server.enabled else "disabled"
        self.since = time.time()
        self.last_error = ""
        self.version = ""  # of the protocol
        self.instructions = ""
        self.tools: tuple[ListedTool, ...] = ()
        self.calls: list[OpenCall] = []
        self.permits = asyncio.Semaphore(server.max_calls)
        self._changed = changed
        self._client: Client | None = None
        self._waiters: list[asyncio.Future[Client]] = []
        self._wake = asyncio.Event()
        self._lost = asyncio.Event()
        self._stale = asyncio.Event()
        self._complaints = Complaints()
        self._settled = asyncio.Event()  # the first attempt has ended, either way
        self._closing = False
        self._owner: asyncio.Task[None] | None = None

    # ---- for those who call -------------------------------------------------------------------------------------------

    def open(self) -> None:
        if self._owner is None and self.server.enabled:
            self._owner = asyncio.create_task(self._own(), name=f"mcp {self.name}")

    async def settled(self) -> None:
        if self.server.enabled:
            await self._settled.wait()

    async def client(self) -> Client:
        """The connection, or the next that there is. Raises ToolFailed where the next attempt fails."""
        if self._client is not None:
            return self._client
        if self._owner is None or self._closing:
            raise ToolFailed(f"the MCP server {self.name!r} is {'closed' if self._closing else 'not connected'}")
        waiter: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._wake.set()
        return await waiter

    def lose(self, client: Client, why: str) -> None:
        """What was used is of no use any more. Said by many at once, it counts once."""
        if self._client is client:
            self._mark_lost(why)
            self._lost.set()

    async def close(self) -> None:
        self._closing = True
        self._lost.set()
        self._wake.set()
        if self._owner is not None:
            done, _ = await asyncio.wait([self._owner], timeout=CLOSE_SECONDS)
            if not done:
                self._owner.cancel()
                await asyncio.wait([self._owner])
            self._owner = None

    @property
    def last_words(self) -> str:
        """What its program wrote last to its standard error, to be put behind a sentence."""
        return f"; its last words were: {self._complaints.last}" if self._complaints.last else ""

    # ---- the owner ----------------------------------------------------------------------------------------------------

    async def _own(self) -> None:
        pause = 0.0
        while not self._closing:
            self._wake.clear()
            self._lost = asyncio.Event()
            self._complaints = Complaints()
            opened = time.monotonic()
            try:
                await self._hold()
                why = f"the connection was lost{self.last_words}"
            except (
                Exception
            ) as error:  # whatever a transport raises is the state of one server, never the end of the others
                why = f"{error_words(error)}{self.last_words}"
            if self._closing:
                break
            self._mark_lost(why)
            pause = 0.0 if time.monotonic() - opened > STEADY_SECONDS else min(max(FIRST_PAUSE, 2 * pause), LAST_PAUSE)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), pause)
        self._fail_waiters("it is closed")

    async def _hold(self) -> None:
        """Connect, and stay until the connection is lost."""
        lost = self._lost
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self.server.connect_seconds):
                    client = await stack.enter_async_context(self._new_client(lost))
                    if self.server.era == "modern" and client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                        raise ToolFailed(f"it speaks the protocol of {client.protocol_version} only")
                    tools = await list_tools(client)
            except TimeoutError:
                raise ToolFailed(f"it did not answer within {self.server.connect_seconds:g} seconds") from None
            follower = asyncio.create_task(self._follow(client))
            try:
                self._mark_connected(client, tools)
                await lost.wait()
            finally:
                self._client = None
                follower.cancel()
                await asyncio.gather(follower, return_exceptions=True)
                closing = stack.pop_all()
                async with asyncio.timeout(CLOSE_SECONDS):
                    await closing.aclose()

    def _new_client(self, lost: asyncio.Event) -> Client:
        return Client(
            open_streams(self.server, self._complaints, lost.set),
            mode="legacy" if self.server.era == "legacy" else "auto",
            elicitation_callback=partial(answer_question, self),
            message_handler=self._notice,
            client_info=types.Implementation(name="ronda", version=__version__),
            cache=None,  # the list is kept here, and a result that is needed twice is asked for twice
        )

    def _mark_connected(self, client: Client, tools: tuple[ListedTool, ...]) -> None:
        self._client = client
        self.version = client.protocol_version
        self.instructions = client.instructions or ""
        self.tools = tools
        self._mark("connected", "")
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(client)

    def _mark_lost(self, why: str) -> None:
        """The last known tools stay: a call of theirs waits for the next connection."""
        self._client = None
        if self.state != "degraded":
            log.warning("the MCP server %r: %s", self.name, why)
        self._mark("degraded" if self.tools else "failed", why)
        self._fail_waiters(why)

    def _fail_waiters(self, why: str) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(ToolFailed(f"the MCP server {self.name!r} cannot be used: {why}"))

    def _mark(self, state: State, error: str) -> None:
        if state != self.state:
            self.since = time.time()
        self.state, self.last_error = state, error
        self._settled.set()
        self._changed()

    # ---- tools that change --------------------------------------------------------------------------------------------

    async def _notice(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._stale.set()

    async def _follow(self, client: Client) -> None:
        async with contextlib.AsyncExitStack() as stack:
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS and _tells_of_changes(client):
                listener = asyncio.create_task(self._listen(client))
                stack.push_async_callback(_stop, listener)
            while True:
                await self._stale.wait()
                self._stale.clear()
                await self._refresh(client)
                await asyncio.sleep(REFRESH_PAUSE)

    async def _listen(self, client: Client) -> None:
        """The newer protocol tells only those who listen."""
        while True:
            with contextlib.suppress(SubscriptionLost, MCPError):
                async with client.listen(tools_list_changed=True) as events:
                    self._stale.set()  # what has changed before anybody listened
                    async for _ in events:
                        self._stale.set()
            await asyncio.sleep(FIRST_PAUSE * 4)

    async def _refresh(self, client: Client) -> None:
        try:
            async with asyncio.timeout(self.server.call_seconds):
                self.tools = await list_tools(client)
        except Exception as error:  # the list that is known stays; what is wrong is told
            self._mark("degraded", f"its tools could not be listed anew: {error_words(error)}")
        else:
            self._mark("connected", "")


def _tells_of_changes(client: Client) -> bool:
    tools = client.server_capabilities.tools
    return tools is not None and bool(tools.list_changed)


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def list_tools(client: Client) -> tuple[ListedTool, ...]:
    """All pages, by name: the order of what a model is offered must stay the same for its cache."""
    if client.server_capabilities.tools is None:
        return ()
    found: dict[str, ListedTool] = {}
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            if (listed := _listed(tool)) is not None:
                found[tool.name] = listed
        cursor = page.next_cursor
        if cursor is None or len(found) >= MAX_TOOLS:
            break
    return tuple([found[name] for name in sorted(found)[:MAX_TOOLS]])


def _listed(tool: types.Tool) -> ListedTool | None:
    """None where the schema is too large for any prompt."""
    schema: dict[str, Any] = tool.input_schema
    parameters = msgspec.json.encode(schema)
    if len(parameters) > MAX_SCHEMA:
        log.warning("the MCP tool %r is left out: its schema has %d bytes", tool.name, len(parameters))
        return None
    description = tool.description or tool.title or ""
    is_read_only = tool.annotations is not None and tool.annotations.read_only_hint is True
    return ListedTool(
        tool.name, description[:MAX_DESCRIPTION], Raw(parameters), is_read_only, bool(schema.get("required"))
    )


def error_words(error: BaseException) -> str:
    """One line, from inside the groups that the SDK's tasks put around it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__
