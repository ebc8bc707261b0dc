"""One endpoint of a model's server: a body is posted, an answer comes back, whole or piece by piece.

No cookies, no redirects (a key must not follow one). Whatever goes wrong with the socket leaves as an UpstreamError that names
the address, and the proxy before it, if there is one (`transport`). A request is sent anew in one case only: over a kept
connection, which the server closed before it said anything. It did so because the connection was idle, most likely, and has not
seen it.
"""

from __future__ import annotations

import email.utils
import errno
import os
import ssl
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, AnyStr, Final, Literal, Protocol
from urllib.parse import parse_qsl

from ronda.core.events import Preview
from ronda.core.limits import ANSWER_BYTES, Timeouts
from ronda.core.request import Wait
from ronda.drive import Show
from ronda.drive.outgoing import OUTGOING
from ronda.errors import UpstreamBroken, UpstreamError, UpstreamUnreachable
from ronda.providers.http.address import LENGTH, Address, shown_address, without_secrets
from ronda.providers.http.coding import Inflater, TooLarge, Unreadable, inflater
from ronda.providers.http.connection import Connection, ConnectionBroken, Take
from ronda.providers.http.pool import Pool, open_pool, pool_here
from ronda.providers.http.transport import DIRECT, Route, Routes
from ronda.providers.http.tunnel import ProxyRefused, wants_credentials
from ronda.wire.codec.json import in_one_line
from ronda.wire.upstream.projection import Change, Projection

if TYPE_CHECKING:
    from types import TracebackType


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


# Headers that hold a key, in small letters.
_KEYS: Final = frozenset({"authorization", "api-key", "x-api-key", "x-goog-api-key"})
_WHO_ARE_YOU, _PROXY_WANTS_CREDENTIALS = 401, 407
_GATEWAY: Final = (502, 503, 504)  # may be a proxy's own
_SHORTEST: Final = 8  # what is shorter is no secret, and may stand in any sentence


def _secrets(url: str, headers: Mapping[str, str]) -> tuple[str, ...]:
    keys = [value.removeprefix("Bearer ") for name, value in headers.items() if name.lower() in _KEYS]
    keys += [
        value for name, value in parse_qsl(url.partition("?")[2]) if "key" in name.lower() or "sig" in name.lower()
    ]
    return tuple([key for key in keys if len(key) >= _SHORTEST])


def without_keys(text: AnyStr, secrets: tuple[str, ...]) -> AnyStr:
    """What an upstream says is shown and kept; our key is not."""
    for secret in secrets:
        if isinstance(text, bytes):
            text = text.replace(secret.encode("utf-8", "surrogatepass"), b"[the key]")
        elif isinstance(text, str):
            text = text.replace(secret, "[the key]")
    return text


_BROKEN: Final = (ConnectionBroken, OSError, zlib.error, TooLarge)  # what ends an answer before its end


class Http:
    """Where it is, what is said to it, how long it may take."""

    __slots__ = ("_headers", "_key_name", "_method", "_routes", "_secrets", "_timeouts", "_to", "_url", "_what")

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        timeouts: Timeouts,
        routes: Routes | None = None,
        key_name: str = "",
        *,
        method: Literal["POST", "GET"] = "POST",
        what: str = "the model's server",
    ) -> None:
        """Without `routes` the server is called directly. For errors: `key_name` is the variable that a key is looked for in,
        `what` is what is called."""
        self._url = url
        self._headers = {"Content-Type": "application/json", "User-Agent": "ronda", **headers}
        self._timeouts = timeouts
        self._routes = routes or DIRECT
        self._key_name = key_name
        self._method = method
        self._what = what
        self._secrets = _secrets(url, headers)
        self._to: tuple[Route, Address, bytes] | None = None

    def projection(self, api: str, body: bytes, changes: Sequence[Change]) -> Projection:
        """What would be posted, for people: without the keys."""
        headers = {name: "[the key]" if name.lower() in _KEYS else value for name, value in self._headers.items()}
        return Projection(
            without_keys(body, self._secrets), tuple(changes), api, shown_address(self._url), MappingProxyType(headers)
        )

    def post(self, body: bytes, max_bytes: int = ANSWER_BYTES) -> _Post:
        """`max_bytes`: what is taken of the answer."""
        return _Post(self, body, max_bytes)

    def get(self, max_bytes: int) -> _Post:
        """The same of an endpoint whose method is GET."""
        return _Post(self, b"", max_bytes)

    def _prepared(self) -> tuple[Route, Address, bytes]:
        if self._to is None:
            try:
                address = Address(self._url)
                route = self._routes.to(address.origin)
                self._to = (route, address, self._head(route, address))
            except ValueError as error:
                where = without_secrets(self._url)
                raise UpstreamUnreachable(
                    f"cannot reach {self._what} at {where}: {error}", retryable=False, connection=True
                ) from error
        return self._to

    def _unreachable(self, error: Exception, route: Route, connected: bool) -> UpstreamUnreachable:
        if isinstance(error, TimeoutError):
            which = (
                f"it did not begin to answer within {self._timeouts.first_byte:g} seconds"
                if connected
                else f"no connection within {self._timeouts.connect:g} seconds"
            )
            return UpstreamUnreachable(f"no answer from {route}: {which}", retryable=True, connection=True)
        if isinstance(error, ProxyRefused):
            retryable = error.retryable
        else:
            retryable = not isinstance(error, ValueError)  # a certificate, a name: as bad the next time
        return UpstreamUnreachable(
            f"cannot reach {self._what} at {route}: {_why(error)}",
            retryable=retryable,
            connection=True,
        )

    def _explain(self, error: UpstreamError) -> None:
        """Takes our key out of what the server said, in a stream, perhaps; and says whose fault a refusal may be."""
        text = without_keys(str(error), self._secrets)
        if error.status == _WHO_ARE_YOU and self._key_name:
            has_key = any(name.lower() in _KEYS for name in self._headers)
            text += (
                f"; is the key right? It is that of {self._key_name}, unless another was given"
                if has_key
                else (f"; no key was sent: set {self._key_name}")
            )
        elif error.status in _GATEWAY and self._to is not None and self._to[0].is_forwarded:
            text += f"; it was asked through the proxy {self._to[0].proxy}"
        error.args = (text, *error.args[1:])

    def _head(self, route: Route, address: Address) -> bytes:
        proxy = route.proxy
        if proxy is None or not route.is_forwarded:
            return address.head(self._headers, self._method)
        self._secrets = (*self._secrets, *[secret for secret in proxy.secrets if len(secret) >= _SHORTEST])
        credentials = {"Proxy-Authorization": proxy.authorization} if proxy.authorization is not None else {}
        return address.head({**self._headers, **credentials}, self._method, is_forwarded=True)


