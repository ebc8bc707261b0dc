"""Every recorded refusal, read as an error that carries the upstream's own words and knows if trying again may help."""

from __future__ import annotations

from pathlib import Path

from tests.conformance import naive
from tests.conformance.recordings import Exchange, Json, chat_exchanges
from tests.conformance.report import PartResult, Tally, absent, same

from ronda.errors import UpstreamError
from ronda.wire.openai_chat.client_answer import Reader, read_plain
from ronda.wire.upstream.errors import error_of


def run(data: Path) -> PartResult:
    tally = Tally()
    errors = [exchange for exchange in chat_exchanges(data) if exchange.status >= 400]
    inside = [exchange for exchange in chat_exchanges(data) if exchange.status < 400]
    inside = tally.select(inside, naive.error_in)
    if not errors and not inside:
        return absent("a recorded error of a chat completion")
    for exchange in errors:

        def is_said(exchange: Exchange = exchange) -> None:
            said = exchange.body.get("error", exchange.body) if isinstance(exchange.body, dict) else exchange.text
            _compare(error_of(exchange.raw, exchange.status), said, exchange.status)

        tally.check("answers with an error status", exchange.id, is_said)
    for exchange in inside:

        def is_raised(exchange: Exchange = exchange) -> None:
            error = naive.error_in(exchange)
            _compare(_raised(exchange), error, status_in(error))

        tally.check("errors inside an answer that began well", exchange.id, is_raised)
    return tally.result()


def status_in(error: Json) -> int | None:
    """Inside an answer with status 200 the true status has three names."""
    named = [error.get(name) for name in ("status", "status_code", "code")] if isinstance(error, dict) else []
    return next((value for value in named if isinstance(value, int)), None)


def _raised(exchange: Exchange) -> UpstreamError:
    try:
        if exchange.sse is None:
            read_plain(exchange.raw)
        else:
            reader = Reader()
            reader.feed(exchange.raw)
            reader.close()
            reader.finish()
    except UpstreamError as error:
        return error
    raise AssertionError("no error was raised")


def _compare(ours: UpstreamError, said: Json, status: int | None) -> None:
    message = said.get("message") if isinstance(said, dict) else said
    if isinstance(message, str) and message:
        assert message in str(ours), f"the upstream said {message!r}, ours is {str(ours)!r}"
    # The caller's fault stays the caller's fault, however often it is tried; a busy or broken server may recover.
    may_recover = status is None or status in (408, 409, 425, 429) or status >= 500
    same(ours.retryable, may_recover, f"retryable after status {status}")
    same(ours.status, status, "status")
