"""Every recorded refusal of Gemini's, in Google's own words and with what to make of it."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.gemini_recorded import exchanges
from tests.conformance.recordings import Exchange
from tests.conformance.report import PartResult, Tally, absent, same

from ronda.wire.gemini.errors import error_of


def run(data: Path) -> PartResult:
    found = [exchange for exchange in exchanges(data) if exchange.status >= 400]
    if not found:
        return absent("a recorded error of generateContent")
    tally = Tally()
    for exchange in found:
        tally.check("answers with an error status", exchange.id, lambda exchange=exchange: _compare(exchange))  # type: ignore[misc]
    return tally.result()


def _compare(exchange: Exchange) -> None:
    error = error_of(exchange.raw, exchange.status)
    said = exchange.body["error"]["message"]
    assert said in str(error), f"the upstream said {said!r}, ours is {str(error)!r}"
    same((error.status, error.retryable), (exchange.status, exchange.status == 429 or exchange.status >= 500), "error")
