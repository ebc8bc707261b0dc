"""The only outbound socket for models: aiohttp, one session per event loop, closed with it.

No cookies, no redirects (a key must not follow one), no proxy taken from the environment. Silence is bounded by the socket's
own read timeout: one timer per connection costs nothing, one per chunk cost half as much again on streams.
"""

from __future__ import annotations

import asyncio
import email.utils
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

import aiohttp
import yarl
from multidict import CIMultiDict

from ronda.core.events import Preview
from ronda.core.limits import Timeouts
from ronda.drive import Show
from ronda.errors import UpstreamBroken, UpstreamUnreachable

if TYPE_CHECKING:
    from types import TracebackType

MAX_ANSWER = 64 * 1024 * 1024


class _LoopSession:
    __slots__ = ("_keeper", "session")

    def __init__(self, session: aiohttp.ClientSession, keeper: AsyncGenerator[None, None]) -> None:
        self.session = session
        self._keeper = keeper  # alive as long as the loop


_sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopSession] = WeakKeyDictionary()


async def _close_with_the_loop(session: aiohttp.ClientSession) -> AsyncGenerator[None, None]:
    # An event loop closes the async generators it knows before it closes itself: the one hook every runner calls.
    try:
        yield
    finally:
        await session.close()


async def session() -> aiohttp.ClientSession:
    loop = asyncio.get_running_loop()
    held = _sessions.get(loop)
    if held is None or held.session.closed:
        made = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=60),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            skip_auto_headers=("User-Agent",),
        )
        keeper = _close_with_the_loop(made)
        await keeper.__anext__()
        held = _sessions[loop] = _LoopSession(made, keeper)
    return held.session


class StreamReader(Protocol):
    """A wire's reader of one streamed answer."""

    @property
    def broken(self) -> bool: ...

    def feed(self, data: bytes) -> list[Preview]: ...

    def close(self) -> list[Preview]: ...


class ManyReader(StreamReader, Protocol):
    """… of several choices: `feed` shows the first, the others wait aside."""

    def take_aside(self) -> list[list[Preview]]: ...


def endpoint(base_url: str, path: str) -> str:
    """Azure-style addresses carry a query (`?api-version=…`) that belongs behind the path."""
    address, _, query = base_url.partition("?")
    address = address.rstrip("/")
    if not address.endswith(path):
        address += path
    return f"{address}?{query}" if query else address


def bearer(base_url: str, key: str | None) -> dict[str, str]:
    if key is None:
        return {}
    if ".azure.com" in base_url or ".azure-api.net" in base_url:
        return {"api-key": key}  # Azure's name for it; a bearer token there means Entra ID
    return {"Authorization": f"Bearer {key}"}


class Http:
    """One endpoint: where it is, what is said to it, how long it may take."""

    __slots__ = ("_headers", "_timeout", "_timeouts", "url")

    def __init__(self, url: str, headers: Mapping[str, str], timeouts: Timeouts) -> None:
        self.url = yarl.URL(url)
        self._headers = CIMultiDict({"Content-Type": "application/json", "User-Agent": "ronda", **headers})
        self._timeouts = timeouts
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=timeouts.connect, sock_read=timeouts.first_byte)

    def post(self, body: bytes) -> _Post:
        return _Post(self, body)


class _Post:
    """A request under way. Whatever goes wrong with the socket leaves as an UpstreamError that names the address."""

    __slots__ = ("_answer", "_body", "_http")

    def __init__(self, http: Http, body: bytes) -> None:
        self._http = http
        self._body = body
        self._answer: aiohttp.ClientResponse

    async def __aenter__(self) -> Answer:
        http = self._http
        client = await session()
        try:
            self._answer = await client.post(
                http.url, data=self._body, headers=http._headers, timeout=http._timeout, allow_redirects=False
            )
        except TimeoutError as error:
            raise UpstreamUnreachable(
                f"no answer from {http.url.origin()}: {_which(error, http._timeouts)}", retryable=True, connection=True
            ) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise UpstreamUnreachable(
                f"cannot reach the model's server at {http.url.origin()}: {error or type(error).__name__}",
                retryable=not isinstance(error, (aiohttp.InvalidURL, ValueError)),
                connection=True,
            ) from error
        return Answer(self._answer, http)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Read to its end the connection goes back to the pool; otherwise it must be closed, not drained.
        self._answer.close() if error is not None else self._answer.release()


class Answer:
    __slots__ = ("_answer", "_http")

    def __init__(self, answer: aiohttp.ClientResponse, http: Http) -> None:
        self._answer = answer
        self._http = http

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def is_stream(self) -> bool:
        return self._answer.headers.get("Content-Type", "").startswith("text/event-stream")

    @property
    def retry_after(self) -> float | None:
        """Seconds until the server wants to be asked again: it gives them as a number or as a date."""
        said = self._answer.headers.get("Retry-After", "").strip()
        if not said:
            return None
        try:
            return max(0.0, float(said))
        except ValueError:
            pass
        try:
            return max(0.0, email.utils.parsedate_to_datetime(said).timestamp() - time.time())
        except ValueError:
            return None

    async def read(self) -> bytes:
        """The whole body, within bounds."""
        answer = self._answer
        try:
            if (length := answer.content_length) is not None and length <= MAX_ANSWER:
                return await answer.read()
            pieces: list[bytes] = []
            size = 0
            async for piece in answer.content.iter_any():
                size += len(piece)
                if size > MAX_ANSWER:
                    raise UpstreamBroken(f"the answer of {self._http.url.origin()} is larger than {MAX_ANSWER} bytes")
                pieces.append(piece)
            return b"".join(pieces)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._broken(error) from error

    async def next(self) -> bytes:
        """What has arrived since the last time; empty at the end."""
        try:
            return await self._answer.content.readany()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._broken(error) from error

    async def stream_into(self, reader: StreamReader, show: Show) -> None:
        """Read to the end, one batch of previews per socket read."""
        self.expect_no_silence()
        while not reader.broken and (data := await self.next()):
            if previews := reader.feed(data):
                show(previews)
        if previews := reader.close():
            show(previews)

    async def stream_many_into(self, reader: ManyReader, shows: Sequence[Show]) -> None:
        """The same for several choices, each shown to its own."""

        def show(previews: list[Preview]) -> None:
            for one, batch in zip(shows, (previews, *reader.take_aside()), strict=True):
                if batch:
                    one(batch)

        self.expect_no_silence()
        while not reader.broken and (data := await self.next()):
            show(reader.feed(data))
        show(reader.close())

    def expect_no_silence(self) -> None:
        """From here on the pieces must follow each other: the answer has begun."""
        connection = self._answer.connection
        if connection is not None and connection.protocol is not None:
            connection.protocol.read_timeout = self._http._timeouts.silence
            connection.protocol.start_timeout()

    def _broken(self, error: Exception) -> UpstreamBroken:
        what = "fell silent" if isinstance(error, TimeoutError) else "broke off"
        detail = str(error) or type(error).__name__
        return UpstreamBroken(
            f"the answer of {self._http.url.origin()} {what}: {detail}", retryable=True, connection=True
        )


def _which(error: TimeoutError, timeouts: Timeouts) -> str:
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return f"no connection within {timeouts.connect:g} seconds"
    return f"it did not begin to answer within {timeouts.first_byte:g} seconds"
