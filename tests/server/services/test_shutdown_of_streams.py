"""A server that ends lets a stream under way come to its end, and closes its connection then: or it would wait for the client."""

from __future__ import annotations

import pytest
from uvicorn.server import ServerState

from ronda.server.http.cycle import EVENT_STREAM, Cycle


class Transport:
    def __init__(self) -> None:
        self.sent = b""
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.is_closed = True


class Flow:
    write_paused = False


class Connection:
    logger = access_logger = None
    access_log = expect_100_continue = False

    def __init__(self) -> None:
        self.transport, self.flow, self.server_state = Transport(), Flow(), ServerState()


@pytest.mark.parametrize("ends", [False, True])
async def test_a_stream_that_outlasts_its_server_closes_its_connection(ends: bool) -> None:
    connection = Connection()
    cycle = Cycle({"method": "POST"}, connection, keep_alive=True, on_response=lambda: None)  # type: ignore[typeddict-item, arg-type]  # what it reads of them
    cycle.more_body = False  # the request is here
    await cycle.send({"type": "http.response.start", "status": 200, "headers": [EVENT_STREAM]})
    assert cycle.push(b"data: 1\n\n")
    if ends:
        cycle.keep_alive = False  # as uvicorn says it
    await cycle.send({"type": "http.response.body", "body": b"", "more_body": False})

    assert connection.transport.sent.endswith(b"9\r\ndata: 1\n\n\r\n0\r\n\r\n")
    assert connection.transport.is_closed is ends


async def test_a_stream_is_sent_in_as_few_writes_as_it_has_pieces() -> None:
    connection = Connection()
    cycle = Cycle({"method": "POST"}, connection, keep_alive=True, on_response=lambda: None)  # type: ignore[typeddict-item, arg-type]  # what it reads of them
    cycle.more_body = False
    assert cycle.begin([EVENT_STREAM], b"data: 1\n\n")
    head, body = connection.transport.sent.split(b"\r\n\r\n", 1)
    assert head.endswith(b"transfer-encoding: chunked")
    assert body == b"9\r\ndata: 1\n\n\r\n"

    before = len(connection.transport.sent)
    assert cycle.push(b"")  # would be the end, if it were sent
    assert len(connection.transport.sent) == before
    assert cycle.push(b"data: 2\n\n", is_last=True)
    assert connection.transport.sent[before:] == b"9\r\ndata: 2\n\n\r\n0\r\n\r\n"
    assert cycle.response_complete
    assert not cycle.push(b"data: 3\n\n")
