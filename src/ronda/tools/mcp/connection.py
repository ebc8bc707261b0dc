"""One server: its connection, the tools that it has, and how it fares.

Each connection is a `Link` with a task of its own, which opens it, waits for its loss and closes it: contexts of the SDK must be
left by the task that entered them. Calls are made in the tasks of their callers. When a link is lost, the owner opens the next; a
call that finds none wakes the owner and waits for what the next attempt brings: one attempt at a time, however many wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Final, Literal, TypeAlias

import mcp_types as types
from mcp.client.client import Client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ronda._version import __version__
from ronda.errors import ToolFailed
from ronda.tools.mcp.call import OpenCall, answer_question
from ronda.tools.mcp.config import McpServer, way_in
from ronda.tools.mcp.listing import ListedPrompt, ListedResource, ListedTool, list_prompts, list_resources, list_tools
from ronda.tools.mcp.process import Complaints
from ronda.tools.mcp.sampling import answer_sampling
from ronda.tools.mcp.streams import Delivery, delivery
from ronda.tools.mcp.transports import open_streams

log = logging.getLogger("ronda.mcp")

State: TypeAlias = Literal["connecting", "connected", "degraded", "failed", "disabled"]

FIRST_PAUSE: Final = 0.25  # seconds before the second attempt; doubled with each that fails
LAST_PAUSE: Final = 60.0
STEADY_SECONDS: Final = 5.0  # a connection that held for so long did not fail at once: the pauses begin anew
CLOSE_SECONDS: Final = 10.0
RELIST_PAUSE: Final = 1.0  # after a listing that failed
REFRESH_PAUSE: Final = 0.2  # between two listings, however often a server says that its tools have changed …
REFRESH_SHARE: Final = 10  # … and so many times what the last one took: none keeps us busy with its list


class Link:
    """One connection, from the attempt to its end."""

    def __init__(self) -> None:
        self.calls: list[OpenCall] = []
        self.complaints = Complaints()
        self.client: Client | None = None  # once it is there; it stays here for the calls that are under way
        self.failure = ""  # why it never was
        self.tried = asyncio.Event()  # the attempt has ended, either way
        self.lost = asyncio.Event()
        self.stale = asyncio.Event()  # its tools are not what they were

    @property
    def last_words(self) -> str:
        """What its program wrote last to its standard error, to be put behind a sentence."""
        return f"; its last words were: {self.complaints.last}" if self.complaints.last else ""


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
        self.resources: tuple[ListedResource, ...] = ()  # those that may be read
        self.prompts: tuple[ListedPrompt, ...] = ()
        self.permits = asyncio.Semaphore(server.max_calls)
        self.last_call = time.monotonic()
        self._changed = changed
        self._link: Link | None = None
        self._waiters: list[asyncio.Future[Link]] = []
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()  # the first attempt has ended, either way
        self._closing = asyncio.Event()
        self._asleep: asyncio.Event | None = None  # set when all of it is closed
        self._owner: asyncio.Task[None] | None = None
        self._holders: set[asyncio.Task[None]] = set()

    # ---- for callers --------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Also where it sleeps. What is closed stays so."""
        if self._owner is None and self.server.enabled and not self._closing.is_set():
            self._asleep = None
            self.state = "connecting"
            self._settled.clear()
            self._owner = asyncio.create_task(self._own(), name=f"mcp {self.name}")

    @property
    def is_open(self) -> bool:
        return self._owner is not None

    @property
    def is_busy(self) -> bool:
        return bool(self._waiters) or (self._link is not None and bool(self._link.calls))

    async def sleep(self) -> None:
        """Close, until the next call opens it again."""
        self._link, self._asleep = None, asyncio.Event()
        await self.close()
        self._closing.clear()
        self._wake.clear()
        self._asleep.set()

    async def settled(self) -> None:
        if self.server.enabled:
            await self._settled.wait()

    async def link(self) -> Link:
        """The connection, or the next that there is. Raises ToolFailed where the next attempt fails."""
        self.last_call = time.monotonic()
        if self._link is not None:
            return self._link
        if self._asleep is not None:
            await self._asleep.wait()
            self.open()
        if self._owner is None or self._closing.is_set():
            raise ToolFailed(f"the MCP server {self.name!r} is not connected")
        waiter: asyncio.Future[Link] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._wake.set()
        return await waiter

    def retry(self) -> bool:
        """Try to connect now, without the rest of the pause since the last attempt. False where that makes no sense: it is
        connected, disabled or closed."""
        if self._link is not None or not self.server.enabled or self._closing.is_set():
            return False
        self.open()
        self._wake.set()
        return True

    def lose(self, link: Link, why: str) -> None:
        """It is of no use any more. Said by many at once, it counts once."""
        if self._link is link:
            self._mark_lost(why)
            link.lost.set()

    async def close(self) -> None:
        self._closing.set()
        self._wake.set()
        if self._owner is not None:
            await self._owner
            self._owner = None
        if holders := list(self._holders):
            _, late = await asyncio.wait(holders, timeout=CLOSE_SECONDS)
            for holder in late:
                holder.cancel()
            await asyncio.gather(*holders, return_exceptions=True)

    # ---- the owner ----------------------------------------------------------------------------------------------------

    async def _own(self) -> None:
        pause = 0.0
        while not self._closing.is_set():
            self._wake.clear()
            link, opened = Link(), time.monotonic()
            holder = asyncio.create_task(self._hold(link), name=f"mcp {self.name} link")
            self._holders.add(holder)
            holder.add_done_callback(self._holders.discard)
            await _first(link.tried, self._closing)
            if not link.tried.is_set():
                holder.cancel()
                break
            await _first(link.lost, self._closing)
            if self._closing.is_set():
                break
            if link.failure:
                self._fail_waiters(f"{link.failure}{link.last_words}")
            if self._link is link or link.failure:  # otherwise the finder has said so
                self._mark_lost(f"{link.failure or 'the connection was lost'}{link.last_words}")
            pause = 0.0 if time.monotonic() - opened > STEADY_SECONDS else min(max(FIRST_PAUSE, 2 * pause), LAST_PAUSE)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), pause)
        self._fail_waiters("it is closed")

    async def _hold(self, link: Link) -> None:
        """Connect, stay until the connection is lost and its calls have ended, and clean up."""
        note = Delivery()
        delivery.set(note)
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self.server.connect_seconds):
                    client = await stack.enter_async_context(self._new_client(link))
                    if self.server.era == "modern" and client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                        raise ToolFailed(f"it speaks the protocol of {client.protocol_version} only")
                    await self._list(client)
                link.client = client
                link.tried.set()
                self._mark_connected(link, client)
                follower = asyncio.create_task(self._follow(link, client))
                try:
                    await _first(link.lost, self._closing)
                    await self._drain(link)
                finally:
                    await _stop(follower)
                    closing = stack.pop_all()
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await closing.aclose()
        except Exception as error:
            # Whatever a transport raises is the state of one server, never the end of the others.
            if isinstance(_innermost(error), TimeoutError):
                link.failure = f"it did not answer within {self.server.connect_seconds:g} seconds"
            else:
                link.failure = f"{error_words(error)}{note.refusal}"
            if note.status == 401 and self.server.login is not None and not self.server.bearer_token:
                link.failure += f"; {way_in(self.name)}"
        finally:
            if link.client is not None:
                link.failure = ""  # how a connection ended that had been there is of no interest
            link.tried.set()
            link.lost.set()

    async def _drain(self, link: Link) -> None:
        """Calls may be under way on a link whose session is lost: each finds out for itself what became of it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.server.call_seconds):
                for call in list(link.calls):
                    await _first(call.ended, self._closing)

    def _new_client(self, link: Link) -> Client:
        async def notice(message: object) -> None:
            if isinstance(
                message,
                types.ToolListChangedNotification
                | types.ResourceListChangedNotification
                | types.PromptListChangedNotification,
            ):
                link.stale.set()

        return Client(
            open_streams(self.server, link.complaints, link.lost.set),
            mode="legacy" if self.server.era == "legacy" else "auto",
            elicitation_callback=partial(answer_question, self.name, link),
            sampling_callback=partial(answer_sampling, link) if self.server.sampling else None,
            message_handler=notice,
            client_info=types.Implementation(name="ronda", version=__version__),
            cache=None,  # the list is kept here, and a result that is needed twice is asked for twice
        )

    def _mark_connected(self, link: Link, client: Client) -> None:
        self._link = link
        self.version = client.protocol_version
        self.instructions = client.instructions or ""
        self._mark("connected", "")
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(link)

    def _mark_lost(self, why: str) -> None:
        """The last known tools stay: a call of theirs waits for the next connection."""
        self._link = None
        state: State = "degraded" if self.tools else "failed"
        if (state, why) != (self.state, self.last_error):  # once, however often it is tried
            log.warning("the MCP server %r: %s", self.name, _without_paths(why))
        self._mark(state, why)

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

    async def _follow(self, link: Link, client: Client) -> None:
        listener: asyncio.Task[None] | None = None
        if client.protocol_version in MODERN_PROTOCOL_VERSIONS and _tells_of_changes(client):
            listener = asyncio.create_task(_listen(link, client))
        try:
            while True:
                await link.stale.wait()
                link.stale.clear()
                began = time.monotonic()
                await self._refresh(link, client)
                await asyncio.sleep(max(REFRESH_PAUSE, REFRESH_SHARE * (time.monotonic() - began)))
        finally:
            if listener is not None:
                await _stop(listener)

    async def _list(self, client: Client) -> None:
        tools = await list_tools(client)
        resources = await list_resources(client, self.server) if self.server.resources else ()
        prompts = await list_prompts(client, self.server) if self.server.prompts else ()
        self.tools, self.resources, self.prompts = tools, resources, prompts

    async def _refresh(self, link: Link, client: Client) -> None:
        try:
            async with asyncio.timeout(self.server.call_seconds):
                await self._list(client)
        except Exception as error:  # the list that is known stays, what is wrong is told, and it is tried again
            if self._link is link:
                self._mark("degraded", f"its tools could not be listed anew: {error_words(error)}")
            await asyncio.sleep(RELIST_PAUSE)
            link.stale.set()
        else:
            if self._link is link:
                self._mark("connected", "")


def _tells_of_changes(client: Client) -> bool:
    tools = client.server_capabilities.tools
    return tools is not None and bool(tools.list_changed)


async def _listen(link: Link, client: Client) -> None:
    """The newer protocol tells only listeners. A server that refuses is asked ever less often."""
    pause = RELIST_PAUSE
    while True:
        with contextlib.suppress(SubscriptionLost, MCPError, TimeoutError):
            async with client.listen(tools_list_changed=True) as events:
                pause = RELIST_PAUSE
                link.stale.set()  # what has changed before this listened
                async for _ in events:
                    link.stale.set()
        await asyncio.sleep(pause)
        pause = min(2 * pause, LAST_PAUSE)


async def _first(*events: asyncio.Event) -> None:
    """Wait for whichever comes first."""
    if any(event.is_set() for event in events):
        return
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def error_words(error: BaseException) -> str:
    """One line, from inside the groups that the SDK's tasks put around it."""
    inner = _innermost(error)
    return str(inner) or type(inner).__name__


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


_ADDRESS: Final = re.compile(r"(\w+://[^\s/'\"?#]+)[/?#][^\s'\"]*")


def _without_paths(text: str) -> str:
    """For the log: the path of a server's address may be as secret as a key."""
    return _ADDRESS.sub(r"\1/…", text)