class _Post:
    """A request under way."""

    __slots__ = ("_body", "_connection", "_http", "_max_bytes", "_pool")

    def __init__(self, http: Http, body: bytes, max_bytes: int) -> None:
        self._http = http
        self._max_bytes = max_bytes
        self._body = body
        self._pool: Pool
        self._connection: Connection

    async def __aenter__(self) -> Answer:
        http = self._http
        route, address, head = http._to or http._prepared()
        if (outgoing := OUTGOING.get()) is not None:
            head = head.removesuffix(LENGTH) + outgoing.lines + LENGTH
        timeouts = http._timeouts
        self._pool = pool = pool_here() or await open_pool()
        connection = pool.idle(route)
        kept = connection is not None
        while True:
            try:
                if connection is None:
                    connection = await pool.connect(route, timeouts.connect)
                connection.ask(head, self._body, timeouts.first_byte)
                await connection.head()
                if connection.status == _PROXY_WANTS_CREDENTIALS and route.proxy is not None:
                    raise wants_credentials(route.proxy)
                self._connection = connection
                return Answer(connection, address, timeouts, self._max_bytes, http._secrets)
            except BaseException as error:
                if connection is not None:
                    connection.abort()
                    if kept and not connection.has_answered and isinstance(error, (ConnectionBroken, ConnectionError)):
                        connection, kept = None, False
                        continue
                if isinstance(error, (ConnectionBroken, OSError, ProxyRefused, ValueError)):
                    raise http._unreachable(error, route, connected=connection is not None) from error
                raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, UpstreamError):
            self._http._explain(error)
        # Read to its end the connection is used again; otherwise it must be closed, not drained.
        if self._connection.done():
            assert self._http._to is not None
            self._pool.give_back(self._http._to[0], self._connection)
        else:
            self._connection.abort()


def _why(error: Exception) -> str:
    """The system's own words: asyncio's have the address in them once more, and not what is wrong with it."""
    if isinstance(error, ConnectionRefusedError):  # mostly a server on this machine
        return f"{os.strerror(errno.ECONNREFUSED)}; is it running?"
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.errno is not None:
        return os.strerror(error.errno) if error.errno > 0 else str(error.strerror)
    return str(error) or type(error).__name__


