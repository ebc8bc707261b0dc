"""Requests and answers of the client, over HTTP: JSON both ways, and streams of server-sent events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit

T = TypeVar("T")
_WITHOUT_BODY: Final = ("GET", "DELETE")  # all fields go into the address


class RondaHttpError(Exception):
    """The server refused, or could not answer. `code` and `param` are its own words for why."""

    def __init__(self, status: int, message: str, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param


class ServerEvent(NamedTuple, Generic[T]):
    """`position` is where to go on from, as `after`."""

    position: str
    event: T


class Transport:
    def __init__(self, base_url: str, key: str | None, timeout: float) -> None:
        url = urlsplit(base_url)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError(f"the server's address is {base_url!r}; it must be like http://127.0.0.1:1234")
        self._connect = HTTPConnection if url.scheme == "http" else HTTPSConnection
        self._host, self._port = url.hostname, url.port
        self._prefix = url.path.rstrip("/").removesuffix("/v1")
        self._headers = {"accept": "application/json"} | ({} if key is None else {"authorization": f"Bearer {key}"})
        self._timeout = timeout

    def ask(
        self, method: str, path: str, fields: Mapping[str, Any], query: Iterable[str] = (), body: Any = None
    ) -> Any:
        """`fields` whose names are in `query` go into the address, the others into the body. GET and DELETE have no body."""
        connection, answer = self._send(method, path, fields, query, body, self._timeout)
        try:
            data = answer.read()
        finally:
            connection.close()
        return json.loads(data) if data else None

    def follow(self, path: str, fields: Mapping[str, Any]) -> Iterator[ServerEvent[Any]]:
        """Until the stream ends; a caller that leaves the loop closes the connection."""
        connection, answer = self._send("GET", path, fields, (), None, None)
        try:
            position, data = "", []
            for raw in answer:
                line = raw.decode("utf-8").rstrip("\r\n")
                if line.startswith("id: "):
                    position = line[4:]
                elif line.startswith("data: "):
                    data.append(line[6:])
                elif not line and data:
                    yield ServerEvent(position, json.loads("\n".join(data)))
                    data = []
        finally:
            connection.close()

    def _send(
        self, method: str, path: str, fields: Mapping[str, Any], query: Iterable[str], body: Any, timeout: float | None
    ) -> tuple[HTTPConnection, HTTPResponse]:
        names = set(fields if method in _WITHOUT_BODY else query)
        asked = [(name, _as_text(value)) for name, value in fields.items() if name in names and value is not None]
        rest = {name: value for name, value in fields.items() if name not in names}
        address = self._prefix + path + (f"?{urlencode(asked)}" if asked else "")
        headers, payload = dict(self._headers), None
        if body is not None or rest:
            headers["content-type"] = "application/json"
            payload = json.dumps(rest if body is None else body).encode()
        connection = self._connect(self._host, self._port, timeout=timeout)
        try:
            connection.request(method, address, payload, headers)
            answer = connection.getresponse()
            if answer.status >= 400:
                raise _error(answer.status, answer.read())
        except BaseException:
            connection.close()
            raise
        return connection, answer


def place(value: str | int) -> str:
    """What stands in a place of an address."""
    return quote(str(value), safe="")


def _as_text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _error(status: int, data: bytes) -> RondaHttpError:
    try:
        found = json.loads(data)
        error = found.get("error", found)
        return RondaHttpError(status, str(error["message"]), error.get("code"), error.get("param"))
    except (ValueError, KeyError, AttributeError, TypeError):
        return RondaHttpError(status, f"the server answered {status}: {data[:200]!r}")