class Answer:
    __slots__ = (
        "_address",
        "_connection",
        "_inflate",
        "_max_bytes",
        "_secrets",
        "_size",
        "_timeouts",
        "_unreadable",
        "status",
    )

    def __init__(
        self, connection: Connection, address: Address, timeouts: Timeouts, max_bytes: int, secrets: tuple[str, ...]
    ) -> None:
        self._secrets = secrets
        self._connection = connection
        self._address = address
        self._timeouts = timeouts
        self._max_bytes = max_bytes
        self._size = 0  # of what came so far
        self.status = connection.status
        self._inflate: Inflater | None = None
        self._unreadable: Unreadable | None = None
        if (coding := connection.headers.get(b"content-encoding")) is not None:
            try:
                self._inflate = inflater(coding, max_bytes)
            except Unreadable as error:
                self._unreadable = error

    @property
    def is_stream(self) -> bool:
        return self._connection.headers.get(b"content-type", b"").lower().startswith(b"text/event-stream")

    @property
    def retry_after(self) -> float | None:
        """Seconds until the server wants to be asked again: it gives them as a number or as a date."""
        text = self._connection.headers.get(b"retry-after", b"").decode("latin-1").strip()
        if not text:
            return None
        try:
            return max(0.0, float(text))
        except ValueError:
            pass
        try:
            return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
        except (ValueError, OverflowError):
            return None

    async def read(self) -> bytes:
        """The whole body, within bounds. Of an answer that says no, what can be read of it: its status says enough."""
        connection = self._connection
        if connection.complete and not connection.headers.get(b"content-encoding") and self.status < 400:
            data = connection.taken()  # nearly always: a plain answer comes in one piece
            self._count(data)
            return data
        pieces: list[bytes] = []
        try:
            while piece := await self.next():
                pieces.append(piece)
        except UpstreamBroken:
            if self.status < 400:
                raise
        body = b"".join(pieces)
        return body if self.status < 400 else without_keys(body, self._secrets)  # some servers quote it

    async def next(self) -> bytes:
        """What has arrived since the last time, within bounds; empty at the end."""
        if self._unreadable is not None:
            raise UpstreamBroken(f"the answer of {self._address.origin} {self._unreadable}") from self._unreadable
        try:
            data = await self._connection.some()
            if self._inflate is not None:
                data = await self._inflated(self._inflate, data)
        except _BROKEN as error:
            raise self._broken_off(error) from error
        self._count(data)
        return data

    async def stream_into(self, reader: StreamReader, show: Show, room: Wait | None) -> None:
        """Read to the end, one batch of previews per socket read; but not while the reader of the stream is far behind."""

        def pass_on(previews: list[Preview]) -> bool:
            return not previews or show(previews) is not False

        await self._stream_into(reader, pass_on, room, await self._first())

    async def stream_many_into(self, reader: ManyReader, shows: Sequence[Show], room: Wait | None) -> None:
        """The same for several choices, each shown to its own."""

        def pass_on(previews: list[Preview]) -> bool:
            there_is_room = True
            for one, batch in zip(shows, (previews, *reader.take_aside()), strict=True):
                if batch and one(batch) is False:
                    there_is_room = False
            return there_is_room

        self._connection.expect(self._timeouts.silence)
        await self._stream_into(reader, pass_on, room, await self.next())

    async def _stream_into(
        self, reader: StreamReader, pass_on: Callable[[list[Preview]], bool], room: Wait | None, data: bytes
    ) -> None:
        """`data` is how it begins."""
        failure: BaseException | None = None

        def take(data: bytes) -> bool:
            nonlocal failure
            try:
                if self._inflate is not None:
                    data = self._inflate.feed(data)
                self._count(data)
                return pass_on(reader.feed(data)) and not reader.broken
            except BaseException as error:  # for the task that waits for the end of the stream
                failure = self._broken_off(error) if isinstance(error, (zlib.error, TooLarge)) else error
                return False

        if data and not pass_on(reader.feed(data)) and room is not None:
            await room()
        try:
            while data and not reader.broken and not await self._pour(take):
                if failure is not None:
                    raise failure
                if room is not None and not reader.broken:
                    await room()
        finally:
            del failure, take  # what is raised knows this frame: it must not be known by it
        pass_on(reader.close())

    async def _pour(self, take: Take) -> bool:
        try:
            return await self._connection.pour(take)
        except _BROKEN as error:
            raise self._broken_off(error) from error

    def _count(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._max_bytes:
            raise self._too_large()

    def _broken_off(self, error: BaseException) -> UpstreamBroken:
        if isinstance(error, TooLarge):
            return self._too_large()
        what = "fell silent" if isinstance(error, TimeoutError) else "broke off"
        detail = str(error) or type(error).__name__
        return UpstreamBroken(f"the answer of {self._address.origin} {what}: {detail}", retryable=True, connection=True)

    async def _first(self) -> bytes:
        """What a stream begins with. JSON by the name of a stream, an error mostly, is one frame of it."""
        self._connection.expect(self._timeouts.silence)
        data = await self.next()
        return b"data: %b\n\n" % in_one_line(data + await self.read()) if data[:1] == b"{" else data

    async def _inflated(self, inflate: Inflater, data: bytes) -> bytes:
        while data:
            if plain := inflate.feed(data):
                return plain
            data = await self._connection.some()
        if not self.is_stream:  # the reader of a stream knows by what it said whether that was all
            inflate.finish()
        return b""

    def _too_large(self) -> UpstreamBroken:
        return UpstreamBroken(
            f"the answer of {self._address.origin} is larger than {self._max_bytes} bytes, and no more is taken of one answer "
            "(--max-answer-bytes)"
        )
